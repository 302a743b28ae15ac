"""``${...}`` and ``.env``."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zeus_runtime.config import ConfigError
from zeus_runtime.config.layers import interpolation
from zeus_runtime.config.layers.dotenv import parse_dotenv
from zeus_runtime.config.layers.interpolation import (
    Interpolated,
    InterpolationError,
    defaults_of,
    interpolate,
)
from zeus_runtime.config.layers.loading import shown_text

ENVIRON = {"NAME": "zeus", "EMPTY": "", "DOLLAR": "${NAME}", "_X1": "x"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${NAME}", "zeus"),
        ("a ${NAME} b ${_X1}", "a zeus b x"),
        ("${EMPTY}", ""),
        ("${EMPTY:-default}", "default"),
        ("${UNSET:-default}", "default"),
        ("${UNSET:-}", ""),
        ("${NAME:-default}", "zeus"),
        ("${NAME:?message}", "zeus"),
        ("${UNSET:-${NAME}}", "zeus"),
        ("${UNSET:-a ${ALSO_UNSET:-b} c}", "a b c"),
        ('${UNSET:-{"a": {}}}', '{"a": {}}'),
        ("$$", "$"),
        ("$${NAME}", "${NAME}"),
        ("$$$$", "$$"),
        ("costs $5 and 5$", "costs $5 and 5$"),
        ("$NAME", "$NAME"),
        ("{{name}} and {NAME}", "{{name}} and {NAME}"),
        ("${DOLLAR}", "${NAME}"),
    ],
)
def test_each_form_of_a_variable(text: str, expected: str) -> None:
    assert interpolate(text, ENVIRON).text == expected


@pytest.mark.parametrize(
    "text", ["${UNSET}", "${UNSET:?say it}", "${EMPTY:?say it}", "${UNSET:-${ALSO_UNSET}}"]
)
def test_a_variable_without_a_value_is_an_error_and_never_empty(text: str) -> None:
    with pytest.raises(InterpolationError) as raised:
        interpolate(text, ENVIRON)
    assert raised.value.code == "unset-variable"
    assert "?" not in text or raised.value.hint == "say it"


@pytest.mark.parametrize("text", ["${RAW}", "${RAW:-x}", "${RAW:?say it}"])
def test_a_variable_of_bytes_that_are_no_text_is_an_error(text: str) -> None:
    with pytest.raises(InterpolationError, match="the variable RAW holds bytes that are not UTF-8") as raised:
        interpolate(text, {"RAW": "a\udcff"})
    assert raised.value.code == "not-utf8"


@pytest.mark.parametrize(
    "text", ["${", "${}", "${NAME", "${1A}", "${NAME-x}", "${NAME:=x}", "${NAME:}", "${ NAME }"]
)
def test_a_malformed_variable_is_an_error(text: str) -> None:
    with pytest.raises(InterpolationError) as raised:
        interpolate(text, ENVIRON)
    assert raised.value.code == "bad-interpolation"


@given(st.text())
def test_doubled_dollars_give_any_text_back(text: str) -> None:
    assert interpolate(text.replace("$", "$$"), {}).text == text


@given(st.text())
def test_a_variables_value_is_taken_as_it_is(value: str) -> None:
    assert interpolate("${A}", {"A": value}).text == value


def test_an_overridden_value_needs_no_variable(checked, write) -> None:  # type: ignore[no-untyped-def]
    write("zeus.prod.yaml", "name: prod\n")
    document = checked("version: 1\nmodel: m\nname: ${UNSET}\n", env="prod")
    assert document.value["name"] == "prod"


def test_the_users_own_keys_are_left_alone(checked) -> None:  # type: ignore[no-untyped-def]
    assert checked("version: 1\nmodel: m\nx-note: costs ${MONEY}\n").value["x-note"] == "costs ${MONEY}"


def test_keys_are_not_filled_in(checked) -> None:  # type: ignore[no-untyped-def]
    document = checked("version: 1\nmodel: m\nmetadata: {'${A}': '${A}'}\n", environ={"A": "x"})
    assert document.value["metadata"] == {"${A}": "x"}


DOTENV = r"""
# a comment
PLAIN=value
export EXPORTED = spaced value   # a comment
HASH=a#b
SINGLE='as $it \n is'
DOUBLE="tab\t quote\" back\\ dollar\$ hash # x" # comment
LINES="one
two"
EMPTY=
COMMENTED=   # a comment
SIGN=#x
QUOTED_EMPTY=""
PLAIN=last
"""


def test_dotenv_forms() -> None:
    assert dict(parse_dotenv(DOTENV, ".env")) == {
        "PLAIN": "last",
        "EXPORTED": "spaced value",
        "HASH": "a#b",
        "SINGLE": r"as $it \n is",
        "DOUBLE": 'tab\t quote" back\\ dollar$ hash # x',
        "LINES": "one\ntwo",
        "EMPTY": "",
        "COMMENTED": "",
        "SIGN": "#x",
        "QUOTED_EMPTY": "",
    }


@pytest.mark.parametrize(
    "text", ["just words", "KEY='open", 'KEY="open\n', "1KEY=x", "=x", "KEY: x", "KEY='a' b"]
)
def test_a_line_that_is_no_variable_is_named_by_number_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_dotenv(f"OK=1\n{text}\n", ".env")
    assert str(raised.value).startswith(".env:2:1: bad-dotenv: ")
    assert text not in str(raised.value)


@pytest.mark.timeout(60)  # the square of the length would take hours
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=x{}y", "x{}y"),
        ("A=x{}", "x"),
        ("A={}", ""),
        ("A={}# c", ""),
        ("A=x{}# c", "x"),
        ("{}export{}A{}={}x", "x"),
        ("A='x'{}# c", "x"),
        ("A='x'{}y", None),
        ("A{}", None),
        ("A={}'open", None),
    ],
)
@pytest.mark.parametrize("blank", [" ", "\t", " \t"])
def test_a_long_run_of_blanks_is_read_in_linear_time(line: str, value: str | None, blank: str) -> None:
    blanks = blank * 500_000
    text = line.replace("{}", blanks) + "\n"
    if value is None:
        with pytest.raises(ConfigError, match="NAME=value"):
            parse_dotenv(text, ".env")
    else:
        assert parse_dotenv(text, ".env") == [("A", value.replace("{}", blanks))]


WORDS = st.text(st.sampled_from("A= \t\n#'\"x\\$\r\x0c\x85"), max_size=12)


@given(st.sampled_from(["x", "", " ", "#", " #"]), WORDS)
def test_a_bare_value_ends_before_blanks_and_a_comment(begins: str, text: str) -> None:
    value = f"{begins}{text}".partition("\n")[0]
    assume(not re.match(r"[ \t]*['\"\r\x0c\x85]", value))
    comment = re.search(r"[ \t]#", value)
    expected = (value if comment is None else value[: comment.start()]).lstrip(" \t").rstrip()
    assert parse_dotenv(f"A={value}\n", ".env") == [("A", expected)]


def test_dotenv_beside_the_file_never_overrides_the_process(checked, write) -> None:  # type: ignore[no-untyped-def]
    write(".env", "NAME=from-file\nDESCRIPTION=from-file\n")
    text = "version: 1\nmodel: m\nname: ${NAME}\ndescription: ${DESCRIPTION}\n"
    document = checked(text, environ={"NAME": "from-process"})
    assert document.value["name"] == "from-process"
    assert document.value["description"] == "from-file"
    assert document.environ["DESCRIPTION"] == "from-file"


def test_a_broken_dotenv_is_a_diagnostic(loaded, write) -> None:  # type: ignore[no-untyped-def]
    write(".env", b"A=\xff\n")
    with pytest.raises(ConfigError, match="not-utf8"):
        loaded("version: 1\n")


REPLACED = "Zq7-first-key-0123456789"
VALID = "Zq7-second-key-987654321"


@pytest.mark.parametrize(
    ("environ", "dotenv"),
    [({"SHOP_TOKEN": VALID}, f"SHOP_TOKEN={REPLACED}"), ({}, f"SHOP_TOKEN={REPLACED}\nSHOP_TOKEN={VALID}")],
    ids=["environment", "line below"],
)
def test_a_variable_that_another_one_replaces_is_a_secret_too(checked, write, environ, dotenv) -> None:  # type: ignore[no-untyped-def]
    write(".env", f"{dotenv}\n")
    document = checked("version: 1\nmodel: m\n", environ=environ)
    assert document.environ["SHOP_TOKEN"] == VALID
    shown = document.redactor.text(f"{VALID} {REPLACED}")
    assert re.fullmatch("<secret:SHOP_TOKEN-[0-9a-f]{4}> <secret:SHOP_TOKEN-[0-9a-f]{4}>", shown)
    write(".env", f"SHOP_TOKEN={VALID}\nSHOP_TOKEN={REPLACED}\n")
    turned = checked("version: 1\nmodel: m\n", environ={})
    assert turned.environ["SHOP_TOKEN"] == REPLACED
    assert turned.redactor.text(f"{VALID} {REPLACED}") == shown, (
        "another value counts, and none changes its name"
    )
    write(".env", f"SHOP_TOKEN={VALID}\nSHOP_TOKEN={VALID}\n")
    assert checked("version: 1\nmodel: m\n", environ={}).redactor.text(VALID) == "<secret:SHOP_TOKEN>"


@pytest.mark.parametrize(
    "key", ["model.litellm.api_key", "checkpointer.guarded.badge"], ids=["by its name", "by its schema"]
)
@pytest.mark.parametrize("way", ["extends", "overlay", "set"])
def test_a_value_that_a_stronger_file_replaces_is_a_secret_too(  # type: ignore[no-untyped-def]
    checked, write, way: str, key: str
) -> None:
    kind, component, option = key.split(".")
    strong = f"{kind}: {{{component}: {{{option}: other-key-12345}}}}\n"
    weak = "version: 1\nmodel: {litellm: {model: m}}\n" + strong.replace("other-key-12345", REPLACED)
    if kind == "model":
        weak = f"version: 1\nmodel: {{litellm: {{model: m, api_key: {REPLACED}}}}}\n"
    options: dict[str, object] = {"environ": {}}
    if way == "extends":
        write("base.yaml", weak)
        weak = f"version: 1\nextends: ./base.yaml\n{strong}"
    elif way == "overlay":
        write("zeus.prod.yaml", f"version: 1\n{strong}")
        options["env"] = "prod"
    else:
        options["sets"] = [f"{key}=other-key-12345"]
    document = checked(weak, **options)
    assert REPLACED not in str(document.value)
    assert re.fullmatch(f"<secret:{key}-[0-9a-f]{{4}}>", document.redactor.text(REPLACED))
    assert document.redactor.text("other-key-12345") not in (
        document.redactor.text(REPLACED),
        f"<secret:{key}>",
    )


@pytest.mark.parametrize("environ", [{"A": "other-key-12345", "B": "x"}, {}], ids=["set", "unset"])
@pytest.mark.parametrize(
    "text",
    [
        f"model: {{litellm: {{model: m, api_key: '${{A:-{REPLACED}}}'}}}}",
        f"model: m\ncheckpointer: {{guarded: {{badge: '${{A:-{REPLACED}}}'}}}}",
        f"model: m\ninstructions: '${{A:-https://ann:{REPLACED}@example.com}}'",
        f"model: m\ninstructions: 'https://ann:${{A:-${{B:-{REPLACED}}}}}@${{HOST}}'",
    ],
    ids=["by its name", "by its schema", "by its form", "beside a variable without default"],
)
def test_the_default_of_a_variable_is_a_secret_too(checked, text: str, environ: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    environ = {"HOST": "example.com", **environ}
    document = checked(f"version: 1\n{text}\n", environ=environ)
    assert REPLACED not in document.redactor.text(f"before {REPLACED} behind")
    if "badge" not in text:  # this is no secret by the name, and no schema is asked about an unchecked text
        unread = checked("version: 1\nmodel: m\n", environ=environ)
        assert REPLACED not in shown_text(unread, f"version: 1\n# edited\n{text}\n")


def test_the_default_of_a_variable_whose_name_says_secret_is_one_under_any_key(checked) -> None:  # type: ignore[no-untyped-def]
    text = f'version: 1\nmodel: m\ninstructions: "Say ${{SHOP_TOKEN:-{REPLACED}}} or ${{SHOP_TOKEN:-none}}"\n'
    for environ in ({}, {"SHOP_TOKEN": VALID}):
        redactor = checked(text, environ=environ).redactor
        assert re.fullmatch("<secret:SHOP_TOKEN-[0-9a-f]{4}>", redactor.text(REPLACED))
        assert redactor.json("none") == "none"


def test_a_variable_without_a_value_is_no_secret_of_a_replaced_file(checked, write) -> None:  # type: ignore[no-untyped-def]
    write("base.yaml", 'version: 1\nmodel: {litellm: {model: m, api_key: "${UNSET_KEY}"}}\n')
    document = checked(
        "version: 1\nextends: ./base.yaml\nmodel: {litellm: {api_key: other-key-12345}}\n", environ={}
    )
    assert document.redactor.text("${UNSET_KEY}") == "${UNSET_KEY}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${A:-x}", [("A", "x")]),
        ("a ${A:-${B:-y}z}${C:-}", [("A", "yz"), ("B", "y"), ("C", "")]),
        ("${A:-{b}} ${C:-c", [("A", "{b}")]),
        ("} ${A:-${B}${C:?no}d}", [("A", "d")]),
        ("${A:-" + "{" * 30 + "}" * 30 + "}", [("A", "{" * 30 + "}" * 30)]),
        ("${A:-word${B:-" + "${C:-" * 20 + "x" + "}" * 22, [("A", "word"), ("B", "x"), *[("C", "x")] * 20]),
    ],
)
def test_the_defaults_in_a_text(text: str, found: list[tuple[str, str]]) -> None:
    assert list(defaults_of(text)) == found


def test_nested_defaults_are_found_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    filled = interpolation.interpolate

    def counting(text: str, environ: Mapping[str, str], *, depth: int = 0) -> Interpolated:
        seen.append(len(text))
        return filled(text, environ, depth=depth)

    monkeypatch.setattr(interpolation, "interpolate", counting)
    assert len(list(defaults_of("${A:-" * 5_000 + "x" + "}" * 5_000))) == 5_000
    assert sum(seen) < 50_000
