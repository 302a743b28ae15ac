"""Plugins are found, blocked, isolated and reported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, RLock, Thread

import pytest

from tests.registry.conftest import WIKI, Discover, Install
from zeus_runtime.config.model import Plugins
from zeus_runtime.errors import MissingError
from zeus_runtime.registry import Plugin, Registry, discover, discovery

OTHER = WIKI.replace("wiki_search", "other_search")


def statuses(registry: Registry) -> dict[str, str]:
    return {plugin.name: plugin.status for plugin in registry.plugins}


def only_problem(registry: Registry) -> str:
    (problem,) = registry.problems
    return str(problem)


def test_a_plugin_registers_what_its_hook_returns(install: Install, find_plugins: Discover) -> None:
    plugin = install("wiki")
    registry = find_plugins()
    found = registry.get("tool", "wiki_search")
    assert (found.name, found.summary) == ("wiki_search", "Searches a wiki.")
    assert str(found.plugin) == "wiki (wiki-dist 1.2.3)"
    assert registry.plugins == (found.plugin,)
    assert statuses(registry) == {"wiki": "loaded"}
    assert registry.problems == ()
    assert plugin.source in sys.modules


def test_a_plugin_may_be_an_object_in_a_module(install: Install, find_plugins: Discover) -> None:
    code = """
    from zeus_runtime.plugin import Component, hookimpl
    class Wiki:
        @hookimpl
        def register_tools(self):
            yield Component("wiki_search", create=print)
    wiki = Wiki()
    """
    install("wiki", code, attribute=":wiki")
    assert find_plugins().names("tool") == ("wiki_search",)


@pytest.mark.parametrize(
    ("plugins", "environ", "reason"),
    [
        (Plugins(disable=("wiki",)), {}, "plugins.disable in the YAML lists it"),
        (Plugins(only=("other",)), {}, "plugins.only in the YAML does not list it"),
        (Plugins(only=()), {}, "plugins.only in the YAML does not list it"),
        (Plugins(only=("wiki", "other"), disable=("wiki",)), {}, "plugins.disable in the YAML lists it"),
        (None, {"ZEUS_DISABLE_PLUGINS": "wiki"}, "ZEUS_DISABLE_PLUGINS lists it"),
        (None, {"ZEUS_DISABLE_PLUGINS": " other , wiki "}, "ZEUS_DISABLE_PLUGINS lists it"),
        (None, {"ZEUS_LOAD_PLUGINS": "other"}, "ZEUS_LOAD_PLUGINS does not list it"),
        (None, {"ZEUS_LOAD_PLUGINS": ""}, "ZEUS_LOAD_PLUGINS does not list it"),
        (Plugins(only=("wiki",)), {"ZEUS_LOAD_PLUGINS": "other"}, "ZEUS_LOAD_PLUGINS does not list it"),
    ],
)
def test_a_blocked_plugin_is_never_imported(
    install: Install, find_plugins: Discover, plugins: Plugins | None, environ: dict[str, str], reason: str
) -> None:
    wiki = install("wiki", "raise AssertionError('imported')")
    install("other", OTHER)
    registry = find_plugins(plugins, environ=environ)
    assert wiki.source not in sys.modules
    assert {plugin.name: plugin.reason for plugin in registry.plugins}["wiki"] == reason
    assert registry.problems == ()


def test_an_allowed_plugin_loads_beside_a_blocked_one(install: Install, find_plugins: Discover) -> None:
    install("wiki")
    install("other", OTHER)
    for plugins, environ in (
        (Plugins(only=("other",)), {}),
        (Plugins(disable=("wiki",)), {}),
        (None, {"ZEUS_LOAD_PLUGINS": "other"}),
        (None, {"ZEUS_DISABLE_PLUGINS": "wiki"}),
    ):
        registry = find_plugins(plugins, environ=environ)
        assert statuses(registry) == {"other": "loaded", "wiki": "blocked"}
        assert registry.names("tool") == ("other_search",)


@pytest.mark.parametrize("key", ["disable", "only"])
def test_an_unknown_name_in_the_yaml_stops_the_run_and_says_what_was_meant(
    install: Install, find_plugins: Discover, key: str
) -> None:
    install("filesystem")
    plugins = Plugins(disable=("filesytem",)) if key == "disable" else Plugins(only=("filesytem",))
    registry = find_plugins(plugins)
    (problem,) = registry.problems
    assert problem.message == (
        f"plugins.{key} names the plugin 'filesytem', which is not installed; did you mean 'filesystem'?"
    )
    assert problem.path == ("plugins", key, 0)
    with pytest.raises(MissingError, match="filesytem") as caught:
        registry.require_plugins()
    assert caught.value.exit_code == 4


def test_every_plugin_that_the_yaml_misses_is_named_at_once(install: Install, find_plugins: Discover) -> None:
    install("wiki")
    registry = find_plugins(Plugins(disable=("wikki",), files=("gone.py",)))
    with pytest.raises(MissingError) as caught:
        registry.require_plugins(lambda path: ":".join(map(str, path)))
    text = str(caught.value)
    assert "plugins:files:0: the plugin file 'gone.py' is not there\n  looked in" in text
    assert "plugins:disable:0: plugins.disable names the plugin 'wikki'" in text


def test_an_unknown_name_in_the_environment_is_said_but_stops_nothing(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki")
    registry = find_plugins(environ={"ZEUS_DISABLE_PLUGINS": "wikki"})
    assert "ZEUS_DISABLE_PLUGINS names the plugin 'wikki'" in only_problem(registry)
    registry.require_plugins()


BROKEN = {
    "import": ("raise RuntimeError('no luck')", "cannot be imported: RuntimeError: no luck (broken_of_"),
    "exit": ("import sys; sys.exit('bye')", "cannot be imported: SystemExit: bye"),
    "syntax": ("def f(:", "cannot be imported: SyntaxError: invalid syntax"),
    "dependency": (
        "import no_such_library",
        "cannot be imported: ModuleNotFoundError: No module named 'no_such_library'",
    ),
    "raises": (
        "@hookimpl\ndef register_tools(): raise KeyError('x')",
        "register_tools raised KeyError: 'x' (broken_of_",
    ),
    "late": (
        "@hookimpl\ndef register_tools():\n  yield Component('t', create=print)\n  raise KeyError('late')",
        "register_tools raised KeyError: 'late'",
    ),
    "nothing": (
        "@hookimpl\ndef register_tools(): pass",
        "register_tools returned None; return a list of Component",
    ),
    "single": (
        "@hookimpl\ndef register_tools(): return Component('t', create=print)",
        "register_tools returned Component",
    ),
    "text": ("@hookimpl\ndef register_tools(): return 'wiki'", "register_tools returned str 'wiki'"),
    "item": (
        "@hookimpl\ndef register_tools(): return [Component('t', create=print), 3]",
        "register_tools returned int '3' at index 1; expected Component",
    ),
    "async": ("@hookimpl\nasync def register_tools(): return []", "register_tools is async"),
    "async observer": ("@hookimpl\nasync def on_event(event): pass", "on_event is async"),
    "name": (
        "@hookimpl\ndef register_tools(): return [Component('Wiki Search', create=print)]",
        "the component name 'Wiki Search'; write lower_snake_case",
    ),
    "create": (
        "@hookimpl\ndef register_tools(): return [Component('t', create='wiki.create')]",
        "'create' of 't' is neither a function nor 'package.module:attribute'",
    ),
    "options": (
        "@hookimpl\ndef register_tools(): return [Component('t', create=print, options='Options')]",
        "'options' of 't' is neither a class nor 'package.module:Class'",
    ),
    "twice": (
        "@hookimpl\ndef register_tools(): return [Component('t', create=print), Component('t', create=print)]",
        "register_tools returned two components named 't'",
    ),
    "home": (
        "from pathlib import Path\n@hookimpl\ndef register_homes(): return [Path('/no/such/home')]",
        "register_homes returned '/no/such/home', which is not an existing folder's absolute path",
    ),
    "signature": (
        "@hookimpl\ndef register_tools(registry): return []",
        "Argument(s) {'registry'} are declared",
    ),
    "default": ("@hookimpl\ndef on_event(event=None): pass", "on_event would never be given 'event'"),
    "unknown hook": (
        "@hookimpl\ndef register_tool(): return []",
        "'register_tool' is not a hook of Zeus; did you mean 'register_tools'?",
    ),
    "no hook": ("def register_tools(): return []", "has no hook; mark its register functions with @hookimpl"),
    "order": (
        "@hookimpl(tryfirst=True)\ndef register_tools(): return []",
        "register_tools asks for a place among plugins",
    ),
    "wrapper": (
        "@hookimpl(wrapper=True)\ndef register_tools(): return (yield)",
        "register_tools asks for a place",
    ),
}


@pytest.mark.parametrize(("code", "says"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_reported_by_name_and_takes_nothing_else_down(
    install: Install, find_plugins: Discover, code: str, says: str
) -> None:
    install("broken", f"from zeus_runtime.plugin import Component, hookimpl\n{code}")
    install("wiki")
    registry = find_plugins()
    report = only_problem(registry)
    assert says in report
    assert "plugin broken (broken-dist 1.2.3)" in report
    assert statuses(registry) == {"broken": "failed", "wiki": "loaded"}
    assert registry.names("tool") == ("wiki_search",)
    registry.require_plugins()


def test_what_a_plugin_prints_while_it_loads_is_not_the_commands_answer(
    install: Install, find_plugins: Discover, capsys: pytest.CaptureFixture[str]
) -> None:
    install(
        "wiki", "print('importing')\n" + WIKI.replace("    return", "    print('registering')\n    return")
    )
    assert find_plugins().names("tool") == ("wiki_search",)
    assert capsys.readouterr() == ("", "importing\nregistering\n")


def test_a_hook_of_a_later_zeus_may_be_declared_optional(install: Install, find_plugins: Discover) -> None:
    install("wiki", WIKI + "\n@hookimpl(optionalhook=True)\ndef register_dreams(): return []\n")
    assert find_plugins().problems == ()


def test_a_plugin_whose_own_module_is_gone_says_reinstall(
    installed: list[Plugin], find_plugins: Discover
) -> None:
    installed.append(Plugin("ghost", "no_such_ghost.plugin", "ghost-dist", "1"))
    assert "reinstall ghost-dist: its own module no_such_ghost is not there" in only_problem(find_plugins())


def test_one_module_under_two_plugin_names_is_reported(
    install: Install, installed: list[Plugin], find_plugins: Discover
) -> None:
    plugin = install("wiki")
    installed.append(Plugin("wiki2", plugin.source, "wiki-dist", "1.2.3"))
    assert "is already loaded as another plugin" in only_problem(find_plugins())


def test_one_name_may_stand_for_components_of_two_kinds(install: Install, find_plugins: Discover) -> None:
    install(
        "wiki", WIKI + "\n@hookimpl\ndef register_models(): return [Component('wiki_search', create=print)]\n"
    )
    registry = find_plugins()
    assert registry.get("model", "wiki_search").kind == "model"
    assert registry.get("tool", "wiki_search").kind == "tool"


def test_a_plugin_file_loads_only_if_the_yaml_names_it(tmp_path: Path, find_plugins: Discover) -> None:
    (tmp_path / "mine.py").write_text(WIKI, encoding="utf-8")
    path = list(sys.path)
    assert find_plugins().plugins == ()
    registry = find_plugins(Plugins(files=("mine.py",)))
    assert str(registry.get("tool", "wiki_search").plugin) == f"mine (file {tmp_path / 'mine.py'})"
    assert sys.path == path
    assert "mine" not in sys.modules


def test_a_plugin_file_may_hold_dataclasses_with_postponed_annotations(
    tmp_path: Path, find_plugins: Discover
) -> None:
    code = """from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar
from zeus_runtime.plugin import Component, hookimpl

@dataclass(frozen=True)
class Options:
    known: ClassVar[int] = 3
    count: int = 1

@hookimpl
def register_tools():
    return [Component("mine", create=print, options=Options)]
"""
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    assert find_plugins(Plugins(files=("mine.py",))).names("tool") == ("mine",)


def test_a_plugin_file_is_looked_for_in_the_homes_after_the_yamls_folder(
    tmp_path: Path, find_plugins: Discover
) -> None:
    home = tmp_path / "home"
    (home / "plugins").mkdir(parents=True)
    (home / "plugins" / "mine.py").write_text(OTHER, encoding="utf-8")
    as_written = Plugins(files=("mine.py",))
    made_absolute = Plugins(files=(str(tmp_path / "mine.py"),))
    for plugins in (as_written, made_absolute):
        assert find_plugins(plugins, homes=(home,)).names("tool") == ("other_search",)
    (tmp_path / "mine.py").write_text(WIKI, encoding="utf-8")
    for plugins in (as_written, made_absolute):
        assert find_plugins(plugins, homes=(home,)).names("tool") == ("wiki_search",)


def test_a_file_elsewhere_is_not_looked_for_in_the_homes(tmp_path: Path, find_plugins: Discover) -> None:
    home = tmp_path / "home"
    (home / "plugins").mkdir(parents=True)
    (home / "plugins" / "mine.py").write_text(OTHER, encoding="utf-8")
    for name in ("/elsewhere/mine.py", "../mine.py"):
        assert "is not there" in only_problem(find_plugins(Plugins(files=(name,)), homes=(home,)))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.py", "the plugin file 'gone.py' is not there"),
        ("../gone.py", "the plugin file '../gone.py' is not there"),
        ("folder.py", "the plugin file 'folder.py' is not there"),
        ("notes.txt", "the plugin file 'notes.txt' is not a .py file"),
        ("broken.py", "cannot be imported: NameError: name 'oops' is not defined (broken.py:2)"),
    ],
)
def test_a_plugin_file_that_does_not_load_stops_the_run(
    tmp_path: Path, find_plugins: Discover, name: str, says: str
) -> None:
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "broken.py").write_text("x = 1\noops\n")
    registry = find_plugins(Plugins(files=(name,)))
    assert says in only_problem(registry)
    with pytest.raises(MissingError) as caught:
        registry.require_plugins(lambda path: ".".join(map(str, path)))
    assert caught.value.where == "plugins.files.0"
    assert not [module for module in sys.modules if module.startswith("_zeus_plugin_file_broken")]


def test_a_plugin_file_that_is_named_twice_loads_once(tmp_path: Path, find_plugins: Discover) -> None:
    (tmp_path / "mine.py").write_text(WIKI, encoding="utf-8")
    registry = find_plugins(Plugins(files=("mine.py", "./mine.py")))
    assert statuses(registry) == {"mine": "loaded"}
    assert registry.problems == ()


def test_a_plugin_file_keeps_its_name_when_an_installed_plugin_has_it_too(
    install: Install, tmp_path: Path, find_plugins: Discover
) -> None:
    install("wiki")
    (tmp_path / "wiki.py").write_text(OTHER, encoding="utf-8")
    registry = find_plugins(Plugins(files=("wiki.py",)))
    assert statuses(registry) == {"wiki": "loaded", "wiki-dist/wiki": "loaded"}
    assert registry.names("tool") == ("other_search", "wiki_search")
    registry.require_plugins()


def test_two_plugin_files_of_one_name_stop_the_run(tmp_path: Path, find_plugins: Discover) -> None:
    (tmp_path / "more").mkdir()
    for name in ("wiki.py", "more/wiki.py"):
        (tmp_path / name).write_text(OTHER, encoding="utf-8")
    registry = find_plugins(Plugins(files=("wiki.py", "more/wiki.py")))
    assert registry.all() == ()
    with pytest.raises(MissingError, match="has the same name as wiki") as caught:
        registry.require_plugins(lambda path: ".".join(map(str, path)))
    assert "plugins.files.1" in str(caught.value)
    assert f"rename {tmp_path / 'more' / 'wiki.py'}" in str(caught.value)


def test_only_does_not_block_a_file_but_the_variables_and_disable_do(
    tmp_path: Path, find_plugins: Discover
) -> None:
    (tmp_path / "mine.py").write_text(WIKI, encoding="utf-8")
    files = ("mine.py",)
    assert statuses(find_plugins(Plugins(files=files, only=()))) == {"mine": "loaded"}
    assert statuses(find_plugins(Plugins(files=files, disable=("mine",)))) == {"mine": "blocked"}
    assert statuses(find_plugins(Plugins(files=files), environ={"ZEUS_LOAD_PLUGINS": ""})) == {
        "mine": "blocked"
    }


def test_plugins_are_listed_by_name_with_files_last(
    install: Install, tmp_path: Path, find_plugins: Discover
) -> None:
    (tmp_path / "alpha.py").write_text(WIKI, encoding="utf-8")
    install("zeta", OTHER)
    install("beta", "broken")
    install("gamma", WIKI.replace("wiki_search", "g"))
    registry = find_plugins(Plugins(files=("alpha.py",), disable=("gamma",)))
    assert list(statuses(registry).items()) == [
        ("beta", "failed"),
        ("gamma", "blocked"),
        ("zeta", "loaded"),
        ("alpha", "loaded"),
    ]


OBJECT = """
from zeus_runtime.plugin import Component, hookimpl

class Plugin:
    {body}

    @hookimpl
    def register_tools(self):
        return [Component("slot_search", create="no_such_module:create", summary="Searches.")]

plugin = Plugin()
"""


def test_an_object_without_a_dict_may_be_a_plugin(install: Install, find_plugins: Discover) -> None:
    install("slots", OBJECT.format(body="__slots__ = ()"), attribute=":plugin")
    registry = find_plugins()
    assert registry.get("tool", "slot_search").component.name == "slot_search"
    assert not registry.problems


@pytest.mark.parametrize("code", ["value = 1", "value = object()", "value = [1]", "value = {}"])
def test_an_object_without_hooks_does_not_affect_the_others(
    install: Install, find_plugins: Discover, code: str
) -> None:
    install("empty", code, attribute=":value")
    install("wiki")
    registry = find_plugins()
    assert "has no hook" in only_problem(registry)
    assert statuses(registry) == {"empty": "failed", "wiki": "loaded"}


def test_an_object_that_raises_when_it_is_read_does_not_affect_the_others(
    install: Install, find_plugins: Discover
) -> None:
    body = "def __dir__(self):\n        raise RuntimeError('broken')"
    install("broken", OBJECT.format(body=body), attribute=":plugin")
    install("wiki")
    registry = find_plugins()
    assert "raised RuntimeError: broken" in only_problem(registry)
    assert statuses(registry) == {"broken": "failed", "wiki": "loaded"}


def test_plugins_that_load_in_two_threads_leave_standard_output_as_it_was(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second thread comes while the first one loads, and ends after it."""
    came, ended = Event(), Event()
    lock = RLock()

    class Told:
        """The lock, which tells when a thread has to wait for it."""

        def __enter__(self) -> None:
            if not lock.acquire(blocking=False):
                came.set()
                lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    monkeypatch.setattr(discovery, "_OUTPUT", Told(), raising=False)
    waiting = """
    from zeus_runtime.plugin import hookimpl
    from tests.registry.test_discovery import MET

    @hookimpl
    def register_tools():
        MET["{name}"]()
        return []
    """
    plugins = {name: install(name, waiting.format(name=name)) for name in ("first", "second")}
    load = {name: partial(discover, environ={}, installed=[plugin]) for name, plugin in plugins.items()}
    second = Thread(target=load["second"])

    def begin() -> None:
        second.start()
        came.wait()

    def end() -> None:
        came.set()
        ended.wait()

    MET.update(first=begin, second=end)
    before = sys.stdout
    try:
        load["first"]()
        ended.set()
        second.join()
        assert sys.stdout is before
    finally:
        sys.stdout = before


MET: dict[str, Callable[[], None]] = {}
