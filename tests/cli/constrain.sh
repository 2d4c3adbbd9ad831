#!/usr/bin/env bash
# Texts of a given form: --answer of "qkv generate" and "qkv chat", and the fields of requests of "qkv batch" that say
# one, whose answers are those of generate; faults with the place in the schema and the name of the field.
# labels: numeric
. "$(dirname "$0")/common.sh"
export QKV_THREADS=1
make_spec
make_text 80 >text.txt
try 0 train run 4 --tokenizer bytes --quiet

# ---- generate ----
for seed in 1 2 3; do
    try 0 "$QKV" generate run -q --prompt "Is it so?" --answer choices:yes,no,perhaps --temp 1 --seed $seed
    has out '^(yes|no|perhaps)$'
    try 0 "$QKV" generate run -q --prompt "When?" --answer 'regex:[12][0-9]{3}-[0-9]{2}' --temp 1 --seed $seed
    has out '^[12][0-9]{3}-[0-9]{2}$'
done
cat >person.json <<'END'
{"type": "object", "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"},
 "age": {"type": "integer", "minimum": 0, "maximum": 130}, "tags": {"type": "array", "items": {"enum": ["a", "b"]},
 "maxItems": 3}}, "required": ["name", "age"]}
END
tags='(,"tags":\[("[ab]"(,"[ab]"){0,2})?\])?'
for seed in 1 2 3 4; do
    try 0 "$QKV" generate run -q --prompt "Who?" --answer schema:person.json --temp 1 --seed $seed -n 300
    checks=$((checks + 1))
    tr -d '\n ' <out | grep -qE \
        "^\{\"name\":\"[A-Z][a-z]{1,9}\",\"age\":([0-9]|[1-9][0-9]|1[0-2][0-9]|130)$tags\}$" \
        || { fail "seed $seed is not of person.json" && show; }
done
try 0 "$QKV" generate run -q --prompt "x" --answer 'schema:{"const": {"a": [1, 2.5, "\u00e9"]}}' --temp 1
has out '^\{"a": \[1, 2\.5, "é"\]\}$'
try 0 "$QKV" generate run -q --prompt "x" --answer 'choices:["a, b"]'
has out '^a, b$'
try 0 "$QKV" generate run --json --prompt "x" --answer choices:yes,no --samples 3 --temp 1
same "$(grep -oE '"text": "(yes|no)"' out | wc -l)" 3 "samples that are choices"
same "$(grep -oE '"ended_by": "stop"' out | wc -l)" 3 "ends of samples that are choices"
# the number of tokens ends a text early
try 0 "$QKV" generate run --json --prompt "x" --answer json --temp 1 -n 1
has out '"ended_by": "length"'

# ---- faults, before a model is read ----
wrong() { # wrong FORM PATTERN
    "$QKV" generate nowhere --prompt x --answer "$1" >out 2>err
    code=$?
    checks=$((checks + 1))
    [ $code = 1 ] || [ $code = 2 ] || fail "--answer $1: exit code $code"
    has err "$2"
    same "$(wc -l <err)" 1 "lines about --answer $1"
}
wrong jsn 'there is json, schema:FILE.*did you mean json\?'
wrong json:x 'nothing follows json'
wrong schema 'write schema:FILE'
wrong regex: 'write regex:EXPRESSION'
wrong 'regex:a(?=b)' 'at byte 2: look-around is not supported'
wrong 'choices:[1]' 'choices\[0\] is no text'
wrong schema:missing.json 'missing.json'
wrong 'schema:{"properties": {"age": {"minimum": 2, "maximum": 1, "type": "integer"}}, "required": ["age"]}' \
    '\$\.properties\.age: no text can meet it: no integer is within'
wrong 'schema:{"$ref": "#"}' '\$: it leads back to itself and never ends'

# ---- chat ----
printf 'Is it so?\n' | "$QKV" chat run --answer choices:yes,no --temp 1 >out 2>err || fail "chat: exit code $?"
has out '^(yes|no)$'

# ---- batch ----
field() {
    grep -F "\"custom_id\": \"$1\"," answers.jsonl \
        | grep -oE "\"$2\": (\"([^\"\\\\]|\\\\.)*\"|[0-9.-]+|null)" | head -1 | cut -d' ' -f2-
}
schema='{"properties": {"a": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["a"]}'
format="{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": $schema}}"
cat >requests.jsonl <<END
{"custom_id": "choice", "prompt": "Is it so?", "guided_choice": ["yes", "no"], "seed": 3}
{"custom_id": "regex", "prompt": "When?", "guided_regex": "[ab]{5}", "seed": 4, "n": 2}
{"custom_id": "schema", "prompt": "Who?", "guided_json": $schema, "seed": 5}
{"custom_id": "again", "prompt": "Who?", "structured_outputs": {"json": $schema}, "seed": 5}
{"custom_id": "chat", "messages": [{"role": "user", "content": "hi"}], "response_format": $format}
{"custom_id": "text", "prompt": "x", "response_format": {"type": "text"}, "max_tokens": 2}
{"custom_id": "object", "prompt": "x", "response_format": {"type": "json_object"}, "max_tokens": 1}
END
for way in "" "--rows 1" "--rows 3 --threads 2"; do
    "$QKV" batch run --input requests.jsonl --output answers.jsonl --force --temp 1 -n 60 $way >out 2>err \
        || { fail "batch $way: exit code $?" && show; }
    same "$(field choice text)" "\"$("$QKV" generate run -q --prompt "Is it so?" --answer choices:yes,no --temp 1 \
        --seed 3 -n 60 2>/dev/null)\"" "a choice ($way)"
    same "$(field regex text)" "\"$("$QKV" generate run -q --prompt "When?" --answer 'regex:[ab]{5}' --temp 1 \
        --seed 4 -n 60 2>/dev/null)\"" "an expression ($way)"
    same "$(grep -F '"regex"' answers.jsonl | grep -oE '"text": "[ab]{5}"' | wc -l)" 2 "choices of n 2 ($way)"
    checks=$((checks + 1))
    field schema text | grep -qE '^"\{(\\n)? *\\"a\\": ?(\\n *)?[1-9](\\n)? *\}"$' \
        || fail "not of the schema: $(field schema text)"
    same "$(field again text)" "$(field schema text)" "two ways to say a schema ($way)"
    same "$(field schema finish_reason)" '"stop"' "the end of an object ($way)"
    same "$(field object finish_reason)" '"length"' "the end of an object that is cut ($way)"
    checks=$((checks + 1))
    field chat content | grep -qE '[1-9]' || fail "no content of the schema: $(field chat content)"
done

cat >requests.jsonl <<'END'
{"custom_id": "type", "prompt": "x", "response_format": {"type": "xml"}}
{"custom_id": "kind", "prompt": "x", "guided_regex": 5}
{"custom_id": "two", "prompt": "x", "guided_regex": "a", "guided_choice": ["a"]}
{"custom_id": "grammar", "prompt": "x", "grammar": "root ::= x"}
{"custom_id": "look", "prompt": "x", "guided_regex": "a(?!b)"}
{"custom_id": "place", "prompt": "x", "guided_json": {"properties": {"b": {"properties": {"c": {"not": {}}}}}}}
{"custom_id": "endless", "prompt": "x", "guided_json": {"type": "array", "minItems": 1, "items": {"$ref": "#"}}}
{"custom_id": "inner", "prompt": "x", "structured_outputs": {"yaml": 1}}
END
"$QKV" batch run --input requests.jsonl --output answers.jsonl --force >out 2>err
same $? 1 "the exit code of requests that are refused"
refused() { # refused NAME FIELD PATTERN
    checks=$((checks + 1))
    grep -F "\"custom_id\": \"$1\"," answers.jsonl | grep -F '"status_code": 400' | grep -F "\"param\": \"$2\"" \
        | grep -qE "$3" || fail "$1: $(grep -F "\"$1\"" answers.jsonl)"
}
refused type response_format 'json_object and json_schema'
refused kind guided_regex 'must be a regular expression'
refused two guided_choice 'name one'
refused grammar grammar 'grammars are not supported'
refused look guided_regex 'byte 2: look-around'
refused place guided_json '\$\.properties\.b\.properties\.c: \\"not\\" is not supported'
refused endless guided_json "leads back to itself"
refused inner structured_outputs 'has no \\"yaml\\"'
finish
