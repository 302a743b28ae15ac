"""What ``zeus doctor`` checks: Python, packages, plugins, Homes, the config, its database and key, the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cli.findings import DoctorFinding, missing
from zeus_runtime.cli.streams import is_terminal, shows_colours
from zeus_runtime.errors import MissingError, ZeusError

if TYPE_CHECKING:
    from zeus_runtime.cli.options import ConfigArgs
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.own_programs import OwnPrograms
    from zeus_runtime.trust.decision import Trust

DISTRIBUTION = "zeus-runtime"
OLDEST_PYTHON = (3, 11)
DEFAULT_URL = "sqlite:///.zeus/zeus.db"


def examine(process: Process, which: ConfigArgs) -> Iterator[DoctorFinding]:
    """Every finding, as it is made.

    Args:
        which: the config to check besides the installation; ``zeus.yaml`` in the working directory, if any.
    """
    yield _python()
    yield from packages(DISTRIBUTION)
    yield from _plugins(process)
    yield from _homes(process)
    checked: Checked | None = None
    if which.config is None and not (process.directory / "zeus.yaml").exists():
        yield DoctorFinding(
            "ok", "config", "none asked for, and no zeus.yaml here: keys and defaults are looked at"
        )
        yield _keys(process)
        yield from database(DEFAULT_URL, process.directory, _trust_of_presets())
    else:
        findings, checked = _config(process, which)
        yield from findings
    if checked is not None:
        yield from _model(checked)
        yield from _sandboxes(checked)
        yield from _memory(checked)
        yield from _keys_in_git(checked)
        yield from home_in_workspace(checked)
        yield from path_in_workspace(checked)
        yield from short_names_in_workspace(checked)
        yield from programs_in_project(checked)
        yield from database(checked.config.storage.url, checked.directory, checked.trust)
    yield _terminal(process)


def _python() -> DoctorFinding:
    from platform import python_implementation, python_version

    shown = f"{python_implementation()} {python_version()} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:
        return missing("python", shown, f"Use Python {'.'.join(map(str, OLDEST_PYTHON))} or later.")
    return DoctorFinding("ok", "python", shown)


def packages(distribution: str) -> Iterator[DoctorFinding]:
    """The distribution and what it requires: installed or not."""
    import re
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        required = requires(distribution) or []
        yield DoctorFinding("ok", distribution, version(distribution))
    except PackageNotFoundError:
        yield missing(
            distribution, "is not installed as a distribution", "Install it: without that no plugin is found."
        )
        return
    absent, present = [], []
    for requirement in required:
        # Takes `httpx` of `httpx>=0.27; python_version<"4"`.
        match = re.match(r"[A-Za-z0-9._-]+", requirement)
        if match is None or "extra ==" in requirement:
            continue
        try:
            present.append(f"{match[0]} {version(match[0])}")
        except PackageNotFoundError:
            absent.append(match[0])
    for name in absent:
        yield missing("packages", f"{name} is not installed", f"pip install {name}")
    if present:
        yield DoctorFinding("ok", "packages", ", ".join(present))


def _plugins(process: Process) -> Iterator[DoctorFinding]:
    from collections import Counter

    from zeus_runtime.registry import discover

    registry = discover(environ=process.environ)
    count = Counter(plugin.status for plugin in registry.plugins)
    shown = ", ".join(f"{number} {status}" for status, number in sorted(count.items()))
    if not count["loaded"]:
        yield missing(
            "plugins", "none is loaded", "Reinstall zeus-runtime; `zeus plugins` shows what is blocked."
        )
    else:
        yield DoctorFinding("ok", "plugins", shown)
    for problem in registry.problems:
        yield DoctorFinding("warn", "plugins", problem.message, problem.remedy)


def _homes(process: Process) -> Iterator[DoctorFinding]:
    from zeus_runtime.registry import search_path

    try:
        homes = search_path(directory=process.directory, environ=process.environ)
        yield DoctorFinding("ok", "homes", ", ".join(map(str, homes)))
    except ZeusError as error:
        yield missing("homes", error.message, error.remedy or "")


def _config(process: Process, which: ConfigArgs) -> tuple[list[DoctorFinding], Checked | None]:
    from zeus_runtime.cli.options import read_config
    from zeus_runtime.plan.plan import make_plan

    try:
        checked = read_config(process, which)
        plan = make_plan(checked)
    except ZeusError as error:
        return [
            DoctorFinding("fail", "config", str(error), error.remedy or "", exit_code=error.exit_code)
        ], None
    findings = [DoctorFinding("ok", "config", checked.document.source)]
    findings += [DoctorFinding("warn", "config", notice.message) for notice in plan.notices]
    return findings, checked


def _keys(process: Process) -> DoctorFinding:
    names = sorted(name for name, value in process.environ.items() if name.endswith("_API_KEY") and value)
    if names:
        return DoctorFinding("ok", "keys", ", ".join(names))
    return DoctorFinding(
        "warn", "keys", "no ..._API_KEY is set", "Set your provider's; `zeus run quickstart` needs none."
    )


def _model(checked: Checked) -> Iterator[DoctorFinding]:
    """Whether each model could be called; a model that can tell has ``async check()``, which raises if not."""
    import asyncio

    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.run.connections import plans

    checked_already: list[object] = []
    for planned in (
        each for plan in plans(make_plan(checked)) for each in (*plan.models, *plan.summary, *plan.vision)
    ):
        # Compared and not hashed: options may hold lists.
        key = (planned.component.name, planned.component.value)
        if key in checked_already:
            continue
        checked_already.append(key)
        try:
            model: Any = planned.component.create(planned.context)
            check = getattr(model, "check", None)
            if check is not None:
                asyncio.run(check())
        except Exception as error:  # noqa: BLE001 - whatever the plugin raises is the finding
            yield missing("model", *_told(error, f"{planned.profile.name} cannot be checked"))
        else:
            yield DoctorFinding("ok", "model", f"{planned.profile.name} ({planned.component.name})")


def _told(error: Exception, what: str) -> tuple[str, str]:
    """The detail and the remedy of a finding.

    Args:
        what: what failed; an error of ours says it itself.
    """
    if isinstance(error, ZeusError):
        return error.message, error.remedy or ""
    return f"{what}: {type(error).__name__}: {error}", ""


def _sandboxes(checked: Checked) -> Iterator[DoctorFinding]:
    """Whether programs could be run, and what this machine does not let a sandbox limit."""
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.run.connections import sandboxes_of

    for backend in (each for sandboxes in sandboxes_of(make_plan(checked)) for each in sandboxes.opened):
        try:
            backend.check()
        except Exception as error:  # noqa: BLE001 - whatever the plugin raises is the finding
            yield missing("sandbox", *_told(error, "it cannot be checked"))
            continue
        weaknesses = backend.capabilities.weaknesses
        for weakness in weaknesses:
            yield DoctorFinding(
                "warn",
                "sandbox",
                weakness,
                "Run Zeus in a systemd user slice (systemd-run --user --scope zeus ...), or use the backend docker.",
            )
        if not weaknesses:
            yield DoctorFinding(
                "ok", "sandbox", f"{backend.capabilities.boundary}, all limits are the kernel's"
            )


def _memory(checked: Checked) -> Iterator[DoctorFinding]:
    """What a memory backend other than the agent's own database does not do."""
    from zeus_runtime.plan.plan import make_plan

    plan = make_plan(checked)
    memory = plan.context.memory
    if memory is None or plan.memory is None:
        return
    try:
        lacks = memory.lacks
    except Exception as error:  # noqa: BLE001 - whatever the plugin raises is the finding
        yield missing("memory", *_told(error, f"the backend {plan.memory.backend.name} cannot be opened"))
        return
    if not memory.is_in_database:
        yield _backend_answers(memory, plan.memory.backend.name)
    for what, instead in lacks.items():
        yield DoctorFinding(
            "warn", "memory", f"without {what}: {instead}", "Use the backend database for this."
        )


def _backend_answers(memory: MemoryService, name: str) -> DoctorFinding:
    """Whether a memory backend elsewhere answers: it is asked for one memory of the config's user."""
    import asyncio

    async def ask() -> None:
        try:
            await memory.answers()
        finally:
            await memory.aclose()

    try:
        asyncio.run(asyncio.wait_for(ask(), _BACKEND_SECONDS))
    except TimeoutError:
        why, remedy = f"no answer within {_BACKEND_SECONDS:g} seconds", ""
    except ZeusError as error:
        why, remedy = error.message, error.remedy or ""
    except Exception as error:  # noqa: BLE001 - whatever the plugin's engine raises is the finding
        why, remedy = f"{type(error).__name__}: {error}", ""
    else:
        return DoctorFinding("ok", "memory", f"the backend {name} answers")
    return missing(
        "memory",
        f"the backend {name} does not answer: {why}",
        remedy or f"Start its engine, or correct memory.backend.{name}.",
    )


_BACKEND_SECONDS: Final = 10.0


def _keys_in_git(checked: Checked) -> Iterator[DoctorFinding]:
    """The key files of which commands may read git's copies: the built-in protection is for files alone."""
    import os

    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.run.connections import plans

    found: dict[str, None] = {}
    for plan in plans(make_plan(checked)):
        files, index = plan.context.workspace, plan.context.workspace.root / ".git/index"
        runs = any(each.tool.category in ("shell", "sandbox") for each in plan.tools)
        # A rule that closes files, or asks about them, closes git's copies to programs.
        if (
            runs
            and os.path.lexists(index)
            and files.refusal_of(index) is None
            and not files.needs_question(index)
        ):
            found |= dict.fromkeys(_tracked_keys(files.root, plan.context.own_programs))
    if found:
        more = f" and {len(found) - _SHOWN_KEY_FILES} more" if len(found) > _SHOWN_KEY_FILES else ""
        yield DoctorFinding(
            "warn",
            "git",
            f"commands can read what git keeps of {', '.join([*found][:_SHOWN_KEY_FILES])}{more}",
            'If keys are in them, close these copies by workspace: {access: {".env*": deny}}, or replace the keys.',
        )


def home_in_workspace(checked: Checked) -> Iterator[DoctorFinding]:
    """The servers and hooks that would execute what a command of the agent makes in the home folder."""
    from zeus_runtime.disk_paths import home_folder, real_path
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.run.connections import plans

    own = home_folder(checked.process_environ)
    every = [*plans(make_plan(checked))]
    if not any(map(_programs_write, every)):
        return
    work = _work(checked, every)

    def is_reached(home: str | Path | None) -> bool:
        return home is not None and any(Path(real_path(home)).is_relative_to(each) for each in work)

    started = {
        f"MCP server '{name}'": None
        for plan in every
        for name, server in plan.config.mcp_servers.items()
        if server.command is not None and not server.disabled and is_reached(server.env.get("HOME", own))
    }
    hooks = (str(part) for part in checked.parts if part.kind == "command")
    started |= dict.fromkeys(hooks if is_reached(own) else ())
    if started:
        yield DoctorFinding(
            "warn",
            "home",
            "the home folder is in the workspace: commands can make start files of shells and programs there"
            f" (.bash_profile, .gitconfig), which these may execute outside of the sandbox: {', '.join(started)}",
            "Set HOME to a folder outside of the workspace, for all or in `env: {HOME: ...}` of the server.",
        )


def path_in_workspace(checked: Checked) -> Iterator[DoctorFinding]:
    """The folders of ``PYTHONPATH`` in which the agent may make a module that the next Zeus executes."""
    import os

    from zeus_runtime.disk_paths import real_path
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.run.connections import plans

    listed = filter(None, checked.process_environ.get("PYTHONPATH", "").split(os.pathsep))
    work = _work(checked, [*plans(make_plan(checked))])
    named = [each for each in listed if any(Path(real_path(each)).is_relative_to(at) for at in work)]
    if named:
        yield DoctorFinding(
            "warn",
            "PYTHONPATH",
            f"the Python that runs Zeus looks for modules in the workspace ({', '.join(named)}): a tool may make one"
            " there that a library imports if it is there, and the next Zeus executes it",
            "Start Zeus without PYTHONPATH, in an environment in which your package is installed.",
        )


def short_names_in_workspace(checked: Checked) -> Iterator[DoctorFinding]:
    """The folders whose files have second names that no rule knows, as on the file systems of Windows."""
    import os

    from zeus_runtime.disk_paths import short_name
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.run.connections import plans

    for folder in dict.fromkeys(_work(checked, [*plans(make_plan(checked))])):
        try:
            found = short_name(str(folder), os.listdir(folder))  # noqa: PTH208 - names are wanted
        except OSError:
            continue
        if found is not None:
            yield DoctorFinding(
                "warn",
                "workspace",
                f"the file system of {folder} also finds files by names that no folder lists, such as {found}:"
                " no tool of Zeus opens them, but a command or a server may",
                "Keep the project on a file system of Linux; in WSL, in your home folder instead of below /mnt.",
            )


def programs_in_project(checked: Checked) -> Iterator[DoctorFinding]:
    """Each server and hook that may read files of the project which its digest does not hold."""
    from zeus_runtime.plan.parts_with_subagents import all_parts
    from zeus_runtime.trust.parts import READS_ON

    said, remedy = READS_ON.split(": ")
    for part in all_parts(checked):
        if part.reads_on:
            yield DoctorFinding("warn", str(part), said, f"{remedy.capitalize()}: docs/explanation/trust.md")


def _work(checked: Checked, every: Sequence[Plan]) -> Sequence[Path]:
    """The folders in which the agents of these plans work."""
    from zeus_runtime.disk_paths import real_path

    folders = [each.config.workspace for each in every]
    return [
        Path(real_path(checked.directory / place))
        for each in folders
        for place in (each.root, *each.routes.values())
    ]


def _programs_write(plan: Plan) -> bool:
    """Whether programs of the model write the workspace itself."""
    return any(each.tool.category == "shell" for each in plan.tools) or any(
        getattr(each.value, "workspace", None) == "write" for each in plan.toolsets
    )


def _tracked_keys(folder: Path, programs: OwnPrograms) -> Iterator[str]:
    """The files in the index of a folder's repository whose names say that they hold keys; not samples."""
    import os
    import subprocess

    from zeus_runtime.tools.access import is_key_name

    if (git := programs.git()) is None:
        return
    command, environ = git
    try:
        told = subprocess.run(
            [*command, "ls-files", "-z"], cwd=folder, env=environ, capture_output=True, timeout=_GIT_SECONDS
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    for path in filter(None, os.fsdecode(told).split("\0")):
        if any(map(is_key_name, path.split("/"))) and not path.lower().endswith(_SAMPLES):
            yield path


_SAMPLES: Final = (".example", ".sample", ".template", ".dist")
"""How the names of files end that are made to be committed without keys."""
_SHOWN_KEY_FILES: Final = 5
_GIT_SECONDS: Final = 10.0


def _trust_of_presets() -> Trust:
    """What the user allows where no config is asked for: the presets' database is the one that is looked at."""
    import os
    from dataclasses import replace

    from zeus_runtime.trust.decision import recorded_trust

    return replace(recorded_trust(os.environ), words=("default",))


def database(url: str, directory: Path, trust: Trust) -> Iterator[DoctorFinding]:
    """Whether threads can be stored at a URL. An SQLite file that is not there is not made."""
    from zeus_runtime.plan.executed_parts import foreign_database
    from zeus_runtime.store.database import sqlite_file
    from zeus_runtime.store.database_url import without_password
    from zeus_runtime.trust.decision import UntrustedError

    try:
        file = sqlite_file(url, directory)
        if file is not None:
            trust.require([*foreign_database(file, trust, directory=directory)])
    except UntrustedError as error:
        yield missing("database", str(error), error.remedy or "")
        return
    except Exception as error:  # noqa: BLE001 - whatever SQLAlchemy makes of a URL is the finding
        yield missing("database", f"{without_password(url)}: {error}", "Correct storage.url.")
        return
    if file is None:
        yield _reachable(url, directory)
    elif file.exists():
        yield _sqlite(file, file)
    else:
        yield from _new_sqlite(file)


def _new_sqlite(file: Path) -> Iterator[DoctorFinding]:
    from tempfile import TemporaryDirectory

    folder = next(parent for parent in file.parents if parent.exists())
    try:
        with TemporaryDirectory(prefix=".zeus-doctor-", dir=folder) as scratch:
            yield _sqlite(Path(scratch) / "probe.db", file, note=" (not made yet)")
    except OSError as error:
        remedy = "Make the folder writable, or set storage.url."
        yield missing("database", f"{folder} cannot be written: {error.strerror}", remedy)


def _sqlite(probe: Path, shown: Path, note: str = "") -> DoctorFinding:
    """Whether ``probe`` can be written, and whether its file system bears SQLite's write-ahead log."""
    import sqlite3
    from contextlib import closing

    from zeus_runtime.trust.databases import refuse_journal

    try:
        refuse_journal(probe)
        with closing(sqlite3.connect(probe, timeout=5, isolation_level=None)) as connection:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            # Takes the write lock and writes nothing: a read-only file fails here, and a plain BEGIN would not.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except MissingError as error:
        return missing("database", str(error), error.remedy or "")
    except sqlite3.Error as error:
        remedy = "Check its permissions and free space, or set storage.url to another place."
        return missing("database", f"{shown} cannot be written: {error}", remedy)
    detail = f"{shown}{note}, SQLite {sqlite3.sqlite_version}, journal {mode}"
    if mode != "wal":
        remedy = "The write-ahead log is not available there (a network file system?): use a local disk."
        return DoctorFinding("warn", "database", detail, remedy)
    return DoctorFinding("ok", "database", detail)


def _reachable(url: str, directory: Path) -> DoctorFinding:
    import asyncio

    from zeus_runtime.store.database import Database
    from zeus_runtime.store.database_url import without_password

    async def ask() -> None:
        from sqlalchemy import text

        database = Database(url, directory=directory)
        try:
            await database.run(lambda connection: connection.execute(text("SELECT 1")).scalar())
        finally:
            await database.close()

    try:
        asyncio.run(ask())
    except ZeusError as error:
        return missing("database", error.message, error.remedy or "")
    return DoctorFinding("ok", "database", without_password(url))


def _terminal(process: Process) -> DoctorFinding:
    from importlib.util import find_spec
    from shutil import get_terminal_size

    if not is_terminal(sys.stdout):
        return DoctorFinding("ok", "terminal", "standard output is not one: answers are plain text")
    size = get_terminal_size()
    parts = [
        f"{size.columns}x{size.lines}",
        process.environ.get("TERM", "TERM is not set"),
        sys.stdout.encoding,
    ]
    parts.append("colours" if shows_colours(sys.stdout) else "no colours")
    if find_spec("readline") is None:
        detail = ", ".join([*parts, "no readline"])
        return DoctorFinding(
            "warn", "terminal", detail, "Without readline a chat has no line editing and no history."
        )
    return DoctorFinding("ok", "terminal", ", ".join(parts))
