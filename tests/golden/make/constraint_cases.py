#!/usr/bin/env python3
"""Schemas, and texts that the jsonschema package has judged: tests/golden/constraints/schemas.json.

    python3 tests/golden/make/constraint_cases.py tests/golden/constraints/schemas.json

Each case has a schema, texts that a constraint of it must write ("written"; all are valid), and texts that it must not
write ("invalid": no JSON, or not valid by the schema). The latter are listed here, and made of the former by changing
bytes. The keywords are those of the JSON Schema Test Suite that constraints support. Needs jsonschema with its checkers
of formats: pip install 'jsonschema[format-nongpl]'.
"""
import json
import random
import sys

import jsonschema

# (schema, texts to write, texts not to write); a fourth item: objects are open
CASES = [
    (True, ["null", "true", '{"a": [1, {}]}', '"x"', "-1.5e3", "[]"], ["nul", "01", "1.", ".5", "+1", '{"a"}', "[1,]"]),
    ({}, ["null", '{"b":{"c":[[]]}}', "0", "-0", "1e5", "12.25"], ["'a'", "{a: 1}", "[1 2]", "NaN", "-", "1e", '"\t"']),
    ({"type": "null"}, ["null"], ["0", "nil", "{}"]),
    ({"type": "boolean"}, ["true", "false"], ["1", '"true"', "null"]),
    ({"type": "string"}, ['""', '"abc"', '"\u00e9\u20ac\U0001F600"', '"\\n\\u00e9"', '"\\ud83d\\ude00"', '"\\"\\\\\\/"'],
     ['"\n"', '"\\x"', '"\\u12"', '"a', "a", '"\\"']),
    ({"type": "integer"}, ["0", "-1", "123456789012345678", "10"], ["1.5", "01", "-", "--1", '"1"', "1,0"]),
    ({"type": "number"}, ["0", "-1.25", "1e10", "3.5E-2", "0.001"], ["1.", "1e", "00", "-.5", "0x1"]),
    ({"type": ["integer", "null"]}, ["12", "null"], ["1.5", '""', "true"]),
    ({"type": ["string", "array"], "maxLength": 2, "maxItems": 1}, ['"ab"', "[1]", "[]"], ['"abc"', "[1, 2]"]),
    ({"type": "integer", "minimum": 0}, ["0", "7", "1000000"], ["-1", "-0.5"]),
    ({"type": "integer", "minimum": 18, "maximum": 130}, ["18", "99", "100", "130", "19", "109"],
     ["17", "131", "180", "13", "1", "1300", "-18"]),
    ({"type": "integer", "minimum": -5, "maximum": 12}, ["-5", "-1", "0", "5", "10", "12"], ["-6", "13", "-10", "20"]),
    ({"type": "integer", "minimum": -120, "maximum": -7}, ["-7", "-10", "-99", "-120"], ["-6", "-121", "0", "7", "-1"]),
    ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6}, ["4", "5"], ["3", "6", "45"]),
    ({"type": "integer", "minimum": 1.5, "maximum": 3.5}, ["2", "3"], ["1", "4"]),
    ({"type": "integer", "minimum": 9223372036854775000}, ["9223372036854775000", "9223372036854775807"],
     ["9223372036854774999", "1"]),
    ({"type": "integer", "maximum": -1}, ["-1", "-10", "-987654321"], ["0", "1"]),
    ({"type": "number", "minimum": 0, "maximum": 1}, ["0", "1", "0.5", "0.123", "1.0", "0.0"],
     ["1.1", "-0.1", "2", "1.01", "10"]),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, ["0.5", "0.001", "0.999"],
     ["0", "1", "0.0", "1.0", "-0.5"]),
    ({"type": "number", "minimum": -1.5, "maximum": 2.25}, ["-1.5", "-1.4", "-1", "-0.25", "0", "1.99", "2.25", "2.2", "2"],
     ["-1.6", "2.26", "-2", "3", "2.251", "-1.51"]),
    ({"type": "number", "minimum": 0.25, "maximum": 0.75}, ["0.25", "0.3", "0.5", "0.75", "0.750"],
     ["0.2", "0.24", "0.76", "0", "1", "0.751"]),
    ({"type": "number", "minimum": 10}, ["10", "10.5", "11", "99.75", "123456"], ["9.99", "1", "-10"]),
    ({"type": "number", "maximum": -2.5}, ["-2.5", "-2.75", "-3", "-100.5"], ["-2.4", "-2", "0", "2.5"]),
    ({"type": "number", "exclusiveMinimum": 2.5}, ["2.51", "2.6", "3"], ["2.5", "2.50", "2"]),
    ({"enum": ["red", "green", 3, None, 1.5]}, ['"red"', '"green"', "3", "null", "1.5"], ['"re"', '"blue"', "4", "1.25"]),
    ({"enum": ["a\"b", "\u00e9\n"]}, ['"a\\"b"', '"\u00e9\\n"'], ['"a"', '"\u00e9"']),
    ({"const": {"a": [1, 2]}}, ['{"a": [1, 2]}'], ['{"a": [1]}', '{"b": [1, 2]}']),
    ({"type": "string", "enum": ["a", 1, "bb"], "minLength": 2}, ['"bb"'], ['"a"', "1"]),
    ({"minLength": 2, "maxLength": 3}, ['"ab"', '"\u00e9\u20ac\U0001F600"', '"\\n\\"x"', '"\\ud83d\\ude00a"'],
     ['"a"', '"abcd"', '"\\ud83d\\ude00"']),
    ({"type": "string", "pattern": "^[a-z]{2,3}$"}, ['"ab"', '"abc"'], ['"a"', '"abcd"', '"Ab"']),
    ({"type": "string", "pattern": "b"}, ['"b"', '"abc"', '"xxbxx"'], ['"a"', '""']),
    ({"type": "string", "pattern": "^\\d+-"}, ['"12-"', '"1-x y"'], ['"-"', '"x1-"']),
    ({"type": "string", "pattern": "^\"\\\\[^x]$"}, ['"\\"\\\\y"', '"\\"\\\\\\n"', '"\\"\\\\\\""'], ['"\\"\\\\x"']),
    ({"type": "string", "pattern": "^[ab]{4}$", "minLength": 2, "maxLength": 4}, ['"abab"'], ['"aba"']),
    ({"type": "string", "format": "date"}, ['"2024-02-28"', '"1999-12-31"'], ['"2024-13-01"', '"2023-02-30"', '"2023-04-31"', '"24-01-01"']),
    ({"type": "string", "format": "date-time"}, ['"2024-05-01T12:00:00Z"', '"2024-05-01T23:59:59.25+02:00"'],
     ['"2024-05-01 12:00:00Z"', '"2024-05-01T24:00:00Z"', '"2024-05-01"']),
    ({"format": "time"}, ['"08:30:06Z"', '"08:30:06.28+00:20"'], ['"8:30:06Z"', '"24:00:00Z"', '"08:30"']),
    ({"format": "uuid"}, ['"2eb8aa08-aa98-11ea-b4aa-73b441d16380"'],
     ['"2eb8aa08-aa98-11ea-b4aa-73b441d1638"', '"2eb8aa08aa9811eab4aa73b441d16380"']),
    ({"format": "email"}, ['"joe.bloggs@example.com"'], ['"joe"', '""']),
    ({"format": "ipv4"}, ['"192.168.0.1"', '"255.255.255.255"'], ['"256.1.1.1"', '"1.2.3"', '"01.2.3.4"']),
    ({"type": "array"}, ["[]", '[1, "a", null]', "[[[]]]"], ["[", "[,]", "{}"]),
    ({"type": "array", "items": {"type": "integer"}}, ["[]", "[1]", "[1, 2, 3]", "[\n  1,\n  2\n]"], ['["a"]', "[1.5]"]),
    ({"items": {"type": "boolean"}, "minItems": 2, "maxItems": 3}, ["[true, false]", "[true,true,true]"],
     ["[true]", "[]", "[true, true, true, true]"]),
    ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
    ({"type": "array", "minItems": 1, "items": {"type": "null"}}, ["[null]", "[null, null]"], ["[]"]),
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}, ["[]", "[1]", '[1, "a"]'],
     ['["a"]', '[1, 2]', '[1, "a", 3]']),
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}, "minItems": 2},
     ['[1, "a"]', '[1, "a", null, null]'], ["[1]", '[1, "a", 1]']),
    ({"type": "array", "items": {"type": "string", "maxLength": 1}, "uniqueItems": False, "minItems": 30, "maxItems": 40},
     [json.dumps(["a"] * 30), json.dumps(["b"] * 40)], [json.dumps(["a"] * 29), json.dumps(["a"] * 41)]),
    ({"type": "object"}, ["{}", '{"a": 1}', '{"a": {"b": []}, "c": null}'], ["[]", '{"a"}', '{"a": 1,}', "{1: 2}"]),
    ({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
     ["{}", '{"a": 1}', '{"b": "x"}', '{"a": 1, "b": ""}', '{"a":1,"b":"y"}', '{\n  "a": 1\n}'],
     ['{"a": "x"}', '{"b": 1}', '{"a": 1 "b": ""}']),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}, "c": {"type": "null"}}, "required": ["a", "c"]},
     ['{"a": 1, "c": null}', '{"a": 1, "b": [], "c": null}'], ["{}", '{"a": 1}', '{"c": null}', '{"a": 1, "b": 2}']),
    ({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}},
     ["{}", '{"a": 1}', '{"a": 1, "b": true}', '{"b": true, "aa": false, "": true}'], ['{"b": 1}', '{"a": true}']),
    ({"properties": {"abc": True}, "additionalProperties": False}, ['{"abc": 1}', "{}"], ['{"abd": 1}', '{"": 1}']),
    ({"properties": {"abc": {"type": "integer"}, "ab": {"type": "integer"}}}, ['{"abd": "x"}', '{"abc": 1, "a": "x"}', '{"abcd": ""}', '{"": ""}', '{"x": 1}'],
     ['{"abc": "x"}', '{"ab": "x"}'], True),
    ({"required": ["z"], "properties": {"a": {"type": "integer"}}}, ['{"z": [1]}', '{"a": 1, "z": null}'], ["{}", '{"a": 1}']),
    ({"required": ["a"], "additionalProperties": {"type": "integer"}}, ['{"a": 1}', '{"a": 1, "b": 2}'], ['{"a": ""}', '{"b": 1}']),
    ({"properties": {"\u00e9\"": {"const": 1}}, "required": ["\u00e9\""]}, ['{"\u00e9\\"": 1}'], ["{}"]),
    ({"type": "object", "properties": {"a": False, "b": {"type": "null"}}}, ["{}", '{"b": null}'], ['{"a": 1}']),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, ["5", '"a"', '""'], ['"ab"', "1.5", "null"]),
    ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"const": 1}, "b": {"const": 2}}},
     ['{"a": 1}', '{"b": 2}', '{"a": 1, "b": 2}'], ["{}", '{"a": 2}']),
    ({"oneOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]}, ["null", "[1]"], ['[""]', "1"]),
    ({"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
                {"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"]}]},
     ['{"kind": "a", "x": 1}', '{"kind": "b"}', '{"kind": "b", "y": ""}'], ['{"kind": "a"}', '{"kind": "c"}']),
    ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"a": {"minimum": 3}, "b": {"type": "null"}}, "required": ["b"]}]},
     ['{"a": 3, "b": null}'], ['{"a": 2, "b": null}', '{"a": 3}', '{"b": null}']),
    ({"allOf": [{"type": ["integer", "string"]}, {"type": ["number", "null"]}], "maximum": 5}, ["5", "-3"], ["6", '""', "1.5", "null"]),
    ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}, {"const": 3}]}, ["3"], ["2", "1", "4"]),
    ({"allOf": [{"additionalProperties": False, "properties": {"a": True}}, {"properties": {"a": {"type": "null"}, "b": True}}]},
     ["{}", '{"a": null}'], ['{"a": 1}', '{"b": 1}']),
    ({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                         "required": ["v", "next"]}}, "$ref": "#/$defs/node"},
     ['{"v": 1, "next": null}', '{"v": 1, "next": {"v": 2, "next": {"v": 3, "next": null}}}'],
     ['{"v": 1}', '{"v": 1, "next": 2}', '{"v": 1, "next": {"v": 2}}']),
    ({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}},
     ["{}", '{"children": []}', '{"children": [{}, {"children": [{}]}]}'], ['{"children": [1]}', '{"children": {}}']),
    ({"definitions": {"a/b": {"type": "integer"}, "c~d": {"type": "null"}}, "anyOf": [{"$ref": "#/definitions/a~1b"}, {"$ref": "#/definitions/c~0d"}]},
     ["1", "null"], ['""']),
    ({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n", "minimum": 4}}, "required": ["a"]},
     ['{"a": 4}'], ['{"a": 3}', '{"a": "x"}']),
    ({"title": "t", "description": "d", "$schema": "https://json-schema.org/draft/2020-12/schema", "default": 1, "examples": [2], "type": "integer"},
     ["1"], ['"x"']),
    ({"type": "integer", "multipleOf": 1}, ["1", "20"], ["1.5"]),
]


def refuse(name):
    raise ValueError(name)


# ---- random schemas: each is made with a function that draws one of its values, as a constraint writes it ----
def random_schema(r, depth):
    kind = r.choice(["integer", "number", "string", "enum", "boolean", "null"] + ["object", "array", "anyOf", "tuple"] * (depth > 0))
    if kind == "integer":
        low = r.choice([None, r.randint(-300, 300)])
        high = r.choice([None, (low if low is not None else r.randint(-300, 300)) + r.randint(0, 400)])
        schema = {"type": "integer"}
        schema.update({} if low is None else {"minimum": low})
        schema.update({} if high is None else {"maximum": high})
        a = low if low is not None else (high if high is not None else 0) - 1000
        return schema, lambda: r.randint(a, high if high is not None else a + 2000)
    if kind == "number":
        low = r.randint(-40, 40) / 4
        high = low + r.randint(1, 60) / 8
        return ({"type": "number", "exclusiveMinimum": low, "maximum": high},
                lambda: r.choice([high, low + (high - low) * r.choice([0.5, 0.25, 0.125])]))
    if kind == "string":
        low = r.randint(0, 3)
        high = low + r.randint(0, 4)
        return ({"type": "string", "minLength": low, "maxLength": high},
                lambda: "".join(r.choice('ab"\\\n\u00e9\u4e2d\U0001F600 ') for _ in range(r.randint(low, high))))
    if kind == "enum":
        values = r.sample(["x", "yy", 3, -1.5, None, True, [1, 2], {"k": "v"}], r.randint(1, 4))
        return {"enum": values}, lambda: r.choice(values)
    if kind == "boolean":
        return {"type": "boolean"}, lambda: r.choice([True, False])
    if kind == "null":
        return {"type": "null"}, lambda: None
    if kind == "array":
        items, draw = random_schema(r, depth - 1)
        low = r.randint(0, 2)
        high = low + r.randint(0, 3)
        return ({"type": "array", "items": items, "minItems": low, "maxItems": high},
                lambda: [draw() for _ in range(r.randint(low, high))])
    if kind == "tuple":
        parts = [random_schema(r, depth - 1) for _ in range(r.randint(1, 3))]
        low = r.randint(0, len(parts))
        return ({"type": "array", "prefixItems": [p[0] for p in parts], "items": False, "minItems": low},
                lambda: [p[1]() for p in parts[: r.randint(low, len(parts))]])
    if kind == "anyOf":
        parts = [random_schema(r, depth - 1) for _ in range(r.randint(1, 3))]
        return {"anyOf": [p[0] for p in parts]}, lambda: r.choice(parts)[1]()
    names = r.sample(["a", "b", "long name", "\u00e9", "q\"q", "z9"], r.randint(0, 4))
    parts = {name: random_schema(r, depth - 1) for name in names}
    required = [name for name in names if r.random() < 0.5]
    return ({"type": "object", "properties": {n: p[0] for n, p in parts.items()}, "required": required,
             "additionalProperties": False},
            lambda: {n: p[1]() for n, p in parts.items() if n in required or r.random() < 0.5})


def damage(r, value):
    """A value near another one."""
    if isinstance(value, bool) or value is None:
        return r.choice([0, "", None, True, []])
    if isinstance(value, (int, float)):
        return value + r.choice([-1000, -7, 7, 0.25, 1000])
    if isinstance(value, str):
        return value + "abcdef" if r.random() < 0.5 else value[:-1]
    if isinstance(value, list):
        if not value or r.random() < 0.3:
            return value + [r.choice([1, "x", None])] * r.randint(1, 4)
        at = r.randrange(len(value))
        return value[:at] + ([] if r.random() < 0.3 else [damage(r, value[at])]) + value[at + 1:]
    if not value or r.random() < 0.2:
        return {**value, "other": 1}
    name = r.choice(list(value))
    changed = dict(value)
    if r.random() < 0.4:
        del changed[name]
    else:
        changed[name] = damage(r, value[name])
    return changed


def random_cases(count):
    r = random.Random(2)
    for _ in range(count):
        schema, draw = random_schema(r, 3)
        judge = jsonschema.Draft202012Validator(schema)
        values = [draw() for _ in range(4)]
        for value in values:
            assert judge.is_valid(value), (schema, value)
        wrong = [damage(r, r.choice(values)) for _ in range(12)]
        texts = [json.dumps(v, ensure_ascii=False) for v in wrong if not judge.is_valid(v)]
        yield {"schema": schema, "written": [json.dumps(v, ensure_ascii=False) for v in values], "invalid": texts}


def main():
    shuffle = random.Random(1)
    cases = []
    for schema, written, invalid, *more in CASES:
        jsonschema.Draft202012Validator.check_schema(schema)
        judge = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)

        def valid(text):
            try:
                return judge.is_valid(json.loads(text, parse_constant=refuse))
            except ValueError:
                return False

        for text in written:
            assert valid(text), (schema, text)
        wrong = list(invalid)
        for text in invalid:
            assert not valid(text), (schema, text)
        for text in written:
            for _ in range(6):
                letters = list(text)
                at = shuffle.randrange(len(letters))
                kind = shuffle.randrange(3)
                if kind == 0:
                    del letters[at]
                elif kind == 1:
                    letters.insert(at, shuffle.choice('"{}[]:,0a -.\\'))
                else:
                    letters[at] = shuffle.choice('"{}[]:,1b e')
                changed = "".join(letters)
                if not valid(changed) and changed not in wrong:
                    wrong.append(changed)
        case = {"schema": schema, "written": written, "invalid": wrong}
        if more:
            case["open"] = True
        cases.append(case)
    cases += random_cases(150)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write('{"cases": [\n')
        out.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases))
        out.write("\n]}\n")
    print(len(cases), sum(len(c["written"]) for c in cases), sum(len(c["invalid"]) for c in cases))


if __name__ == "__main__":
    main()
