"""Observers see every event and can break nothing."""

from __future__ import annotations

import sys

from tests.registry.conftest import Discover, Install
from tests.registry.test_hookspecs import example
from zeus_runtime.events import Notice, RunCompleted, Text, ToolCallStarted
from zeus_runtime.registry import Observers

BROKEN = """
from zeus_runtime.plugin import hookimpl
@hookimpl
def on_event(event):
    if event.type == "text":
        raise RuntimeError("no luck")
"""


def test_an_observer_sees_the_events(install: Install, find_plugins: Discover) -> None:
    plugin = install("watcher", example("on_event"))
    observers = Observers(find_plugins().observers)
    assert observers.notify(ToolCallStarted("1", "ls", {})) == ()
    assert observers.notify(Text("hello")) == ()
    assert sys.modules[plugin.source].seen == ["ls"]


def test_an_observer_that_fails_is_reported_once_and_the_others_go_on(
    install: Install, find_plugins: Discover
) -> None:
    install("a_broken", BROKEN)
    watcher = install(
        "watcher", example("on_event").replace('"tool_call"', '"text"').replace("tool_name", "text")
    )
    observers = Observers(find_plugins().observers)
    (notice,) = observers.notify(Text("one"))
    assert isinstance(notice, Notice)
    assert notice.code == "observer-failed"
    assert notice.message.startswith(
        "on_event of plugin a_broken (a_broken-dist 1.2.3) raised RuntimeError: no luck (a_broken_of_"
    )
    assert observers.notify(Text("two")) == ()
    assert sys.modules[watcher.source].seen == ["one", "two"]


def test_each_run_reports_anew(install: Install, find_plugins: Discover) -> None:
    install("broken", BROKEN)
    functions = find_plugins().observers
    assert len(Observers(functions).notify(Text("one"))) == 1
    assert len(Observers(functions).notify(Text("one"))) == 1


def test_an_observer_that_exits_does_not_end_the_run(install: Install, find_plugins: Discover) -> None:
    install("quitter", BROKEN.replace('raise RuntimeError("no luck")', "raise SystemExit(3)"))
    observers = Observers(find_plugins().observers)
    assert observers.notify(RunCompleted("session_000000000000", "done", 1)) == ()
    (notice,) = observers.notify(Text("one"))
    assert "raised SystemExit: 3" in notice.message


def test_an_observer_may_leave_the_event_out(install: Install, find_plugins: Discover) -> None:
    code = "from zeus_runtime.plugin import hookimpl\ncount = []\n@hookimpl\ndef on_event():\n    count.append(1)\n"
    plugin = install("counter", code)
    assert Observers(find_plugins().observers).notify(Text("one")) == ()
    assert sys.modules[plugin.source].count == [1]
