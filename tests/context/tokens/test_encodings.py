"""Exact counts: tiktoken's own, without the network, without leaving traces."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeus_runtime.context.tokens import EncodingMissingError, encodings, exact

TEXTS = sorted((Path(__file__).parents[3] / "scripts" / "token_texts").glob("*.txt"))

OFFLINE = """
import os, socket, sys

def no(*_, **__):
    raise AssertionError("a socket was opened")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = no
before = dict(os.environ)
from zeus_runtime.context.tokens import exact

counters = [exact(name) for name in ("o200k_base", "cl100k_base")]
assert "tiktoken" not in sys.modules, "an encoding was loaded before it was used"
counts = [exact(name)("The quick brown fox jumps over 12 lazy dogs.") for name in ("o200k_base", "cl100k_base")]
assert os.environ == before, "the environment changed"
assert "litellm" not in sys.modules, "litellm was imported"
print(*counts)
"""


@pytest.fixture
def tiktoken_encoding(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    import tiktoken

    spec = find_spec("litellm")
    assert spec is not None
    folder = Path((spec.submodule_search_locations or [""])[0]) / "litellm_core_utils" / "tokenizers"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    return tiktoken.get_encoding(request.param)


@pytest.mark.parametrize("tiktoken_encoding", ["o200k_base", "cl100k_base"], indirect=True)
def test_counts_are_tiktokens_own(tiktoken_encoding) -> None:  # type: ignore[no-untyped-def]
    count = exact(tiktoken_encoding.name)
    for path in TEXTS:
        text = path.read_text("utf-8")
        assert count(text[:15_000]) == len(tiktoken_encoding.encode_ordinary(text[:15_000])), path.name
    assert count("<|endoftext|>") == len(tiktoken_encoding.encode_ordinary("<|endoftext|>"))


def test_an_encoding_needs_no_network_no_litellm_and_leaves_the_environment_alone() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TIKTOKEN_CACHE_DIR"}
    environment["HOME"] = environment["TMPDIR"] = "/nonexistent"
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["11", "11"]


@pytest.mark.parametrize(
    "text", ["a" * 300_000, " " * 300_000, "=" * 300_000, "中" * 100_000, "\n" * 300_000]
)
def test_a_text_of_one_repeated_character_is_counted(text: str) -> None:
    assert 0 < exact("o200k_base")(text) < len(text) + 1


def test_a_long_text_counts_what_its_whole_counts() -> None:
    text = "\n".join(path.read_text("utf-8") for path in TEXTS) * 3
    whole = len(encodings.loaded("o200k_base").encode_ordinary(text))
    assert abs(exact("o200k_base")(text) - whole) <= len(text) // 20_000 * 2


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text_counts_as_tiktoken_counts_it(text: str) -> None:
    assert exact("o200k_base")(text) == len(encodings.loaded("o200k_base").encode_ordinary(text))


def test_half_an_emoji_is_counted_not_refused() -> None:
    assert exact("o200k_base")("broken \ud83d half") > 0


def test_an_encoding_that_is_nowhere_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(encodings, "_folders", lambda: iter([tmp_path]))
    with pytest.raises(EncodingMissingError) as caught:
        exact("o200k_base")
    assert caught.value.exit_code == 4
    assert "estimate" in str(caught.value.remedy)


def test_a_text_is_counted_once_if_it_is_not_long(monkeypatch: pytest.MonkeyPatch) -> None:
    count, counted = encodings._Counting("o200k_base"), []
    real = count._count
    monkeypatch.setattr(count, "_count", lambda text: counted.append(text) or real(text))
    long = "many words " * 1000
    assert count("a few words") == count("a few words") == 3
    assert count(long) == count(long) == 2001
    assert counted == ["a few words", long, long]
