"""The text of a library's error has no part of a value that the library cut."""

from __future__ import annotations

import ast
import reprlib
from collections.abc import Callable
from pathlib import Path
from traceback import format_exception
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
import zeus_plugins
from pydantic import BaseModel

import zeus_runtime
from zeus_runtime.library_errors import error_text, error_with_type, printed_error
from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.tool import tool
from zeus_runtime.tools.dispatch import invoke

KEY = "ghp_Dv7hT2pLq9VwZ3nB8mCsXk4Jr6Yt1Ua5Eb0Q"
PHRASE = "correct horse battery staple of a long phrase"


class _Shop(BaseModel):
    hosts: list[str]


def _misread_by_pydantic(secret: str) -> object:
    return _Shop.model_validate({"hosts": {"token": secret}})


def _misread_by_yaml(secret: str) -> object:
    return yaml.safe_load(f"{'x' * 40}: 1, registry: {secret}@registry: a: b, port: 80, {'y' * 40}: 1\n")


def _cut_by_reprlib(secret: str) -> object:
    raise ValueError(f"{reprlib.repr({'token': secret})} is not valid")


def _cut_by_a_database(secret: str) -> object:
    raise ValueError(f"[parameters: ('{secret[:20]} ... (20 characters truncated) ... {secret[-20:]}')]")


def _cut_at_an_end(secret: str) -> object:
    raise ValueError(f"cannot read '{secret[:25]}...'")


TEARING: Any = [_misread_by_pydantic, _misread_by_yaml, _cut_by_reprlib, _cut_by_a_database, _cut_at_an_end]


def _raised(function: Callable[[str], object], secret: str) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of each library
        function(secret)
    return caught.value


def _chained(error: Exception) -> Exception:
    try:
        raise RuntimeError(f"it failed: {error}") from error
    except RuntimeError as outer:
        return ExceptionGroup("of several", [ExceptionGroup("inner", [outer])])


@pytest.mark.parametrize("tearing", TEARING)
def test_the_message_of_a_librarys_error_has_no_part_of_a_secret_that_the_library_cut(
    tearing: Callable[[str], object],
) -> None:
    error = _raised(tearing, KEY)
    assert any(KEY[at : at + 8] in str(error) for at in range(len(KEY) - 8)), "the library cuts"
    group = _chained(error)
    printed = "".join(format_exception(group))
    for told in (error_text(error), error_with_type(error), printed_error(printed, group)):
        assert not any(KEY[at : at + 6] in told for at in range(len(KEY) - 6)), told


@pytest.mark.parametrize("tearing", [_misread_by_pydantic, _misread_by_yaml])
def test_a_secret_of_several_words_is_not_quoted_in_part(tearing: Callable[[str], object]) -> None:
    error = _raised(tearing, PHRASE)
    group = _chained(error)
    told = error_text(error) + printed_error("".join(format_exception(group.exceptions[0])), group)
    assert "horse" not in error_text(error)
    assert "hosts" in told or "line 1" in told


@pytest.mark.parametrize(
    "text",
    [
        "Connecting...",
        "Retrying ... attempt 2 of 3",
        "no such file: '/home/ann/reports/2026-11.csv'",
        "expected one of: a, b, ...",
        "the worker waits… and goes on",
        "",
    ],
)
def test_the_words_of_an_error_stay(text: str) -> None:
    assert error_text(ValueError(text)) == text
    assert error_with_type(ValueError(text)) == (f"ValueError: {text}" if text else "ValueError")


def test_a_printed_error_whose_message_cannot_be_made_stays() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise ValueError

    error = OddError()
    printed = "".join(format_exception(error))
    assert printed_error(printed, error) == printed


async def test_a_tools_error_reaches_the_model_without_torn_values() -> None:
    @tool(category="utility", access="read")
    async def fails() -> str:
        """Fail."""
        return str(_misread_by_pydantic(KEY))

    run: Any = SimpleNamespace(secrets=Redactor())
    told = (await invoke(fails, {}, run)).content
    assert told == "fails failed: ValidationError: 1 problem with _Shop\nhosts: Input should be a valid list"


def test_errors_of_libraries_become_text_in_one_place() -> None:
    """An f-string with the type of an error and the error itself would show what its library has torn."""
    packages = [Path(package.__path__[0]) for package in (zeus_runtime, zeus_plugins)]
    found = set()
    for package in packages:
        for file in package.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                values = node.values if isinstance(node, ast.JoinedStr) else []
                typed = [
                    each.value.value.args[0].id
                    for each in values
                    if isinstance(each, ast.FormattedValue)
                    and isinstance(each.value, ast.Attribute)
                    and each.value.attr == "__name__"
                    and isinstance(each.value.value, ast.Call)
                    and isinstance(each.value.value.args[0], ast.Name)
                ]
                shown = [ast.unparse(each.value) for each in values if isinstance(each, ast.FormattedValue)]
                if any(name in shown or f"str({name})" in shown for name in typed):
                    found.add(file.relative_to(package.parent).as_posix())
    assert found == {
        # Without Zeus on the other machine.
        "zeus_plugins/sandboxes/ssh/remote_agent.py",
        "zeus_plugins/middlewares/hooks/http.py",
        "zeus_plugins/tools/mcp/failures.py",
    }
