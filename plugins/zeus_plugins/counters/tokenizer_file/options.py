"""Options of the counter `tokenizer_file`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, FileRelative, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Options:
    """``counter: {tokenizer_file: {path: tokenizer.json}}``."""

    path: Annotated[
        str,
        Doc("The tokenizer.json that comes with the model's weights, relative to this YAML file."),
        FileRelative(),
    ]

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report a tokenizer file that does not exist."""
        yield from around.missing_file(self.path, ("path",))
