"""Writes tests/chat_cases.json: small chat templates that use every construct, and what jinja2 (pip install jinja2)
makes of them as transformers sets it up: a text, or the sentence of an error.

    TZ=UTC python3 tests/chat_cases.py > tests/chat_cases.json"""
import datetime
import json
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1700000000  # the time of strftime_now


class Generation(Extension):
    """{% generation %} as transformers has it: a block with a scope."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_block"), [], [], body).set_lineno(line)

    def _block(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENV = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
ENV.filters["tojson"] = tojson
ENV.filters["from_json"] = json.loads
ENV.globals["raise_exception"] = raise_exception
ENV.globals["strftime_now"] = lambda f: datetime.datetime.fromtimestamp(NOW).strftime(f)

TALK = {
    "messages": [{"role": "system", "content": "Be  brief.\n"}, {"role": "user", "content": "Grüße, <b>Ωmega</b> & 'co'?"},
                 {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {
                     "name": "add", "arguments": {"a": 1, "b": [2.5, None, True], "c": {"d": "é\"\\\n\t"}}}}]},
                 {"role": "tool", "content": "3.5", "name": "add"}, {"role": "user", "content": "日本語 text"}],
    "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {
        "b": {"type": "number"}, "a": {"type": ["integer", "null"], "enum": [1, 2]}}, "required": ["a"]}}}],
}
VARIABLES = {
    "n": 7, "m": -3, "x": 2.5, "yes": True, "no": False, "nothing": None, "empty": "", "s": "  Hello, World  ", "u": "straße ÄÖ ς Σ",
    "l": [3, 1, 2], "names": ["b", "A", "c", "a"], "d": {"b": 1, "a": 2, "C": 3, "items": "key"}, "nested": [[1, [2]], [3]],
    "people": [{"name": "Zoe", "age": 3, "city": "Bonn"}, {"name": "adam", "age": 30, "city": "ulm"},
               {"name": "Bob", "age": 3, "city": "Ulm"}], "lines": "one\ntwo\r\n\nfour\x0bfive", "html": "<a href='x'>1 & 2</a>",
}
CASES = r"""
{{ n }} {{ m }} {{ x }} {{ yes }} {{ no }} {{ nothing }} {{ empty }}|{{ missing }}|
{{ 1 }} {{ 1.0 }} {{ 1e3 }} {{ 1e16 }} {{ 1.5e-7 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 123456789012345678 }} {{ 1e22 }} {{ 0.1 + 0.2 }}
{{ 100000000000000.0 }} {{ 1234567.125 }} {{ 0.0001 }} {{ 0.00001 }} {{ -0.0 }} {{ 1e308 * 10 }} {{ 5e-324 }}
{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 6 / 3 }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ (1 + 2) * 3 }} {{ -n }} {{ +n }} {{ - - 3 }} {{ -x|abs }} {{ yes + yes }} {{ 'ab' * 3 }} {{ 3 * [1, 2] }} {{ [1] + [2] }} {{ (1,) + (2, 3) }}
{{ 'a' 'b' "c" }} {{ 'it''s' }} {{ "q\"q" }} {{ 'q\'q' }} {{ 'tab\tnl\\n \x41 é 日 \101 \q \U0001F600' }}
{{ 'a' ~ 1 ~ none ~ 2.0 ~ missing ~ [1, 'b'] ~ true }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1, 2) == (1, 2) }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ none == none }} {{ missing == missing2 }} {{ 1 != 2 }} {{ 3 >= 3 }} {{ 2 <= 1 }} {{ 2 > 1 == true }}
{{ 1 in [1, 2] }} {{ 3 not in [1, 2] }} {{ 'ell' in 'hello' }} {{ 'a' in d }} {{ 'x' not in d }} {{ 1 in (1, 2) }} {{ 'a' in missing }} {{ not 1 in [2] }} {{ '' in '' }} {{ 1 in range(3) }} {{ none in [none] }}
{{ yes and no }} {{ yes or no }} {{ not yes }} {{ 0 or 'x' }} {{ 1 and 'y' }} {{ empty or nothing or 'z' }} {{ not not n }} {{ not missing }} {{ [] or {} or () }}
{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }} {{ 1 if no else 2 if no else 3 }} {{ (1 if yes else 2) + 1 }}
{{ [1, 'a', none, true, 2.0, [1], {'k': 'v'}, (), (1,), (1, 2)] }} {{ {} }} {{ {'a': 1, 2: 'b', none: 3} }} {{ [] }} {{ [1, 2,] }}
{{ "it's" }} {{ ["it's", 'q"q', 'both\'"', 'nl\n', 'tab\t', '\x00\x7f', '日本\u200b', 'é\xa0', '\\'] }}
{{ l[0] }} {{ l[-1] }} {{ l[9] }} {{ l.0 }} {{ s[2] }} {{ u[4] }} {{ u[-1] }} {{ d.b }} {{ d['a'] }} {{ d.zzz }} {{ nested[0][1][0] }} {{ 'abc'[1] }} {{ (1, 2)[1] }}
{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ l[-2:5] }} {{ s[2:7] }} {{ u[::-1] }} {{ u[1:8:2] }} {{ u[-3:] }} {{ u[:3] }} {{ (1, 2, 3)[1:] }} {{ l[none:none] }} {{ 'abcdef'[4:1:-1] }} {{ 'abc'[::-2] }} {{ range(5)[1:3]|list }}
{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.lstrip('ab') }}|{{ 'aé日'.rstrip('日é') }}|{{ '\u3000a\xa0'.strip() }}|
{{ 'a,b,,c'.split(',') }} {{ 'a,b,,c'.split(',', 1) }} {{ ' a  b c '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abab'.split('ab') }} {{ 'x'.split('x', maxsplit=0) }} {{ ' a b '.rsplit() }} {{ 'a<sep>b'.split('<sep>')[-1] }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ ''.splitlines() }} {{ 'a\n'.splitlines() }}
{{ 'hello'.startswith('he') }} {{ 'hello'.startswith(('x', 'h')) }} {{ 'hello'.endswith('lo') }} {{ 'hello'.endswith('') }} {{ 'hello'.startswith('l', 2) }} {{ 'hello'.endswith('l', 0, 4) }} {{ 'a'.startswith('abc') }}
{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc'.replace('', '-') }} {{ 'é日é'.replace('é', 'e') }} {{ ''.replace('', 'x') }} {{ 'abc'.replace('', '-', 2) }}
{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ '日本語'.find('語') }} {{ 'hello'.index('l') }} {{ 'hello'.count('l') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'hello'.find('l', 3) }} {{ 'hello'.find('l', -2, 9) }} {{ 'abc'.find('', 5) }}
{{ ', '.join(['a', 'b']) }} {{ ''.join([]) }} {{ '-'.join('abc') }} {{ 'a-b'.partition('-') }} {{ 'ab'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }}
{{ u.upper() }} {{ u.lower() }} {{ 'ΑΣ ΑΣΑ'.lower() }} {{ "they're bill's".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'aB'.swapcase() }} {{ 'Straße'.casefold() }} {{ 'ﬁx'.upper() }} {{ 'İ'.lower() }} {{ 'éa-b c'.title() }}
{{ '5'.isdigit() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ 'aé'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' \t'.isspace() }} {{ ''.isdigit() }} {{ 'ab'.islower() }} {{ 'AB1'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'a_1'.isidentifier() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }} {{ '1'.islower() }}
{{ 'a'.center(4) }}| {{ 'ab'.center(5, '*') }}| {{ 'abc'.center(6, '-') }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }}| {{ '-5'.zfill(4) }} {{ '5'.zfill(3) }} {{ 'a\tb'.expandtabs(4) }}|
{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format('a', 'b') }} {{ '{x} {y!r}'.format(x=1, y='q') }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format(1, 'a', 'b', 'c') }} {{ '{:.2f} {:05d} {:+d} {:x} {:#x} {:b} {:,} {:e} {:%} {:g}'.format(3.14159, 42, 7, 255, 255, 5, 1234567, 12345.678, 0.25, 0.0001) }} {{ '{{}} {0[a]} {0.items}'.format({'a': 1, 'items': 2}) if no else '{{}}'.format() }} {{ '{0[0]} {1[a]}'.format([5], {'a': 6}) }} {{ '{:{}}|'.format('a', 4) }} {{ '{:.3}'.format('abcdef') }} {{ '{}'.format(1.0) }} {{ '{:.3}'.format(1.0) }} {{ '{:d}'.format(true) }} {{ '{}'.format(none) }}
{{ '%s %s' % ('a', 1) }} {{ '%d%%' % 5 }} {{ '%5.2f|%-5d|%05d|%+d|% d' % (3.14159, 42, 42, 7, 7) }} {{ '%x %X %o %#x' % (255, 255, 8, 255) }} {{ '%(a)s-%(b)d' % {'a': 1, 'b': 2} }} {{ '%r' % 'q' }} {{ '%s' % [1] }} {{ '%c%c' % ('a', 98) }} {{ '%e %g %G' % (12345.678, 0.00001, 1e20) }} {{ '%.3s|%5s|%-5s|' % ('abcdef', 'ab', 'ab') }} {{ '%d' % 3.9 }} {{ '%*d' % (5, 42) }} {{ '%i %u' % (1, 2) }} {{ '%s' % none }} {{ '%.3d' % 5 }}
{{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d.keys()|list }} {{ d.values()|list }} {{ {'a': 1}.items()|list }} {{ d['items'] }} {{ d.keys() }} {{ {'a': 1}.items() }} {{ {'x': 1}.copy() }} {{ d.items is callable }}
{{ l.index(2) }} {{ [1, 1, 2].count(1) }} {{ (1, 2, 2).count(2) }} {{ (1, 2).index(2) }}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}
{% for i in [1, 1, 2, 2] %}{{ i if loop.changed(i) else '-' }}{% endfor %}
{% for a, b in d.items() %}{{ a }}={{ b }},{% endfor %} {% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for c in 'né' %}[{{ c }}]{% endfor %}
{% for i in range(10) if i % 2 %}{{ i }}{{ loop.last }} {% endfor %} {% for i in range(5) if i > 9 %}x{% else %}none{% endfor %} {% for i in [] %}x{% else %}empty{% endfor %} {% for i in missing %}x{% else %}undefined{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}
{% for i in nested recursive %}{% if i is sequence %}[{{ loop(i) }}]{% else %}{{ i }}:{{ loop.depth }}{% endif %}{% endfor %}
{% set ns = namespace(found=false, n=0) %}{% for i in l %}{% set ns.n = ns.n + i %}{% set x = 9 %}{% endfor %}{{ ns.n }} {{ x }} {{ ns.found }} {{ ns.zzz }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}{% set t = 1, 2, %}{{ t }}{% set q %}block {{ n }}{% endset %}{{ q }}|{% set q | upper | trim %} up {% endset %}{{ q }}|
{% if n > 5 %}big{% elif n > 3 %}mid{% else %}small{% endif %} {% if missing %}a{% elif nothing %}b{% elif 0.0 %}c{% elif '' %}d{% elif [] %}e{% else %}f{% endif %} {% if n %}{% set w = 1 %}{% endif %}{{ w }}
{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c='y') }} {{ f(b=5, a=4) }} {{ f() }} {{ f(*[1, 2]) }} {{ f(**{'a': 7, 'c': 8}) }} {{ f(1, 2, 3)|upper }}
{% macro g() %}{{ varargs }} {{ kwargs }}{% endmacro %}{{ g(1, 2, k=3) }} {% macro h(n) %}{% if n > 0 %}{{ n }}{{ h(n - 1) }}{% endif %}{% endmacro %}{{ h(4) }} {{ h is callable }}
{% macro outer(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call outer('p') %}inner {{ n }}{% endcall %} {% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(a, b=0) each(l) %}{{ a }}/{{ b }}{% endcall %}
{% macro late() %}{{ defined_later }}{% endmacro %}{% set defined_later = 'ok' %}{{ late() }} {% macro scope() %}{% set n = 100 %}{{ n }}{% endmacro %}{{ scope() }}{{ n }}
{% filter upper %}text {{ n }} é{% endfilter %} {% filter replace('a', 'b')|trim %} banana {% endfilter %}|
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }} {% with %}{% set z = 3 %}{{ z }}{% endwith %}{{ z }}
{% raw %}{{ not }} {% run %} {# here #}{% endraw %} a{% raw -%}  x  {%- endraw %} b {%- raw %} y {% endraw -%} c
a {# comment #} b {#- strip -#} c {# {{ n }} {% if %} #}d
{% generation %}gen {{ n }}{% set inside = 1 %}{% endgeneration %}{{ inside }} {% for m in messages %}{% if m.role == 'user' %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}
{{ '%s' | format('a') }} {{ '%s-%s' | format(1, 2) }} {{ '%(a)s' | format(a=3) }}
{{ s|trim }}|{{ 'xax'|trim('x') }}|{{ 'a'|upper }}{{ 'B'|lower }}{{ 'hello world-foo (bar) [x'|title }}{{ 'hELLO'|capitalize }}|{{ 5|string + 'a' }}|{{ 'a'|center(5) }}|{{ 'abc'|replace('b', 'x') }}|{{ 5|replace('5', 6) }}|
{{ l|length }} {{ 'é日'|length }} {{ d|length }} {{ missing|length }} {{ d|count }} {{ l|first }} {{ l|last }} {{ []|first }} {{ 'abc'|first }} {{ 'abc'|last }} {{ l|list }} {{ 'ab'|list }} {{ d|list }} {{ l|reverse|list }} {{ 'abc'|reverse }} {{ range(4)|last }}
{{ l|sort }} {{ names|sort }} {{ names|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ people|sort(attribute='age')|map(attribute='name')|join(',') }} {{ people|sort(attribute='age,name')|map(attribute='name')|list }} {{ people|sort(true, attribute='name')|map(attribute='name')|list }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }} {{ {'b': 1, 'a': 2}|dictsort(reverse=true) }} {{ d|items|list }} {{ missing|items|list }}
{{ names|map('upper')|join(' ') }} {{ people|map(attribute='name')|list }} {{ people|map(attribute='zip', default='?')|list }} {{ nested|map('first')|list }} {{ ['a b']|map('split')|list if no else '' }} {{ ['1', '2']|map('int')|sum }} {{ people|map(attribute='name.0')|list }}
{{ [0, 1, none, 'a', '']|select|list }} {{ [1, 2, 3]|select('odd')|list }} {{ [1, 2, 3]|reject('odd')|list }} {{ [1, 2, 3]|select('gt', 1)|list }} {{ people|selectattr('age', 'equalto', 3)|map(attribute='name')|list }} {{ people|rejectattr('age', '>', 3)|list|length }} {{ people|selectattr('zip')|list }} {{ people|selectattr('zip', 'defined')|list }} {{ people|selectattr('name', 'in', ['Bob'])|list|length }}
{{ [1, 2]|join }} {{ [1, none, 'a']|join('-') }} {{ people|join(', ', attribute='name') }} {{ 'abc'|join('.') }} {{ d|join('/') }} {{ [missing, 1]|join(',') }}
{{ [1, 2, 3]|sum }} {{ [1.5, 2]|sum(start=1) }} {{ people|sum(attribute='age') }} {{ [3, 1]|min }} {{ names|max }} {{ names|min(case_sensitive=true) }} {{ people|max(attribute='age')|attr('zzz') }} {{ (people|max(attribute='age')).name }} {{ []|min }}
{{ ['a', 'A', 'b', 'a']|unique|list }} {{ ['a', 'A']|unique(true)|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }} {{ [1, 1.0, true, 2]|unique|list }}
{% for g in people|groupby('age') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}{% for c, items in people|groupby('city') %}{{ c }}={{ items|map(attribute='name')|join('+') }} {% endfor %}{{ people|groupby('zip', default='none')|length }} {{ [{'a': 1}]|groupby('a') }}
{{ range(7)|batch(3)|list }} {{ range(7)|batch(3, 'x')|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }}
{{ missing|default('d') }} {{ missing|d }}| {{ none|default('d') }} {{ none|default('d', true) }} {{ ''|default('d', boolean=true) }} {{ 0|d(5) }}
{{ -3|abs }} {{ -3.5|abs }} {{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1f'|int(0, 16) }} {{ 3.9|int }} {{ -3.9|int }} {{ ' 5 '|int }} {{ none|int }} {{ true|int }} {{ '1_0'|int }} {{ '1.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ '-2e3'|float }} {{ none|float(1.5) }} {{ '1e3'|int }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1) }} {{ 42.5|round(0, 'floor') }} {{ 42.1|round(0, 'ceil') }} {{ 5|round }} {{ 1234.5|round(-2) }} {{ 1.15|round(1, 'ceil') }} {{ 15|round(-1) }}
{{ html|escape }} {{ html|e|e }} {{ html|e|forceescape }} {{ html|safe }} {{ html|striptags }} {{ '<p>a  <!-- x -->b</p>\n c'|striptags }} {{ ('<'|safe) + '<' }} {{ '<' + ('<'|safe) }} {{ ('<'|safe) ~ '<' }} {{ ('a<b'|safe).upper() + '&' }} {{ 'a'|safe }} {{ ('%s'|safe) % 'x' }} {{ ('<'|safe).join(['a', 'b']) }}
{{ 'one\ntwo\n\nthree'|indent }}| {{ 'one\ntwo'|indent(2, true) }}| {{ 'a\n\nb'|indent(2, blank=true) }}| {{ 'a\nb'|indent('> ') }}| {{ 'a\n'|indent }}| {{ ''|indent }}| {{ 'a\nb\n'|indent(first=true) }}|
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(9, false, '..', 0) }} {{ 'foobarbazquxfoo'|truncate(9) }} {{ 'ab'|truncate(5) }}
{{ 'a b, c-d é'|wordcount }} {{ 'a b/c?é=ü&~'|urlencode }} {{ {'a b': 'c&d', 'e': 1}|urlencode }} {{ [('k', '/')]|urlencode }} {{ 5|urlencode }}
{{ messages[2]|tojson }} {{ 'é日😀\x7f\x01"\\/\b\f'|tojson }} {{ 'é😀'|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': [1, 2.0, none, true, {}, []]}|tojson(indent=2) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }} {{ [1, [2]]|tojson(indent='\t') }} {{ (1, 2)|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 6}|tojson }} {{ []|tojson(indent=2) }} {{ 1e100|tojson }} {{ tools|tojson(indent=4) }}
{{ '{"a": [1, 2.5, null, "x"]}'|from_json }} {{ '[1]'|from_json|first }} {{ '"s"'|from_json }} {{ '5'|from_json + 1 }}
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ nothing is none }} {{ s is string }} {{ n is string }} {{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ n is iterable }} {{ s is sequence }} {{ d is sequence }} {{ d.items() is sequence }} {{ n is number }} {{ yes is number }} {{ yes is boolean }} {{ n is integer }} {{ yes is integer }} {{ x is float }} {{ yes is true }} {{ no is false }} {{ 1 is true }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is ne(1) }} {{ 2 is gt 1 }} {{ 2 is lessthan 3 }} {{ 2 is ge 2 }} {{ 2 is le 1 }} {{ 'a' is in ['a'] }} {{ 'a' is equalto 'a' }} {{ none is sameas none }} {{ [] is sameas [] }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ ('a'|safe) is escaped }} {{ 'upper' is filter }} {{ 'zz' is filter }} {{ 'odd' is test }} {{ range is callable }} {{ n is not defined }} {{ n is not none and yes }} {{ missing is iterable }}
{{ range(3)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(3) }} {{ range(1, 9, 2) }} {{ range(0)|list }} {{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'a': 1}, b=2) }} {% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('|') %}{{ j() }}{{ j() }}{{ j() }} {{ namespace(a=1).a }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %j %a %A %b %B %p %y %d %%') }}
{{ s.__class__ }}|{{ l.append }}|{{ d.__init__ is defined }}|{{ s['__class__'] }}|{{ l.zzz is defined }}
{{- n -}}  x   {{- n }} y {{ n -}} z {%- if yes %} a {%- endif -%} b {%+ if yes %} c{% endif +%} d
{{ {'a': {'b': {'c': 1}}}.a.b.c }} {{ {'x': [1, {'y': 2}]}['x'][1].y }} {{ {"a}}b": 1} }}
{{ messages|length }} {{ messages[1].content|e }} {{ messages[-1]['role'] }} {{ messages|map(attribute='role')|unique|join(',') }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ (messages|last).content[::-1] }}
{{ range(9)[1:7:2] }} {{ range(9)[::-2] }} {{ no|map('upper')|list }} {{ 0|select|list }} {{ [none, none]|sort }} {{ l|truncate(5) }}
{{ n[1:] }}
{{ d[1:] }}
{{ messages[0].content.zzz.yyy }}
{{ missing.attr }}
{{ missing['key'] }}
{{ none.attr.more }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 'a' + none }}
{{ missing + 1 }}
{{ [1] + 'a' }}
{{ 1 < 'a' }}
{{ 'a' >= 1 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ n() }}
{{ missing() }}
{{ s.zzz() }}
{{ l.append(1) }}
{{ d.update({'a': 1}) }}
{{ s.__class__.__mro__ }}
{{ for i in 5 }}
{% for i in 5 %}{% endfor %}
{% for i in none %}{% endfor %}
{% set a, b = [1] %}
{% set a, b = [1, 2, 3] %}
{% set n.x = 1 %}
{{ raise_exception('No ' ~ 'way: ' ~ n) }}
{{ 5|length }}
{{ 5|zzz }}
{{ 5 is zzz }}
{% if no %}{{ 5|zzz }}{% endif %}fine {{ 5|zzz if no else 'ok' }}
{% if yes %}{{ 5|zzz }}{% endif %}
{% zzz %}
{% if n %}
{{ n
{{ (1, 2 }}
{{ [1, 2) }}
{{ 'abc
{# no end
{% raw %} no end
{{ 1 2 }}
{{ }}
{% for %}{% endfor %}
{% endif %}
{{ a is is }}
{{ x.1y }}
{{ 'a' if }}
{{ {'a' 1} }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{{ range(100001) }}
{{ {[]: 1} }}
{{ [1, 'a']|sort }}
{{ missing|tojson }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '{} {}'.format(1) }}
{{ ','.join([1]) }}
{{ 'abc'.index('z') }}
{{ 'a'.split('') }}
"""
MORE = [
    "  {% if yes %}\n  a\n  {% endif %}\n  {{ n }}\n\t{% for i in l %}\n{{ i }}\n  {% endfor %}\n{# c #}\n b \n\n",
    "line\r\n{% if yes %}\r\nx\r\n{% endif %}\r\ry\r", "\n\na{% if yes %}\n\n b{% endif %}\n\n", "x\n  {%- if yes -%}\n  y\n  {%- endif %}\nz\n",
    "a\n   {# c #}   \nb\n   {#- c -#}\n d", "   {% raw %}\n  r\n   {% endraw %}\n e", "{% if yes +%}\n a{% endif %}\n", "", "\n", "plain { } %} }} #}",
    "{{ '\\\n' }}|{{ 'a\nb' }}", "{% set ns = namespace(l=[]) %}{% for m in messages %}{% set ns.l = ns.l + [m.role] %}{% endfor %}{{ ns.l }}\n{{ ns }}",
    "{% for message in messages %}\n{{ '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>' + '\\n' }}\n{% endfor %}\n{% if add_generation_prompt %}\n{{ '<|im_start|>assistant\\n' }}\n{% endif %}\n",
    "{{ x\n  | round\n}}\n{# multi\nline #}\n{{ missing.boom }}", "é{{ 'ü' }}日{% if yes %}本{% endif %}語\u00a0{%- if yes %}!{% endif %}",
]


def case(source):
    try:
        return {"template": source, "text": ENV.from_string(source).render(
            **{"tools": None, "documents": None, "add_generation_prompt": False, **TALK, **VARIABLES})}
    except jinja2.TemplateSyntaxError as e:  # the sentences of the parser are our own
        return {"template": source, "error": f"line {e.lineno}: "} if "named" not in str(e) else {"template": source, "error": e.message}
    except Exception as e:
        return {"template": source, "error": str(e)}


if __name__ == "__main__":
    sources = CASES.strip("\n").split("\n") + MORE
    print(json.dumps({"made": "tests/chat_cases.py with jinja2 " + jinja2.__version__, "now": NOW, "talk": TALK, "variables": VARIABLES,
                      "cases": []}, ensure_ascii=False)[:-2] + "\n" + ",\n".join(json.dumps(case(s), ensure_ascii=True) for s in sources) + "\n]}")
