"""Runs a sentence encoder from an ONNX file on this machine's CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from zeus_plugins.embeddings.onnx.options import TOKENIZER, Options
from zeus_runtime.plugin import MissingError, OptionsError
from zeus_runtime.plugin.embedding import Calibration, Embedder, EmbeddingUnavailableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zeus_runtime.plugin import PlanContext

_PACKAGES: Final = "pip install 'zeus-runtime[onnx]'"
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_UNKNOWN: Final = frozenset({"[UNK]", "<unk>"})


def create(options: Options, context: PlanContext) -> OnnxEmbedder:
    """Load the model in ``options.path``.

    Raises:
        MissingError: a file or a package is missing.
        OptionsError: the file is not a text encoder, or options contradict each other.
    """
    folder = context.directory / options.path
    for wrong in options.wrong(context.directory):
        if wrong.code == "missing-file":
            raise MissingError(wrong.message, remedy=wrong.hint or "")
        raise OptionsError(wrong.message, remedy=wrong.hint or "")
    return OnnxEmbedder(options, folder)


class OnnxEmbedder(Embedder):
    """Encodes one text at a time: in a batch, an int8 model's rounding of a text depends on the other texts.

    Args:
        options: the options from the YAML.
        folder: the model's folder.
    """

    quick = True

    def __init__(self, options: Options, folder: Path) -> None:
        self.calibration = Calibration(options.cosine_zero, options.cosine_one, trust=0.8)
        self._options = options
        self._tokenizer = _tokenizer(folder / TOKENIZER, options.max_tokens)
        self._session = _session(folder / options.file, options)
        self._inputs = [each.name for each in self._session.get_inputs()]
        self.dimension = len(self._one("x"))
        self.model = _name(options, folder)

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"]
    ) -> NDArray[np.float32]:
        import asyncio

        import numpy as np

        prefix = self._options.query_prefix if purpose == "query" else self._options.memory_prefix
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            if text.strip():
                vectors[row] = await asyncio.to_thread(self._one, prefix + text)
        return vectors

    def coverage(self, text: str) -> float:
        """The share of the text's tokens that the tokenizer knows."""
        tokens = self._tokenizer.encode(_whole(text), add_special_tokens=False).tokens
        return sum(token not in _UNKNOWN for token in tokens) / len(tokens) if tokens else 0.0

    def _one(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        encoded = self._tokenizer.encode(_whole(text))
        given = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
            "token_type_ids": encoded.type_ids,
        }
        feed = {name: np.array([given[name]], dtype=np.int64) for name in self._inputs}
        try:
            states = np.asarray(self._session.run(None, feed)[0], dtype=np.float32)[0]
        except Exception as error:
            raise EmbeddingUnavailableError(
                f"the embedding model {self._options.file} failed on {len(encoded.ids)} tokens: {error}",
                remedy="Set max_tokens to at most the length that the model supports",
            ) from error
        vector = (
            states
            if states.ndim == 1
            else states[0]
            if self._options.pooling == "cls"
            else states.mean(axis=0)
        )
        length = np.linalg.norm(vector)
        return vector / length if np.isfinite(length) and length > 0 else np.zeros_like(vector)


def _whole(text: str) -> str:
    """Replace lone surrogates in ``text``, which the tokenizer refuses."""
    return text.encode(errors="replace").decode()


def _tokenizer(file: Path, max_tokens: int) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingError("the embedding model needs the package tokenizers", remedy=_PACKAGES) from None
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - the library raises plain Exception for a file that it cannot read
        raise OptionsError(
            f"{file.name} is not a tokenizer: {error}",
            remedy="Use the tokenizer.json that belongs to the model",
        ) from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _session(file: Path, options: Options) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingError("the embedding model needs the package onnxruntime", remedy=_PACKAGES) from None
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - the library's exception classes are not public
        raise OptionsError(
            f"{options.file} cannot be loaded as a model: {error}", remedy="Use an ONNX file made for CPUs"
        ) from None
    names = {each.name for each in session.get_inputs()}
    if "input_ids" not in names or not names <= _INPUTS:
        raise OptionsError(
            f"{options.file} is not a text encoder: its inputs are {', '.join(sorted(names))}",
            remedy="Use a model with the input input_ids; attention_mask and token_type_ids are also supported",
        )
    return session


def _name(options: Options, folder: Path) -> str:
    """Return the folder's name with a digest of all that changes a vector: files, pooling, maximum length, prefixes."""
    from hashlib import blake2b, file_digest

    digest = blake2b(digest_size=6)
    for name in (options.file, TOKENIZER):
        with (folder / name).open("rb") as file:
            digest.update(file_digest(file, "sha256").digest())
    settings = (options.pooling, options.max_tokens, options.query_prefix, options.memory_prefix)
    digest.update(repr(settings).encode())
    return f"{folder.resolve().name}-{digest.hexdigest()}"
