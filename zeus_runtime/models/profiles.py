"""What is known of a model: its input limit, output limit, tokenizer and prices, and where each value comes from.

Precedence, value by value: the user's YAML (``profiles.models``), the Homes' ``configs/profiles.yaml`` from the
nearest to the bundled one, litellm's table, and for the input limit alone a fallback that is announced. A table's 0
or null means unknown; a price of 0 in the user's YAML means free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import ZeusError
from zeus_runtime.frozen import dataclass
from zeus_runtime.models.profile_names import Spelling, provider_of, spellings, tokenizer_of
from zeus_runtime.models.profile_tables import MappingTable, Row, Table, home_tables, litellm_table

if TYPE_CHECKING:
    from zeus_runtime.config.model import Profiles
    from zeus_runtime.models.interface import Usage
    from zeus_runtime.notice import Notice

FALLBACK_INPUT_TOKENS: Final = 64_000
"""The assumed input limit of an unknown model (SPEC section 6)."""

CHAT_MODES: Final = ("chat", "responses", "completion")
"""litellm's words for models that answer a conversation."""

_LITELLM_NAMES: Final = {
    "max_input_tokens": "max_input_tokens",
    "max_output_tokens": "max_output_tokens",
    "input_cost_per_token": "input_cost_per_token",
    "output_cost_per_token": "output_cost_per_token",
    "cache_read_cost_per_token": "cache_read_input_token_cost",
    "cache_write_cost_per_token": "cache_creation_input_token_cost",
    "cache_write_1h_cost_per_token": "cache_creation_input_token_cost_above_1hr",
    "mode": "mode",
    "vision": "supports_vision",
    "tool_calls": "supports_function_calling",
}
_VALUES: Final = (*_LITELLM_NAMES, "tokenizer", "provider", "response_schema", "reasoning", "efforts")

_OWN_SCHEMAS: Final[Mapping[str, str]] = {
    "openai": "supports_response_schema",
    "azure": "supports_response_schema",
    "anthropic": "supports_native_structured_output",
}
"""The flag of litellm's table, by provider, that means an own response format which may stand beside tools. Elsewhere
``supports_response_schema`` may mean that litellm imitates it, or that a request may not have tools too."""

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The levels of reasoning, from the least to the most."""
_RARE_EFFORTS: Final = frozenset({"xhigh", "max"})
"""Those that a model takes only if the table says so; it takes the others unless the table denies it."""


@dataclass(frozen=True)
class ModelProfile:
    """What is known of one model.

    Args:
        name: as the user wrote it.
        provider: litellm's name of the provider; empty when unknown.
        max_input_tokens: what one request may hold; never the sum of input and output.
        max_output_tokens: what one answer may hold; None when unknown.
        tokenizer: ``o200k_base``, ``cl100k_base`` or ``estimate``.
        input_cost_per_token: US dollars; None when unknown, like the other prices.
        vision: whether it takes pictures.
        reasoning: how it is told how much to reason: by ``effort``, ``budget`` (tokens), ``both`` or ``none``.
        efforts: the efforts that it takes; None when unknown.
        response_schema: whether its provider holds answers to a JSON Schema, beside tools and in a stream.
        tool_calls: whether a table says that it calls tools.
        mode: litellm's word for what the model does (``chat``, ``embedding``); None when unknown.
        known: False when the input limit is the fallback.
        sources: name of each known value to where it comes from.
        suggestions: names that look alike, when the input limit is the fallback.
    """

    name: str
    provider: str = ""
    max_input_tokens: int = FALLBACK_INPUT_TOKENS
    max_output_tokens: int | None = None
    tokenizer: str = "estimate"
    input_cost_per_token: float | None = None
    output_cost_per_token: float | None = None
    cache_read_cost_per_token: float | None = None
    cache_write_cost_per_token: float | None = None
    cache_write_1h_cost_per_token: float | None = None
    vision: bool = False
    reasoning: str = "none"
    efforts: tuple[str, ...] | None = None
    response_schema: bool = False
    tool_calls: bool = False
    mode: str | None = None
    known: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    suggestions: tuple[str, ...] = ()


class UnknownModelError(ZeusError):
    """No table knows the model's input limit, and ``profiles.strict`` is set (exit 3).

    Args:
        profile: what is known.
    """

    exit_code = 3
    code = "unknown-model"

    def __init__(self, profile: ModelProfile) -> None:
        super().__init__(_unknown(profile) + _did_you_mean(profile.suggestions), remedy=_remedy(profile.name))
        self.name = profile.name
        self.suggestions = profile.suggestions


def lookup(
    name: str, *, overrides: Profiles | None = None, homes: Sequence[Path] = (), table: Table | None = None
) -> ModelProfile:
    """The profile of the model ``name``.

    Args:
        name: exactly as litellm takes it: ``gpt-5.2``, ``openai/gpt-5.2``, ``bedrock/us.anthropic.claude-...``.
        overrides: the user's ``profiles``.
        homes: Home folders, nearest first.
        table: the lowest table; by default the installed litellm's.

    Raises:
        UnknownModelError: nothing is known of its input limit and ``overrides.strict`` is set.
        ProfileFileError: a Home's profiles.yaml is malformed.
    """
    table = litellm_table() if table is None else table
    layers = home_tables(homes)
    profile = _profile(name, overrides, layers, table)
    if profile.known:
        return profile
    from dataclasses import replace

    from zeus_runtime.models.suggestions import suggestions

    profile = replace(profile, suggestions=suggestions(name, _providers(overrides, layers, table)))
    if overrides is not None and overrides.strict:
        raise UnknownModelError(profile)
    return profile


def written_profile(name: str, *, overrides: Profiles, homes: Sequence[Path] = ()) -> ModelProfile:
    """The profile of a model component that takes no model's name: what the YAML or a Home says of the component's own.

    Raises:
        ProfileFileError: a Home's profiles.yaml is malformed.
    """
    return _profile(name, overrides, home_tables(homes), MappingTable({}))


def _profile(
    name: str, overrides: Profiles | None, layers: Sequence[tuple[str, Mapping[str, Row]]], table: Table
) -> ModelProfile:
    ways = spellings(name)
    rows: list[tuple[str, Row]] = []
    found = _litellm_row(ways, table)
    if found is not None:
        rank, key, row = found
        # A Home's row counts only under a spelling that is as exact as that of litellm's row.
        ways = ways[: rank + 1]
        rows.append((f"litellm: {key}", _from_litellm(row)))
    rows[:0] = [
        (f"{source}: {key}", row) for source, models in layers for key, row in _matching(ways, models)
    ]
    user = {} if overrides is None else overrides.models
    # The user may write `openai/gpt-5.2` under `profiles.models` and `gpt-5.2` as the model.
    twin = f"{rows[-1][1].get('provider')}/{name}" if rows else name
    written = next((key for key in (name, *(key for key, _ in ways), twin) if key in user), None)
    if written is not None:
        rows.insert(0, (f"profiles.models: {written}", vars(user[written])))
    values, sources = _pick(rows)
    if "tokenizer" not in values:
        values["tokenizer"] = tokenizer_of(name)
        sources["tokenizer"] = "the model's name"
    known = "max_input_tokens" in values
    if not known:
        sources["max_input_tokens"] = "fallback"
    values.setdefault("provider", name.partition("/")[0] if "/" in name else "")
    return ModelProfile(name=name, known=known, sources=sources, **values)


def _litellm_row(ways: Sequence[Spelling], table: Table) -> tuple[int, str, Row] | None:
    for rank, (key, providers) in enumerate(ways):
        row = table.get(key)
        if row is not None and _sold_by(provider_of(str(row.get("litellm_provider") or "")), providers):
            return rank, key, row
    return None


def _matching(ways: Sequence[Spelling], models: Mapping[str, Row]) -> Iterable[tuple[str, Row]]:
    for key, providers in ways:
        row = models.get(key)
        if row is not None and _sold_by(str(row.get("provider") or ""), providers):
            yield key, row
            return


def _sold_by(provider: str, providers: Sequence[str]) -> bool:
    return not providers or not provider or provider in providers


def _from_litellm(row: Row) -> Row:
    values = {ours: row.get(theirs) for ours, theirs in _LITELLM_NAMES.items()}
    provider = provider_of(str(row.get("litellm_provider") or ""))
    return {
        **{name: value or None for name, value in values.items()},
        "provider": provider,
        "response_schema": row.get(_OWN_SCHEMAS.get(provider, "")) or None,
        **_reasoning(row, provider),
    }


def _reasoning(row: Row, provider: str) -> Row:
    """How a model of litellm's table is told how much to reason, and the efforts that it takes."""
    if not row.get("supports_reasoning"):
        return {}
    kind = "both" if provider == "gemini" else "effort"
    if provider == "anthropic":
        has_levels = row.get("supports_adaptive_thinking")
        kind = "effort" if has_levels else "budget"
        if has_levels and row.get("supports_legacy_thinking"):
            kind = "both"
    listed = row.get("reasoning_effort_levels")
    if listed is None:
        listed = [
            each
            for each in _EFFORTS
            if row.get(f"supports_{each}_reasoning_effort", each not in _RARE_EFFORTS)
            and not (each == "none" and row.get("thinking_always_on"))
        ]
    return {"reasoning": kind, "efforts": tuple(listed)}


def _pick(rows: Sequence[tuple[str, Row]]) -> tuple[dict[str, Any], dict[str, str]]:
    """For each value the first row that knows it, and where that row stands."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in _VALUES:
        for source, row in rows:
            value = row.get(name)
            # A table has 0 for a number that it does not know; a user's 0 is a price, and `vision: false` is known.
            is_unknown = value is None or (value == 0 and value is not False)
            if value is None or (is_unknown and not source.startswith("profiles.models")):
                continue
            values[name], sources[name] = value, source
            break
    return values, sources


def names(
    *,
    overrides: Profiles | None = None,
    homes: Sequence[Path] = (),
    provider: str | None = None,
    table: Table | None = None,
) -> tuple[str, ...]:
    """Every known model that answers a conversation, sorted.

    Args:
        overrides: the user's ``profiles``; their models are listed too.
        homes: Home folders, nearest first.
        provider: only this provider's, by litellm's word; ``vertex_ai`` and ``bedrock`` include all their kinds.
        table: the lowest table; by default the installed litellm's.
    """
    table = litellm_table() if table is None else table
    return _names(overrides, home_tables(homes), table, provider)


def _names(
    overrides: Profiles | None,
    layers: Sequence[tuple[str, Mapping[str, Row]]],
    table: Table,
    provider: str | None = None,
) -> tuple[str, ...]:
    providers = _providers(overrides, layers, table)
    return tuple(sorted(name for name, of in providers.items() if provider in (None, of)))


def _providers(
    overrides: Profiles | None, layers: Sequence[tuple[str, Mapping[str, Row]]], table: Table
) -> dict[str, str]:
    """Every known model that answers a conversation, and whose it is."""
    providers = {
        name: provider_of(str(row.get("litellm_provider") or ""))
        for name, row in table.rows().items()
        if row.get("mode", "chat") in CHAT_MODES
    }
    for _, models in layers:
        for name, row in models.items():
            providers.setdefault(name, str(row.get("provider") or ""))
    for name in () if overrides is None else overrides.models:
        providers.setdefault(name, name.partition("/")[0] if "/" in name else "")
    return providers


def catalogue(
    *,
    overrides: Profiles | None = None,
    homes: Sequence[Path] = (),
    provider: str | None = None,
    table: Table | None = None,
) -> tuple[ModelProfile, ...]:
    """The profile of every name ``names`` gives, in its order. A model whose limit is unknown says so (``known``)."""
    # Parsed once: `JsonTable.get` would search 3 MB for each spelling of thousands of names.
    table = MappingTable((litellm_table() if table is None else table).rows())
    layers = home_tables(homes)
    return tuple(
        _profile(name, overrides, layers, table) for name in _names(overrides, layers, table, provider)
    )


def notices(profile: ModelProfile) -> tuple[Notice, ...]:
    """What the user should be told of a profile before the run: a guessed window, a model that does not chat."""
    from zeus_runtime.notice import Notice

    told = []
    if not profile.known:
        told.append(
            Notice(
                "unknown-model",
                f"{_unknown(profile)}, so {profile.max_input_tokens:,} input tokens are assumed"
                f"{_did_you_mean(profile.suggestions)}. {_remedy(profile.name)}.",
            )
        )
    if profile.mode is not None and profile.mode not in CHAT_MODES:
        told.append(
            Notice("no-chat-model", f"the model {profile.name!r} is listed for {profile.mode}, not for chat")
        )
    return tuple(told)


def cost_usd(profile: ModelProfile, usage: Usage) -> float | None:
    """What one call costs by the profile's prices, in US dollars; None when the input or output price is unknown.

    Cached tokens are part of ``usage.input_tokens``; where a cache price is unknown the input price is taken, and for
    what is kept an hour the price of a shorter time.
    """
    fresh_price, output_price = profile.input_cost_per_token, profile.output_cost_per_token
    if fresh_price is None or output_price is None:
        return None
    read_price = _first_known(profile.cache_read_cost_per_token, fresh_price)
    write_price = _first_known(profile.cache_write_cost_per_token, fresh_price)
    long_price = _first_known(profile.cache_write_1h_cost_per_token, write_price)
    # A provider may report more cached tokens than tokens of input.
    fresh = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    return (
        fresh * fresh_price
        + usage.cache_read_tokens * read_price
        + (usage.cache_write_tokens - usage.cache_write_1h_tokens) * write_price
        + usage.cache_write_1h_tokens * long_price
        + usage.output_tokens * output_price
    )


def _first_known(price: float | None, otherwise: float) -> float:
    return otherwise if price is None else price


def _unknown(profile: ModelProfile) -> str:
    if profile.mode is not None:
        return f"no model table gives an input limit for {profile.name!r}"
    return f"the model {profile.name!r} is in no model table"


def _did_you_mean(suggestions: Sequence[str]) -> str:
    return f" (did you mean {' or '.join(repr(name) for name in suggestions)}?)" if suggestions else ""


def _remedy(name: str) -> str:
    return f"Correct the name, or give max_input_tokens under profiles.models.{name!r} in the YAML"
