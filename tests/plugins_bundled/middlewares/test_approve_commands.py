"""Approvals judge each command of a command line, and ask about a line that is not clear."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from zeus_plugins.middlewares.approve.commands import NOT_CLEAR, commands_of
from zeus_plugins.middlewares.approve.options import Options
from zeus_plugins.middlewares.approve.policy import Policy
from zeus_plugins.middlewares.approve.rules import Spelling

from tests.support import shells
from tests.support.agents import Answering, events_of
from tests.support.shells import shell_agent
from zeus_runtime.cli.approval_prompt import YesApprovals
from zeus_runtime.errors import UsageError
from zeus_runtime.events import ApprovalDecided, ApprovalRequested, RunFailed, ToolCallResult
from zeus_runtime.plugin.approval import ApprovalChannel, Decision
from zeus_runtime.plugin.tool import Tool
from zeus_runtime.store.approvals import open_approvals
from zeus_runtime.store.tables import APPROVAL
from zeus_runtime.store.thread_log import ThreadLog
from zeus_runtime.testing.cases.running import _Answering


async def nothing() -> str:
    return ""


PARAMETERS = {"type": "object", "properties": {"command": {}, "cwd": {"default": "/"}}}
RUN = Tool("run_command", "Runs.", PARAMETERS, nothing, "shell", commands=frozenset({"command"}))


def action(command: str | list[str], **rules: Any) -> str | None:
    written = {
        key: tuple({"run_command": {"command": each}} for each in value) for key, value in rules.items()
    }
    verdict = Policy(Options(**written), lambda path: [{Spelling((path,))}]).ruled(RUN, {"command": command})
    return None if verdict is None else verdict.action


ALLOWED = ["git status *", "ls *", "pytest *", "wc -l", "python -m pytest *", "echo *"]


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status --short",
        "git status && ls -l src",
        "git status | wc -l",
        "(ls; ls) || ls",
        "if ls a; then ls b; else git status; fi",
        "ls 2>/dev/null >&2",
        "ls 2>&1 | wc -l",
        "! ls a",
        'ls "a b" c\\ d',
        "ls $HOME *.py",
        'echo $(git status) "$(ls)"',
        "ls # and a comment; rm a",
        "ls \\\n  -l",
        "[ -f a ] && ls",
        "ls <<'E'\n$(rm a)\nE",
        "ls <<'E' | wc -l && ls <<\"F\"  # two\nrm a\nE\nF\nls",
        'ls {1..3} ${HOME} "a\nb \\` \\" \\a $HOME" a\\;b',
        "while ! ls; do\n  { ls; } &\ndone\nls;\n",
        "ls 'ä b'ö #x",
        ["git", "status", "; rm -rf /"],
    ],
)
def test_a_line_whose_commands_are_all_allowed_runs(command: str | list[str]) -> None:
    assert action(command, allow=ALLOWED) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git  statusx",
        "git status; rm -rf /",
        "git status & rm -rf /",
        "git status | sh",
        "git status\nrm -rf /",
        "ls $(rm -rf /)",
        'ls "`rm -rf /`"',
        "ls <(rm -rf /)",
        "ls ${x:-$(rm -rf /)}",
        "ls > src/a.py",
        "ls >> ~/.bashrc",
        "PATH=/tmp/evil ls",
        "PATH=/tmp/evil; ls",
        "export PATH=/tmp/evil; ls",
        "for PATH in /tmp/evil; do ls; done",
        "ls() { rm -rf /; }; ls",
        "$(echo rm) -rf /",
        "eval ls",
        "l\\s; \\rm a",
        "wc -l $FILES",
        "ls 'a",
        "ls &&",
        "cat <<E | sh\nrm\nE",
        "ls <<E && rm a\nx\nE",
        "(ls) > a",
        "[ $(rm a) ]",
        "ls\rrm a",
        "ls; coproc rm a",
        "(( x[$(rm a)] ))",
        "",
        "# nothing",
        [],
    ],
)
def test_any_other_line_is_not_allowed(command: str | list[str]) -> None:
    assert action(command, allow=ALLOWED) is None


@pytest.mark.parametrize(
    "command",
    [
        "rm a",
        "ls; rm -rf a",
        "cat <<'A' | rm a\nA",
        "if ls; then rm a; fi",
        "/bin/rm a",
        "ls $(rm a)",
        "'r'm a",
        "x=1 rm a",
        "rm a > b",
        "rm <<'E'\nE",
    ],
)
def test_a_denied_command_never_runs(command: str) -> None:
    assert action(command, allow=["*"], deny=["rm *"]) == "deny"


@pytest.mark.parametrize(
    "command",
    ["env rm a", "xargs rm", "find . -exec rm {} +", "sh -c 'ls; rm a'", "sudo sh -c \"env rm a\"", "r$X a", "$X a",
     "eval \"$X\"", "ls 'a", "cat <<E | sh\nrm a\nE", "f() { rm a; }", "sh <<'E'\nls\nrm a\nE",
     "ls <<'A' && sh <<'B'\nA\nrm\nB\n",
     "X='rm a' sh -c '$X'", "X=rm ls", "X=a Y=$Z ls", "tar --to-command='rm a'", "env X='rm a' ls", "make A=1 B=x=rm"],
)  # fmt: skip
def test_what_may_run_a_denied_command_is_asked_about(command: str) -> None:
    assert action(command, allow=["*", "cat *", "ls *", "env *"], deny=["rm *"]) in ("ask", "deny")
    assert action(command, ask=["rm *"]) == "ask"


BY_YES, BY_EVALUATION, BY_TIMEOUT, BY_A_PERSON = YesApprovals(None), _Answering("allow"), None, Answering()


@pytest.mark.parametrize("channel", [BY_YES, BY_EVALUATION, BY_TIMEOUT, BY_A_PERSON])
@pytest.mark.parametrize(
    "line",
    [
        "cat <<EOF | rm victim\nx\nEOF",
        "for a in b; do rm victim; done",
        "time rm victim",
        "r\\\nm victim",
        "env rm victim",
    ],
)
async def test_only_a_person_approves_what_may_run_a_denied_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, channel: ApprovalChannel | None
) -> None:
    now = [1_000_000]
    monkeypatch.setattr(ThreadLog.__init__, "__kwdefaults__", {"now_ms": lambda: now[0]})
    (tmp_path / "victim").touch()
    options: dict[str, Any] = {"mode": "run_everything", "deny": [{"run_command": {"command": "rm *"}}]}
    if channel is BY_TIMEOUT:
        options |= {"timeout_seconds": 60, "on_timeout": "approve"}
    keys = {"middlewares": [{"approve": options}]}
    async with shell_agent(tmp_path, shells.command(line), keys=keys, contain="none") as agent:
        events = await events_of(agent.stream("go", approvals=channel))
        if channel is BY_TIMEOUT:
            assert isinstance(events[-1], RunFailed), "nobody was asked"
            now[0] += 60_000
            events = await events_of(agent.resume(events[-1].session))
    (decided,) = (each for each in events if isinstance(each, ApprovalDecided))
    (result,) = (each for each in events if isinstance(each, ToolCallResult))
    is_approved = channel is BY_A_PERSON
    assert decided.decision == ("approve" if is_approved else "reject")
    assert (tmp_path / "victim").exists() is not is_approved
    assert result.is_error is not is_approved
    if channel in (BY_YES, BY_EVALUATION):
        assert "only a person may approve it" in result.content
        assert "write the commands plainly" in result.content


async def test_yes_approves_what_only_an_ask_rule_judges(tmp_path: Path) -> None:
    keys = {"middlewares": [{"approve": {"ask": [{"run_command": {"command": "rm *"}}]}}]}
    (tmp_path / "victim").touch()
    async with shell_agent(tmp_path, shells.command("time rm victim"), keys=keys, contain="none") as agent:
        events = await events_of(agent.stream("go", approvals=BY_YES))
    assert [each.by for each in events if isinstance(each, ApprovalDecided)] == ["automatic"]
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("command", ["ls", "ls -l a", "ls | wc -l", ["ls", "-l"]])
def test_a_star_alone_means_any_command(command: str | list[str]) -> None:
    assert action(command, deny=["*"], allow=["*"]) == "deny"
    assert action(command, ask=["*"], allow=["ls *", "wc *"]) == "ask"
    assert action(command, allow=["*"]) == "allow"
    assert action("ls > a", allow=["*"]) is None


@pytest.mark.parametrize("command", ["[ 'a[$(rm a)]' -eq 1 ]", "test '`rm a`' -eq 1", "[ a -eq \\$a ]"])
def test_a_test_of_numbers_with_a_substitution_is_not_clear(command: str) -> None:
    """mksh runs it: it may be the `sh` of a system without bash."""
    assert action(f"ls; {command}", allow=["ls *", "test *", "[ *"]) is None


def test_rules_that_only_allow_leave_the_rest_to_the_mode() -> None:
    assert action("eval $x", allow=["ls *"]) is None
    assert action("ls -l", ask=["rm *"]) is None


def test_a_rule_for_the_tool_alone_allows_every_command() -> None:
    policy = Policy(Options(allow=("run_command",)), lambda path: [{Spelling((path,))}])
    for command in ("ls", "eval $x", "ls 'a"):
        verdict = policy.ruled(RUN, {"command": command})
        assert verdict is not None
        assert verdict.action == "allow"


def test_a_sub_agents_command_is_denied_by_its_parents_rule() -> None:
    policy = Policy(Options(deny=({"run_command": {"command": "rm *"}},)), lambda path: [{Spelling((path,))}])
    for command, denied in (("ls; rm a", True), ("ls", False), ("$x", True)):
        assert (
            policy.denied(RUN, {"command": command}, lambda path: [{Spelling((path,))}]) is not None
        ) == denied


WORDS = st.text("ab $'\"\\*;|&<>(){}#\n~!=`-", max_size=12)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_words_that_are_quoted_are_read_back(words: list[str]) -> None:
    import shlex

    (found,) = commands_of(shlex.join(["ls", *words]))
    assert found.words == ("ls", *words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (r'ls "\a\$\\\`\"" \a\; "b"' + "'\\c'", ("ls", r'\a$\`"', "a;", r"b\c")),
        ("ls a$x '$x' [ ] [a] ['a'] a~ {a} \\* #", ("ls", None, "$x", "[", "]", None, None, None, None, "*")),
        ("ls a#b a=b # c", ("ls", "a#b", "a=b")),
        ("ls '' \"\" a''", ("ls", "", "", "a")),
    ],
)
def test_words_are_those_that_the_program_gets(line: str, words: tuple[str | None, ...]) -> None:
    assert [each.words for each in commands_of(line)] == [words]


def effects(line: str, folder: Path, shell: str) -> tuple[list[tuple[str, ...]], list[str]]:
    """The calls that a shell makes for a line, with their words, and the new files; nothing is on the path."""
    cwd, told = folder / "cwd", folder / "told"
    cwd.mkdir()
    told.touch()
    try:
        functions = "".join(f'{each}() {{ told {each} "$@"; }}\n' for each in ("ls", "x", "mark"))
        script = (
            f"told() {{ printf '%s\\0' $# \"$@\" >> {told}; }}\n"
            f'{functions}echo() {{ told echo "$@"; printf v; }}\n{line}'
        )
        environ = {"PATH": "/nowhere", "LC_ALL": "C.UTF-8"}
        subprocess.run([shell, "-c", script], env=environ, capture_output=True, cwd=cwd, check=False)
        texts, calls = told.read_text().split("\0")[:-1], []
        while texts:
            size = int(texts[0])
            calls.append(tuple(texts[1 : 1 + size]))
            del texts[: 1 + size]
        return calls, sorted(each.name for each in cwd.iterdir())
    finally:
        shutil.rmtree(cwd)
        told.unlink()


def is_of(call: Sequence[str], words: Sequence[str | None]) -> bool:
    """Whether a call has the words of a command; a computed one may be several words or none."""
    if not words:
        return not call
    if words[0] is None:
        return any(is_of(call[skipped:], words[1:]) for skipped in range(len(call) + 1))
    return bool(call) and call[0] == words[0] and is_of(call[1:], words[1:])


SHELLS: Final = [each for each in (shutil.which("bash"), shutil.which("dash")) if each]
need_shells = pytest.mark.skipif(len(SHELLS) < 2, reason="bash or dash is not installed")
RUNNING: Final = ["ls *", "echo *", "x *"]


@need_shells
@pytest.mark.parametrize(
    "line",
    [
        "ls $(mark)",
        'ls "`mark`"',
        "ls <(mark); wait",
        "ls ${x:=$(mark)}",
        'ls "${x:-`mark`}"',
        "ls $((x[$(mark)]))",
        "ls $[x[$(mark)]]",
        "ls {a,$(mark)}",
        'ls $"$(mark)"',
        "ls <<E\n`mark`\nE",
        "ls <<E\n$(mark)\nE",
        "ls 'a[$(mark)]'; [[ $_ -eq 1 ]]",
        "ls 'a[$(mark)]'; ls $((_))",
        "ls 'a[$(mark)]'; ls $[_]",
        "ls 'a[$(mark)]'; ls ${!_}",
        "ls '$(mark)'; ls ${_@P}",
        "[[ 'a[$(mark)]' -eq 1 ]]; ls",
        "[ -v 'a[$(mark)]' ]; ls",
        "ls; ((x[$(mark)]))",
        "[ -f a || mark ]; ls",
        "[\nmark = b ] && ls",
        "[ b > a ]; ls",
        "ls a\\\n# && mark",
        "ls\nx\\\n# a; mark",
        "ls & mark; wait",
        "ls a >1",
        "ls >-",
        "ls &>f",
        "x=1 ls >|f",
        "! mark; ls",
        "time mark; ls",
        "ls; coproc mark; wait",
        "case a in a) mark;; esac; ls",
        "f() { mark; }; f; ls",
        "declare 'a[$(mark)]=1'; ls",
        "ls; eval mark",
        "ls; \\mark",
        "ls; 'm'ark",
        "ls; m\\\nark",
        "ls; [ a = a ]# ; mark",
        "ls; [ a = a ]# >f",
        "ls <<<$\nmark a",
        "ls ''<<<$ \nmark a",
        "ls >/dev/null <<<$\n mark",
        "ls a\\ \\\n# ; mark",
        "ls `x 'a`; mark; ls `b'`",
        "ls $'\\'; mark #'",
        "[[ a || mark ]]; ls",
        "ls &>/dev/null mark; wait",
        "ls &>>/dev/null mark; wait",
        "x+=1 mark",
        "ls 12>a",
        "ls {x}>a",
        "ls <<'E' $(ls\nE\n) && mark\nE",
    ],
)
def test_a_line_that_does_more_is_not_allowed(line: str, tmp_path: Path) -> None:
    assert any(effects(line, tmp_path, each) for each in SHELLS), (
        "no shell does more, so the case proves nothing"
    )
    assert action(line, allow=RUNNING) is None
    assert action(line, allow=["* *"], deny=["mark *", "touch *"]) != "allow"


@pytest.mark.parametrize(
    "line",
    [
        "printf -v 'a[$(mark)]' x",
        "printf $x y",
        "test -v 'a[$(mark)]'",
        "wait -p 'a[$(mark)]'",
        "read 'a[$(mark)]'",
        "command ls",
        "exec ls",
        "hash -p a ls; ls",
        "alias ls=mark",
        "ls\vmark",
        "ls # $(\n mark)",
        "ls `ls \\`mark\\``",
        'ls "`ls \\\\`"',
        "ls `ls # x\n`",
        "ls $(ls <<'E'\nx\nE\n)",
        "l\\\ns a",
        "{ls a; }",
        "[[a = b ]]; ls",
        "ls`ls`{1..3} a",
        'ls "$"$x"ls"',
        "ls ${! x}",
        "ls ${HOME=x}",
        "ls (ls a; ls)",
        "ls ;; ls",
        "ls `ls`#",
        "ls $(ls # )\nmark)",
        "((ls); mark)",
        "ls <<-'E'\n\tE\nmark\nE",
        "ls; [[ a = a ]]# ; mark",
        "{ ls a; }# ; mark",
        "ls a;(ls)x# ; mark",
        "if ls; then'' ls; fi",
        "if'' ls; then ls; fi",
        "ls >$\nmark a",
        "ls -f<<'E'\nx\nE",
        "ls a<(ls)",
        "ls a>(ls)",
        "ls `ls a<(ls)`",
        "ls <<<a<(ls)",
        "if ls; then ls; fi<(ls)",
        "ls >",
        "ls\u3000a",
        "ls\x01",
        "ls \x85",
        "x=1",
        "x=(1)",
        "a[0]=1 ls",
        "if ; ls",
        "if",
        "(ls) a",
        "(ls",
        "ls)",
        "ls; } a",
        "ls <<'E'",
        "ls <<'E'\na",
        "(ls <<'E'\nE\n)",
        "ls <<'E' \\\n\nE",
        "ls 'a" + "'" * 2,
        "$( " * 60 + "ls" + ")" * 60,
        "[ $a ] && ls",
        "[ a ]",
        "ls &>/dev/null a",
        "(\\\n(ls); ls)",
        "x+=1 ls",
        "ls 12>/dev/null",
        "ls; if fi",
        "ls $((1))",
        "if !(ls); then ls; fi",
        "x=1; ls",
        "ls; >f",
        "ls " + "$(ls " * 60 + ")" * 60,
        "ls; if\n",
        "ls &&\n",
        "( (ls) a)",
        "( (ls) a",
        "ls; echo: rm victim",
    ],
)
def test_a_line_that_only_a_shell_can_judge_is_asked_about(line: str) -> None:
    assert commands_of(line) == (NOT_CLEAR,)


@need_shells
@pytest.mark.parametrize("line", ["ls<(echo)", "ls>(echo)"])
def test_a_program_named_by_a_word_and_a_substitution_is_not_the_word(line: str, tmp_path: Path) -> None:
    """Bash runs `ls/dev/fd/63`, a file that the agent may have made."""
    for number in range(10, 64):
        program = tmp_path / "ls" / "dev" / "fd" / str(number)
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n: > {tmp_path}/ran\n")
        program.chmod(0o755)
    subprocess.run([SHELLS[0], "-c", line], cwd=tmp_path, check=False)
    assert (tmp_path / "ran").exists(), "bash does nothing more, so the case proves nothing"
    assert action(line, allow=RUNNING) is None


BEGINNINGS = [
    "ls ",
    "[ -f a ] && ls ",
    "ls 'a[$(mark)]'; echo ",
    "if ls; then ls ",
    "(ls; ls ",
    "echo $(ls) | ls ",
]
ENDINGS = ["", "", "", ")", "; fi", "; }", "'", '"', "\nE"]
PIECES = (
    "mark|;mark| && mark|||mark|\nmark|$(mark a)|`mark`|<(mark)|'a[$(mark)]'|a[|]|$((|))|$[|((|(|)|[[ | ]]|[ | ]| -eq |"
    " -v | = |'|\"|\\|\n|\\\n| \\\n|\\ |#| # |; |&|{ | }|; }|,|${x:-|}|${_|@P}|$_|\"d $x\"|<<E\n| <<'E'\n|\nE\n|E|"
    " >f| >1| 2>&1| >/dev/null|time |! |; fi|; then |else|; do |; done|x=|x=1 |a[0]=|+=|printf |f() |$'|$\"|\\$|"
    '~|*|?|@(|<<<|<|>| |x|$x|$?|\v|\u3000|]#|]]#|fi#|}#|$\n| <<<$\n|<(ls)|>(ls)|-f|&&| & |12|{a,b}|&>|"\\a"'
).split("|")


@need_shells
@given(st.sampled_from(BEGINNINGS), st.lists(st.sampled_from(PIECES), max_size=7), st.sampled_from(ENDINGS))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_shell_calls_nothing_but_the_commands_that_were_read(
    tmp_path: Path, start: str, pieces: list[str], end: str
) -> None:
    line = start + "".join(pieces) + end
    read = commands_of(line)
    if read == (NOT_CLEAR,):
        return
    for shell in SHELLS:
        calls, files = effects(line, tmp_path, shell)
        assert [each for each in calls if not any(is_of(each, command.words) for command in read)] == []
        assert not files or not all(each.is_plain for each in read)


@pytest.mark.parametrize("by", ["automatic", "user"])
@pytest.mark.parametrize("meanwhile", ["the rule came", "the arguments changed"])
async def test_rules_are_kept_by_what_runs_and_not_by_what_was_asked(
    tmp_path: Path, meanwhile: str, by: Literal["automatic", "user"]
) -> None:
    """Only a person approves what the present rules leave to a person, also if those were not known at the decision."""
    (tmp_path / "victim").touch()
    is_changed = meanwhile == "the arguments changed"
    line = "echo hi" if is_changed else "env rm victim"
    deny: list[Any] = [{"run_command": {"command": "rm *"}}]

    def keys(rules: list[Any]) -> dict[str, Any]:
        return {"middlewares": [{"approve": {"mode": "ask", "deny": rules}}]}

    async with shell_agent(tmp_path, shells.command(line), keys=keys([]), contain="none") as agent:
        ending = (await events_of(agent.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
        ((name,),) = [[each.id for each in await agent.pending_approvals()]]
        changed = {"command": "env rm victim"} if is_changed else None
        await agent.decide(ending.session, {name: Decision("approve", arguments=changed, by=by)})
    async with shell_agent(tmp_path, shells.command(line), keys=keys(deny), contain="none") as agent:
        events = await events_of(agent.resume(ending.session))
    (result,) = (each for each in events if isinstance(each, ToolCallResult))
    assert result.is_error is (by == "automatic"), result.content
    assert (tmp_path / "victim").exists() is (by == "automatic")


def asking(deny: list[Any]) -> dict[str, Any]:
    return {"middlewares": [{"approve": {"mode": "ask", "deny": deny}}]}


async def waiting(folder: Path, line: str, deny: list[Any]) -> tuple[str, str]:
    """The session and the id of a call that waits, asked about under these rules."""
    async with shell_agent(folder, shells.command(line), keys=asking(deny), contain="none") as agent:
        ending = (await events_of(agent.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
        ((name,),) = [[each.id for each in await agent.pending_approvals()]]
    return ending.session, name


async def test_a_waiting_call_is_shown_and_decided_by_the_present_rules(tmp_path: Path) -> None:
    """A rule that came after the question is told, and no program approves what it leaves to a person."""
    session, name = await waiting(tmp_path, "env rm victim", [])
    deny: list[Any] = [{"run_command": {"command": "rm *"}}]
    line = shells.command("env rm victim")
    async with shell_agent(tmp_path, line, keys=asking(deny), contain="none") as agent:
        (listed,) = await agent.pending_approvals()
        for told in (listed, await agent.previewed(name)):
            assert told.needs_person
            assert "may run what the rule `deny:" in told.reason
        with pytest.raises(UsageError, match="only a person may approve it"):
            await agent.decide(session, {name: Decision("approve", by="automatic")})
        await agent.decide(session, {name: Decision("approve")})


async def test_a_call_that_the_present_rules_refuse_cannot_be_approved(tmp_path: Path) -> None:
    session, name = await waiting(tmp_path, "rm victim", [])
    deny: list[Any] = [{"run_command": {"command": "rm *"}}]
    async with shell_agent(tmp_path, shells.command("rm victim"), keys=asking(deny), contain="none") as agent:
        assert "it is still not run" in (await agent.previewed(name)).reason
        with pytest.raises(UsageError, match="cannot be approved: the config refuses it now"):
            await agent.decide(session, {name: Decision("approve")})
        await agent.decide(session, {name: Decision("approve", arguments={"command": "echo hi"})})
    session, name = await waiting(tmp_path, "echo hi", deny)
    async with shell_agent(tmp_path, shells.command("echo hi"), keys=asking(deny), contain="none") as agent:
        with pytest.raises(UsageError, match="the config refuses it now"):
            await agent.decide(session, {name: Decision("approve", arguments={"command": "rm victim"})})


@pytest.mark.parametrize("came", [True, False])
async def test_a_run_that_asks_again_tells_the_present_rules(tmp_path: Path, came: bool) -> None:
    """Also if a rule is gone: the run that asks again is the one that judges."""
    deny: list[Any] = [{"run_command": {"command": "rm *"}}]
    session, _ = await waiting(tmp_path, "env rm victim", [] if came else deny)
    line = shells.command("env rm victim")
    async with shell_agent(tmp_path, line, keys=asking(deny if came else []), contain="none") as agent:
        events = await events_of(agent.resume(session))
        (asked,) = (each for each in events if isinstance(each, ApprovalRequested))
        (stored,) = await open_approvals(await agent.log())
    for told in (asked.reason, stored.reason):
        assert ("may run what the rule" in told) is came
    assert stored.needs_person is came


@pytest.mark.parametrize("was", ["reject", "approve"])
async def test_time_that_is_over_when_a_run_asks_again_counts_as_the_stricter_rules_say(
    tmp_path: Path, was: Literal["reject", "approve"]
) -> None:
    def keys(on_timeout: str) -> dict[str, Any]:
        rules = {"mode": "ask", "timeout_seconds": 1_000.0, "on_timeout": on_timeout}
        return {"middlewares": [{"approve": rules}]}

    (tmp_path / "victim").touch()
    line = shells.command("rm victim")
    async with shell_agent(tmp_path, line, keys=keys(was), contain="none") as agent:
        ending = (await events_of(agent.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
        database = (await agent.log()).database
        await database.run(lambda connection: connection.execute(update(APPROVAL).values(expires_ms=1)))
    now = "approve" if was == "reject" else "reject"
    async with shell_agent(tmp_path, line, keys=keys(now), contain="none") as agent:
        events = await events_of(agent.resume(ending.session))
    decided = next(each for each in events if isinstance(each, ApprovalDecided))
    assert (decided.by, decided.decision) == ("timeout", "reject")
    assert (tmp_path / "victim").exists()


@pytest.mark.parametrize("more", [{}, {"workspace": {"access": {"a/**": "read"}}}])
async def test_a_config_that_asks_nobody_does_not_loosen_what_waits(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """Also if it is asked anew, because the call would reach other files."""
    session, name = await waiting(tmp_path, "env rm victim", [{"run_command": {"command": "rm *"}}])
    line = shells.command("env rm victim")
    async with shell_agent(tmp_path, line, keys={"middlewares": [], **more}, contain="none") as agent:
        await events_of(agent.resume(session))
        (stored,) = await agent.pending_approvals()
        assert (stored.id == name) == (not more)
        assert stored.needs_person
        assert "may run what the rule" in stored.reason
        with pytest.raises(UsageError, match="only a person"):
            await agent.decide(session, {stored.id: Decision("approve", by="automatic")})
