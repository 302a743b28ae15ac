"""A library that another one imports without need is executed at first use, and is then as if it had been imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from zeus_runtime.lazy import postponed

HEAVY = "heavy_library"
SOURCE = """
import heavy_log
heavy_log.executed.append(__name__)

class Client:
    kind = "client"

def opened(name):
    return f"opened {name}"
"""


@pytest.fixture(autouse=True)
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The modules that were executed, of a package on the path."""
    package = tmp_path / HEAVY
    package.mkdir()
    (package / "__init__.py").write_text(SOURCE)
    (package / "part.py").write_text("import heavy_log\nheavy_log.executed.append(__name__)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    log = ModuleType("heavy_log")
    log.executed = []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "heavy_log", log)
    yield log.executed  # type: ignore[attr-defined]
    for name in [name for name in sys.modules if name.startswith(HEAVY)]:
        del sys.modules[name]


def imported(name: str) -> object:
    """``from heavy_library import name``."""
    found: dict[str, object] = {}
    exec(f"from {HEAVY} import {name} as found", found)
    return found["found"]


def test_a_named_import_executes_the_module_at_first_use(executed: list[str]) -> None:
    with postponed(HEAVY, "Client", "opened"):
        client, opened = imported("Client"), imported("opened")
    assert not executed
    assert opened("a door") == "opened a door"  # type: ignore[operator]
    assert executed == [HEAVY]
    assert client.kind == "client"  # type: ignore[attr-defined]
    assert isinstance(client(), import_module(HEAVY).Client)  # type: ignore[operator]
    assert executed == [HEAVY]


def test_a_named_import_can_be_used_inside(executed: list[str]) -> None:
    with postponed(HEAVY, "Client"):
        assert imported("Client").kind == "client"  # type: ignore[attr-defined]
        assert isinstance(imported("Client"), type)
    assert executed == [HEAVY]


def test_every_other_name_is_the_real_one(executed: list[str]) -> None:
    with postponed(HEAVY, "Client"):
        assert imported("opened").__module__ == HEAVY
        assert executed == [HEAVY]


def test_a_later_import_is_the_real_module(executed: list[str]) -> None:
    with postponed(HEAVY, "Client"):
        imported("Client")
    assert isinstance(imported("Client"), type)
    module = import_module(HEAVY)
    assert type(module) is ModuleType
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        _ = module.absent
    assert executed == [HEAVY]


def test_a_part_is_imported_without_its_package(executed: list[str]) -> None:
    with postponed(HEAVY):
        part = import_module(f"{HEAVY}.part")
    assert executed == [f"{HEAVY}.part"]
    assert import_module(HEAVY).part is part
    assert import_module(HEAVY).opened("x")
    assert executed == [f"{HEAVY}.part", HEAVY]


def test_a_module_that_is_there_or_is_missing_is_left_alone(executed: list[str]) -> None:
    before = import_module(HEAVY)
    with postponed(HEAVY, "Client"), postponed("no_such_library", "Client"):
        assert imported("Client") is before.Client
        with pytest.raises(ModuleNotFoundError):
            import_module("no_such_library")


def test_a_module_that_fails_fails_at_each_use(tmp_path: Path, executed: list[str]) -> None:
    (tmp_path / HEAVY / "__init__.py").write_text("1 / 0")
    with postponed(HEAVY, "Client"):
        client = imported("Client")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            client()  # type: ignore[operator]
