"""What a place_vectors says that a cosine cannot exceed, it does not exceed."""

from __future__ import annotations

import numpy as np
import pytest
from zeus_plugins.vector_stores.sqlite.vectors_in_memory import PlaceVectors


@pytest.mark.parametrize(("count", "dimension"), [(50, 32), (3_000, 96), (3_000, 256)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rank", [40, 256])
def test_no_cosine_exceeds_its_bound(count: int, dimension: int, seed: int, rank: int) -> None:
    choose = np.random.default_rng(seed)
    spread = choose.uniform(0.05, 1, dimension) ** 2
    vectors = (choose.standard_normal((count, dimension)) * spread).astype(np.float32)
    vectors[:, rank:] = 0
    vectors[7] = 0
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    place_vectors = PlaceVectors(dimension)
    for start in range(0, count, 1_000):
        some = vectors[start : start + 1_000]
        place_vectors.add([f"m{start + number}" for number in range(len(some))], some, [[0] * len(some)] * 3)
    few_slots = choose.choice(count, count // 4, replace=False)
    for query in (vectors[3], vectors[7], -vectors[5]):
        bounds, true = place_vectors.at_most(query), vectors @ query
        cosines = place_vectors.compared(np.arange(count), query)
        few = place_vectors.compared(np.array([3, 5]), query)
        assert np.abs(cosines - true).max() < 1e-5
        assert (bounds >= cosines).all()
        assert (bounds[[3, 5]] >= few).all()
        closer = place_vectors.closer(few_slots, bounds[few_slots], query)
        assert (closer >= cosines[few_slots]).all()
        assert (closer <= bounds[few_slots]).all()
    near = place_vectors.at_most(vectors[3])
    assert np.median(near) < 0.9
    if dimension >= 3 * 64 and rank == 256:
        closer, cosines = (
            place_vectors.closer(few_slots, near[few_slots], vectors[3]),
            vectors[few_slots] @ vectors[3],
        )
        assert np.mean(closer - cosines) < 0.6 * np.mean(near[few_slots] - cosines)
    assert place_vectors.slots(["m3", "none"]).tolist() == [3, -1]
    assert place_vectors.ids(count - 1) == [f"m{count - 1}"]
