"""The public names are a promise: a change of them is a change of the committed list."""

from __future__ import annotations

import os
import pkgutil
from importlib import import_module
from pathlib import Path

import zeus_runtime
from zeus_runtime import plugin

LIST = Path(__file__).parent / "data/public_names.txt"
MODULES = (
    "zeus_runtime",
    "zeus_runtime.plugin",
    *(f"zeus_runtime.plugin.{each.name}" for each in pkgutil.iter_modules(plugin.__path__)),
)


def test_public_names_are_the_committed_ones() -> None:
    names = "".join(
        f"{module}.{name}\n" for module in MODULES for name in sorted(import_module(module).__all__)
    )
    if os.environ.get("ZEUS_GOLDEN"):
        LIST.write_text(names)
    assert names == LIST.read_text(), "run this test with ZEUS_GOLDEN=1, bump API_VERSION if a name has gone"


def test_programs_need_few_names() -> None:
    assert len(zeus_runtime.__all__) <= 45


def test_each_name_is_in_its_module_and_in_one_only() -> None:
    homes: dict[str, str] = {}
    for module in MODULES[1:]:
        for name in import_module(module).__all__:
            assert hasattr(import_module(module), name)
            assert homes.setdefault(name, module) == module


def test_each_module_says_how_to_use_it() -> None:
    for module in MODULES:
        assert len(import_module(module).__doc__ or "") > 80, module
