"""Estimates: near the truth for every class of text, cheap, and never absurd."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts import fit_tokens
from zeus_runtime.context.tokens import exact
from zeus_runtime.context.tokens.estimate import FEATURES, estimator, features
from zeus_runtime.context.tokens.framing import text_costs

NOISE = random.Random(7)
NOISE_BYTES = NOISE.randbytes(600)

CLASSES = {
    "prose": "She closed the shop early, because the river had risen again and nobody came to buy bread. "
    * 4,
    "chinese": "昨天下午我们讨论了新的预算，大家都同意先修好屋顶，然后再考虑买一台新机器。" * 6,
    "python": "def area(width: float, height: float) -> float:\n    if width < 0 or height < 0:\n"
    "        raise ValueError('negative')\n    return width * height\n" * 4,
    "json": '{"id":17,"name":"Ada","tags":["late","paid"],"total":89.5,"address":{"city":"Turin"}}' * 5,
    "csv": "\n".join(f"{row},{row * 37 % 991},{row / 7:.2f},2026-11-{row % 28 + 1:02}" for row in range(40)),
    "hex": NOISE_BYTES.hex(),
    "base64": base64.b64encode(NOISE_BYTES).decode(),
    "html": '<tr class="row"><td><a href="/orders/1002">Grace</a></td><td>249.00</td></tr>\n' * 10,
    "javascript": "function t(e,n){return e.map(function(r){return r.k===n?r.v*2:r.v})}var o=t(a,3);" * 6,
}


@pytest.fixture(scope="module")
def estimate() -> Callable[[str], float]:
    return estimator(text_costs())


@pytest.mark.parametrize("name", CLASSES)
def test_an_estimate_is_within_a_quarter_for_each_class_of_text(
    name: str, estimate: Callable[[str], float]
) -> None:
    tokens = exact("o200k_base")(CLASSES[name])
    assert abs(estimate(CLASSES[name]) / tokens - 1) < 0.25, (estimate(CLASSES[name]), tokens)


@pytest.mark.parametrize("name", ["chinese", "csv", "hex", "base64"])
def test_where_a_quarter_of_the_characters_is_far_off_the_estimate_is_not(
    name: str, estimate: Callable[[str], float]
) -> None:
    text = CLASSES[name]
    tokens = exact("o200k_base")(text)
    assert abs(estimate(text) / tokens - 1) < abs(len(text) / 4 / tokens - 1) / 2


def test_nothing_is_nothing_and_anything_is_at_least_one(estimate: Callable[[str], float]) -> None:
    assert estimate("") == 0
    assert estimate(" ") == 1
    assert estimate("🧪") >= 1
    assert estimate("half \ud83d an emoji") > 1


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=300), st.text(max_size=300))
def test_features_of_two_texts_add_up_but_for_the_seam(first: str, second: str) -> None:
    together = features(f"{first}\n{second}")
    apart = [one + other for one, other in zip(features(first), features(second), strict=True)]
    apart[FEATURES.index("lines")] += 1
    assert list(together) == apart


SCRIPTS = {
    "russian": "Вчера мы обсудили новый бюджет, и все согласились сначала починить крышу, а потом купить машину. "
    * 4,
    "arabic": "اجتمعنا أمس بعد الظهر لمناقشة الميزانية الجديدة واتفق الجميع على إصلاح السقف أولا. " * 4,
    "korean": "어제 우리는 새 예산에 대해 이야기했고 모두 먼저 지붕을 고치기로 했습니다. " * 4,
    "japanese": "昨日は新しい予算について話し合い、まず屋根を直すことになりました。" * 4,
    "hindi": "कल हमने नए बजट पर बात की और सबने पहले छत ठीक करने पर सहमति दी। " * 4,
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("vocabulary", ["o200k", "cl100k", "claude"])
def test_an_estimate_is_within_a_third_for_each_script_and_vocabulary(name: str, vocabulary: str) -> None:
    tokens = fit_tokens.vocabularies()[vocabulary](SCRIPTS[name])
    assert abs(estimator(text_costs(vocabulary))(SCRIPTS[name]) / tokens - 1) < 0.33


def test_digits_cost_a_token_each_where_the_vocabulary_says_so() -> None:
    for name in ("gemma", "mistral", "cl100k digits"):
        assert estimator(text_costs(name))("4821 7733 9150") == pytest.approx(12, abs=2)
    assert estimator(text_costs("cl100k"))("4821 7733 9150") < 9


def test_no_class_of_text_is_free_of_cost_or_earns_tokens() -> None:
    assert all(cost >= 0 for cost in text_costs())
    costs = dict(zip(FEATURES, text_costs(), strict=True))
    assert min(costs[name] for name in ("short_words", "words", "ideographs", "four_byte_letters")) > 0.3


def test_signs_count_again_after_a_blank_and_words_after_a_sign() -> None:
    counted = dict(zip(FEATURES, features('{ "a": [x, "B"] }'), strict=True))
    assert counted["signs_after_blanks"] == 4
    assert counted["words_after_signs"] == 3
