"""Exact token counts for models whose tokenizer is a file, such as most models on vLLM, Ollama or llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, FileRelative, MissingError, OptionsError, PlanContext
from zeus_runtime.plugin.counter import Counter, counter_with

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


def create(options: Options, context: PlanContext) -> Counter:
    """Return a counter that uses the tokenizer in ``options.path``.

    Raises:
        OptionsError: the file is not a tokenizer.
        MissingError: the library that reads it is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingError(
            "the counter tokenizer_file needs the package tokenizers", remedy="pip install tokenizers"
        ) from None
    try:
        tokenizer = Tokenizer.from_file(str(context.directory / options.path))
    except Exception as error:  # noqa: BLE001 - the library raises plain Exception for a file that it cannot read
        raise OptionsError(
            f"{options.path} is not a tokenizer: {error}",
            remedy="Set `path` to the tokenizer.json that comes with the model's weights.",
            where="path",
        ) from None
    # Many tokenizer files truncate or pad texts to the input length of an embedding; a count needs the whole text.
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        whole = text.encode(errors="replace").decode()  # the library refuses lone surrogates
        return len(tokenizer.encode(whole, add_special_tokens=False))

    return counter_with(count, context.profile)
