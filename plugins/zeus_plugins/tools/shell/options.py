"""The YAML options of the shell tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, Literal

from zeus_plugins.tools.shell.encoding import other_encoding
from zeus_runtime.plugin import Doc, Executes, Minimum, Misfit, Surroundings, WorkRelative, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``shell``. Paths are relative to the working directory."""

    contain: Annotated[
        Literal["bubblewrap", "none"],
        Executes(asked=True),
        Doc(
            "bubblewrap: commands see the workspace with the rights of `workspace.access`, and the system's programs; "
            "where it cannot run, the tools are off. none: commands have all your rights."
        ),
    ] = "bubblewrap"
    network: Annotated[
        bool, Executes(by_name=True), Doc("Commands have a network; always so with `contain: none`.")
    ] = False
    show: Annotated[
        tuple[Annotated[str, WorkRelative(), Executes()], ...],
        Doc(
            "Further folders that commands may read, such as a compiler's; none in or around an agent's folder."
        ),
    ] = ()
    env: Annotated[
        Mapping[str, Annotated[str, Executes()]],
        Doc("Variables for commands, besides PATH, HOME, LANG and TMPDIR; they get no others."),
    ] = field(default_factory=dict)
    timeout_seconds: Annotated[float, Doc("Time limit of one command, in seconds."), Minimum(0.1)] = 120.0
    max_timeout_seconds: Annotated[
        float, Doc("Longest time limit that the model may ask for instead, in seconds."), Minimum(0.1)
    ] = 1800.0
    max_background: Annotated[
        int, Doc("Most background commands of a session at the same time."), Minimum(0)
    ] = 8
    max_output_kb: Annotated[
        int,
        Doc("Most output of a command that is kept; of more, the middle is lost and the result says so."),
        Minimum(1),
    ] = 4_096
    max_result_chars: Annotated[
        int,
        Doc(
            "Most characters of output in a result; of more, its beginning and end, and the path of the whole."
        ),
        Minimum(200),
    ] = 20_000
    max_files: Annotated[
        int, Doc("Most files of the workspace; their rights are looked up before each command."), Minimum(1)
    ] = 200_000
    command: Annotated[str, Executes(), Doc("The bubblewrap program.")] = "bwrap"

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report an encoding in which lines are not judged, and options without effect; warn of no containment."""
        if name := other_encoding(self.env):
            yield Misfit(
                ("env", name),
                f"{name} is for another encoding than UTF-8, in which commands are judged and run",
                "choose a locale with UTF-8, such as C.UTF-8",
            )
        if self.contain == "bubblewrap":
            return
        yield Misfit(
            ("contain",),
            UNCONTAINED,
            "use `contain: bubblewrap`, or run Zeus in a container or as another user",
            "not-contained",
            "warning",
        )
        for name in ("network", "show", "max_files", "command"):
            if name in around.written:
                yield Misfit(
                    (name,),
                    f"{name} has no effect with `contain: none`",
                    "remove one of the two",
                    "no-effect",
                )


UNCONTAINED = (
    "commands are not contained: they read and change all that your user may, also outside of the workspace and what"
    " `workspace.access` closes, and they reach the network"
)
