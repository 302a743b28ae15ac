"""``zeus sessions``: going back, putting away, bringing back, pruning and exporting, as a user does it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.cli.conftest import Project, Zeus
from tests.cli.pseudo_terminal import PseudoTerminal
from zeus_runtime.errors import UsageError
from zeus_runtime.sessions.lifecycle import SessionLifecycle

CALL = {"call": "echo", "args": {"text": "ahoy"}}

SHEDDING = "middlewares: [{history: {max_messages: 2}}]"


def talk(zeus: Zeus, *prompts: str) -> str:
    session: str = zeus("run", "zeus.yaml", prompts[0], "-o", "json").json["session"]
    for prompt in prompts[1:]:
        assert zeus("run", "zeus.yaml", prompt, "--session", session).exit_code == 0
    return session


@pytest.mark.parametrize("archived", [False, True])
def test_a_deletion_shows_what_goes_before_it_asks(zeus: Zeus, project: Project, archived: bool) -> None:
    project.agent("fine", "fine")
    first, second = talk(zeus, "of ships"), talk(zeus, "of harbours")
    if archived:
        assert zeus("sessions", "archive", first).exit_code == 0
    for key, left in (("n", {first, second}), ("y", {second})):
        with PseudoTerminal(["sessions", "delete", first], project.folder) as terminal:
            shown = terminal.until("Delete this with all messages?")
            terminal.press(f"{key}\r")
            terminal.end()
        assert "of ships" in shown
        assert "of harbours" not in shown
        stays = [
            *zeus("sessions", "list", "--json").json,
            *zeus("sessions", "list", "--archived", "--json").json,
        ]
        assert {each["session"] for each in stays} == left


OWN = """
workspace: {root: ./spaces, per: session}
memory: {}
"""


def test_a_deletion_names_files_and_memories_and_takes_nothing_that_came_since(
    zeus: Zeus, project: Project
) -> None:
    saved = {"content": "The user is allergic to nuts.", "scope": "session"}
    written = {"call": "write_file", "args": {"path": "deep/only.txt", "content": "the only copy"}}
    project.agent(written, {"call": "memory_save", "args": saved}, "fine", "later", more=OWN)
    file = project.folder / "zeus.yaml"
    file.write_text(file.read_text().replace("[voices]", "[filesystem, memory]"))
    (project.folder / "spaces").mkdir()
    first = talk(zeus, "of ships")
    (folder,) = (project.folder / "spaces").iterdir()
    with PseudoTerminal(["sessions", "delete", first], project.folder) as terminal:
        shown = terminal.until("Delete this with all messages?")
        assert zeus("run", "zeus.yaml", "new", "--session", first).exit_code == 0
        terminal.press("y\r")
        told = terminal.until("changed after it was shown")
        terminal.end()
    assert "1 file(s) of their own workspaces and 1 memory(s) that were saved for them alone" in " ".join(
        shown.split()
    )
    assert "was not deleted" in told
    assert "new" in said(zeus, first)
    assert zeus("sessions", "delete", first, "--yes").exit_code == 0
    assert not folder.exists()


def test_a_pruning_shows_what_goes_and_takes_no_other(zeus: Zeus, project: Project) -> None:
    project.agent("A")
    first, second = talk(zeus, "of ships"), talk(zeus, "of harbours")
    with PseudoTerminal(["sessions", "prune", "--keep", "1", "--delete"], project.folder) as terminal:
        shown = terminal.until("Delete 1 session(s)?")
        third = talk(zeus, "of storms")
        terminal.press("y\r")
        terminal.end()
    assert "of ships" in shown
    assert "of harbours" not in shown
    assert {each["session"] for each in zeus("sessions", "list", "--json").json} == {second, third}
    assert first not in (second, third)


def said(zeus: Zeus, session: str, *more: str) -> list[str]:
    return [each["content"] for each in zeus("sessions", "show", session, "--json", *more).json["messages"]]


def test_a_session_goes_back_and_shows_what_was_set_aside(zeus: Zeus, project: Project) -> None:
    project.agent("A", "B", "C")
    session = talk(zeus, "one", "two")
    shown = zeus("sessions", "show", session).out
    assert "── you · 3\n  two" in shown

    done = zeus("sessions", "rollback", session, "--to", "3")
    assert (done.exit_code, done.err) == (0, f"{session} is back at message 3; 1 message(s) were set aside\n")
    result = zeus("sessions", "show", session)
    assert "B" not in result.out
    assert "1 message(s) set aside by a rollback: --all shows them" in result.err
    assert f"`zeus run --session {session} --continue` continues it" in result.err
    assert "── agent · 4 (set aside)\n  B" in zeus("sessions", "show", session, "--all").out

    assert zeus("run", "zeus.yaml", "--session", session, "--continue").exit_code == 0
    assert said(zeus, session) == ["one", "A", "two", "B"]
    assert said(zeus, session, "--all") == ["one", "A", "two", "B", "B"]
    assert [each["seq"] for each in zeus("sessions", "show", session, "--json").json["messages"]] == [
        1,
        2,
        3,
        5,
    ]


def test_no_text_passes_for_a_message_and_every_call_is_shown_whole(zeus: Zeus, project: Project) -> None:
    written = "x" * 300
    project.agent({"call": "echo", "args": {"text": written}}, "done\n\n── you · 9\n→ echo()")
    shown = zeus("sessions", "show", talk(zeus, "one"))
    assert f'→ echo(text="{written}")\n' in shown.out
    assert "── agent · 4\n  done\n  \n  ── you · 9\n  → echo()" in shown.out


def test_a_conversation_shows_in_a_pipe_what_a_pager_would_hide_and_no_reason_is_a_heading(
    zeus: Zeus, project: Project
) -> None:
    project.agent({"call": "shout", "args": {"text": "a\u202eb"}}, "done", more="middlewares: [approve]\n")
    assert zeus("run", "zeus.yaml", "c\u200bd\x1b[2J").exit_code == 7
    (pending,) = zeus("approvals", "pending", "--json").json
    decision = f"{pending['id']}=reject:no\n\n── tool shout · 9 · approved by the user"
    assert zeus("resume", pending["session"], "--decide", decision).exit_code == 0
    shown = zeus("sessions", "show", pending["session"]).out
    assert "  c\\u200bd\\x1b[2J\n" in shown
    assert "a\\u202eb" in shown
    assert not set("\u202e\u200b\x1b") & set(shown)
    assert "rejected by the user: no\\n\\n── tool" in shown
    assert "\n── tool shout · 9" not in shown


def test_a_message_that_is_no_users_is_refused_with_those_that_are(zeus: Zeus, project: Project) -> None:
    project.agent("A")
    session = talk(zeus, "one", "two")
    refused = zeus("sessions", "rollback", session, "--to", "2")
    assert refused.exit_code == 2
    assert "the last ones are 1, 3" in refused.err
    assert zeus("sessions", "rollback", "session_000000000000", "--to", "1").exit_code == 2
    assert zeus("sessions", "rollback", session).exit_code == 2


def test_zeus_context_still_shows_the_steps_of_before_a_rollback(zeus: Zeus, project: Project) -> None:
    project.agent("A", "B", "C", "D", more=SHEDDING)
    session = talk(zeus, "alpha", "beta", "gamma", "delta")

    def at(step: int) -> tuple[object, ...]:
        place = ("--session", session, "--step", str(step), "--format", "json")
        missing = zeus("context", "why-missing", "alpha", *place)
        assert missing.exit_code == 0, missing.err
        return (
            zeus("context", "show", *place).json,
            missing.json,
            zeus("context", "explain", "3", *place).json if step > 1 else None,
        )

    before = {step: at(step) for step in (2, 4)}
    assert zeus("sessions", "rollback", session, "--to", "3").exit_code == 0
    assert zeus("run", "zeus.yaml", "other", "--session", session).exit_code == 0
    after = {step: at(step) for step in (2, 4)}
    assert after == before
    latest = zeus("context", "why-missing", "delta", "--session", session, "--format", "json").json
    assert {each["status"] for each in latest["found"]} == {"set aside"}
    assert zeus("context", "diff", "4", "5", "--session", session).exit_code == 0
    assert zeus("context", "explain", "4", "--session", session).exit_code == 0


def test_archived_sessions_leave_the_lists_and_come_back(zeus: Zeus, project: Project) -> None:
    project.agent("A")
    first, second = talk(zeus, "one"), talk(zeus, "two")
    before = zeus("sessions", "export", first).out
    assert zeus("sessions", "archive", first, "session_000000000000").exit_code == 2
    assert len(zeus("sessions", "list", "--json").json) == 2, "nothing is done when one is not there"
    assert zeus("sessions", "archive", first).err == f"archived {first}\n"
    assert zeus("sessions", "archive", first).err == f"{first} is archived already\n"
    assert [each["session"] for each in zeus("sessions", "list", "--json").json] == [second]
    (info,) = zeus("sessions", "list", "--archived", "--json").json
    assert (info["session"], info["messages"]) == (first, 2)
    for words in (("sessions", "show", first), ("run", "zeus.yaml", "more", "--session", first)):
        refused = zeus(*words)
        assert refused.exit_code == 2
        assert f"`zeus sessions restore {first}`" in refused.err
    assert zeus("sessions", "restore", first).err == f"restored {first}\n"
    assert zeus("sessions", "restore", first).err == f"{first} is not archived\n"
    back = json.loads(zeus("sessions", "export", first).out)
    assert {**back, "updated_ms": 0} == {**json.loads(before), "updated_ms": 0}
    assert zeus("sessions", "delete", first, "--yes").exit_code == 0
    assert zeus("sessions", "restore", first).exit_code == 2


def test_prune_asks_says_and_keeps_the_last_used(zeus: Zeus, project: Project) -> None:
    project.agent("A")
    first, second, third = talk(zeus, "one"), talk(zeus, "two"), talk(zeus, "three")
    nothing = zeus("sessions", "prune")
    assert (nothing.exit_code, "--older-than" in nothing.err) == (2, True)
    assert zeus("sessions", "prune", "--older-than", "soon").exit_code == 2
    unasked = zeus("sessions", "prune", "--keep", "1")
    assert (unasked.exit_code, "nothing is archived unasked" in unasked.err) == (2, True)
    dry = zeus("sessions", "prune", "--keep", "1", "--dry-run")
    assert dry.out.split() == [first, second]
    assert "would be archived" in dry.err
    assert len(zeus("sessions", "list", "--json").json) == 3

    assert zeus("sessions", "prune", "--older-than", "30d", "--yes").err == "0 session(s) archived\n"
    with closing(sqlite3.connect(project.folder / ".zeus" / "zeus.db")) as database, database:
        database.execute("UPDATE thread SET updated_ms = 1 WHERE session = ?", (second,))
    assert zeus("sessions", "prune", "--older-than", "30d", "--yes").out.split() == [second]
    found = zeus("sessions", "prune", "--set", "retention.max_sessions=1", "--delete", "--yes", "--json").json
    assert found == {"archived": [], "deleted": [first], "running": [], "failed": [], "dry_run": False}
    assert [each["session"] for each in zeus("sessions", "list", "--json").json] == [third]
    assert [each["session"] for each in zeus("sessions", "list", "--archived", "--json").json] == [second]


def test_an_export_has_everything_and_masks_secrets(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_API_KEY", "sk-very-secret-value-123")
    project.agent(CALL, "```\nend", "again", more="metadata: {key: '${ACME_API_KEY}'}")
    session = talk(zeus, "greet sk-very-secret-value-123", "two")
    zeus("sessions", "rollback", session, "--to", "5")
    whole = zeus("sessions", "export", session).json
    assert (whole["format"], whole["session"], whole["state"]) == (1, session, "rolled-back")
    assert [each["set_aside"] for each in whole["messages"]] == [False] * 5 + [True]
    assert [each["reason"] for each in whole["snapshots"]][-1] == "manual"
    assert (whole["rollbacks"][0]["kept_seq"], whole["rollbacks"][0]["last_seq"]) == (5, 6)

    assert zeus("sessions", "export", session, "--format", "markdown", "-o", "talk.md").exit_code == 0
    text = (project.folder / "talk.md").read_text("utf-8")
    assert "## 3 · Tool `echo`" in text
    assert "· set aside" in text
    assert "Calls `echo`:\n\n```json" in text
    for shown in (text, json.dumps(whole)):
        assert "sk-very-secret" not in shown


def test_signs_that_are_no_line_end_stay_in_a_view_of_a_session(zeus: Zeus, project: Project) -> None:
    """They became line ends in an export, and vanished at the ends of a message. They are shown as escapes."""
    project.agent("\x85one\u2028two\x0b")
    session = zeus("run", "zeus.yaml", "go", "--output", "json").json["session"]
    assert "> \\u0085one\\u2028two\\x0b" in zeus("sessions", "export", session, "--format", "markdown").out
    shown = zeus("sessions", "show", session).out
    assert "\n  \\u0085one\\u2028two\\x0b\n" in shown


def test_no_text_of_an_exported_message_leaves_it(zeus: Zeus, project: Project) -> None:
    project.agent("one\n\n```\n## 9 · You · 2026")
    session = talk(zeus, "go")
    text = zeus("sessions", "export", session, "--format", "markdown").out
    assert "> one\n>\n> ```\n> ## 9 · You · 2026" in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        line for line in text.splitlines() if line.startswith(("## 1 · ", "## 2 · "))
    ]


def test_the_list_says_how_the_last_turn_went(zeus: Zeus, project: Project) -> None:
    project.agent("fine", '{"raise": "auth"}')
    session = talk(zeus, "one")
    assert zeus("run", "zeus.yaml", "two", "--session", session).exit_code != 0
    assert zeus("sessions", "list", "--json").json[0]["state"] == "error"
    assert "  error  " in zeus("sessions", "list").out
    assert "its last turn failed" in zeus("sessions", "show").err


def test_an_export_is_for_its_user_alone(zeus: Zeus, project: Project) -> None:
    project.agent("A")
    talk(zeus, "one")
    (project.folder / "talk.json").write_text("an older export")
    (project.folder / "link.json").symlink_to("talk.json")
    linked = zeus("sessions", "export", "-o", "link.json")
    assert linked.exit_code == 2
    assert "link.json is a link to" in linked.err
    assert (project.folder / "talk.json").read_text() == "an older export"
    assert zeus("sessions", "export", "-o", "talk.json").exit_code == 0
    assert json.loads((project.folder / "talk.json").read_text("utf-8"))["messages"]
    assert (project.folder / "talk.json").stat().st_mode & 0o077 == 0
    lost = zeus("sessions", "export", "-o", "missing/talk.json")
    assert (lost.exit_code, lost.err) == (
        2,
        "error: missing/talk.json cannot be written: No such file or directory\n",
    )


def test_more_rows_than_a_database_can_count_are_all(zeus: Zeus, project: Project) -> None:
    project.agent("A")
    talk(zeus, "one")
    assert len(zeus("sessions", "list", "--limit", "99999999999999999999", "--json").json) == 1
    assert zeus("sessions", "list", "--limit", "0").exit_code == 2


def test_sessions_of_other_agents_are_counted_and_listed_only_when_asked_for(
    zeus: Zeus, project: Project
) -> None:
    project.agent("one")
    other = project.agent("two", name="other.yaml")
    other.write_text(other.read_text().replace("name: tester", "name: another"))
    assert zeus("sessions", "list").err == "no session yet\n"
    for config in ("zeus.yaml", "other.yaml", "other.yaml"):
        assert zeus("run", config, f"said to {config}").exit_code == 0
    listed = zeus("sessions", "list")
    assert listed.out.count("session_") == 1
    assert listed.err == "(2 of other agents in this database: --all lists them)\n"
    every = zeus("sessions", "list", "--all")
    assert (every.out.count("session_"), every.err) == (3, "")
    chat = zeus("chat", stdin="/sessions\n")
    assert "said to zeus.yaml" in chat.err
    assert "said to other.yaml" not in chat.err


def test_prune_names_the_sessions_that_could_not_be_put_away(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent("A")
    stuck, _ = talk(zeus, "one"), talk(zeus, "two")

    async def refused(*_given: object) -> bool:
        raise OSError("the disk is on fire")

    monkeypatch.setattr("zeus_runtime.sessions.lifecycle.SessionLifecycle.archive_claimed", refused)
    told = zeus("sessions", "prune", "--keep", "1", "--yes")
    assert (told.exit_code, told.out) == (1, "")
    assert f"{stuck} stays: OSError: the disk is on fire" in told.err


def test_a_session_that_cannot_be_archived_keeps_no_other_from_it(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent("A")
    stuck, other, more = talk(zeus, "one"), talk(zeus, "two"), talk(zeus, "three")
    archive = SessionLifecycle.archive

    async def refused(self: SessionLifecycle, session: str) -> bool:
        if session in (stuck, more):
            raise UsageError(f"{session} is on fire")
        return await archive(self, session)

    monkeypatch.setattr(SessionLifecycle, "archive", refused)
    told = zeus("sessions", "archive", stuck, other, more)
    assert (told.exit_code, told.out) == (2, "")
    assert told.err.splitlines() == [
        f"archived {other}",
        f"error: {stuck} is on fire",
        f"  Also failed: {more} is on fire",
    ]


def test_a_fork_has_the_policies_that_it_is_given_and_keeps_them(zeus: Zeus, project: Project) -> None:
    long = {"call": "echo", "args": {"text": "word " * 900}}
    rest = "middlewares: [{approve: {mode: run_everything}}]"
    project.agent(long, "A", "A", "A", more=rest)
    session = talk(zeus, "one")
    keeping = "[{approve: {mode: run_everything}}, {eviction: {max_tokens: 100}}]"
    made = zeus("sessions", "fork", session, "--step", "2", "--middlewares", keeping)
    assert made.exit_code == 0, made.err
    given = zeus("sessions", "fork", session, "--step", "2", "--middlewares", "-", stdin=keeping)
    assert given.exit_code == 0, given.err

    def sent(name: str) -> int:
        step = zeus("context", "show", "--session", name, "--format", "json").json["step"]
        assert step["number"] == 2
        tokens: int = step["view_tokens"]
        return tokens

    for fork in (made.out.strip(), given.out.strip()):
        assert zeus("run", "zeus.yaml", "--session", fork, "--continue").exit_code == 0
        assert sent(fork) < sent(session) - 500
    plan = zeus("plan", "--session", fork, "--format", "json").json
    assert [each["name"] for each in plan["middlewares"]] == ["approve", "eviction"]
    assert "max_tokens=100" in zeus("plan", "--session", fork).out
    explained = zeus("plan", "--session", fork, "--explain", "middlewares.1.eviction.max_tokens").out
    assert "= 100\n  set at --set middlewares=" in explained
    assert "eviction" not in zeus("plan", "--session", session).out
    absent = zeus("plan", "--session", "session_000000000000")
    assert (absent.exit_code, "there is no session" in absent.err) == (2, True)
    assert len(zeus("sessions", "list", "--json").json) == 3


@pytest.mark.parametrize(
    ("policies", "code", "words"),
    [
        ("[]", 2, "must keep those of its config that judge calls"),
        ("[{evicton: {max_tokens: 100}}]", 3, "did you mean 'eviction'"),
        ("[{eviction: {max_tokens: ${MOST}}}]", 2, "hold a variable"),
        ("[", 3, "middlewares"),
        (b"\xff", 2, "is not UTF-8"),
    ],
)
def test_policies_that_a_fork_cannot_have_are_refused(
    zeus: Zeus, project: Project, policies: str | bytes, code: int, words: str
) -> None:
    project.agent("A", more="middlewares: [{approve: {mode: run_everything}}]")
    session = talk(zeus, "one")
    given = policies if isinstance(policies, str) else "-"
    words_given = ("sessions", "fork", session, "--step", "1", "--middlewares", given)
    refused = zeus(*words_given, stdin=policies if isinstance(policies, bytes) else None)
    assert (refused.exit_code, refused.out) == (code, "")
    assert words in refused.err, refused.err
    assert len(zeus("sessions", "list", "--json").json) == 1


def test_policies_are_checked_with_the_config_of_the_session(zeus: Zeus, project: Project) -> None:
    project.agent("A", more="middlewares: [{approve: {mode: run_everything}}]")
    session = talk(zeus, "one")
    other = (project.folder / "zeus.yaml").read_text().replace("name: ", "name: other-")
    project.write(
        "other.yaml", other.replace("middlewares: [{approve: {mode: run_everything}}]", "middlewares: []")
    )
    words = ("sessions", "fork", session, "--step", "1", "--middlewares", "[]")
    refused = zeus(*words, "--config", "other.yaml")
    assert (refused.exit_code, "Name its config" in refused.err) == (2, True), refused.err
