"""The replays of ``zeus context tune``, in this process or in several others at the same time.

A worker process is started with ``python -P -m`` and not forked, so it inherits no thread and no module of the working
directory. It gets its orders through a pipe, ignores the terminal's Ctrl-C, and ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.agent.tuning import Candidate, Piece, TrialFigures
    from zeus_runtime.cli.options import ConfigArgs
    from zeus_runtime.plan.plan import Plan

_SIZE: Final = struct.Struct("!Q")


@dataclass(frozen=True)
class Replays:
    """The replays of candidates on recordings.

    Args:
        which: the config; its ``config`` is named.
        directory: the working directory.
        pieces: the recordings.
        summary_tokens: the length of simulated summaries.
    """

    which: ConfigArgs
    directory: Path
    pieces: tuple[Piece, ...]
    summary_tokens: int

    def plan(self, lines: Candidate, environ: Mapping[str, str]) -> Plan | None:
        """The plan of a candidate; None if its options do not fit each other."""
        from zeus_runtime.agent.tuning import written
        from zeus_runtime.cli.output import as_json
        from zeus_runtime.config import ConfigError
        from zeus_runtime.plan.plan import make_plan
        from zeus_runtime.plan.validated import check

        sets = (*self.which.sets, f"middlewares={as_json(written(lines), indent=None)}")
        try:
            return make_plan(
                check(
                    self.which.config,
                    env=self.which.env,
                    sets=sets,
                    directory=self.directory,
                    environ=environ,
                )
            )
        except ConfigError:
            return None

    async def figures(self, plan: Plan, place: int) -> TrialFigures:
        """The figures of a plan on the piece at ``place``."""
        from pathlib import Path
        from tempfile import TemporaryDirectory

        from zeus_runtime.agent.backtest import replay
        from zeus_runtime.agent.tuning import TrialFigures
        from zeus_runtime.cli.context.backtest import listed_tools

        piece = self.pieces[place]
        with TemporaryDirectory(prefix="zeus-tune-") as folder:
            played = await replay(
                plan,
                piece.recording,
                Path(folder),
                policy="candidate",
                summary_tokens=self.summary_tokens,
                listed=listed_tools(plan, piece.recording),
            )
        return TrialFigures.of(played, piece.from_place)


class ReplayWorkers:
    """Processes that replay at the same time, each one replay at a time. They are started when they are needed.

    Args:
        replays: their work.
        count: how many there may be.
    """

    def __init__(self, replays: Replays, count: int) -> None:
        self._order = pickle.dumps(replays)
        self._free = asyncio.Semaphore(count)
        self._idle: list[asyncio.subprocess.Process] = []
        self._all: list[asyncio.subprocess.Process] = []

    async def figures(self, lines: Candidate, place: int) -> TrialFigures | None:
        """The figures of a candidate on the piece at ``place``; None if the replay raised an error.

        Raises:
            UsageError: the process ended in the middle of it.
        """
        from zeus_runtime.errors import UsageError

        # At most `count` callers are in here: either a process is idle, or another may be started.
        async with self._free:
            worker = self._idle.pop() if self._idle else await self._started()
            assert worker.stdin is not None
            assert worker.stdout is not None
            try:
                worker.stdin.write(_framed(pickle.dumps((lines, place))))
                await worker.stdin.drain()
                (size,) = _SIZE.unpack(await worker.stdout.readexactly(_SIZE.size))
                found: TrialFigures | None = pickle.loads(await worker.stdout.readexactly(size))
            except (OSError, EOFError):
                code = await worker.wait()
                raise UsageError(
                    f"a process that replayed a session ended (exit code {code})",
                    remedy="Run the command again with --workers 1; finished trials are kept.",
                ) from None
            self._idle.append(worker)
            return found

    async def _started(self) -> asyncio.subprocess.Process:
        from zeus_runtime.process_path import given_environ
        from zeus_runtime.tools.worker_process import started

        worker = await started(__name__, given_environ())
        self._all.append(worker)
        assert worker.stdin is not None
        worker.stdin.write(_framed(self._order))
        return worker

    async def close(self) -> None:
        """End the processes, also in the middle of replays."""
        # All are killed before one is waited for: they end at the same time.
        for worker in self._all:
            with suppress(ProcessLookupError):
                worker.kill()
        for worker in self._all:
            await worker.wait()


def _framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def _orders(stream: Any) -> Any:
    while len(head := stream.read(_SIZE.size)) == _SIZE.size:
        (size,) = _SIZE.unpack(head)
        data = stream.read(size)
        if len(data) < size:
            return
        yield pickle.loads(data)


def _serve(user: int) -> None:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.cli.start import prepared
    from zeus_runtime.process_path import narrow_process
    from zeus_runtime.tools.worker_process import end_with

    end_with(user)
    orders = _orders(os.fdopen(os.dup(0), "rb"))
    answers = os.fdopen(os.dup(1), "wb")
    # Neither a config that is read from standard input nor a library that prints may touch the pipes.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    replays: Replays = next(orders)
    process = Process()
    narrow_process()
    with prepared(process):
        for lines, place in orders:
            answers.write(_framed(pickle.dumps(_figures(replays, lines, place, process.environ))))
            answers.flush()


def _figures(
    replays: Replays, lines: Candidate, place: int, environ: Mapping[str, str]
) -> TrialFigures | None:
    try:
        plan = replays.plan(lines, environ)
        return None if plan is None else asyncio.run(replays.figures(plan, place))
    except Exception:  # noqa: BLE001 - the process that started this one replays again and reports the error
        return None


if __name__ == "__main__":
    # Pickled objects name this module as its importers do.
    from zeus_runtime.cli.context import tune_replays

    tune_replays._serve(int(sys.argv[1]))
