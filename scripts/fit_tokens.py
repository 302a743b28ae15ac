"""Fit what a text and a request cost in tokens, and write ``zeus_runtime/context/tokens/fitted.json``.

``python -m scripts.fit_tokens --data token-usage.jsonl [--write]``, from the checkout. Deterministic. Prints the
error on the data itself and cross-validated: by cassette file, so that no two requests of one conversation stand on
both sides.

A family (models whose provider frames requests alike) has few free costs; each is drawn towards its prior, so that a
family with three requests on record learns no more than three requests can teach. One with none deviates from its
prior as the maker's other families do.

``--tokenizers FOLDER`` counts the corpus anew with public tokenizers (``NAME.json``, as Hugging Face's ``tokenizers``
reads them) that no library on this machine carries; their counts are kept in ``token_texts/counts.json``.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from benchmarks.wire import Recorded, growing_pairs, read
from zeus_runtime.context.tokens.encodings import exact
from zeus_runtime.context.tokens.estimate import FEATURES, estimator, features
from zeus_runtime.context.tokens.framing import FITTED, Framing, belongs
from zeus_runtime.context.tokens.terms import fixed_terms, message_terms, tools_terms

CHECKOUT = Path(__file__).parents[1]
TEXTS = Path(__file__).with_name("token_texts")
COUNTS = TEXTS / "counts.json"
"""The tokens of each text of the corpus in public vocabularies that are too large to keep here."""

ATTACHMENT: Final = 1000.0
"""Between what the providers' manuals say of images: Gemini 258 to 1,120, OpenAI 85 to 1,105, Claude up to 1,600."""

OPENAI: Final = {
    "attachment": ATTACHMENT,
    "request": 3.0, "system": 4.0, "text": 1.0, "user": 4.0, "assistant": 4.0, "call": 6.0,
    "result": 6.0, "tools": 16.0, "tool": 1.0, "schema_text": 1.0, "output": 10.0, "output_text": 1.0,
}  # fmt: skip
CLAUDE: Final = {
    "attachment": ATTACHMENT,
    "request": 4.0, "system": 0.0, "text": 1.05, "user": 4.0, "assistant": 4.0, "call": 30.0,
    "argument": 12.0, "result": 15.0, "reasoning_text": 1.05, "tool": 15.0, "schema_text": 1.0,
    "parameter": 8.0, "thinking": 28.0, "output": 150.0, "output_text": 1.0,
}  # fmt: skip
NEW_CLAUDE: Final = {
    **CLAUDE, "text": 1.55, "reasoning_text": 1.55, "schema_text": 1.4, "thinking": 0.0, "output": 200.0,
    "output_text": 1.4,
}  # fmt: skip
"""Since Opus 4.7 the same text takes 1.35 to 1.47 times as many tokens as before, and thinking has no budget."""
GEMINI: Final = {
    "attachment": ATTACHMENT,
    "request": 1.0, "text": 1.0, "call": 3.0, "result": 4.0, "tool": 2.0, "schema_text": 1.0, "object": 20.0,
}  # fmt: skip
OTHER: Final = {
    "attachment": ATTACHMENT,
    "request": 5.0, "system": 4.0, "text": 1.0, "user": 4.0, "assistant": 4.0, "call": 15.0,
    "result": 10.0, "reasoning_text": 1.0, "tools": 200.0, "tool": 10.0, "schema_text": 1.0, "output": 20.0,
    "output_text": 1.0,
}  # fmt: skip
"""Chat templates in public explain tools in nothing (Mistral) to 600 tokens (Llama 4: the function composition prompt
of vLLM's templates). Qwen 3's takes 95. DeepSeek 4's prefix for a high effort takes 80."""

DEEPSEEK_4: Final = {
    **OTHER, "request": 80.0, "user": 1.0, "assistant": 3.0, "call": 23.0, "argument": 10.0, "result": 8.0,
    "tools": 240.0,
}  # fmt: skip
"""Its published encoding: calls in tags with a marker, a prefix of 80 tokens for a high effort."""


@dataclass(frozen=True)
class Family:
    """A family to fit.

    Args:
        framing: who belongs to it, and its costs' priors. Its name begins with its maker's.
        free: cost to how far, in tokens, it may plausibly lie from its prior; other costs stay.
        wariness: how many times further off than an overcount an undercount must be to be taken for an oddity.
            1 where texts are counted exactly or framed as documented; more where an undercount is rather the
            estimate's own error, because it costs an overflow and an overcount only a little early compaction.
    """

    framing: Framing
    free: Mapping[str, float]
    wariness: float = 1.0

    @property
    def maker(self) -> str:
        """Its families are drawn together."""
        return self.framing.name.split()[0].rstrip(",")


def _family(
    name: str,
    models: str,
    priors: Mapping[str, float],
    free: Mapping[str, float],
    *,
    providers: Sequence[str] = (),
    mode: str = "",
    notation: str = "json",
    vocabulary: str = "o200k",
    wariness: float = 1.0,
) -> Family:
    framing = Framing(name, models, providers, mode, notation, vocabulary, dict(priors), 0.0)
    return Family(framing, free, wariness)


_OPENAI_FREE: Final = {"call": 5.0, "result": 5.0, "tools": 60.0, "tool": 5.0, "output": 20.0}
_CLAUDE_FREE: Final = {
    "system": 2.0, "text": 0.05, "call": 10.0, "argument": 5.0, "result": 5.0, "tools": 10.0, "schema_text": 0.1,
    "tool": 5.0, "parameter": 3.0, "forced": 10.0, "output": 60.0,
}  # fmt: skip
_GEMINI_FREE: Final = {
    "request": 1.0, "text": 0.1, "call": 5.0, "result": 5.0, "tool": 5.0, "schema_text": 0.3, "parameter": 3.0,
    "object": 10.0,
}  # fmt: skip
_VERTEX_FREE: Final = {"request": 1.0, "text": 0.1, "call": 5.0, "result": 5.0, "tool": 5.0}
"""Not the schemas: on record are only tools without parameters."""
_OTHER_FREE: Final = {
    "request": 20.0, "text": 0.1, "call": 10.0, "result": 10.0, "tools": 100.0, "tool": 15.0, "schema_text": 0.2,
}  # fmt: skip
_GROK_FREE: Final = {"request": 400.0, "text": 0.1}


def _claude(name: str, models: str, costs: Mapping[str, float], tools: float, required: float) -> Family:
    """A Claude family. Anthropic's manual ("Tool use", the table of system prompt tokens) says what tools take.

    Args:
        name: of the family.
        models: the pattern of its names.
        costs: the other priors.
        tools: the tokens of the explanation where the model may call a tool.
        required: the same where it must.
    """
    forced = max(0.0, required - tools)
    priors = {**costs, "tools": tools, "forced": forced}
    return _family(name, models, priors, _CLAUDE_FREE, vocabulary="claude", wariness=3.0)


FAMILIES: Final = (
    _family("openai gpt-oss", r"gpt-oss", {**OPENAI, "request": 70.0}, {**_OPENAI_FREE, "request": 20.0},
            notation="typescript"),
    _family("openai reasoning, responses", r"(^|[/.:])(gpt-([5-9]|\d\d)|o\d|codex|computer-use)",
            {**OPENAI, "request": 2.0}, _OPENAI_FREE, mode="responses", notation="typescript"),
    _family("openai reasoning, chat", r"(^|[/.:])(gpt-([5-9]|\d\d)|o\d|codex|chat-latest)",
            {**OPENAI, "request": 2.0, "tools": 98.0}, _OPENAI_FREE, notation="typescript"),
    _family("openai", r"(^|[/.:])(chat)?gpt-[34]", OPENAI, _OPENAI_FREE, notation="typescript"),
    _claude("claude opus 4.7", r"claude-opus-4[-.]7(?!\d)", NEW_CLAUDE, 675.0, 804.0),
    _claude("claude opus 4.8 and 5", r"claude-(opus-(4[-.][89]|5)(?!\d)|fable)", NEW_CLAUDE, 290.0, 410.0),
    _claude("claude 4.5 and 4.6", r"claude-(opus|sonnet|haiku)-4[-.][56](?!\d)|claude-4[-.][56]-", CLAUDE,
            496.0, 588.0),
    _claude("claude 4", r"claude-((opus|sonnet|haiku)-4|4-)", CLAUDE, 313.0, 315.0),
    _claude("claude 3", r"claude-((opus|sonnet|haiku)-)?(instant|v?[123])", CLAUDE, 346.0, 346.0),
    _claude("claude", r"claude", NEW_CLAUDE, 354.0, 474.0),
    _family("gemini 2.0", r"gemini-(1[.-]|2\.0)",
            {**GEMINI, "request": 0.0, "schema_text": 0.4, "object": 5.0}, _GEMINI_FREE,
            notation="declaration", vocabulary="gemma"),
    _family("gemini 2.5", r"gemini-2", GEMINI, _GEMINI_FREE, notation="declaration", vocabulary="gemma"),
    _family("gemini on vertex", r"gemini", GEMINI, _VERTEX_FREE, providers=("vertex_ai",),
            notation="declaration", vocabulary="gemma"),
    _family("gemini", r"gemini", {**GEMINI, "signature": 0.2, "hidden_reasoning": 1.0},
            {**_GEMINI_FREE, "signature": 0.05}, notation="declaration", vocabulary="gemma"),
    _family("llama", r"(?<!o)llama", {**OTHER, "tools": 600.0, "tool": 30.0, "schema_text": 1.55},
            {**_OTHER_FREE, "tools": 300.0}, vocabulary="llama"),
    _family("mistral", r"(mis|magis|minis|devs|codes)tral|pixtral", {**OTHER, "tools": 20.0}, _OTHER_FREE,
            vocabulary="mistral"),
    _family("deepseek 4", r"deepseek-(v[4-9]|chat|reasoner)", DEEPSEEK_4,
            {**_OTHER_FREE, "request": 40.0}, vocabulary="deepseek"),
    _family("deepseek", r"deepseek", {**OTHER, "tools": 240.0}, _OTHER_FREE,
            vocabulary="deepseek"),
    _family("qwen", r"qwen|qwq", {**OTHER, "tools": 95.0, "tool": 15.0, "schema_text": 1.2}, _OTHER_FREE,
            vocabulary="qwen"),
    _family("glm, kimi, minimax", r"glm-|kimi|minimax|doubao|ernie|hunyuan", OTHER, _OTHER_FREE),
    _family("grok 4", r"grok-4($|-0709|-latest)", {**OTHER, "request": 200.0}, _GROK_FREE, vocabulary="cl100k"),
    _family("grok", r"grok", {**OTHER, "request": 200.0}, _GROK_FREE, vocabulary="cl100k"),
    _family("openai, deployed by another name", r"", {**OPENAI, "tools": 98.0}, {"text": 0.1}, providers=("azure",),
            notation="typescript"),
    _family("any", r"", {**OTHER, "tools": 300.0}, _OTHER_FREE, vocabulary="cl100k digits"),
)  # fmt: skip


def corpus() -> dict[str, list[str]]:
    """Texts by class: ``token_texts``, the tests' sessions and generated ones; none that changes with the code."""
    made = random.Random(0)
    texts: dict[str, list[str]] = {
        path.name: _pieces(path.read_text("utf-8"), 1000) for path in sorted(TEXTS.glob("*.txt"))
    }
    for line in (CHECKOUT / "tests" / "data" / "trajectories.jsonl").read_text("utf-8").splitlines():
        for message in json.loads(line)["messages"]:
            if isinstance(text := message.get("content"), str) and len(text) > 40:
                texts.setdefault(f"trajectory {message['role']}", []).append(text[:2000])
            for call in message.get("tool_calls") or ():
                texts.setdefault("arguments", []).append(call["function"]["arguments"])
    for _ in range(30):
        noise = made.randbytes(450)
        texts.setdefault("base64", []).append(base64.b64encode(noise).decode())
        texts.setdefault("hex", []).append(noise.hex())
        texts.setdefault("table", []).append(_table(made))
    return texts


def _pieces(text: str, length: int) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]


def _table(made: random.Random) -> str:
    def cell() -> str:
        return made.choice(
            (
                str(made.randint(0, 99_999)),
                f"{made.random() * 100:.2f}",
                f"{made.randint(1990, 2026)}-{made.randint(1, 12):02}-{made.randint(1, 28):02}",
            )
        )

    return "\n".join(",".join(cell() for _ in range(6)) for _ in range(20))


@cache
def vocabularies() -> dict[str, Callable[[str], int]]:
    """What texts are measured by: public vocabularies; others differ by a factor that each family fits.

    ``… digits`` has a token for each digit. ``cl100k`` takes for other scripts half as much again as o200k or more:
    the price of an unknown vocabulary. ``claude`` is the last one that Anthropic published: texts on
    record take 0 to 7 % more tokens in Claude 4 than in it, and in no other so evenly. The ones of ``COUNTS`` know
    the corpus only.
    """
    from tokenizers import Tokenizer

    o200k, cl100k = exact("o200k_base"), exact("cl100k_base")
    spec = find_spec("litellm")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "")
    claude = Tokenizer.from_file(
        str(folder / "litellm_core_utils" / "tokenizers" / "anthropic_tokenizer.json")
    )
    return {
        "o200k": o200k,
        "cl100k": cl100k,
        "cl100k digits": lambda text: cl100k(_DIGITS.sub("", text)) + sum(map(len, _DIGITS.findall(text))),
        "claude": lambda text: len(claude.encode(text, add_special_tokens=False).ids),
        **{name: _counted(name, counts) for name, counts in json.loads(COUNTS.read_text("utf-8")).items()},
    }


def _counted(name: str, counts: Mapping[str, int]) -> Callable[[str], int]:
    def count(text: str) -> int:
        try:
            return counts[_key(text)]
        except KeyError:
            raise SystemExit(
                f"{COUNTS.name} has no {name} tokens of the text {text[:40]!r}: run with --tokenizers FOLDER"
            ) from None

    return count


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def count_corpus(folder: Path) -> dict[str, dict[str, int]]:
    """The tokens of each text of the corpus by every tokenizer of a folder."""
    from tokenizers import Tokenizer

    texts = sorted({text for each in corpus().values() for text in each})
    found = {}
    for path in sorted(folder.glob("*.json")):
        tokenizer = Tokenizer.from_file(str(path))
        found[path.stem] = {
            _key(text): len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts
        }
    return found


_DIGITS: Final = re.compile(r"[0-9]+")


def fit_texts(texts: Mapping[str, Sequence[str]], count: Callable[[str], int]) -> dict[str, float]:
    """Tokens for one of each of ``FEATURES``, so that every class of text is as well met as every other.

    Args:
        texts: by class.
        count: the tokens of a text, in the vocabulary to fit.
    """
    rows, targets = [], []
    for each in texts.values():
        for text in each:
            tokens = count(text)
            if tokens >= 5:
                weight = 1 / tokens / len(each) ** 0.5
                rows.append([quantity * weight for quantity in features(text)])
                targets.append(tokens * weight)
    costs = _non_negative(np.array(rows), np.array(targets))
    return {name: round(float(cost), 3) for name, cost in zip(FEATURES, costs, strict=True)}


def _non_negative(rows: Any, targets: Any) -> Any:
    """Least squares with no negative cost, by coordinate descent."""
    gram, moment = rows.T @ rows, rows.T @ targets
    costs = np.zeros(len(moment))
    for _ in range(1000):
        for each in range(len(costs)):
            if gram[each, each] > 0:
                slope = (gram[each] @ costs - moment[each]) / gram[each, each]
                costs[each] = max(0.0, costs[each] - slope)
    return costs


def quantities(each: Recorded, framing: Framing, count: Callable[[str], float]) -> dict[str, float]:
    """All quantities of a request, summed."""
    request, total = each.request, dict[str, float]()
    parts = [
        fixed_terms(request.system, request.settings, count, tools=bool(request.tools)),
        tools_terms(request.tools, count, framing.notation),
        *(message_terms(message, count) for message in request.messages),
    ]
    for part in parts:
        for name, quantity in part.items():
            total[name] = total.get(name, 0.0) + quantity
    return total


@dataclass(frozen=True)
class Observation:
    """What a provider counted, and what it counted it of.

    Args:
        quantities: of the whole request; or, of a request that extends another, of what is new.
        tokens: the provider's count of that.
        request_tokens: of the whole request; the error is a share of it.
        file: the cassette.
        group: whose count it is.
        new_only: it is of what is new.
    """

    quantities: Mapping[str, float]
    tokens: int
    request_tokens: int
    file: str
    group: str
    new_only: bool = False

    @property
    def noise_tokens(self) -> float:
        """How far two like requests differ by what no client sees; what is new differs less than a whole."""
        return 0.01 * self.request_tokens + 1 if self.new_only else 0.04 * self.request_tokens + 2


Seen: TypeAlias = tuple[Family, Sequence[Observation]]
_ROUNDS: Final = 12
_SHARED: Final = 0.75
"""The part of the variance of a cost around its prior that a maker's families have in common: a maker changes its
framing from model to model less than it differs from what others published of it."""
_TEXT_NOISE: Final = 0.04
"""How far the estimate of a text is off in a vocabulary that is known, as a share (one standard deviation)."""
_ONE_OF_TWENTY: Final = 1.64
"""Standard deviations above which one of twenty lies."""


def fit(maker: Sequence[Seen]) -> list[tuple[dict[str, float], float]]:
    """The costs of a maker's families, and how many more tokens a long text may take, as a share: in one of twenty.

    Robust (Cauchy) least squares on shares of the count. A family's requests move its costs from their priors; of a
    family without requests, the deviations that its maker's other families have in common do.
    """
    names = sorted({name for family, _ in maker for name in family.free})
    count = len(names)
    spread = np.array([[family.free.get(name, 0.0) for name in names] for family, _ in maker])
    variance = np.concatenate([_SHARED * spread.max(axis=0) ** 2, *((1 - _SHARED) * spread**2)])
    own = [slice(count * (place + 1), count * (place + 2)) for place in range(len(maker))]
    rows = [_rows_of(family, seen, names) for family, seen in maker]
    pooled = np.zeros((sum(map(len, rows)), len(variance)))
    start = 0
    for place, each in enumerate(rows):
        pooled[start : start + len(each), :count] = pooled[start : start + len(each), own[place]] = each
        start += len(each)
    everything = [(family, each) for family, seen in maker for each in seen]
    common, covariance = _drawn(pooled, everything, variance)
    fitted = []
    for place, (family, seen) in enumerate(maker):
        moved = np.zeros(count) if seen else common[:count]
        start_costs = {**family.framing.costs, **_moved(family, names, moved)}
        alone = replace(family, framing=replace(family.framing, costs=start_costs))
        found, _ = _drawn(rows[place], [(alone, each) for each in seen], spread[place] ** 2)
        both = np.zeros(len(variance))
        if "text" in family.free:
            text = names.index("text")
            both[[text, own[place].start + text]] = 1 / family.framing.costs["text"]
        doubt = float(both @ covariance @ both + _TEXT_NOISE**2) ** 0.5
        fitted.append(({**start_costs, **_moved(alone, names, found)}, round(_ONE_OF_TWENTY * doubt, 3)))
    return fitted


def _rows_of(family: Family, seen: Sequence[Observation], names: Sequence[str]) -> Any:
    """The quantities of the family's free costs, a row for each observation."""
    rows = [
        [each.quantities.get(name, 0.0) if name in family.free else 0.0 for name in names] for each in seen
    ]
    return np.array(rows).reshape(len(seen), len(names))


def _moved(family: Family, names: Sequence[str], by: Any) -> dict[str, float]:
    """The family's free costs, moved; none is negative."""
    costs = family.framing.costs
    return {
        name: round(max(0.0, costs.get(name, 0.0) + float(shift)), 3)
        for name, shift in zip(names, by, strict=True)
        if name in family.free
    }


def _drawn(rows: Any, seen: Sequence[tuple[Family, Observation]], variance: Any) -> tuple[Any, Any]:
    """What moves the families' costs to the providers' counts, drawn to 0 with ``variance``; and its covariance."""
    actual = np.array(
        [each.tokens - predicted(family.framing.costs, each.quantities) for family, each in seen]
    )
    noise = np.array([each.noise_tokens for _, each in seen])
    wariness = np.array([family.wariness for family, _ in seen])
    loose = variance > 0
    covariance = np.diag(variance)
    found = np.zeros(len(variance))
    if not len(rows):
        return found, covariance
    weights = np.ones(len(rows))
    for _ in range(_ROUNDS):
        scaled = rows[:, loose] * (weights**0.5 / noise)[:, None]
        precision = scaled.T @ scaled + np.diag(1 / variance[loose])
        found[loose] = np.linalg.solve(precision, scaled.T @ (actual * weights**0.5 / noise))
        missed = (actual - rows @ found) / noise
        weights = 1 / (1 + (missed / np.where(missed > 0, wariness, 1.0)) ** 2)
    covariance[np.ix_(loose, loose)] = np.linalg.inv(precision)
    return found, covariance


def by_maker(seen: Sequence[Seen]) -> list[list[Seen]]:
    """The families of each maker."""
    makers: dict[str, list[Seen]] = {}
    for each in seen:
        makers.setdefault(each[0].maker, []).append(each)
    return list(makers.values())


def observed(requests: Sequence[Recorded], texts: Mapping[str, Mapping[str, float]]) -> Iterator[Seen]:
    """Each family with what was observed of it, the most particular family first."""
    estimates = {name: estimator([costs[each] for each in FEATURES]) for name, costs in texts.items()}
    left = [each for each in requests if not each.server_side]
    extended = {id(second): first for first, second in growing_pairs(requests)}
    for family in FAMILIES:
        mine = [each for each in left if belongs(each.profile, family.framing)]
        left = [each for each in left if not belongs(each.profile, family.framing)]
        seen = []
        for each in mine:
            tokenizer = each.profile.tokenizer
            estimate = estimates[family.framing.vocabulary]
            count = estimate if tokenizer == "estimate" else exact(tokenizer)
            whole, size = quantities(each, family.framing, count), each.input_tokens
            seen.append(Observation(whole, size, size, each.file, each.group))
            if first := extended.get(id(each)):
                before = quantities(first, family.framing, count)
                new = {name: quantity - before.get(name, 0.0) for name, quantity in whole.items()}
                added = size - first.input_tokens
                seen.append(Observation(new, added, size, each.file, each.group, new_only=True))
        yield family, seen


def predicted(costs: Mapping[str, float], row: Mapping[str, float]) -> float:
    return sum(quantity * costs.get(name, 0.0) for name, quantity in row.items())


SMALLEST: Final = 200
"""Tokens of the requests that are measured: a share of a smaller one says little."""


def errors(costs: Mapping[str, float], seen: Sequence[Observation]) -> list[tuple[Observation, float]]:
    """Each observation of a request of ``SMALLEST`` tokens and more, with its error as a share of the request."""
    return [
        (each, (predicted(costs, each.quantities) - each.tokens) / each.request_tokens)
        for each in seen
        if each.request_tokens >= SMALLEST
    ]


_FOLDS: Final = 5
_SPLITS: Final = 10


Errors: TypeAlias = dict[str, list[tuple[Observation, float]]]
"""By family."""


def cross_validated(seen: Sequence[Seen]) -> Errors:
    """Errors of each request by costs that never saw its file, once for each of several ways to split the files."""
    found: Errors = {family.framing.name: [] for family, _ in seen}
    for maker in by_maker(seen):
        for split in range(_SPLITS):
            for fold in range(_FOLDS):
                learnt = [(each, [one for one in of if _fold(one.file, split) != fold]) for each, of in maker]
                for (family, of), (costs, _) in zip(maker, fit(learnt), strict=True):
                    unseen = [one for one in of if _fold(one.file, split) == fold]
                    found[family.framing.name] += errors(costs, unseen)
    return found


def unseen(seen: Sequence[Seen]) -> Iterator[tuple[Family, Sequence[Observation], dict[str, float], float]]:
    """Each family with its costs and uncertainty by a fit that never saw any of its requests.

    They come from its priors and its maker's other families.
    """
    for maker in by_maker(seen):
        for place, (family, of) in enumerate(maker):
            costs, uncertainty = fit([(each, [] if each is family else own) for each, own in maker])[place]
            yield family, of, costs, uncertainty


def left_out(seen: Sequence[Seen]) -> Errors:
    """Errors of each family by costs that never saw any of its requests."""
    return {family.framing.name: errors(costs, of) for family, of, costs, _ in unseen(seen)}


def beyond_margin(seen: Sequence[Seen]) -> float:
    """The share of the requests of families left out that take more than their count and its margin."""
    beyond = [
        -share > uncertainty * (1 + share)
        for _, of, costs, uncertainty in unseen(seen)
        for each, share in errors(costs, of)
        if not each.new_only
    ]
    return sum(beyond) / max(1, len(beyond))


def _fold(file: str, split: int) -> int:
    return zlib.crc32(f"{split} {file}".encode()) % _FOLDS


def fitted(requests: Sequence[Recorded]) -> dict[str, Any]:
    """The table to write."""
    given = corpus()
    texts = {name: fit_texts(given, count) for name, count in vocabularies().items()}
    learnt = {}
    for maker in by_maker(list(observed(requests, texts))):
        for (family, _), costs in zip(maker, fit(maker), strict=True):
            learnt[family.framing.name] = costs
    families = []
    for family in FAMILIES:
        found, uncertainty = learnt[family.framing.name]
        nonzero = {name: cost for name, cost in found.items() if cost}
        families.append(vars(replace(family.framing, costs=nonzero, uncertainty=uncertainty)))
    return {"texts": texts, "families": families}


def report(requests: Sequence[Recorded], table: Mapping[str, Any]) -> Iterator[str]:
    """Errors on the data, cross-validated and of families left out, by family and by whose count it is."""
    seen = list(observed(requests, table["texts"]))
    own = {
        family.framing.name: errors(row["costs"], of)
        for (family, of), row in zip(seen, table["families"], strict=True)
    }
    measured = {
        "as fitted": own,
        "recordings left out": cross_validated(seen),
        "families left out": left_out(seen),
    }
    for new_only, what in ((False, "first call"), (True, "second call, anchored")):
        yield f"\n{what:34}" + "".join(f" {title:>23}" for title in measured)
        yield f"{'family':30} {'n':>3}" + f" {'median':>7} {'p90':>7} {'-10%':>7}" * len(measured)
        for title, chosen in _rows(seen):
            cells = [
                [share for each, share in chosen(each) if each.new_only == new_only]
                for each in measured.values()
            ]
            if cells[0]:
                yield f"{title:30} {len(cells[0]):3} " + " ".join(map(_shares, cells))
    yield f"\nfamilies left out: {beyond_margin(seen):.1%} of first calls take more than their count and its margin"


def _rows(seen: Sequence[Seen]) -> Iterator[tuple[str, Callable[[Errors], list[tuple[Observation, float]]]]]:
    """Titles, each with a function that picks its errors: of a family, or of a group."""
    for family, _ in seen:
        yield family.framing.name, partial(_of_family, family.framing.name)
    for group in ("OpenAI", "Anthropic", "Google", "other", "all"):
        yield group, partial(_of_group, group)


def _of_family(name: str, errors: Errors) -> list[tuple[Observation, float]]:
    return errors[name]


def _of_group(group: str, errors: Errors) -> list[tuple[Observation, float]]:
    return [pair for each in errors.values() for pair in each if group in ("all", pair[0].group)]


def _shares(errors: Sequence[float]) -> str:
    if not errors:
        return f"{'':23}"
    sizes, under = np.abs(errors), np.mean(np.array(errors) < -0.1)
    return f"{np.median(sizes):7.1%} {np.quantile(sizes, 0.9):7.1%} {under:7.1%}"


def report_texts(costs: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Errors against each vocabulary by class of text."""
    counts = vocabularies()
    yield f"{'text':24} {'n':>4}" + "".join(f" {name + ': median':>15} {'bias':>7}" for name in counts)
    for title, texts in corpus().items():
        line = f"{title:24} {len(texts):4}"
        for name, count in counts.items():
            estimate = estimator([costs[name][each] for each in FEATURES])
            pairs = [(estimate(text), count(text)) for text in texts if count(text) >= 5]
            median = np.median([abs(guess / tokens - 1) for guess, tokens in pairs])
            bias = sum(guess for guess, _ in pairs) / sum(tokens for _, tokens in pairs) - 1
            line += f" {median:15.1%} {bias:+7.1%}"
        yield line


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument(
        "--data", type=Path, required=True, help="recorded requests, one JSON object per line"
    )
    options.add_argument("--write", action="store_true", help="write fitted.json")
    options.add_argument("--tokenizers", type=Path, help="a folder of NAME.json: count the corpus anew")
    given = options.parse_args()
    if given.tokenizers:
        COUNTS.write_text(json.dumps(count_corpus(given.tokenizers)) + "\n", "utf-8")
    requests = read(given.data)
    table = fitted(requests)
    sys.stdout.writelines(f"{line}\n" for line in (*report_texts(table["texts"]), *report(requests, table)))
    if given.write:
        FITTED.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
