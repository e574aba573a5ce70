"""Templates: the variables models expect, the sandbox, and the limits of one rendering."""

from __future__ import annotations

import jinja2
import pytest

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.chat_template import ChatTemplate, ChatTemplateError

CHATML = (
    "{% for message in messages %}"
    "{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nDefault<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
USER = [{"role": "user", "content": "hi"}]
WITH_SYSTEM = [{"role": "system", "content": "be brief"}, *USER]


def render(source: str, messages: list[dict[str, str]] = USER, **extra: object) -> str:
    return ChatTemplate(source, bos="<s>", eos="</s>").render(messages, extra=extra)


def test_chatml_with_default_system_line() -> None:
    assert render(CHATML) == (
        "<|im_start|>system\nDefault<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert "Default" not in render(CHATML, WITH_SYSTEM)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{{ eos_token }}", "<s></s>"),
        ("{{ tools is defined }}", "False"),
        ("[{{ nothing }}]", "[]"),
        ("{% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        ("{% generation %}a{% endgeneration %}b", "ab"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% for m in messages %}{{ loop.last }}{{ loop.length }}{% endfor %}", "True1"),
        ("{{ {'b': '<é>', 'a': 1} | tojson }}", '{"b": "<é>", "a": 1}'),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ 'a' ~ 1 ~ none }}", "a1None"),
        ("{{ 'a\nb' | indent(2) }}{{ 'xyx' | replace('x', 'z') }}", "a\n  bzyz"),
        (
            "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
            "1",
        ),
        ("{{ strftime_now('%d') | length }}", "2"),
        ("{{ '{} {}'.format('a', 'b') }}", "a b"),
        ("{{ enable_thinking }}", "True"),
    ],
)
def test_what_templates_use(source: str, expected: str) -> None:
    assert render(source, enable_thinking=True) == expected


def test_template_may_refuse_the_conversation() -> None:
    with pytest.raises(ChatTemplateError, match="roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert isinstance(caught.value, InvalidFileError)
    assert "\n" not in caught.value.line()


def test_refused_system_text_goes_into_the_first_question() -> None:
    source = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
    )
    assert render(source, WITH_SYSTEM) == "user=be brief\n\nhi;"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{% include 'other' %}",
        "{{ range(1000000000) | list }}",
    ],
)
def test_sandbox_holds(source: str) -> None:
    with pytest.raises(ChatTemplateError):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n > 0 %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 'a' * 10000000000 }}",
        "{{ [1] * 10000000000 }}",
        "{{ 9 ** 999999999 }}",
        "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{{ ('a' * 4000000).replace('a', 'b' * 4000000) }}",
        "{{ ('a' * 4000000) | replace('a', 'b' * 4000000) }}",
        "{{ '{:>3000000000}'.format('x') }}",
        "{{ '%3000000000d' % 1 }}",
        "{{ 'x'.ljust(3000000000) }}",
        "{{ 'x' | center(3000000000) }}",
        "{% for i in range(9000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ [1] | slice(1000000000) | list | length }}",
        "{{ [1] | batch(1000000000, 'x') | list | length }}",
        "{{ ('a' * 2000).translate({97: 'b' * 4000000}) | length }}",
        "{{ (5).to_bytes(1000000000, 'big') | length }}",
        "{{ ([[1] * 40] * 99999) | sum(start=[]) | length }}",
        "{{ (['a'] * 40000) | join('b' * 4000) | length }}",
        "{{ ('b' * 4000).join(range(99999) | map('string')) | length }}",
        "{{ '{0}{0}{0}{0}{0}{0}{0}{0}'.format('x' * 4000000) | length }}",
        "{% set n = namespace(s='aaaa') %}{% for i in range(40) %}{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}{% endfor %}",
        "{% set b = 'x' * 4000000 %}{% set s %}{% for i in range(90000) %}{{ b }}{% endfor %}{% endset %}",
        "{% set s %}{% for i in range(99999) %}" + "y" * 9000 + "{% endfor %}{% endset %}",
        "{% filter upper %}{% for i in range(99999) %}{{ '" + "y" * 9000 + "' }}{% endfor %}{% endfilter %}",
    ],
)
def test_a_rendering_is_bounded(source: str) -> None:
    with pytest.raises(ChatTemplateError):
        render(source)


GROWTHS = (
    "[n.a, n.a]",
    "(n.a, n.a)",
    "{'x': n.a, 'y': n.a}",
    "namespace(x=n.a, y=n.a)",
    "[n.a] * 2",
    "dict(x=n.a, y=n.a)",
)
USES = (
    "{{ n.a }}",
    "{{ n.a | tojson }}",
    "{{ n.a | upper | length }}",
    "{{ '{}'.format(n.a) | length }}",
    "{{ n.a == n.a }}",
)


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("use", USES)
def test_what_is_held_twice_is_written_twice(growth: str, use: str) -> None:
    grown = "{% set n = namespace(a=[1]) %}{% for i in range(30) %}{% set n.a = " + growth + " %}{% endfor %}"
    with pytest.raises(ChatTemplateError, match="more than"):
        render(grown + use)
    assert render(grown.replace("30", "3") + "ok") == "ok"


def test_macro_arguments_grow_no_value() -> None:
    source = (
        "{% set n = namespace(a=[1]) %}{% macro f() %}{% set n.a = varargs %}{% endmacro %}"
        "{% for i in range(30) %}{{ f(n.a, n.a) }}{% endfor %}{{ n.a }}"
    )
    with pytest.raises(ChatTemplateError, match="more than"):
        render(source)


def test_a_long_conversation_is_no_growth() -> None:
    told = [{"role": ("user", "assistant")[i % 2], "content": "word " * 40} for i in range(2000)]
    source = (
        "{% for m in messages %}{% if loop.index0 == (messages | length) - 1 and m in messages[-2:] %}last: "
        "{% endif %}{{ m.content | trim | length }} {% endfor %}"
    )
    assert render(source, told) == "199 " * 1999 + "last: 199 "


def test_a_rewritten_template_says_what_jinja_says() -> None:
    told = [
        {"role": "system", "content": "be <b>brief</b>"},
        *({"role": ("user", "assistant")[i % 2], "content": f" word {i} <é>\n"} for i in range(5)),
    ]
    source = (
        "{% macro turn(m) -%}[{{ m.role | upper }}] {{ m.content }}{% endmacro -%}\n"
        "{% set rest = messages[1:] if messages[0].role == 'system' else messages %}\n"
        "{% for m in rest if m.role != 'tool' %}\n  {{- turn(m) }}{{ loop.cycle('a', 'b') }}\n{% endfor %}"
        "{% set body %}x{% for a, b in [(1, 2), (3, 4)] %}{{ a ~ b }},{% endfor %}{% endset %}{{ body | trim }}"
        "{% autoescape true %}<i>{{ messages[0].content }}</i>{% endautoescape %}<i>"
        "{{ messages | map(attribute='role') | unique | join(',') }}{{ 1 < 2 < 3 and 'a' in ['a', 'b'] }}"
        "{{ (rest | selectattr('role', 'equalto', 'user') | list)[-1].content }}{{ {'k': [1, none]}['k'][0] }}"
        "{{ nothing }}{{ none }}{{ 2.5 | round | int }}{{ [1, 2] | sum }}{{ messages[0].items() | list | first }}"
    )
    plain = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    assert render(source, told) == plain.from_string(source).render(messages=told)


def test_one_rendering_does_not_use_up_the_next() -> None:
    template = ChatTemplate("{% for i in range(90000) %}{% endfor %}ok")
    assert [template.render(USER) for _ in range(4)] == ["ok"] * 4


def test_source_that_does_not_parse() -> None:
    with pytest.raises(ChatTemplateError, match="does not parse"):
        ChatTemplate("{% if %}")


def test_source_that_is_absurdly_long() -> None:
    with pytest.raises(ChatTemplateError, match="too long"):
        ChatTemplate("x" * (1 << 19))
