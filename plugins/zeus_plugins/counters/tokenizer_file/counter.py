"""Exact counts for a model whose tokenizer is a file: most that run on vLLM, Ollama or llama.cpp."""

from __future__ import annotations

from zeus_plugins.counters.tokenizer_file.options import Options
from zeus_runtime.plugin import MissingError, OptionsError, PlanContext
from zeus_runtime.plugin.counter import Counter, counter_with


def create(options: Options, context: PlanContext) -> Counter:
    """A counter by the tokenizer in ``options.path``.

    Raises:
        OptionsError: the file is no tokenizer.
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
            f"{options.path} is no tokenizer: {error}",
            remedy="Name the tokenizer.json that comes with the model's weights.",
            where="path",
        ) from None
    # Many files cut or fill up what is longer or shorter than an embedding takes; a count needs the text as it is.
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        whole = text.encode(errors="replace").decode()  # the library refuses half of a surrogate pair
        return len(tokenizer.encode(whole, add_special_tokens=False))

    return counter_with(count, context.profile)
