"""Work as a user keeps it: a folder with a config, a database, an archive, memories, a knowledge base, a cassette.

``stored_work.tar.gz`` was made once, by this module, and is never made anew for a change of the code:
``python -m tests.guards.stored_work`` writes another one where the format gains something that is worth keeping too.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support import forked
from tests.support.provider import Call, Provider, Received, Reply

ARCHIVE: Final = Path(__file__).with_name("stored_work.tar.gz")

GOLDEN: Final = Path(__file__).with_name("stored_work")
"""The outputs of commands on the day the folder was made."""

CONFIG: Final = """\
# Every section that a stored session depends on, as of the day the folder was made.
version: 1
name: keeper
description: Keeps what was made before.
model:
  litellm: {model: openai/acme-chat, api_base: "${ACME_BASE}", max_tokens: 900}
instructions: |
  Work in steps and write down what you find.
tools: [filesystem, todos, subagents, knowledge, memory]
agents:
  reader: {description: Reads files., instructions: "Read, then answer in a line."}
middlewares:
  - pins: {first_user: true}
  - eviction: {max_tokens: 800}
  - dedupe
  - truncation
  - summarization: {trigger: {messages: 12}, keep: {messages: 4}, reuse_cache: false}
  - recall
  - memory
  - caching
  - approve: {ask: ["glob"], allow: ["*"]}
workspace: {root: work, access: {"/secret/**": deny}}
memory: {user: ann, project: argo}
knowledge: [handbook]
profiles:
  models:
    openai/acme-chat: {max_input_tokens: 30000, input_cost_per_token: 0.000001, output_cost_per_token: 0.00001}
retry: {initial_seconds: 0.01}
limits: {max_steps: 40, max_cost_usd: 2.0}
"""


def environment(folder: Path, base: str) -> dict[str, str]:
    """The environment of a `zeus` in ``folder`` with the provider at ``base``."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("ZEUS_", "XDG_", "COV_"))}
    home = folder.parent / "home"
    return {
        **clean,
        "HOME": str(home),
        "ACME_BASE": base,
        "OPENAI_API_KEY": "sk-guard-0123456789",
        "ZEUS_TRUST": "all",
        "NO_COLOR": "1",
        "TZ": "UTC",
    }


def zeus(folder: Path, base: str, *words: str, code: int = 0, stdin: str = "") -> str:
    """The output of a `zeus` in a process of its own, which must end with ``code``."""
    done = forked.run(
        [sys.executable, "-m", "zeus_runtime", *words],
        cwd=folder,
        env=environment(folder, base),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"zeus {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def call(name: str, number: int, **arguments: Any) -> Reply:
    return Reply(calls=[Call(name, json.dumps(arguments), f"call_{number}")])


def replies() -> Sequence[Reply]:
    """The model's answers of all runs, in their order."""
    long = "\n".join(f"{line}: the harbour of Ithaca, berth {line % 7}" for line in range(400))
    work = {"description": "read the notes", "prompt": "Read /notes.md and say its title.", "agent": "reader"}
    turns = [
        reply
        for turn in range(6)
        for reply in (
            call("write_file", 20 + turn, path=f"/turn{turn}.md", content=f"turn {turn}\n"),
            Reply(f"Turn {turn} is written."),
        )
    ]
    return [
        call("write_todos", 1, todos=[{"content": "read", "status": "in_progress"}]),
        call("write_file", 2, path="/long.txt", content=long),
        call("read_file", 3, path="/long.txt"),
        Reply("The first part is done."),
        call("memory_save", 4, content="Ann prefers short answers."),
        call("task", 5, **work),
        call("read_file", 6, path="/notes.md"),
        Reply("Notes of the Argo."),
        *turns,
        call("glob", 40, pattern="/turn*.md"),
    ]


def answers(*turns: Reply) -> Callable[[Received], Reply]:
    """Answer a session's requests in their order; a request for a summary, which has no tools, gets its own."""
    waiting = iter(turns)
    summary = Reply("The user asked for a report. It is being written.")
    return lambda request: next(waiting) if request.body.get("tools") else summary


def make(folder: Path) -> None:
    """Fill ``folder`` with a user's work."""
    (folder / "work/secret").mkdir(parents=True)
    (folder.parent / "home").mkdir(exist_ok=True)
    (folder / "zeus.yaml").write_text(CONFIG)
    (folder / "work/notes.md").write_text("# Notes of the Argo\n\nFifty oars.\n")
    (folder / "work/secret/key.txt").write_text("not for agents\n")
    (folder / "handbook.md").write_text("# Handbook\n\nThe anchor weighs two hundred pounds.\n")
    with Provider(answer=answers(*replies())) as provider:
        base = provider.openai
        zeus(folder, base, "kb", "add", "handbook", "handbook.md")
        zeus(folder, base, "memory", "add", "The Argo sails on Monday.")
        zeus(
            folder, base, "run", "zeus.yaml", "Read the notes and write a report.", "--record", "first.jsonl"
        )
        for turn in range(6):
            zeus(folder, base, "run", "zeus.yaml", f"Write turn {turn}.", "--continue")
        zeus(folder, base, "run", "zeus.yaml", "List the turns.", code=7)
        zeus(folder, base, "sessions", "archive", first_session(folder, base))


def first_session(folder: Path, base: str) -> str:
    found: list[Mapping[str, Any]] = json.loads(zeus(folder, base, "sessions", "list", "--json"))
    return str(max(found, key=lambda each: each["messages"])["session"])


def looks(folder: Path) -> dict[str, str]:
    """The output of the commands that only read, by the name of a golden file; what is archived is restored."""
    archived = zeus(folder, "", "sessions", "list", "--archived", "--json")
    found = {
        "archived.json": archived,
        "approvals.json": zeus(folder, "", "approvals", "pending", "--json"),
        "memories.jsonl": zeus(folder, "", "memory", "export", "--all"),
        "memory_found.txt": zeus(folder, "", "memory", "search", "when does the ship sail"),
        "knowledge.json": zeus(folder, "", "kb", "search", "handbook", "anchor weight", "--json"),
    }
    (first,) = [each for each in json.loads(archived) if not each["parent"]]
    zeus(folder, "", "sessions", "restore", first["session"])
    for each in json.loads(zeus(folder, "", "sessions", "list", "--all", "--json")):
        name = each["session"]
        exported = zeus(folder, "", "sessions", "export", name)
        # A restored session counts as used at the time of its restoring.
        found[f"{name}.json"] = re.sub(r'^  "updated_ms": \d+', '  "updated_ms": 0', exported, flags=re.M)
        found[f"{name}.context.json"] = zeus(folder, "", "context", "show", "-s", name, "--format", "json")
    return {name: text.replace(str(folder), "<folder>") for name, text in found.items()}


def goes_on(folder: Path) -> dict[str, str]:
    """The messages after the system prompt that a model gets when sessions of ``folder`` are continued and resumed."""
    (asked,) = json.loads(zeus(folder, "", "approvals", "pending", "--json"))
    listed = json.loads(zeus(folder, "", "sessions", "list", "--json"))
    (first,) = [
        each["session"] for each in listed if each["session"] != asked["session"] and not each["parent"]
    ]
    with Provider(answer=answers(Reply("Onward."), Reply("Listed."))) as provider:
        base = provider.openai
        zeus(folder, base, "run", "zeus.yaml", "--session", first, "Go on.")
        # A request of an earlier Zeus is not bound to the settings of its tool, so it is asked again, once.
        zeus(folder, base, "resume", asked["session"], "--decide", f"{asked['id']}=approve", code=7)
        (again,) = json.loads(zeus(folder, "", "approvals", "pending", "--json"))
        assert [again[key] for key in ("session", "tool_name")] == [
            asked[key] for key in ("session", "tool_name")
        ]
        zeus(folder, base, "resume", asked["session"], "--decide", f"{again['id']}=approve")
        sent = [each.body["messages"][1:] for each in provider.requests]
    assert "/turn5.md" in sent[-1][-1]["content"]
    return {"sent.json": json.dumps(sent, indent=1, ensure_ascii=False).replace(str(folder), "<folder>")}


def unpacked(into: Path) -> Path:
    """The stored folder, unpacked below ``into``."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(into, filter="data")
    (into / "home").mkdir(exist_ok=True)
    return into / "project"


def main() -> None:
    """Make the archive anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "project"
        make(folder)
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.name.endswith((".lock", "-wal", "-shm")):
                    archive.add(path, f"project/{path.relative_to(folder)}")
        ARCHIVE.write_bytes(data.getvalue())
        for old in GOLDEN.glob("*"):
            old.unlink()
        GOLDEN.mkdir(exist_ok=True)
        for file, text in (looks(folder) | goes_on(folder)).items():
            (GOLDEN / file).write_text(text)
    print(f"wrote {ARCHIVE}, {ARCHIVE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
