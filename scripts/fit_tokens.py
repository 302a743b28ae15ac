"""Fit what a text and a request cost in tokens, and write ``zeus_runtime/context/tokens/fitted.json``.

``python -m scripts.fit_tokens --data token-usage.jsonl [--write]``, from the checkout. Deterministic. Prints the
error on the data itself and cross-validated: by cassette file, so that no two requests of one conversation stand on
both sides.

A family (models whose provider frames requests alike) has few free costs; each is drawn towards its prior, so that a
family with three requests on record learns no more than three requests can teach.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.wire import Recorded, growing_pairs, read
from zeus_runtime.context.tokens.encodings import exact
from zeus_runtime.context.tokens.estimate import FEATURES, estimator, features
from zeus_runtime.context.tokens.framing import FITTED, Framing, belongs
from zeus_runtime.context.tokens.terms import fixed_terms, message_terms, tools_terms

CHECKOUT = Path(__file__).parents[1]
TEXTS = Path(__file__).with_name("token_texts")

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
    "request": 1.0, "text": 1.0, "call": 3.0, "result": 4.0, "tool": 2.0, "schema_text": 0.9, "object": 20.0,
}  # fmt: skip
OTHER: Final = {
    "attachment": ATTACHMENT,
    "request": 5.0, "system": 4.0, "text": 1.0, "user": 4.0, "assistant": 4.0, "call": 15.0,
    "result": 10.0, "reasoning_text": 1.0, "tools": 200.0, "tool": 10.0, "schema_text": 1.0, "output": 20.0,
    "output_text": 1.0,
}  # fmt: skip
"""Chat templates in public explain tools in nothing (Mistral) to 300 tokens (DeepSeek, Qwen Coder)."""


@dataclass(frozen=True)
class Family:
    """A family to fit.

    Args:
        framing: who belongs to it, and its costs' priors.
        free: cost to how far, in tokens, it may plausibly lie from its prior; other costs stay.
        wariness: how many times further off than an overcount an undercount must be to be taken for an oddity.
            1 where texts are counted exactly or framed as documented; more where an undercount is rather the
            estimate's own error, because it costs an overflow and an overcount only a little early compaction.
    """

    framing: Framing
    free: Mapping[str, float]
    wariness: float = 1.0


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
    framing = Framing(name, models, providers, mode, notation, vocabulary, dict(priors))
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
            notation="declaration", vocabulary="o200k digits"),
    _family("gemini 2.5", r"gemini-2", GEMINI, _GEMINI_FREE, notation="declaration", vocabulary="o200k digits"),
    _family("gemini on vertex", r"gemini", GEMINI, _VERTEX_FREE, providers=("vertex_ai",),
            notation="declaration", vocabulary="o200k digits"),
    _family("gemini", r"gemini", {**GEMINI, "signature": 0.2, "hidden_reasoning": 1.0},
            {**_GEMINI_FREE, "signature": 0.05}, notation="declaration", vocabulary="o200k digits"),
    _family("llama", r"(?<!o)llama", OTHER, {**_OTHER_FREE, "tools": 300.0}, vocabulary="cl100k"),
    _family("mistral", r"(mis|magis|minis|devs|codes)tral|pixtral", {**OTHER, "tools": 20.0}, _OTHER_FREE,
            vocabulary="cl100k digits"),
    _family("deepseek 4", r"deepseek-(v[4-9]|chat|reasoner)", {**OTHER, "request": 80.0, "tools": 240.0},
            {**_OTHER_FREE, "request": 40.0}),
    _family("deepseek", r"deepseek", {**OTHER, "tools": 240.0}, _OTHER_FREE),
    _family("qwen", r"qwen|qwq", {**OTHER, "tools": 150.0, "schema_text": 1.1}, _OTHER_FREE,
            vocabulary="o200k digits"),
    _family("glm, kimi, minimax", r"glm-|kimi|minimax|doubao|ernie|hunyuan", OTHER, _OTHER_FREE),
    _family("grok 4", r"grok-4($|-0709|-latest)", {**OTHER, "request": 680.0}, {}, vocabulary="cl100k"),
    _family("grok", r"grok", {**OTHER, "request": 200.0}, {}, vocabulary="cl100k"),
    _family("openai, deployed by another name", r"", {**OPENAI, "tools": 98.0}, {}, providers=("azure",),
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

    ``… digits`` has a token for each digit, as Gemma, Mistral and Qwen do. ``cl100k`` takes for other scripts half as
    much again as o200k or more: what to expect of a vocabulary that nobody knows. ``claude`` is the last one that
    Anthropic published: texts on record take 0 to 7 % more tokens in Claude 4 than in it, and in no other so evenly.
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
        "o200k digits": lambda text: o200k(_DIGITS.sub("", text)) + sum(map(len, _DIGITS.findall(text))),
        "cl100k": cl100k,
        "cl100k digits": lambda text: cl100k(_DIGITS.sub("", text)) + sum(map(len, _DIGITS.findall(text))),
        "claude": lambda text: len(claude.encode(text, add_special_tokens=False).ids),
    }


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


_ROUNDS: Final = 12


def fit(family: Family, seen: Sequence[Observation]) -> dict[str, float]:
    """The family's costs: robust (Cauchy) least squares on shares of the count, drawn to the priors."""
    costs = dict(family.framing.costs)
    names = sorted(family.free)
    if not seen:
        return costs
    spread = np.array([family.free[name] for name in names])
    prior = np.array([costs.get(name, 0.0) for name in names])
    matrix = np.array([[each.quantities.get(name, 0.0) for name in names] for each in seen])
    settled = {name: cost for name, cost in costs.items() if name not in names}
    fixed = np.array([predicted(settled, each.quantities) for each in seen])
    actual = np.array([float(each.tokens) for each in seen])
    noise = np.array([each.noise_tokens for each in seen])
    weights = np.ones(len(seen))
    found = prior
    for _ in range(_ROUNDS):
        scaled = matrix * (weights**0.5 / noise)[:, None]
        wanted = (actual - fixed - matrix @ prior) * weights**0.5 / noise
        penalty = np.diag(1 / spread**2)
        found = prior + np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ wanted)
        found = np.maximum(found, 0.0)
        missed = (actual - fixed - matrix @ found) / noise
        weights = 1 / (1 + (missed / np.where(missed > 0, family.wariness, 1.0)) ** 2)
    return {**costs, **{name: round(float(cost), 3) for name, cost in zip(names, found, strict=True)}}


def observed(
    requests: Sequence[Recorded], texts: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[Family, list[Observation]]]:
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


def cross_validated(family: Family, seen: Sequence[Observation]) -> list[tuple[Observation, float]]:
    """Errors of each request by costs that never saw its file, once for each of several ways to split the files."""
    found: list[tuple[Observation, float]] = []
    for split in range(_SPLITS):
        for fold in range(_FOLDS):
            learnt = [each for each in seen if _fold(each.file, split) != fold]
            left_out = [each for each in seen if _fold(each.file, split) == fold]
            if left_out:
                found += errors(fit(family, learnt), left_out)
    return found


def _fold(file: str, split: int) -> int:
    return zlib.crc32(f"{split} {file}".encode()) % _FOLDS


def fitted(requests: Sequence[Recorded]) -> dict[str, Any]:
    """The table to write."""
    given = corpus()
    texts = {name: fit_texts(given, count) for name, count in vocabularies().items()}
    families = []
    for family, seen in observed(requests, texts):
        costs = fit(family, seen)
        framing = replace(family.framing, costs={name: cost for name, cost in costs.items() if cost})
        families.append(vars(framing))
    return {"texts": texts, "families": families}


def report(requests: Sequence[Recorded], table: Mapping[str, Any]) -> Iterator[str]:
    """Errors on the data and cross-validated, by family and by whose count it is."""
    seen_errors: list[tuple[Observation, float]] = []
    crossed: list[tuple[Observation, float]] = []
    columns = f" {'median':>7} {'p90':>7} {'-10%':>7}" * 4
    yield f"{'':34} {'first call':>23} {'cross-validated':>23} {'anchored':>23} {'cross-validated':>23}"
    yield f"{'family':30} {'n':>3}{columns}"
    for (family, seen), row in zip(observed(requests, table["texts"]), table["families"], strict=True):
        own, unseen = errors(row["costs"], seen), cross_validated(family, seen)
        seen_errors += own
        crossed += unseen
        if own:
            yield _line(family.framing.name, own, unseen)
    for group in ("OpenAI", "Anthropic", "Google", "other", "all"):
        yield _line(
            group,
            [each for each in seen_errors if group in ("all", each[0].group)],
            [each for each in crossed if group in ("all", each[0].group)],
        )


def _line(
    title: str, own: Sequence[tuple[Observation, float]], crossed: Sequence[tuple[Observation, float]]
) -> str:
    n = sum(not each.new_only for each, _ in own)
    cells = [
        _shares([share for each, share in errors if each.new_only == new_only])
        for new_only in (False, True)
        for errors in (own, crossed)
    ]
    return f"{title:30} {n:3} " + " ".join(cells)


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
    given = options.parse_args()
    requests = read(given.data)
    table = fitted(requests)
    sys.stdout.writelines(f"{line}\n" for line in (*report_texts(table["texts"]), *report(requests, table)))
    if given.write:
        FITTED.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
