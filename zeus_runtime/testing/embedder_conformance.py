"""What every ``Embedder`` must do, as tests that an author of an embedding plugin inherits.

    class TestMyEmbeddings(EmbedderConformance):
        @contextmanager
        def embedding(self):
            with my_fake_provider() as url:
                yield MyEmbedder(url)

The tests need pytest and numpy, and nothing else: they run their own event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from zeus_runtime.memory.embedding import Calibration, Embedder, Purpose, WorkerFactory

if TYPE_CHECKING:
    from zeus_runtime.memory.embedding import Vectors

_TEXTS: tuple[str, ...] = (
    "The user prefers a dark theme",
    "Deployments happen on Friday",
    "用户喜欢深色主题",
    "Ça coûte 20 € à l'été — naïve? 👩\u200d👩\u200d👧 Ελλάδα",
    "x",
)
_PURPOSES: tuple[Purpose, ...] = ("memory", "query")


class EmbedderConformance:
    """Inherit it and say how to get the embedder; each ``test_`` method is one thing an embedder must do."""

    tolerance: ClassVar[float] = 1e-4
    """How far two vectors of the same text may be apart in any number."""

    def embedding(self) -> AbstractContextManager[Embedder]:
        """The embedder, ready to be asked."""
        raise NotImplementedError

    def test_there_is_one_vector_of_float32_for_each_text(self) -> None:
        import numpy as np

        with self.embedding() as embedder:
            for purpose in _PURPOSES:
                vectors = _ask(embedder, _TEXTS, purpose)
                assert isinstance(vectors, np.ndarray)
                assert vectors.shape == (len(_TEXTS), embedder.dimension)
                assert vectors.dtype == np.float32
                assert np.isfinite(vectors).all()

    def test_each_vector_has_length_one_or_zero(self) -> None:
        import numpy as np

        with self.embedding() as embedder:
            lengths = np.linalg.norm(_ask(embedder, [*_TEXTS, "", " \n"]), axis=1)
        assert ((np.abs(lengths - 1) < 1e-4) | (lengths == 0)).all(), lengths
        assert abs(lengths[0] - 1) < 1e-4, "a plain English text has a vector"

    def test_no_texts_give_no_vectors(self) -> None:
        with self.embedding() as embedder:
            assert _ask(embedder, []).shape == (0, embedder.dimension)

    def test_the_vectors_stand_in_the_order_of_the_texts(self) -> None:
        import numpy as np

        with self.embedding() as embedder:
            there, back = _ask(embedder, _TEXTS), _ask(embedder, _TEXTS[::-1])
            one, other = _TEXTS[0], _TEXTS[1]
            again = _ask(embedder, [one, other, one])
        assert np.allclose(there, back[::-1], atol=self.tolerance)
        assert np.allclose(again[0], again[2], atol=self.tolerance)
        assert not np.allclose(again[0], again[1], atol=0.01), "two texts, one vector"

    def test_a_batch_says_what_single_texts_say(self) -> None:
        import numpy as np

        texts = [*_TEXTS, "", *(f"Number {count} of a long list" for count in range(300))]
        with self.embedding() as embedder:
            batch = _ask(embedder, texts)
            for row in (0, 2, 5, 6, 7, len(texts) // 2, len(texts) - 1):
                single = _ask(embedder, [texts[row]])
                assert np.allclose(batch[row], single[0], atol=self.tolerance), texts[row]

    def test_the_same_text_gets_the_same_vector_each_time(self) -> None:
        import numpy as np

        with self.embedding() as embedder:
            for purpose in _PURPOSES:
                first = _ask(embedder, _TEXTS, purpose)
                kept = first.copy()
                if first.flags.writeable:
                    first[:] = 7.0
                assert np.allclose(_ask(embedder, _TEXTS, purpose), kept, atol=self.tolerance)
        with self.embedding() as another:
            assert np.allclose(_ask(another, _TEXTS, "query"), kept, atol=self.tolerance)

    def test_any_text_is_taken(self) -> None:
        odd = [
            "",
            " ",
            "\x00",
            "\ud83d",
            "\u200b",
            "e\u0301" * 50,
            "漢字かな한글",
            "-" * 300,
            "word " * 3_000,
            "a" * 5_000,
        ]
        with self.embedding() as embedder:
            assert _ask(embedder, odd).shape == (len(odd), embedder.dimension)
            assert all(0 <= embedder.coverage(text) <= 1 for text in odd)

    def test_texts_are_embedded_at_the_same_time(self) -> None:
        import numpy as np

        with self.embedding() as embedder:

            async def together() -> list[Vectors]:
                return list(
                    await asyncio.gather(*(embedder.embed([text], purpose="query") for text in _TEXTS))
                )

            rows = np.concatenate(asyncio.run(together()))
            assert np.allclose(rows, _ask(embedder, _TEXTS, "query"), atol=self.tolerance)

    def test_worker_processes_make_the_same_model(self) -> None:
        """Of one that says how they do (``Embedder.worker``)."""
        import numpy as np

        with self.embedding() as embedder:
            if embedder.worker is None:
                return
            module, _, name = embedder.worker.function.partition(":")
            made = getattr(import_module(module), name)(**embedder.worker.arguments)
            assert (made.model, made.dimension) == (embedder.model, embedder.dimension)
            there = asyncio.run(_by_a_worker(embedder, embedder.worker))
            assert there is not None, f"{embedder.worker} makes no model in another process"
            assert np.allclose(there, _ask(embedder, _TEXTS), atol=self.tolerance)

    def test_it_says_what_it_is_and_what_its_cosines_mean(self) -> None:
        with self.embedding() as embedder, self.embedding() as another:
            assert embedder.model.strip() == embedder.model != ""
            assert embedder.dimension >= 1
            assert (embedder.model, embedder.dimension) == (another.model, another.dimension)
            means = embedder.calibration
        assert isinstance(means, Calibration)
        assert -1 <= means.cosine_zero < means.cosine_one <= 1
        assert 0 <= means.trust <= 1
        assert means.duplicate is None or means.cosine_zero < means.duplicate <= 1

    def test_an_english_text_is_known(self) -> None:
        with self.embedding() as embedder:
            assert embedder.coverage(_TEXTS[0]) > 0.5

    def test_it_tells_values_of_a_kind_or_says_that_it_cannot(self) -> None:
        pairs = [
            ("black", "white"),
            ("a nurse", "in Lyon"),
            ("", " "),
            ("\ud83d", "漢字"),
            ("a" * 5_000, "b"),
        ]
        with self.embedding() as embedder:
            for one, other in pairs:
                assert embedder.of_a_kind(one, other) in (True, False, None)
                assert embedder.of_a_kind(one, other) == embedder.of_a_kind(other, one)

    def test_it_can_be_closed_twice(self) -> None:
        with self.embedding() as embedder:

            async def closed() -> None:
                await embedder.close()
                await embedder.close()

            asyncio.run(closed())


async def _by_a_worker(embedder: Embedder, factory: WorkerFactory) -> Vectors | None:
    from zeus_runtime.knowledge.worker import Worker

    worker = Worker(embedder, factory)
    try:
        return await worker.embed(_TEXTS) if await worker.is_ready() else None
    finally:
        await worker.close()


def _ask(embedder: Embedder, texts: Sequence[str], purpose: Purpose = "memory") -> Vectors:
    return asyncio.run(embedder.embed(texts, purpose=purpose))
