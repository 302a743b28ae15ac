"""``zeus auth``: the accounts that an agent's tools need, authorised by a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.options import ConfigArgs, config_argument, json_option, read_config
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.streams import answer, complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeus_runtime.cli.process import Process
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.tools import Account, LoginPage, Toolset


@click.group("auth")
def command() -> None:
    """Authorise the accounts that tools need, or take them back.

    They are those of remote MCP servers with `auth: oauth` or a preset such as github.
    """


@command.command("status")
@config_argument
@json_option
@click.pass_obj
def status(process: Process, which: ConfigArgs, as_object: bool) -> None:
    """Show the accounts that a config's tools need, and which are authorised."""
    found = [account for _, account in _accounts(_planned(process, which))]
    rows = [
        (each.name, "authorised" if each.authorised else "not authorised", each.detail, each.address)
        for each in found
    ]
    tell(
        process,
        found,
        lambda: TextTable(rows, ("ACCOUNT", "STATE", "DETAIL", "ADDRESS")),
        as_object=as_object,
        nothing="no tool of this config needs an account; `auth: oauth` under one of mcpServers makes one need it",
    )


@command.command("login")
@click.argument("name")
@config_argument
@click.option("--no-browser", is_flag=True, help="Only print the address, open no browser.")
@click.pass_obj
def login(process: Process, name: str, which: ConfigArgs, no_browser: bool) -> None:
    """Authorise the account NAME in a browser.

    The address to open is printed, and the browser comes back to a port of this machine. If another host gets the
    answer, and the config names no issuer, the browser is not opened for you. The right is kept encrypted
    beside your own Home, its key in the system's keyring or in a file that only you can read.
    """
    import asyncio

    plan = _planned(process, which, will_call=True)
    toolset = _toolset(_accounts(plan), name)

    def show(page: LoginPage) -> None:
        complain(f"open this address to authorise {name!r}:")
        # In one piece, so that it can be copied: without a blank, no part of it looks like a line of Zeus's.
        complain(f"  {page.url}", laid_out=not any(map(str.isspace, page.url)))
        if page.receivers:
            complain(f"the account goes to another host: {', '.join(page.receivers)}")
        if page.receivers and not page.is_vouched:
            # A page that knows the user may send its answer at once, before the user has read this.
            complain("open the address yourself, if you know that both belong to the same provider")
        elif not no_browser:
            from threading import Thread

            # A terminal browser returns only when the user leaves it, and until then the request must be answered.
            Thread(target=_open_browser, args=(page.url,), daemon=True).start()

    tools = asyncio.run(toolset.log_in(name, show))
    answer(f"{name} is authorised; it has {tools} tools for this account")


def _open_browser(url: str) -> None:
    import webbrowser

    # The module looks browsers up on the PATH of Zeus's process, which has no folder in which agents write.
    webbrowser.open(url)


@command.command("logout")
@click.argument("name")
@config_argument
@click.pass_obj
def logout(process: Process, name: str, which: ConfigArgs) -> None:
    """Take the right of the account NAME back at its provider, and forget it."""
    import asyncio

    toolset = _toolset(_accounts(_planned(process, which)), name)
    there_was_one = asyncio.run(toolset.log_out(name))
    answer(f"{name} is no longer authorised" if there_was_one else f"{name} was not authorised")


def _planned(process: Process, which: ConfigArgs, *, will_call: bool = False) -> Plan:
    from zeus_runtime.cli.trusting import read_trusted
    from zeus_runtime.plan.plan import make_plan

    return make_plan(read_trusted(process, which) if will_call else read_config(process, which))


def _accounts(plan: Plan) -> list[tuple[Toolset, Account]]:
    toolsets = [planned.create(plan.context) for planned in plan.opens]
    return [(toolset, account) for toolset in toolsets for account in toolset.accounts()]


def _toolset(found: Sequence[tuple[Toolset, Account]], name: str) -> Toolset:
    from zeus_runtime.config.messages.diagnostics import suggestion
    from zeus_runtime.errors import UsageError

    for toolset, account in found:
        if account.name == name:
            return toolset
    known = [account.name for _, account in found]
    raise UsageError(
        f"no tool of this config has an account {name!r}{suggestion(name, known)}",
        remedy=f"Its accounts: {', '.join(known) or 'none'}.",
    )
