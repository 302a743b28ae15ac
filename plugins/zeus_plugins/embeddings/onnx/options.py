"""Options of the embedding component `onnx`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from zeus_runtime.plugin import Doc, FileRelative, Maximum, Minimum, Pattern, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings

TOKENIZER: Final = "tokenizer.json"


@dataclass(frozen=True)
class Options:
    """``memory: {embeddings: {onnx: {path: models/all-MiniLM-L6-v2}}}``."""

    path: Annotated[
        str,
        Doc("The model's folder, which contains `file` and tokenizer.json; relative to this YAML file."),
        FileRelative(),
    ]
    file: Annotated[
        str,
        Pattern(r"^(?!/)(?!(.*/)?\.\.(/|$))"),
        Doc("The model in that folder: `onnx/model_qint8_avx512.onnx`."),
    ] = "model.onnx"
    pooling: Annotated[
        Literal["mean", "cls"],
        Doc("How tokens become one vector: the mean of all tokens (MiniLM, E5), or the first (BGE)."),
    ] = "mean"
    max_tokens: Annotated[
        int, Doc("Longer texts are cut to this length."), Minimum(3), Maximum(1_000_000)
    ] = 256
    query_prefix: Annotated[str, Doc("Prefix of each query: `query: ` for E5.")] = ""
    memory_prefix: Annotated[str, Doc("Prefix of each memory: `passage: ` for E5.")] = ""
    threads: Annotated[int, Doc("CPU cores for one text."), Minimum(1), Maximum(1_024)] = 1
    cosine_zero: Annotated[
        float,
        Doc("The cosine below which nine in ten memories that are unrelated to a query lie."),
        Minimum(-1),
        Maximum(1),
    ] = 0.2
    cosine_one: Annotated[
        float,
        Doc("The cosine below which nine in ten memories that answer a query lie."),
        Minimum(-1),
        Maximum(1),
    ] = 0.6

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report options from which no embedding model can be created."""
        return self.wrong(around.directory)

    def wrong(self, directory: Path) -> Iterator[Misfit]:
        """Report cosines that contradict each other, and a model file that does not exist.

        Args:
            directory: the base of a relative path.
        """
        from zeus_runtime.plugin import Misfit

        if not self.cosine_zero < self.cosine_one:
            yield Misfit(
                ("cosine_zero",),
                f"cosine_zero ({self.cosine_zero:g}) must be below cosine_one ({self.cosine_one:g})",
                "Set both to measured values: the cosine of unrelated texts, and of texts with the same meaning",
            )
        for name in (self.file, TOKENIZER):
            if not (directory / self.path / name).is_file():
                yield Misfit(
                    ("path",),
                    f"the embedding model needs {Path(self.path) / name}, which does not exist",
                    "Put the model's ONNX file and its tokenizer.json there. For all-MiniLM-L6-v2 both are"
                    " in the model's repository, or come from `optimum-cli export onnx`",
                    "missing-file",
                )
                return
