"""What every ``SandboxBackend`` must do, as tests that an author of a sandbox plugin inherits.

    class TestMySandbox(SandboxConformance):
        @asynccontextmanager
        async def backend(self):
            yield MySandbox(...)

The tests need only pytest: they run their own event loop. Authors must write further tests of the isolation of hostile
programs, because the possible attacks depend on the boundary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from zeus_runtime.tools.sandbox import (
    WORKING_FOLDER,
    Outcome,
    Program,
    Sandbox,
    SandboxBackend,
    SandboxError,
    SandboxLimits,
)


class SandboxConformance:
    """Inherit it and say how to get the backend; each ``test_`` method is one thing a backend must do."""

    deadline_seconds: ClassVar[float] = 120
    """A test that takes longer fails: a backend that does not end a program would hold it for ever."""

    def backend(self) -> AbstractAsyncContextManager[SandboxBackend]:
        """A backend that can be used here, with no session in it yet."""
        raise NotImplementedError

    def test_it_says_what_it_does(self) -> None:
        async def work(backend: SandboxBackend) -> None:
            backend.check()
            capabilities = backend.capabilities
            assert capabilities.languages, "it runs something"
            assert "seconds" in capabilities.limits, "no backend may run a program for ever"
            assert "output" in capabilities.limits, "no backend may collect output without end"
            assert isinstance(capabilities.machine, str), "whoever approves a call reads where it works"
            if capabilities.boundary == "machine":
                assert capabilities.machine, "another machine has a name"
            assert backend.capabilities.machine == capabilities.machine, "approvals are bound to it"

        self._with_backend(work)

    def test_a_program_runs_and_its_end_is_reported(self) -> None:
        async def work(box: Sandbox) -> None:
            outcome = await _shell(box, "echo out; echo err >&2; exit 3")
            assert outcome.exit_code == 3
            assert outcome.killed_by is None
            assert sorted(outcome.output.split()) == [b"err", b"out"]
            assert outcome.seconds >= 0

        self._with_box(work)

    def test_python_runs_where_it_is_promised(self) -> None:
        async def work(backend: SandboxBackend) -> None:
            if "python" not in backend.capabilities.languages:
                return
            box = await backend.create("one")
            program = Program(("python3", "/tmp/code.py"), {"code.py": "print('héllo', 6 * 7)".encode()})
            assert (await box.exec(program, SandboxLimits())).output.decode() == "héllo 42\n"

        self._with_backend(work)

    def test_arguments_are_no_shell_text(self) -> None:
        async def work(box: Sandbox) -> None:
            tricky = "a b; echo broken 'quoted' \"double\" $HOME `id` \\ \n*"
            outcome = await box.exec(Program(("printf", "%s", tricky)), SandboxLimits())
            assert outcome.output.decode() == tricky

        self._with_box(work)

    def test_it_starts_in_the_working_folder_with_an_empty_input(self) -> None:
        async def work(backend: SandboxBackend) -> None:
            outcome = await _shell(await backend.create("one"), "pwd; cat")
            assert len(outcome.output.decode().split()) == 1
            if backend.capabilities.isolated:
                assert outcome.output.decode().split() == [WORKING_FOLDER]

        self._with_backend(work)

    def test_only_given_variables_are_there(self) -> None:
        async def work(box: Sandbox) -> None:
            program = Program(("/bin/sh", "-c", 'echo "$GIVEN"; env'), environ={"GIVEN": "a b'c"})
            shown = (await box.exec(program, SandboxLimits())).output.decode().splitlines()
            assert shown[0] == "a b'c"
            assert not any(line.startswith(("PYTEST_", "ZEUS_", "OPENAI_")) for line in shown)

        self._with_box(work)

    def test_output_streams_while_the_program_runs(self) -> None:
        async def work(box: Sandbox) -> None:
            pieces: list[bytes] = []
            first = asyncio.Event()

            def hear(data: bytes) -> None:
                pieces.append(data)
                first.set()

            running = asyncio.ensure_future(
                box.exec(
                    Program(
                        ("/bin/sh", "-c", "echo first; while [ ! -e go ]; do sleep 0.02; done; sleep 60")
                    ),
                    SandboxLimits(seconds=1.0),
                    hear,
                )
            )
            await asyncio.wait_for(first.wait(), 30)
            assert not running.done(), "the first line came before the program ended"
            outcome = await running
            assert b"".join(pieces) == outcome.output == b"first\n"

        self._with_box(work)

    def test_a_program_that_takes_too_long_is_ended(self) -> None:
        async def work(box: Sandbox) -> None:
            outcome = await _shell(box, "trap '' TERM INT HUP; echo started; sleep 60", seconds=0.5)
            assert outcome.killed_by == "seconds"
            assert outcome.exit_code != 0
            assert outcome.output == b"started\n"

        self._with_box(work)

    def test_output_is_cut_while_it_runs(self) -> None:
        async def work(box: Sandbox) -> None:
            outcome = await box.exec(Program(("yes",)), SandboxLimits(seconds=30, output_bytes=5_000))
            assert outcome.killed_by == "output"
            assert len(outcome.output) == 5_000

        self._with_box(work)

    def test_files_stay_from_one_program_to_the_next(self) -> None:
        async def work(backend: SandboxBackend) -> None:
            box = await backend.create("one")
            await _shell(box, "mkdir -p data/deep; printf 'a\\000b' > data/deep/x; ln -s deep data/link")
            await box.close()
            box = await backend.create("one")
            outcome = await _shell(box, "cat data/link/x | wc -c; rm data/deep/x; echo new > data/y")
            assert outcome.output.split() == [b"3"]
            assert [each.path for each in await box.list() if each.kind == "file"] == [
                f"{WORKING_FOLDER}/data/y"
            ]

        self._with_backend(work)

    def test_temporary_files_do_not_stay(self) -> None:
        async def work(backend: SandboxBackend) -> None:
            box = await backend.create("one")
            outcome = await _shell(box, 'echo left > "$TMPDIR/left" && echo "$TMPDIR"')
            folder = outcome.output.decode().strip()
            assert (await _shell(box, f"cat {folder}/left")).exit_code != 0
            if backend.capabilities.isolated:
                assert folder == "/tmp"

        self._with_backend(work)

    def test_a_programs_own_files_are_there_for_it_alone(self) -> None:
        async def work(box: Sandbox) -> None:
            program = Program(("cat", "/tmp/given"), {"given": b"\x00given\xff"})
            assert (await box.exec(program, SandboxLimits())).output == b"\x00given\xff"
            assert await box.list() == []

        self._with_box(work)

    def test_files_are_written_read_and_listed_without_a_program(self) -> None:
        async def work(box: Sandbox) -> None:
            assert list(await box.list()) == []
            await box.write(f"{WORKING_FOLDER}/in/a.bin", bytes(range(256)))
            await box.write("b.txt", b"first")
            await box.write("b.txt", b"second")
            assert await box.read("in/a.bin", max_bytes=1_000) == bytes(range(256))
            assert [(each.path, each.kind, each.size_bytes) for each in await box.list()] == [
                (f"{WORKING_FOLDER}/b.txt", "file", 6),
                (f"{WORKING_FOLDER}/in", "directory", None),
                (f"{WORKING_FOLDER}/in/a.bin", "file", 256),
            ]
            assert [each.path for each in await box.list(f"{WORKING_FOLDER}/in")] == [
                f"{WORKING_FOLDER}/in/a.bin"
            ]
            assert len(await box.list(max_files=1)) == 1
            outcome = await _shell(box, "cat b.txt; wc -c < in/a.bin")
            assert outcome.output.split() == [b"second256"] or outcome.output == b"second256\n"

        self._with_box(work)

    def test_files_are_listed_whatever_their_names(self) -> None:
        async def work(box: Sandbox) -> None:
            script = r"""
                mkdir 'c\d' ...; printf x > 'a\b'; printf x > 'c\d/e'; printf x > "$(printf '\377')"
                printf x > 'line
break'; printf x > '~'; printf x > C:; printf x > last
            """
            await _shell(box, script)
            names = {each.path.removeprefix(f"{WORKING_FOLDER}/") for each in await box.list()}
            assert names >= {"c\\d", "...", "a\\b", "\udcff", "line\nbreak", "~", "C:", "last"}
            assert await box.read("line\nbreak", max_bytes=1) == await box.read("\udcff", max_bytes=1) == b"x"

        self._with_box(work)

    def test_what_cannot_be_read_or_written_is_an_error(self) -> None:
        async def work(box: Sandbox) -> None:
            await box.write("a.txt", b"12345")
            await _refused(box.read("absent.txt", max_bytes=10))
            await _refused(box.read("a.txt", max_bytes=4))
            await _refused(box.read("/etc/passwd", max_bytes=10_000))
            await _refused(box.read("../../etc/passwd", max_bytes=10_000))
            await _refused(box.write("/etc/passwd", b"x"))
            await _refused(box.write("../escaped", b"x"))
            await _refused(box.list("absent"))
            for path in ("x" * 300, "a\0b", "\ud800", "a.txt/b", "", "."):
                await _refused(box.read(path, max_bytes=10))
                await _refused(box.write(path, b"x"))
            assert await box.read("a.txt", max_bytes=5) == b"12345"

        self._with_box(work)

    def test_a_link_out_of_the_working_folder_is_not_followed(self) -> None:
        async def work(box: Sandbox) -> None:
            await _shell(box, "ln -s /etc/passwd out; ln -s /etc folder")
            await _refused(box.read("out", max_bytes=10_000))
            await _refused(box.read("folder/passwd", max_bytes=10_000))

        self._with_box(work)

    def test_sessions_see_nothing_of_each_other(self) -> None:
        async def work(backend: SandboxBackend) -> None:
            one, two = await backend.create("one"), await backend.create("two")
            await asyncio.gather(_shell(one, "echo 1 > mine"), _shell(two, "echo 2 > mine; echo 2 > other"))
            assert (await one.read("mine", max_bytes=10), await two.read("mine", max_bytes=10)) == (
                b"1\n",
                b"2\n",
            )
            assert len(await one.list()) == 1

        self._with_backend(work)

    def test_programs_of_one_session_run_one_after_the_other(self) -> None:
        async def work(box: Sandbox) -> None:
            await asyncio.gather(
                *(_shell(box, "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n") for _ in range(4))
            )
            assert await box.read("n", max_bytes=10) == b"4\n"

        self._with_box(work)

    def test_a_cancelled_program_is_ended(self) -> None:
        async def work(box: Sandbox) -> None:
            started = asyncio.Event()
            running = asyncio.ensure_future(
                box.exec(
                    Program(
                        (
                            "/bin/sh",
                            "-c",
                            "echo started; sleep 1; while :; do echo late >> late; sleep 0.05; done",
                        )
                    ),
                    SandboxLimits(),
                    lambda _data: started.set(),
                )
            )
            await asyncio.wait_for(started.wait(), 30)
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
            assert (await _shell(box, "cat late 2>/dev/null; sleep 1.1; cat late 2>/dev/null")).output == b""

        self._with_box(work)

    def test_a_removed_session_has_no_files_and_can_begin_anew(self) -> None:
        async def work(backend: SandboxBackend) -> None:
            box = await backend.create("one")
            await box.write("a.txt", b"x")
            await backend.remove("one")
            await backend.remove("one")
            await backend.remove("never there")
            assert list(await (await backend.create("one")).list()) == []

        self._with_backend(work)

    def test_a_command_that_is_not_there_is_an_exit_code(self) -> None:
        async def work(box: Sandbox) -> None:
            assert (await box.exec(Program(("no-such-command",)), SandboxLimits())).exit_code == 127

        self._with_box(work)

    def test_a_nul_character_is_refused(self) -> None:
        async def work(box: Sandbox) -> None:
            await _refused(box.exec(Program(("echo", "a\0b")), SandboxLimits()))

        self._with_box(work)

    def _with_backend(self, work: Callable[[SandboxBackend], Awaitable[None]]) -> None:
        async def run() -> None:
            async with self.backend() as backend:
                try:
                    await asyncio.wait_for(work(backend), self.deadline_seconds)
                except TimeoutError:
                    raise AssertionError(f"not done in {self.deadline_seconds:g} seconds") from None

        asyncio.run(run())

    def _with_box(self, work: Callable[[Sandbox], Awaitable[None]]) -> None:
        async def run(backend: SandboxBackend) -> None:
            await work(await backend.create("one"))

        self._with_backend(run)


async def _shell(box: Sandbox, script: str, *, seconds: float = 30.0) -> Outcome:
    return await box.exec(Program(("/bin/sh", "-c", script)), SandboxLimits(seconds=seconds))


async def _refused(work: Awaitable[object]) -> None:
    try:
        await work
    except SandboxError:
        return
    raise AssertionError("it was not refused")
