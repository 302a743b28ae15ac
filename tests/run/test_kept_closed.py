"""What Zeus keeps for a session is opened for no tool's call only where the code asks for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.agents import TOOLS, call, calling, events_of, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.errors import NotFoundError, UsageError
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.tools import WorkspaceError
from zeus_runtime.tools.calling_tool import calling as calling_tool
from zeus_runtime.tools.calling_tool import reading_kept

SECRET = "KRONOS-4711"
READS = (
    TOOLS
    + """
import json
from zeus_runtime.plugin.middleware import Middleware

def look(context, place):
    for path in ("/notes.md", "/own.md"):
        try:
            found = context.workspace.read(path, max_bytes=100_000).decode()[:50]
        except Exception as error:
            found = type(error).__name__
        with open(context.directory / "seen.jsonl", "a") as file:
            print(json.dumps([place, path, found]), file=file)

class Reads(Middleware):
    def __init__(self, options, context):
        self.context = context
        look(context, "create")

    @classmethod
    def tools(cls, options, context):
        look(context, "tools")
        return []

    async def sections(self, turn):
        look(self.context, "sections")
        return {}

    async def edits(self, view, budget):
        look(self.context, "edits")
        return ()

    async def wrap_run(self, turn, call_next):
        look(self.context, "wrap_run")
        await call_next(turn)

    async def wrap_tool_call(self, call, call_next):
        look(self.context, "wrap_tool_call")
        return await call_next(call)

@hookimpl
def register_middlewares():
    return [Component("reads", create=Reads)]
"""
)
IN_A_RUN = {"sections", "edits", "wrap_run", "wrap_tool_call"}


def another(folder: Path) -> Path:
    """A file that another session kept."""
    kept = folder / ".zeus/large_tool_results/another_1.txt"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(SECRET)
    return kept


def seen(folder: Path, path: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in (folder / "seen.jsonl").read_text().splitlines():
        place, at, text = json.loads(line)
        if at == path:
            found.setdefault(place, set()).add(text)
    return found


async def test_a_middleware_reads_nothing_of_another_session_through_a_link(tmp_path: Path) -> None:
    """A command made the link; where a plan, or a compaction without a run, opened it, nothing was closed."""
    (tmp_path / "notes.md").symlink_to(another(tmp_path))
    (tmp_path / "own.md").symlink_to(".zeus/large_tool_results/a")
    long = "mine " * 900
    model = script(
        calling(call("echo", "a", text=long)), "Done.", calling(call("echo", "b", text="x")), "Done."
    )
    yaml = "middlewares: [reads, {eviction: {max_tokens: 100}}]\n"
    write_agent(tmp_path, yaml, plugin=READS, tools="[probe, filesystem]")
    async with Agent.from_config(directory=tmp_path, model=model, trust="all") as agent:
        session = (await agent.run("go")).session
        await agent.run("again", session=session)
        await agent.compact(session)
    assert SECRET not in (tmp_path / "seen.jsonl").read_text()
    own = seen(tmp_path, "/own.md")
    assert set(own) == {"tools", "create", *IN_A_RUN}
    read = {place for place, texts in own.items() if any("mine mine" in each for each in texts)}
    assert read == IN_A_RUN


async def test_a_file_of_a_message_is_its_own_also_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("attached")
    write_agent(tmp_path, "middlewares: [resources]\n", tools="[probe, filesystem]")
    async with Agent.from_config(directory=tmp_path, model=script("Done."), trust="all") as agent:
        (ending,) = (await events_of(agent.stream("see", attachments=["a.txt"])))[-1:]
        about = (await agent.history(ending.session))[0].additional_kwargs
        path = about["references"][0]["copy"]
        assert (await agent.message_file(ending.session, 1, path)).data == b"attached"
        copy = tmp_path / ".zeus" / path.lstrip("/")
        copy.unlink()
        others = copy.parent.parent / "another/b.txt"
        others.parent.mkdir()
        others.write_text(SECRET)
        copy.symlink_to("../another/b.txt")
        with pytest.raises(NotFoundError):
            await agent.message_file(ending.session, 1, path)


async def test_a_link_to_what_is_kept_is_not_attached(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to(another(tmp_path))
    write_agent(tmp_path, "middlewares: [resources]\n", tools="[probe, filesystem]")
    async with Agent.from_config(directory=tmp_path, model=script("Done."), trust="all") as agent:
        with pytest.raises(UsageError, match="kept no such file"):
            await events_of(agent.stream("see", attachments=["a.txt"]))


@pytest.mark.parametrize("approved", [False, True])
@pytest.mark.parametrize(
    ("of_session", "own", "opens"),
    [
        (False, None, False),
        (False, ["r1"], False),
        (True, None, False),
        (True, ["r2"], False),
        (True, ["r1"], True),
    ],
)
def test_code_without_a_tool_opens_what_is_kept_only_if_it_says_so(
    tmp_path: Path, approved: bool, of_session: bool, own: Sequence[str] | None, opens: bool
) -> None:
    config = write_agent(tmp_path, tools="[filesystem]")
    files = make_plan(check(config, directory=tmp_path, environ={})).context.workspace
    files.runtime.write("/large_tool_results/r1", b"x")
    may_read = {f"/large_tool_results/{each}" for each in own or ()}.__contains__

    def opened() -> bool:
        try:
            return bool(files.read("/large_tool_results/r1", max_bytes=10))
        except WorkspaceError:
            return False

    with calling_tool(None, approved=approved, of_session=of_session):
        if own is None:
            assert opened() is opens
            return
        with reading_kept(may_read):
            assert opened() is opens
