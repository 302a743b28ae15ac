"""Known secrets leave the machine nowhere: not to the provider, nor into the database, the archive or a recording."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.cli.conftest import Project, Zeus, spawn
from tests.support.provider import Call, Provider, Received, Reply

pytestmark = pytest.mark.xdist_group("litellm")

TOKEN = "shop-Secret-abc123XYZ"
LITERAL = "sk-literal-9876543210"
SETTINGS = f"SHOP_TOKEN={TOKEN}\nMODE=test\napi_key: {LITERAL}\n"
HOLDERS = {".env", "zeus.yaml", "settings.txt"}
"""Files of the user's that hold the secrets."""


def configured(project: Project, provider: Provider, **more: Any) -> None:
    model = {"model": "openai/acme-chat", "api_base": provider.openai, "api_key": LITERAL}
    config = {
        "version": 1,
        "name": "shop",
        "model": {"litellm": model},
        "tools": ["filesystem"],
        "workspace": {"root": "work"},
        "retry": {"attempts": 1},
        "profiles": {"models": {"openai/acme-chat": {"max_input_tokens": 50_000}}},
        **more,
    }
    project.write("zeus.yaml", json.dumps(config))
    project.write(".env", f"SHOP_TOKEN={TOKEN}\n")
    project.write("work/settings.txt", SETTINGS)


def called(name: str, call_id: str = "c", **arguments: Any) -> Call:
    return Call(name, json.dumps(arguments), call_id)


def assert_nowhere(project: Project, provider: Provider, *texts: str) -> None:
    """Neither secret was sent, printed, or written to a file that did not hold it before."""
    sent = [json.dumps(each.body, ensure_ascii=False) for each in provider.requests]
    for secret in (TOKEN, LITERAL):
        assert not [text for text in (*sent, *texts) if secret in text]
        for path in project.folder.rglob("*"):
            if path.is_file() and path.name not in HOLDERS:
                assert secret.encode() not in path.read_bytes(), path


def results(provider: Provider) -> dict[str, str]:
    """Call id to the result that the provider was sent last."""
    last = provider.requests[-1].body["messages"]
    return {each["tool_call_id"]: each["content"] for each in last if each["role"] == "tool"}


def test_the_model_works_on_a_file_with_secrets_and_never_sees_them(project: Project, zeus: Zeus) -> None:
    old = "SHOP_TOKEN=<secret:SHOP_TOKEN>\nMODE=test"
    edit = called("edit_file", "e", path="/settings.txt", old=old, new=old.replace("test", "prod"))
    replies = [
        Reply(
            calls=[called("read_file", "r", path="/settings.txt"), called("grep", "g", pattern="SHOP_TOKEN=")]
        ),
        Reply(calls=[edit]),
        Reply("The token is <secret:SHOP_TOKEN>, and you said " + TOKEN + "."),
    ]
    with Provider(*replies) as provider:
        configured(project, provider)
        result = zeus(
            "run",
            "zeus.yaml",
            f"Set MODE to prod; my token is {TOKEN}",
            "-o",
            "ndjson",
            "--record",
            "t.jsonl",
        )
        assert result.exit_code == 0, result.err
        found = results(provider)
        assert found["r"].splitlines()[0] == "1\tSHOP_TOKEN=<secret:SHOP_TOKEN>"
        assert "<secret:model.litellm.api_key>" in found["r"]
        assert "SHOP_TOKEN=<secret:SHOP_TOKEN>" in found["g"]
        assert (
            provider.requests[0].body["messages"][-1]["content"].endswith("my token is <secret:SHOP_TOKEN>")
        )
        session = result.lines[0]["session"]
        shown = [zeus("sessions", "export", session).out, zeus("sessions", "show", session, "--json").out]
        assert (project.folder / "work/settings.txt").read_text() == SETTINGS.replace("test", "prod")
        assert_nowhere(project, provider, result.out, result.err, *shown)
    assert result.lines[-1]["answer"] == "The token is <secret:SHOP_TOKEN>, and you said <secret:SHOP_TOKEN>."
    streamed = "".join(each["text"] for each in result.lines if each["type"] == "text")
    assert streamed == result.lines[-1]["answer"]


@pytest.mark.parametrize("folder", ["main/service", "tree"])
def test_the_password_of_the_repository_around_the_project_is_masked(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    main = project.folder / "main"

    def git(*words: str) -> None:
        person = ("-c", "user.name=ann", "-c", "user.email=ann@localhost")
        subprocess.run(["git", *person, *words], cwd=main, check=True, capture_output=True)

    main.mkdir()
    git("init", "-q")
    git("remote", "add", "origin", f"https://ann:{TOKEN}@example.com/x.git")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "../tree")
    own = Project(project.folder / folder)
    own.folder.mkdir(exist_ok=True)
    monkeypatch.chdir(own.folder)
    with Provider(Reply(calls=[called("run_command", command="git remote -v")]), Reply("done")) as provider:
        configured(own, provider, tools=[{"shell": {"contain": "none"}}], workspace={"root": "."})
        (own.folder / ".env").unlink()
        result = zeus("run", "zeus.yaml", "go")
        assert result.exit_code == 0, result.err
        assert "https://ann:<secret:.git/config>@example.com/x.git" in results(provider)["c"]


def test_a_placeholder_that_the_model_writes_elsewhere_stays_a_placeholder(
    project: Project, zeus: Zeus
) -> None:
    copy = called("write_file", "w", path="/copy.txt", content="<secret:SHOP_TOKEN>")
    whole = called("write_file", "o", path="/settings.txt", content="T=<secret:SHOP_TOKEN>\n")
    with Provider(Reply(calls=[copy]), Reply(calls=[whole]), Reply("done")) as provider:
        configured(project, provider)
        result = zeus("run", "zeus.yaml", "go")
        assert result.exit_code == 0, result.err
        assert "Written as plain text: <secret:SHOP_TOKEN>." in results(provider)["w"]
        assert "plain text" not in results(provider)["o"]
        assert_nowhere(project, provider, result.out, result.err)
    assert (project.folder / "work/copy.txt").read_text() == "<secret:SHOP_TOKEN>"
    assert (project.folder / "work/settings.txt").read_text() == f"T={TOKEN}\n", "this file held it before"


def test_a_command_with_a_placeholder_writes_no_file_and_the_model_is_told_how_to_go_on(
    project: Project, zeus: Zeus
) -> None:
    shown = "<secret:SHOP_TOKEN>"
    wrong = [
        called("run_command", "made", command=f"cat {shown} made"),
        called("run_command", "lost", command=f"echo 'SHOP_TOKEN={shown}' > settings.txt"),
        called("run_command", "behind", command=f"echo '{shown}' > behind", background=True),
        called("run_command", "words", command=["sh", "-c", f"cat {shown} words"]),
    ]
    right = [called("run_command", "right", command='echo "$SHOP_TOKEN" > copy; cmp copy .token && cat copy')]
    with Provider(Reply(calls=wrong), Reply(calls=right), Reply("done")) as provider:
        shell = {"shell": {"contain": "none", "env": {"SHOP_TOKEN": "${SHOP_TOKEN}"}}}
        configured(project, provider, tools=[shell])
        project.write("work/.token", f"{TOKEN}\n")
        # Without it, the shell would find no file to read from, and write none.
        project.write("work/secret:SHOP_TOKEN", "")
        result = zeus("run", "zeus.yaml", "go")
        assert result.exit_code == 0, result.err
        told = results(provider)
        for each in ("made", "lost", "behind", "words"):
            assert told[each].startswith(f"run_command was not run: {shown} is a placeholder for a secret.")
        assert told["right"] == shown
    files = {path.name for path in (project.folder / "work").iterdir()}
    assert files == {"settings.txt", ".token", "secret:SHOP_TOKEN", "copy"}
    assert (project.folder / "work/settings.txt").read_text() == SETTINGS


def test_a_secret_cannot_be_found_by_guessing_at_it(project: Project, zeus: Zeus) -> None:
    guesses = [
        called("grep", "g", pattern=f"={TOKEN[:6]}"),
        called("edit_file", "e", path="/settings.txt", old=f"SHOP_TOKEN={TOKEN[:6]}", new="x"),
        called("edit_file", "n", path="/settings.txt", old="SHOP_TOKEN=shop-Sekret-abc123XYY", new="x"),
    ]
    with Provider(Reply(calls=guesses), Reply("done")) as provider:
        configured(project, provider)
        result = zeus("run", "zeus.yaml", "go")
        assert result.exit_code == 0, result.err
        found = results(provider)
        assert "No match" in found["g"], found["g"]
        assert "not found" in found["e"]
        assert "not found" in found["n"]
        assert_nowhere(project, provider, result.out)
    assert (project.folder / "work/settings.txt").read_text() == SETTINGS


def test_what_the_user_attaches_and_names_is_kept_without_secrets(project: Project, zeus: Zeus) -> None:
    with Provider(Reply("done")) as provider:
        configured(project, provider, middlewares=["resources"])
        result = zeus("run", "zeus.yaml", "see @settings.txt", "--attach", "work/settings.txt")
        assert result.exit_code == 0, result.err
        assert "<secret:SHOP_TOKEN>" in json.dumps(provider.requests[0].body)
        assert_nowhere(project, provider, result.out, result.err)


def test_a_provider_that_repeats_the_key_in_its_error_leaves_it_nowhere(project: Project, zeus: Zeus) -> None:
    with Provider(Reply(f"Incorrect API key provided: {LITERAL}", status=400)) as provider:
        configured(project, provider)
        result = zeus("run", "zeus.yaml", "go", "-o", "ndjson")
        assert result.exit_code != 0
        assert_nowhere(project, provider, result.out, result.err)


def test_a_sub_agent_and_its_parent_share_what_they_hide(project: Project, zeus: Zeus) -> None:
    """The child's config has a secret of its own; each reads a file that holds both."""
    own = "child-own-key-4711-abc"

    def answer(request: Received) -> Reply:
        said = [each["role"] for each in request.body["messages"]]
        is_child = "You are the child" in json.dumps(request.body["messages"][:2])
        if "tool" not in said:
            path = called("read_file", "r", path="/settings.txt")
            task = called(
                "task", "t", agent="child", prompt=f"You are the child: read, mind {TOKEN}", description="x"
            )
            return Reply(calls=[path] if is_child else [path, task])
        return Reply(f"I saw {own} and {TOKEN}")

    with Provider(answer=answer) as provider:
        agents = {"child": {"description": "reads", "config": "child.yaml"}}
        configured(project, provider, tools=["filesystem", "subagents"], agents=agents)
        parent = json.loads((project.folder / "zeus.yaml").read_text())
        child = {key: parent[key] for key in ("version", "model", "workspace", "profiles", "retry")}
        child["model"]["litellm"]["headers"] = {"X-Token": own}
        project.write("child.yaml", json.dumps({**child, "name": "child", "tools": ["filesystem"]}))
        project.write("work/settings.txt", SETTINGS + own)
        result = zeus("run", "zeus.yaml", "go", "-o", "ndjson")
        assert result.exit_code == 0, result.err
        sent = json.dumps([each.body for each in provider.requests])
        assert own not in sent + result.out
        assert "<secret:SHOP_TOKEN>" in sent
        HOLDERS.add("child.yaml")
        assert_nowhere(project, provider, result.out, result.err)
        for path in (project.folder / ".zeus").rglob("*"):
            assert not path.is_file() or own.encode() not in path.read_bytes(), path


def test_a_secret_from_before_masking_is_masked_when_its_session_goes_on(
    project: Project, zeus: Zeus
) -> None:
    with Provider(Reply("first"), Reply("second")) as provider:
        configured(project, provider, secrets={"to_model": "allow"})
        assert zeus("run", "zeus.yaml", f"remember {TOKEN}").exit_code == 0
        configured(project, provider)
        assert zeus("run", "zeus.yaml", "and now", "--continue").exit_code == 0
        assert TOKEN in json.dumps(provider.requests[0].body)
        assert TOKEN not in json.dumps(provider.requests[1].body)


def test_a_session_that_compacts_archives_no_secret(project: Project, zeus: Zeus) -> None:
    def answer(request: Received) -> Reply:
        if "tools" not in request.body or "ummar" in json.dumps(request.body["messages"][-1]):
            return Reply(f"Summary: {TOKEN}.")
        if request.body["messages"][-1]["content"] == "first":
            return Reply(calls=[called("read_file", "r", path="/settings.txt")])
        return Reply(f"The token {TOKEN} is set. " * 40)

    with Provider(answer=answer) as provider:
        policy = {"summarization": {"trigger": {"messages": 100}, "keep": {"messages": 1}}}
        configured(project, provider, middlewares=[policy])
        result = zeus("chat", "zeus.yaml", stdin=f"first\nmind {TOKEN}\nsecond\n/compact\nthird\n")
        assert result.exit_code == 0, result.err
        (archived,) = (project.folder / ".zeus").rglob("session_*.md")
        assert "<secret:SHOP_TOKEN>" in archived.read_text()
        assert "Summary: <secret:SHOP_TOKEN>." in json.dumps(provider.requests[-1].body)
        assert_nowhere(project, provider, result.out, result.err)


def test_a_run_that_is_killed_and_taken_up_leaves_no_secret(project: Project, zeus: Zeus) -> None:
    reading = Reply(calls=[called("read_file", "r", path="/settings.txt")])
    with Provider(reading, Reply(f"{TOKEN} is the", hang_after=4), Reply("done")) as provider:
        configured(project, provider)
        process = spawn(["run", "zeus.yaml", f"mind {TOKEN}", "-o", "ndjson"], project.folder)
        assert provider.wait_for_requests(2)
        process.kill()
        out, err = process.communicate(timeout=60)
        assert_nowhere(project, provider, out, err)
        result = zeus("run", "zeus.yaml", "--continue", "-o", "ndjson")
        assert result.exit_code == 0, result.err
        first, last = (each.body["messages"] for each in provider.requests[1:])
        assert first == last, "what is sent again is byte-identical"
        assert_nowhere(project, provider, result.out, result.err)


def test_allow_sends_and_keeps_secrets_as_they_are(project: Project, zeus: Zeus) -> None:
    reading = called("read_file", "r", path="/settings.txt")
    copy = called("write_file", "w", path="/copy.txt", content=TOKEN)
    with Provider(Reply(calls=[reading, copy]), Reply(f"It is {TOKEN}")) as provider:
        configured(project, provider, secrets={"to_model": "allow"})
        result = zeus("run", "zeus.yaml", "go")
        assert result.exit_code == 0, result.err
        assert TOKEN in results(provider)["r"]
        assert TOKEN not in result.out + result.err, "the terminal is masked all the same"
    assert (project.folder / "work/copy.txt").read_text() == TOKEN
