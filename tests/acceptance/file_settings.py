"""The workspace and the tools that work on it."""

from __future__ import annotations

import re

from tests.acceptance.settings import Flip, Scene, See
from tests.acceptance.shared_settings import FILES, tool, tool_names
from zeus_runtime.plan.workspace_root import user_name
from zeus_runtime.testing import calling


def stopped(see: See) -> See:
    """After how long a search gave up; how far it came by then is the machine's affair."""

    async def found(scene: Scene) -> str:
        given = re.search(r"stopped after [\d.]+ seconds", str(await see(scene)))
        return "" if given is None else given[0]

    return found


def last_line(see: See) -> See:
    async def last(scene: Scene) -> str:
        return (await see(scene)).splitlines()[-1]

    return last


def written(path: str, name: str) -> See:
    """Where a file is on disk that the model writes."""

    async def see(scene: Scene) -> list[str]:
        (scene.folder / "elsewhere").mkdir()
        await scene.play(calling(("write_file", {"path": path, "content": "x"})), "done")
        return sorted(file for file in scene.files() if file.endswith(name))

    return see


def linked(name: str) -> See:
    """What is read of a file in a folder that has a second name outside of it."""

    async def see(scene: Scene) -> str:
        (scene.folder / name).mkdir()
        (scene.folder / "a.txt").write_text("x")
        (scene.folder / name / "b.txt").hardlink_to(scene.folder / "a.txt")
        return str(await tool("read_file", path=f"/{name}/b.txt")(scene)).splitlines()[0]

    return see


def todos(*contents: str) -> See:
    given = [{"content": content, "status": "pending"} for content in contents]
    return tool("write_todos", todos=given)


FILED = (
    Flip("workspace.root", "elsewhere", written("/a.txt", "a.txt"), ["a.txt"], ["elsewhere/a.txt"], FILES),
    Flip(
        "workspace.routes",
        {"/kept/": "elsewhere"},
        written("/kept/a.txt", "a.txt"),
        ["kept/a.txt"],
        ["elsewhere/a.txt"],
        FILES,
    ),
    Flip(
        "tool:filesystem.read_only",
        True,
        tool_names,
        ["ls", "read_file", "write_file", "edit_file", "glob", "grep"],
        ["ls", "read_file", "glob", "grep"],
        FILES,
    ),
    Flip(
        "tool:filesystem.max_read_lines",
        1,
        tool("read_file", path="/three.txt"),
        "1\tone\n2\ttwo\n3\tthree",
        "1\tone\n[lines 1-1 of 3; continue with offset=2]",
        FILES,
    ),
    Flip(
        "tool:filesystem.max_line_chars",
        20,
        tool("read_file", path="/wide.txt"),
        f"1\t{'x' * 30}",
        f"1\t{'x' * 20}... [cut: the line has 30 bytes; grep shows parts of it]",
        FILES,
    ),
    Flip(
        "tool:filesystem.max_result_chars",
        1_000,
        last_line(tool("read_file", path="/long.txt")),
        "500\tword",
        "[lines 1-123 of 500; continue with offset=124]",
        FILES,
    ),
    Flip(
        "tool:filesystem.max_results",
        1,
        tool("glob", pattern="*.txt"),
        "/aaa.txt\n/long.txt\n/three.txt\n/wide.txt",
        "/aaa.txt\n[the first 1; there are more: narrow path or pattern]",
        FILES,
    ),
    Flip(
        "tool:filesystem.max_write_bytes",
        3,
        last_line(tool("write_file", path="/new.txt", content="four")),
        "Created /new.txt (1 line, 4 bytes).",
        "  Write several smaller files.",
        FILES,
    ),
    Flip(
        "tool:filesystem.timeout_seconds",
        0.2,
        stopped(tool("grep", pattern="(a|aa)+$", path="/aaa.txt")),
        "stopped after 0.4 seconds",
        "stopped after 0.2 seconds",
        {"tools": [{"filesystem": {"timeout_seconds": 0.4}}]},
    ),
    Flip(
        "tool:filesystem.ignore",
        ["b.*"],
        tool("glob", pattern="**/*.log"),
        "/sub/b.log",
        "/sub/venv/a.log",
        FILES,
    ),
    Flip(
        "tool:filesystem.protected",
        ["*.txt"],
        last_line(tool("write_file", path="/new.txt", content="four")),
        "Created /new.txt (1 line, 4 bytes).",
        "  Do not try another way; tell the user if the task needs it.",
        FILES,
    ),
    Flip(
        "workspace.access",
        {"*.txt": "read"},
        last_line(tool("write_file", path="/new.txt", content="four")),
        "Created /new.txt (1 line, 4 bytes).",
        "  Do not try another way; tell the user if the task needs it.",
        FILES,
    ),
    Flip(
        "workspace.per",
        "user",
        written("/a.txt", "a.txt"),
        ["a.txt"],
        [f"{user_name(['ann'])}/a.txt"],
        {**FILES, "memory": {"user": "ann"}},
    ),
    Flip(
        "workspace.quota.bytes",
        1,
        last_line(tool("write_file", path="/new.txt", content="four")),
        "Created /new.txt (1 line, 4 bytes).",
        "  Remove files that are not needed, or write less.",
        FILES,
    ),
    Flip(
        "workspace.quota.files",
        1,
        last_line(tool("write_file", path="/new.txt", content="four")),
        "Created /new.txt (1 line, 4 bytes).",
        "  Remove files that are not needed, or write less.",
        FILES,
    ),
    Flip(
        "workspace.hard_links",
        ["kept"],
        linked("kept"),
        "/kept/b.txt has 2 names (hard links), and the others may be files that no tool may read.",
        "1\tx",
        FILES,
    ),
    Flip(
        "tool:todos.max_items",
        1,
        last_line(todos("a", "b")),
        "Task list updated: 2 pending.",
        "- 2 tasks are too many (at most 1): combine small ones.",
        {"tools": [{"todos": {}}]},
    ),
    Flip(
        "tool:todos.max_chars",
        3,
        last_line(todos("four")),
        "Task list updated: 1 pending.",
        "- Task 1 has 4 characters (at most 3): shorten it.",
        {"tools": [{"todos": {}}]},
    ),
)
