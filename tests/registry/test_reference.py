"""What a component names is imported at first use, and a missing dependency comes with its remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from zeus_runtime.errors import MissingError
from zeus_runtime.registry import Component, Plugin, Registered, load_create, load_options, resolve

PLUGIN = Plugin("wiki", "wiki.plugin", "zeus-wiki-test", "0.3")


def registered(**fields: object) -> Registered:
    return Registered("tool", Component("wiki", **{"create": print, **fields}), PLUGIN)  # type: ignore[arg-type]


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution that declares a plain and an optional dependency, neither of them there."""
    info = tmp_path / "zeus_wiki_test-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: zeus-wiki-test\nVersion: 0.3\nRequires-Dist: missing-core>=1\n"
        "Requires-Dist: missing.Search[fast]>=2; python_version > '3' and extra == 'search'\n"
        "Provides-Extra: search\n"
    )
    for module, imports in (("needs_search", "missing_search.deep"), ("needs_core", "missing_core")):
        (tmp_path / f"{module}.py").write_text(f"import {imports}\n")
    (tmp_path / "needs_unknown.py").write_text("import missing_unknown\n")
    (tmp_path / "fails.py").write_text("def create():\n    pass\n\nraise ValueError('on  purpose\\n')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_reference_is_imported_when_it_is_needed_and_not_before() -> None:
    sys.modules.pop("this", None)
    component = registered(create="fractions:Fraction", options="collections:OrderedDict")
    assert load_create(component)(1, 2) * 2 == 1
    assert load_options(component) is __import__("collections").OrderedDict
    assert resolve(component, "os:path.join") is __import__("os").path.join


def test_functions_and_classes_are_taken_as_they_are() -> None:
    assert load_create(registered()) is print
    assert load_options(registered()) is None
    assert load_options(registered(options=dict)) is dict


@pytest.mark.parametrize(
    ("reference", "remedy"),
    [
        ("needs_search:create", "pip install 'zeus-wiki-test[search]'"),
        ("needs_core:create", "pip install 'missing-core'"),
        ("needs_unknown:create", "install the distribution that brings the module 'missing_unknown'"),
        ("not_there.at_all:create", "reinstall zeus-wiki-test: its own module not_there is not there"),
    ],
)
def test_a_missing_module_names_the_plugin_and_what_to_install(
    distribution: Path, reference: str, remedy: str
) -> None:
    with pytest.raises(MissingError) as caught:
        load_create(registered(create=reference))
    assert f"plugin wiki (zeus-wiki-test 0.3) needs {reference}: ModuleNotFoundError" in caught.value.message
    assert caught.value.remedy is not None
    assert remedy in caught.value.remedy
    assert caught.value.exit_code == 4


def test_an_import_that_fails_otherwise_says_where(distribution: Path) -> None:
    with pytest.raises(MissingError, match=r"needs fails:create: ValueError: on purpose \(fails\.py:4\)"):
        load_create(registered(create="fails:create"))


def test_an_attribute_that_is_not_there_is_the_plugins_fault() -> None:
    with pytest.raises(
        MissingError, match="names fractions:Fracture, but fractions has no 'Fracture'"
    ) as caught:
        load_create(registered(create="fractions:Fracture"))
    assert (
        caught.value.remedy == "report it to the authors of zeus-wiki-test, or add 'wiki' to plugins.disable"
    )


def test_a_create_that_is_no_function_and_options_that_are_no_class_are_refused() -> None:
    with pytest.raises(MissingError, match="math:pi is not a function"):
        load_create(registered(create="math:pi"))
    with pytest.raises(MissingError, match="math:pi is not a class"):
        load_options(registered(options="math:pi"))
