"""Options of the embedding component `onnx`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from zeus_runtime.plugin import Doc, FileRelative, Maximum, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings

TOKENIZER: Final = "tokenizer.json"


@dataclass(frozen=True)
class Options:
    """``memory: {embeddings: {onnx: {path: models/all-MiniLM-L6-v2}}}``."""

    path: Annotated[
        str,
        Doc("The model's folder, with `file` and tokenizer.json in it, relative to this YAML file."),
        FileRelative(),
    ]
    file: Annotated[str, Doc("The model in that folder: `onnx/model_qint8_avx512.onnx`.")] = "model.onnx"
    pooling: Annotated[
        Literal["mean", "cls"],
        Doc("What a text's vector is made of: all its tokens (MiniLM, E5), or the first (BGE)."),
    ] = "mean"
    max_tokens: Annotated[int, Doc("A longer text is cut off here."), Minimum(3), Maximum(1_000_000)] = 256
    query_prefix: Annotated[str, Doc("Stands before each query: `query: ` for E5.")] = ""
    memory_prefix: Annotated[str, Doc("Stands before each memory: `passage: ` for E5.")] = ""
    threads: Annotated[int, Doc("Cores that one text may take."), Minimum(1), Maximum(1_024)] = 1
    cosine_zero: Annotated[
        float,
        Doc("Nine in ten memories that have nothing to do with a query have a lower cosine with it."),
        Minimum(-1),
        Maximum(1),
    ] = 0.2
    cosine_one: Annotated[
        float,
        Doc("Nine in ten memories that answer a query have a lower cosine with it."),
        Minimum(-1),
        Maximum(1),
    ] = 0.6

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Options that no embedding model could be made of."""
        return self.wrong(around.directory)

    def wrong(self, directory: Path) -> Iterator[Misfit]:
        """Cosines that contradict each other, and a model's file that is not there.

        Args:
            directory: where a relative path starts.
        """
        from zeus_runtime.plugin import Misfit

        if not self.cosine_zero < self.cosine_one:
            yield Misfit(
                ("cosine_zero",),
                f"cosine_zero ({self.cosine_zero:g}) must be below cosine_one ({self.cosine_one:g})",
                "Give both as measured: of unrelated texts, and of texts that say the same",
            )
        for name in (self.file, TOKENIZER):
            if not (directory / self.path / name).is_file():
                yield Misfit(
                    ("path",),
                    f"the embedding model needs {Path(self.path) / name}, which does not exist",
                    "Put the model's folder there: its ONNX file and its tokenizer.json. For all-MiniLM-L6-v2 both are"
                    " in the model's repository, or come from `optimum-cli export onnx`",
                    "missing-file",
                )
                return
