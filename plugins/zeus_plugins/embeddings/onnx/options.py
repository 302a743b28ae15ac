"""Options of the embedding component `onnx`."""

from __future__ import annotations

from typing import Annotated, Literal

from zeus_runtime import Doc, FileRelative, Maximum, Minimum, dataclass


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
