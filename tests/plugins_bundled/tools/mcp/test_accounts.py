"""Where accounts are kept, and what comes back from a browser."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from zeus_plugins.tools.mcp.oauth.browser import browser
from zeus_plugins.tools.mcp.oauth.store import AccountStore

from zeus_runtime import OptionsError
from zeus_runtime.plugin.tool import LoginPage


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


def store(folder: Path, name: str = "far") -> AccountStore:
    return AccountStore(folder / "accounts", name, "https://far.example/mcp")


def test_a_key_that_others_can_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    store(tmp_path).write({"tokens": {}})
    key = tmp_path / "accounts/key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    for use in (store(tmp_path).read, store(tmp_path).check, lambda: store(tmp_path).write({})):
        with pytest.raises(OptionsError, match="can be read by other users") as refused:
            use()
        assert f"chmod 600 {key}" in str(refused.value)
    key.chmod(0o600)
    assert store(tmp_path).read() is not None


@pytest.mark.parametrize("content", [b"", b"no key", b"\0" * 44])
def test_a_damaged_key_is_said_whoever_meets_it(tmp_path: Path, content: bytes) -> None:
    store(tmp_path).write({"tokens": {}})
    (tmp_path / "accounts/key").write_bytes(content)
    for use in (store(tmp_path).read, store(tmp_path).check, lambda: store(tmp_path).write({})):
        with pytest.raises(OptionsError, match="is damaged") as refused:
            use()
        assert "zeus auth login" in str(refused.value)


class Keyring:
    """A keyring of the desktop, which may be locked or have gone.

    Args:
        trouble: what it raises, if it does not answer.
    """

    priority = 5

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.trouble: Exception | None = None

    def get_password(self, service: str, _entry: str) -> str | None:
        if self.trouble is not None:
            raise self.trouble
        return self.kept.get(service)

    def set_password(self, service: str, _entry: str, password: str) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.kept[service] = password


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch) -> Keyring:
    import keyring

    found = Keyring()
    monkeypatch.setattr(keyring, "get_keyring", lambda: found)
    monkeypatch.setattr(keyring, "get_password", found.get_password)
    monkeypatch.setattr(keyring, "set_password", found.set_password)
    return found


def test_a_keyring_that_does_not_answer_for_a_while_costs_no_account(
    tmp_path: Path, desktop: Keyring
) -> None:
    store(tmp_path).write({"tokens": {}})
    assert not (tmp_path / "accounts/key").exists()
    desktop.trouble = RuntimeError("the bus is gone")
    with pytest.raises(OptionsError, match="does not answer"):
        store(tmp_path).read()
    assert not (tmp_path / "accounts/key").exists(), "looking at an account makes no key"
    store(tmp_path, "other").write({"tokens": {}})
    desktop.trouble = None
    assert store(tmp_path).read() is not None
    assert store(tmp_path, "other").read() is not None


def test_those_who_keep_their_first_accounts_at_once_have_one_key_in_the_keyring(
    tmp_path: Path, desktop: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    import keyring

    both = threading.Barrier(2)

    def set_together(service: str, _entry: str, password: str) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        desktop.kept[service] = password

    monkeypatch.setattr(keyring, "set_password", set_together)
    first = [
        threading.Thread(target=store(tmp_path, name).write, args=({"tokens": {}},)) for name in ("a", "b")
    ]
    for each in first:
        each.start()
    for each in first:
        each.join()
    assert all(store(tmp_path, name).read() is not None for name in ("a", "b"))


def test_something_else_under_the_keyrings_name_is_no_key_and_stays(tmp_path: Path, desktop: Keyring) -> None:
    desktop.kept["zeus-runtime"] = "a password"
    store(tmp_path).write({"tokens": {}})
    assert store(tmp_path).read() is not None
    assert desktop.kept == {"zeus-runtime": "a password"}


async def test_a_place_that_cannot_hold_accounts_is_said_whoever_meets_it(tmp_path: Path) -> None:
    (tmp_path / "accounts").write_text("no folder")

    async def lock() -> None:
        async with store(tmp_path).locked():
            pass

    for use in (
        store(tmp_path).read,
        store(tmp_path).check,
        store(tmp_path).delete,
        lambda: store(tmp_path).write({}),
    ):
        with pytest.raises(OptionsError, match="cannot be read or written: ") as refused:
            use()
        assert "XDG_CONFIG_HOME" in str(refused.value)
    with pytest.raises(OptionsError, match="cannot be read or written"):
        await lock()
    assert store(tmp_path).written_at is None


async def test_who_waits_for_an_account_and_goes_away_holds_it_never(tmp_path: Path) -> None:
    async def take() -> None:
        async with store(tmp_path).locked():
            raise AssertionError

    async with store(tmp_path).locked():
        waiting = asyncio.create_task(take())
        await asyncio.wait([waiting], timeout=0.1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    async with asyncio.timeout(60), store(tmp_path).locked():
        pass


async def test_a_connection_that_a_browser_opened_in_advance_keeps_nobody_waiting() -> None:
    async with asyncio.timeout(60):
        async with browser(None, lambda _url: None) as person:
            port = int(person.redirect_uri.split(":")[2].partition("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            async with httpx2.AsyncClient() as pages:
                assert (await pages.get(person.redirect_uri)).status_code == 400
        with suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()


def write(folder: Path, name: str, gate: Any) -> None:
    gate.wait()
    store(folder, name).write({"tokens": {"access_token": name}})


def test_processes_that_keep_their_first_accounts_at_once_have_one_key(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(6)
    writers = [fork.Process(target=write, args=(tmp_path, f"s{n}", gate)) for n in range(6)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    kept = [store(tmp_path, f"s{n}").read() for n in range(6)]
    assert [each and each["tokens"]["access_token"] for each in kept] == [f"s{n}" for n in range(6)]
    assert [each.name for each in (tmp_path / "accounts").iterdir() if "new" in each.name] == []


async def test_only_the_answer_to_what_was_asked_is_taken() -> None:
    async with browser(None, lambda _url: None) as person, httpx2.AsyncClient() as pages:

        async def visit(query: str) -> int:
            return (await pages.get(f"{person.redirect_uri}{query}")).status_code

        assert await visit("?code=early&state=guess") == 400, "nothing was asked yet"
        await person.show(LoginPage("https://far.example/authorize?client_id=x&state=secret"))
        answer = asyncio.create_task(person.answer())
        for foreign in ("?code=evil&state=guess", "?error=access_denied", "", "?code=evil"):
            assert await visit(foreign) == 400
        assert not answer.done()
        assert await visit("?code=good&state=secret") == 200
        assert (await answer).code == "good"


async def test_a_request_that_is_none_disturbs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with browser(None, lambda _url: None) as person:
        port = int(person.redirect_uri.split(":")[2].partition("/")[0])
        for noise in (b"\r\n", b"GET //[ HTTP/1.1\r\n", b"GET /" + b"x" * 50_000 + b"\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(noise)
            assert b"404" in await reader.readline()
            writer.close()
    assert caplog.records == []


@pytest.mark.parametrize("how", ["read", "written"])
def test_an_accounts_tokens_are_masked_from_when_they_are_known(tmp_path: Path, how: str) -> None:
    account = {
        "tokens": {"access_token": "access-0815", "refresh_token": "refresh-0815", "token_type": "Bearer"},
        "client": {"client_id": "zeus", "client_secret": "client-0815"},
        "metadata": None,
    }
    learned: dict[str, str] = {}
    store = AccountStore(tmp_path, "far", "https://far.example/mcp", learned.__setitem__)
    if how == "read":
        AccountStore(tmp_path, "far", "https://far.example/mcp").write(account)
        store.read()
    else:
        store.write(account)
    store.learn_held(
        {"access_token": 815, "refresh_token": None, "client_secret": ""}
    )  # as no provider should
    assert learned == {
        "access-0815": "accounts.far.access_token",
        "refresh-0815": "accounts.far.refresh_token",
        "client-0815": "accounts.far.client_secret",
    }
