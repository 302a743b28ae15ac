"""How far counted tokens are from what providers reported: Zeus, litellm and LangChain, in one run.

``python -m benchmarks.tokens [DATA.jsonl] [--json] [--worst N]``: one recorded request per line, as
``benchmarks/wire.py`` reads them; by default what ``ZEUS_TOKEN_USAGE`` names, or the tests' sample.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.wire import Recorded, growing_pairs, read
from zeus_runtime.context.edit_rules import Reported
from zeus_runtime.context.tokens import Counter, counter_for, request_tokens
from zeus_runtime.context.tokens.terms import content_text
from zeus_runtime.models.interface import ModelRequest
from zeus_runtime.models.messages import to_chat
from zeus_runtime.models.profiles import ModelProfile

GROUPS: Final = ("OpenAI", "Anthropic", "Google", "other")
SAMPLE: Final = Path(__file__).parents[1] / "tests" / "data" / "token-usage.jsonl"
SMALLEST: Final = 200
"""Requests below are measured in ``all`` only: a share of a small number says little."""


@dataclass(frozen=True)
class Errors:
    """Errors as shares of the reported count."""

    n: int
    median: float
    p90: float
    under_10_percent: float
    bias: float


def zeus(each: Recorded) -> float:
    return request_tokens(_counter(each.profile.name, each.profile.mode, each.profile), each.request)


_counters: dict[tuple[str, str | None], Counter] = {}


def _counter(name: str, mode: str | None, profile: ModelProfile) -> Counter:
    if (name, mode) not in _counters:
        _counters[name, mode] = counter_for(profile)
    return _counters[name, mode]


def litellm(each: Recorded) -> float:
    chat, tools = _chat(each.request)
    return float(_litellm().token_counter(model=each.profile.name, messages=chat, tools=tools or None))


@cache
def _litellm() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm as library

    library.disable_hf_tokenizer_download = True
    library.suppress_debug_info = True
    return library


def langchain(each: Recorded) -> float:
    from langchain_core.messages import SystemMessage
    from langchain_core.messages.utils import count_tokens_approximately

    request = each.request
    system = [SystemMessage(request.system)] if request.system else []
    return count_tokens_approximately([*system, *request.messages], tools=_chat(request)[1] or None)


def _chat(request: ModelRequest) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The request as chat completions; only what every counter knows."""
    chat = [{"role": "system", "content": request.system}] if request.system else []
    chat += [to_chat(message, portable=True) for message in request.messages]
    for message in chat:
        message["content"] = content_text(message["content"] or "")
        for key in ("provider_specific_fields", "thinking_blocks", "reasoning_content"):
            message.pop(key, None)
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in request.tools
    ]
    return chat, tools


COUNTERS: Final[Mapping[str, Callable[[Recorded], float]]] = {
    "zeus": zeus,
    "litellm.token_counter": litellm,
    "langchain approximately": langchain,
}


def anchored(count: Callable[[Recorded], float], first: Recorded, second: Recorded) -> float:
    """The second request's count, the first one's being known from the provider."""
    return Reported(first.input_tokens, round(count(first))).tokens(round(count(second)))


def errors(pairs: Sequence[tuple[float, int]]) -> Errors:
    """Of (counted, reported)."""
    shares = [counted / reported - 1 for counted, reported in pairs]
    sizes = sorted(map(abs, shares))
    return Errors(
        n=len(pairs),
        median=statistics.median(sizes),
        p90=sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        under_10_percent=sum(share < -0.1 for share in shares) / len(shares),
        bias=sum(counted for counted, _ in pairs) / sum(reported for _, reported in pairs) - 1,
    )


def measure(requests: Sequence[Recorded]) -> dict[str, dict[str, dict[str, Errors]]]:
    """Selection to group to counter to errors; the selections are the issue's and all there is."""
    plain = [each for each in requests if not each.server_side and each.input_tokens >= SMALLEST]
    second = [
        pair
        for pair in growing_pairs(requests)
        if not pair[1].server_side and pair[1].input_tokens >= SMALLEST
    ]
    table: dict[str, dict[str, dict[str, Errors]]] = {}
    for title, chosen in (
        (f"first call, {SMALLEST}+ tokens, no server-side tools", plain),
        ("first call, without server-side tools", [each for each in requests if not each.server_side]),
        ("first call, all", requests),
    ):
        table[title] = _by_group(
            chosen, lambda each: each.group, lambda count, each: (count(each), each.input_tokens)
        )
    table[f"second call, anchored, {SMALLEST}+ tokens"] = _by_group(
        second, lambda pair: pair[1].group, lambda count, pair: (anchored(count, *pair), pair[1].input_tokens)
    )
    return table


def _by_group(
    chosen: Sequence[Any],
    group_of: Callable[[Any], str],
    pair_of: Callable[[Callable[[Recorded], float], Any], tuple[float, int]],
) -> dict[str, dict[str, Errors]]:
    table: dict[str, dict[str, Errors]] = {}
    for group in (*GROUPS, "all"):
        mine = [each for each in chosen if group in ("all", group_of(each))]
        if mine:
            table[group] = {
                name: errors([pair_of(count, each) for each in mine]) for name, count in COUNTERS.items()
            }
    return table


def speed(requests: Sequence[Recorded]) -> dict[str, float]:
    """Microseconds per message of about 1 KB, by counter."""
    from langchain_core.messages import HumanMessage

    text = " ".join(str(message.content) for each in requests for message in each.request.messages)
    messages = [HumanMessage(text[start : start + 1024]) for start in range(0, min(len(text), 200_000), 1024)]
    profiles = {
        "tiktoken": ModelProfile("gpt-5", provider="openai", tokenizer="o200k_base"),
        "estimate": ModelProfile("claude-sonnet-4-5", provider="anthropic"),
    }
    taken = {}
    for name, profile in profiles.items():
        counter = counter_for(profile)
        counter.message(messages[0])
        rounds = []
        for _ in range(5):
            start = time.process_time()
            for message in messages:
                counter.message(message)
            rounds.append((time.process_time() - start) / len(messages) * 1e6)
        taken[name] = min(rounds)
    return taken


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("data", type=Path, nargs="?", help="recorded requests, one JSON object per line")
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--worst", type=int, default=0, metavar="N", help="list Zeus's N worst requests too")
    given = options.parse_args()
    requests = read(given.data or Path(os.environ.get("ZEUS_TOKEN_USAGE", SAMPLE)))
    table = measure(requests)
    if given.json:
        print(json.dumps(table, default=vars, indent=1))
        return
    for title, groups in table.items():
        print(f"\n{title}")
        print(f"  {'':10} {'':24} {'n':>4} {'median':>8} {'p90':>8} {'>10% under':>11} {'bias':>8}")
        for group, counters in groups.items():
            for name, each in counters.items():
                print(
                    f"  {group:10} {name:24} {each.n:4} {each.median:8.1%} {each.p90:8.1%} "
                    f"{each.under_10_percent:11.1%} {each.bias:+8.1%}"
                )
    print("\nspeed:", ", ".join(f"{name} {taken:.0f} µs/KB" for name, taken in speed(requests).items()))
    for each in sorted(requests, key=lambda r: -abs(zeus(r) / r.input_tokens - 1))[: given.worst]:
        marker = " server-side" if each.server_side else ""
        print(
            f"{zeus(each):7.0f} {each.input_tokens:7} {each.profile.name} {each.profile.mode}{marker} {each.file}"
        )


if __name__ == "__main__":
    main()
