"""Plugins made of a few lines of code, as if they were installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from zeus_runtime.config.model import Plugins
from zeus_runtime.registry import Plugin, Registry, discover
from zeus_runtime.trust.decision import recorded_trust

Install = Callable[..., Plugin]
Discover = Callable[..., Registry]

WIKI = """
from zeus_runtime.plugin import Component, hookimpl

@hookimpl
def register_tools():
    return [Component("wiki_search", create="no_such_module:create", summary="Searches a wiki.")]
"""


@pytest.fixture
def installed() -> list[Plugin]:
    """The plugins this test has installed, in the order in which it did."""
    return []


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: list[Plugin]) -> Iterator[Install]:
    """``install(name, code)`` makes a plugin of the distribution ``{name}-dist 1.2.3``."""
    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def install(
        name: str, code: str = WIKI, *, distribution: str | None = None, attribute: str = ""
    ) -> Plugin:
        module = f"{name}_of_{tmp_path.name.replace('-', '_')}_{len(modules)}"
        (tmp_path / f"{module}.py").write_text(dedent(code), encoding="utf-8")
        modules.append(module)
        plugin = Plugin(name, f"{module}{attribute}", distribution or f"{name}-dist", "1.2.3")
        installed.append(plugin)
        return plugin

    yield install
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def find_plugins(installed: list[Plugin], tmp_path: Path) -> Discover:
    """``discover`` over the test's own plugins and environment."""

    def find_plugins(
        plugins: Plugins | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        homes: tuple[Path, ...] = (),
    ) -> Registry:
        return discover(
            plugins,
            environ=environ or {},
            directory=tmp_path,
            homes=homes,
            installed=installed,
            trust=recorded_trust({"ZEUS_TRUST": "all"}),
        )

    return find_plugins
