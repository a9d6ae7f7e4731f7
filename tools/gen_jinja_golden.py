#!/usr/bin/env python3
"""Writes tests/data/jinja_golden.json: templates, contexts, and what Jinja2 makes of them when it is set up as the
transformers library sets it up for chat templates. Needs jinja2 3.1.6. Run from the root of the tree."""
import json
import os
import time

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %} marks the reply; it renders its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


NOW = 1767225600


def strftime_now(form):
    return time.strftime(form, time.localtime(NOW))


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = strftime_now

DATA = {
    "s": "  Hello, World  ", "u": "naïve Straße 日本 🙂", "empty": "", "n": 7, "neg": -7, "f": 2.5, "yes": True, "no": False,
    "nil": None, "list": [3, 1, 2], "words": ["beta", "Alpha", "gamma"], "nested": {"a": {"b": [10, {"c": "deep"}]}},
    "d": {"z": 1, "a": "two", "m": None}, "q": "it's \"quoted\" \\ <b>&\n\ttab\u0001\u007f",
    "people": [{"name": "Ada", "age": 36, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cy", "age": 36, "admin": True}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello", "tool_calls": []}],
    "big": 9007199254740993, "floats": [0.1, 1e16, 1e15, 1e-5, 1e-4, 123456.789, -0.0, 1.0, 1e22, 5e-324, 1.7976931348623157e308],
}

CASES = r"""
plain text
{{ s }}
{{ s | trim }}|{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}
{{ s.strip().split(', ') }} {{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' x '.split(' ') }}
{{ '--x--'.strip('-') }} {{ 'xyx'.lstrip('x') }} {{ 'abc'.rstrip('bc') }} {{ 'xxaxx' | trim('x') }}
{{ s.upper() }}{{ s.lower() }}{{ 'hello wORLD it\'s'.title() }} {{ 'hELLO'.capitalize() }}
{{ u | upper }} {{ u | lower }} {{ u | title }} {{ 'foo-bar (baz) x' | title }} {{ 'éa' | capitalize }}
{{ u | length }} {{ u[0] }} {{ u[-1] }} {{ u[2:5] }} {{ u[::-1] }} {{ u[::2] }} {{ u[-3:] }}
{{ list[0] }} {{ list[-1] }} {{ list[1:] }} {{ list[::-1] }} {{ list[:-1] }} {{ list[5:] }} {{ list[-100:100] }} {{ list[::-2] }}
{{ list[99] }}|{{ list[99] is defined }}|{{ d.nope }}|{{ d['nope'] is undefined }}
{{ nested.a.b[1].c }} {{ nested['a']['b'][0] }} {{ nested.a.b.0 }}
{{ d }} {{ list }} {{ words }} {{ nil }} {{ yes }} {{ f }} {{ (1,) }} {{ (1, 'x') }} {{ () }} {{ [] }} {{ {} }}
{{ q }} {{ [q] }} {{ ["it's"] }} {{ ['"'] }} {{ ['a\x07\u200b\U0001F642é'] }}
{{ q | tojson }} {{ u | tojson }} {{ d | tojson }} {{ nested | tojson(indent=2) }} {{ [] | tojson(indent=4) }} {{ {} | tojson }}
{{ d | tojson(sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }} {{ u | tojson(ensure_ascii=true) }} {{ floats | tojson }} {{ [1, [2, []]] | tojson(indent=1) }}
{{ floats }} {{ big }} {{ 10 ** 3 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 7 // 2 }} {{ neg // 2 }} {{ 7 % 3 }} {{ neg % 3 }} {{ 7.5 % 2 }} {{ -7.5 // 2 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -n }} {{ - n + 1 }} {{ +n }} {{ 2 * -3 }} {{ 2 - 1 - 1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
{{ 1 + 1.0 }} {{ true + 1 }} {{ 'a' * 3 }} {{ [1] * 2 }} {{ [1] + [2] }} {{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none ~ 2.0 }} {{ 1 + 2 ~ 3 if no else 4 }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' < 'b' }} {{ 'a' != 'b' }} {{ [1, 2] < [1, 3] }} {{ 2 >= 2 }} {{ 2 <= 1 }} {{ '1' == 1 }}
{{ 'ell' in 'Hello' }} {{ 3 in list }} {{ 4 not in list }} {{ 'a' in d }} {{ 'x' in nothing }} {{ not 'a' in d }} {{ none in [none] }}
{{ yes and no }} {{ yes or no }} {{ not yes }} {{ '' or 'x' }} {{ 'x' and 'y' }} {{ not not 1 }} {{ no or nil }} {{ 0 and 1 }}
{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }} {{ 'a' if no else 'b' if no else 'c' }} {{ ('a' if yes else 'b') ~ 'c' }}
{{ nothing }}|{{ nothing is defined }}|{{ nothing is not defined }}|{{ nothing is undefined }}|{{ nothing | default('x') }}|{{ nothing == nothing2 }}|{{ not nothing }}
{{ empty | default('x') }}|{{ empty | default('x', true) }}|{{ nil | default('x') }}|{{ nil | d('x', boolean=true) }}|{{ nothing | default }}|{{ d.z | default(5) }}
{{ nil is none }} {{ nil is not none }} {{ s is string }} {{ n is number }} {{ yes is number }} {{ n is integer }} {{ yes is integer }} {{ f is float }} {{ yes is boolean }} {{ d is mapping }} {{ list is iterable }} {{ n is iterable }} {{ list is sequence }} {{ d is sequence }} {{ s is sequence }} {{ n is sequence }}
{{ yes is true }} {{ no is false }} {{ 1 is true }} {{ yes is sameas true }} {{ 1 is sameas true }} {{ nil is sameas none }} {{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is eq 7 }} {{ n is gt(3) }} {{ n is lt 3 }} {{ n is in [7] }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 'Aa' is upper }} {{ raise_exception is callable }}
{{ n is defined and n is number }} {{ n is not string or no }} {{ (n is string) is false }} {{ n if n is defined else 'no' }}
{{ d | length }} {{ list | count }} {{ empty | length }} {{ list | first }} {{ list | last }} {{ [] | first }} {{ list | join(', ') }} {{ list | join }} {{ people | join(',', attribute='name') }} {{ 'abc' | join('-') }}
{{ list | sort }} {{ list | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }}
{{ list | max }} {{ list | min }} {{ words | min }} {{ list | sum }} {{ people | sum(attribute='age') }} {{ [1, 2, 1, 3, 2] | unique | list }} {{ ['b', 'B', 'a'] | unique | list }} {{ list | reverse | list }} {{ 'abc' | reverse }}
{{ people | map(attribute='name') | join(',') }} {{ words | map('upper') | list }} {{ list | map('string') | join('+') }} {{ people | map(attribute='admin', default=false) | list }} {{ words | map('replace', 'a', 'o') | list }}
{{ list | select('odd') | list }} {{ list | reject('odd') | list }} {{ list | select('gt', 1) | list }} {{ [0, 1, '', 'a', none] | select | list }} {{ [0, 1] | reject | list }}
{{ people | selectattr('admin') | map(attribute='name') | list }} {{ people | selectattr('age', 'equalto', 36) | map(attribute='name') | list }} {{ people | rejectattr('admin', 'defined') | map(attribute='name') | list }} {{ people | selectattr('name', 'in', ['bob']) | list | length }}
{% for g, items in people | groupby('age') %}{{ g }}:{{ items | map(attribute='name') | join(',') }};{% endfor %}
{{ d | items | list }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.get('z') }} {{ d.get('q') }} {{ d.get('q', 'x') }} {{ d | list }} {{ d | dictsort }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in d | items %}{{ k }}{{ loop.index }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{{ '3' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.7' | int }} {{ 3.9 | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ 'ff' | int(base=16) }} {{ ' 12 ' | int }} {{ true | int }} {{ 3 | float }} {{ 5 | string ~ 'x' }}
{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.4 | round(method='ceil') }} {{ 2.6 | round(0, 'floor') }} {{ neg | abs }} {{ -2.5 | abs }} {{ 7 | round }}
{{ 'a-b-c' | replace('-', '+') }} {{ 'a-b-c' | replace('-', '+', 1) }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc'.replace('', '.') }} {{ 'abc' | replace('b', 5) }}
{{ 'l1\nl2\n\nl3' | indent }}|{{ 'l1\nl2' | indent(2, true) }}|{{ 'l1\n\nl2' | indent(2, blank=true) }}|{{ 'l1\nl2' | indent('> ') }}|{{ 'x\n' | indent }}|
{{ '<a & "b" \'c\'>' | escape }} {{ '<b>' | e }} {{ '<b>' | safe }} {{ 5 | safe }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.find('c') }} {{ 'abc'.find('x') }} {{ 'éab'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'abab'.count('ab') }} {{ 'aXb'.partition('X') }} {{ 'ab'.partition('X') }} {{ 'aXbXc'.rpartition('X') }} {{ '-'.join(['a', 'b']) }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'ab'.index('b') }}
{{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'ab'.islower() }} {{ 'AB'.isupper() }} {{ ''.isdigit() }} {{ 'x'.ljust(3) }}| {{ 'x'.rjust(3, '.') }} {{ 'a\nb\r\nc'.splitlines() }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }}
{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}
{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{{ loop.previtem is defined }};{% endfor %}
{% for x in list %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}{% for x in [1] %}{% for y in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %}
{% for x in [] %}x{% else %}none{% endfor %}{% for x in nothing %}x{% else %}nothing{% endfor %}{% for x in list if x > 1 %}{{ x }}{{ loop.length }}{% else %}no{% endfor %}{% for x in list if x > 5 %}{{ x }}{% else %}no{% endfor %}
{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }};{% endfor %}{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}{% for c in 'añ🙂' %}[{{ c }}]{% endfor %}
{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if yes %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(total=0, name='n') %}{% for i in list %}{% set ns.total = ns.total + i %}{% endfor %}{{ ns.total }}{{ ns.name }}{{ ns.nope is defined }}{{ ns['total'] }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2, 3 %}{{ t }}{% set a = [1, 2] %}{{ a }}
{% set block %}  text {{ n }}  {% endset %}[{{ block }}]{% set up | upper | trim %} abc {% endset %}[{{ up }}]
{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 5) }} {{ f(1, c='z') }} {{ f() }} {{ f(b=3, a=1) }} {{ f(1) | length }}
{% macro outer(x) %}<{{ inner(x) }}>{% endmacro %}{% macro inner(x) %}{{ x }}{{ n }}{% endmacro %}{{ outer('q') }}
{% macro fact(k) %}{% if k < 2 %}1{% else %}{{ k * (fact(k - 1) | int) }}{% endif %}{% endmacro %}{{ fact(6) }}
{% macro box(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call box('a') %}body {{ n }}{% endcall %}{% macro lst() %}{% for i in list %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(v) lst() %}({{ v }}){% endcall %}
{% filter upper %}abc {{ n }}{% endfilter %}{% filter replace('a', 'b') | trim %} aaa {% endfilter %}
{% with a = 1, b = n %}{{ a + b }}{% endwith %}{{ a is defined }}{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}
{% generation %}answer {{ n }}{% endgeneration %}!
{% raw %}{{ not }} {% if %}{% endraw %}{% raw -%}   x   {%- endraw %} y
{# comment #}a{#- c -#} b {#+ d #}
{% if n > 100 %}a{% elif n > 5 %}b{% elif n > 3 %}c{% else %}d{% endif %}{% if nil %}x{% endif %}{% if list %}y{% endif %}{% if not d %}z{% else %}w{% endif %}
{{ range(5) | list }} {{ range(2, 8, 3) | list }} {{ range(3, 0, -1) | list }} {% for i in range(3) %}{{ i }}{% endfor %} {{ range(0) | list }}
{{ 'a' 'b' "c" }} {{ '\u00e9\x41\n\t\\' }} {{ "\"q\"" }} {{ 'no\qescape' }} {{ 1_000 }} {{ 1.5e3 }} {{ 0.1 + 0.2 }} {{ 1e100 }} {{ 100000000000000000.0 }}
{{ dict(a=1, b=2) }} {{ {'k': [1, {'x': none}]} }} {{ {'a': 1}['a'] }} {{ {'a': 1}.a }} {{ [1, 2,] }} {{ {'a': true} | tojson }}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %B %Y %H:%M') }}
{{ loop is defined }} {{ True }} {{ False }} {{ None }} {{ true is boolean }} {{ none | string }} {{ nil ~ '' }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }}
{{ messages[0].role == 'system' }} {{ messages[1:] | length }} {{ messages[-1]['content'].split('</think>')[-1].lstrip('\n') }} {{ messages[2].tool_calls is defined and messages[2].tool_calls }} {{ messages[0]['content'] | trim ~ '!' }}
{{ messages[2].content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}|{{ '</think>' in messages[2].content }}
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{%- endfor %}
{%- for m in messages[::-1] %}{% set index = (messages | length - 1) - loop.index0 %}{{ index }}:{{ m.role }} {% endfor %}
{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set sys = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% endif %}{{ sys }}{{ loop_messages | length }}
{{ 5 is number and 5 is not string }} {{ x.y if x is defined else 'none' }} {{ (1, 2) == (1, 2) }} {{ [1] == [1] }} {{ {'a': 1} == {'a': 1.0} }} {{ (1, 2) == [1, 2] }}
{{ 'x' | default('y') | upper | lower }} {{ ('a' ~ 'b') | upper }} {{ 'a' ~ 'b' | upper }} {{ -1 | abs }} {{ (-1) | abs }} {{ 'abc' | upper | first }} {{ n | string | length }}
{{ nothing ~ 'x' }} {{ nothing | length }} {{ nothing | list }} {{ nothing | join(',') }} {{ nothing | upper }} {{ [nothing] }} {{ nothing | string }} {{ nothing | items | list }}
{{ 1, 2 }} {{ (n) }} {{ ((n)) }} {{ not (n == 7) }} {{ n == 7 and not no }} {{ [n, f][1] }} {{ 'abc'[1] }} {{ 'abc'[1:][0] }} {{ {'a': [1, 2]}['a'][1] }}
{{ s is filter }} {{ 'upper' is filter }} {{ 'defined' is test }} {{ 'abc' | attr('nope') is defined }}
{% set x %}a{% set y = 1 %}{% endset %}{{ x }}{{ y is defined }}
{{ [[1, 'a'], [0, 'b']] | sort }} {{ ['b', 'A'] | sort | join }} {{ people[:1] | map(attribute="tags.0") | list }}
{%- macro text(content) -%}{%- if content is string -%}{{- content | trim -}}{%- elif content is iterable and content is not mapping -%}{%- for p in content -%}{{- p.text -}}{%- endfor -%}{%- endif -%}{%- endmacro -%}{{ text(' a ') }}{{ text([{'text': 'b'}, {'text': 'c'}]) }}{{ text(5) }}
{{ '%%' }} {{ 'é' < 'z' }} {{ '🙂' > '￿' }} {{ 'ß'.upper() }} {{ '\u3000x\u00a0' | trim }}| {{ 'a\u2028b'.splitlines() }}
"""

# What needs several lines: white space, and the tags on lines of their own.
BLOCKS = [
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  {%+ if yes %}\nb\n{% endif +%}\nc", "a  {% if yes %}  \n b {% endif %}\n\nc\n\n",
    "a \n {%- if yes -%} \n b \n {%- endif -%} \n c", "  {# c #}\nx\n  {# d #} y\n", "{{ n }}\n{{ n }}\n", "x {{- n -}} y\n {{- n }}\n",
    "\n\n{% set x = 1 %}\n\n{{ x }}\n\n", "{% for x in list %}\n  {{ x }}\n{% endfor %}\nend", "  {{ n }}  \n  {%- for x in list %}\n    {{ x }},\n  {%- endfor %}\n",
    "\t{% if yes %}\tx{% endif %}\t\n", "a\r\nb\rc\r\n{% if yes %}\r\nd{% endif %}\r\n", "{% raw %}\n a {% x %}\n{% endraw %}\nb", "a {%- raw -%} b {%- endraw -%} c",
    "{#\n multi\n line #}\nx", "{%- set x = 'a' -%}\n\n{{ x }}\n{#- note -#}\n y", "{% macro m() %}\n  in\n{% endmacro %}\n[{{ m() }}]\n",
    "{{ 'multi\nline' }}\n", "{% if yes\n and not no %}\nok\n{% endif %}", "{% set x =\n  [1,\n  2] %}{{ x }}", "line {% if yes %}inline{% endif %}\nnext\n", "{{'{{'}} {{ '%}' }} { % x } {", "a{% if yes %}\n\nb{% endif %}",
    "{% for x in [1,2] -%}\n  {{ x }}\n{%- else -%}\n none\n{%- endfor %}", "{{ {'a': {'b': 1}}}}", "{{ [{'a': 1}][0]['a']}}",
]

# Templates that must end with an error; the text of the error is not compared.
ERRORS = [
    "{{ nothing.x }}", "{{ nothing['x'] }}", "{{ nothing() }}", "{{ nothing + 1 }}", "{{ d.nope.more }}", "{{ nil.x.y }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ 1 / 0 }}",
    "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ raise_exception('told') }}", "{{ list.append(1) }}", "{{ d.update({}) }}", "{% for x in 5 %}{% endfor %}", "{{ nothing | tojson }}", "{{ 5 | length }}",
    "{{ 'a' < 1 }}", "{{ none < 1 }}", "{{ n() }}", "{{ 1 in 5 }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=1) }}", "{% set a, b = [1] %}",
    "{% if %}{% endif %}", "{% if x %}", "{% endif %}", "{{ x", "{% x %}", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ [1 }}", "{{ 'a }}", "{% for x %}{% endfor %}", "{# x",
    "{{ x | nofilter }}", "{{ x is notest }}", "{% break %}", "{{ 1 $ 2 }}", "{% set x.y = 1 %}", "{{ range(1000000) }}", "{{ 'a'.join([1]) }}", "{{ [1] + (2,) }}", "{{ ''.split('') }}",
    "{{ list[::0] }}", "{{ [nothing] | tojson }}", "{{ nothing < 1 }}", "{{ -nothing }}", "{% raw %} x", "{{ 5 | items | list }}", "{{ people | map(attribute='tags.0') | list }}", "{{ 'abc'['x'].y }}", "{{ ] }}",
]


def run(source):
    case = {"template": source}
    try:
        case["text"] = env.from_string(source).render(**DATA)
    except Exception:  # whatever Jinja or Python raises counts as an error
        case["error"] = True
    return case


def main():
    lines = [line for line in CASES.split("\n") if line]
    cases = [run(source) for source in lines + BLOCKS]
    for case in cases:
        assert "error" not in case, case
    errors = [run(source) for source in ERRORS]
    for case in errors:
        assert "error" in case, case
    out = os.path.join(os.path.dirname(__file__), "..", "tests", "data", "jinja_golden.json")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"now": NOW, "context": DATA, "cases": cases + errors}, f, ensure_ascii=False, indent=1)
        f.write("\n")
    print(len(cases), "texts,", len(errors), "errors")


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    main()
