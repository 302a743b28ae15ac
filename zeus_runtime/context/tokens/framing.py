"""The overhead that each provider adds to texts, in tokens: data fitted to providers' reports (``fitted.json``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.models.profiles import ModelProfile

FITTED = Path(__file__).with_name("fitted.json")
"""Costs by class of text and by provider; ``scripts/fit_tokens.py`` writes it."""


@dataclass(frozen=True)
class Framing:
    """One family's overheads.

    Args:
        name: of the family: models whose provider frames requests in the same way.
        models: a pattern that a model's name, without its provider, must match.
        providers: the providers of these models; empty for any.
        mode: ``responses`` or ``chat`` where the endpoint matters; empty for both.
        notation: how the family sees tool schemas: ``typescript``, ``json`` or ``declaration``.
        vocabulary: the key of ``texts`` whose costs estimate its texts, if they are estimated.
        costs: tokens for one of each of ``terms.TERMS``; a missing name costs nothing.
        uncertainty: how many more tokens a long text may take than estimated, as a share, in one of twenty cases. The
            fewer tokens of the family are on record, the more.
    """

    name: str
    models: str
    providers: Sequence[str]
    mode: str
    notation: str
    vocabulary: str
    costs: Mapping[str, float]
    uncertainty: float


@cache
def _fitted() -> Mapping[str, Any]:
    table: Mapping[str, Any] = json.loads(FITTED.read_text("utf-8"))
    return table


def text_costs(vocabulary: str = "o200k") -> tuple[float, ...]:
    """Tokens for one of each of ``estimate.FEATURES``.

    Args:
        vocabulary: a key of ``texts`` in ``fitted.json``.
    """
    from zeus_runtime.context.tokens.estimate import FEATURES

    costs = _fitted()["texts"][vocabulary]
    return tuple(float(costs[name]) for name in FEATURES)


@cache
def framings() -> tuple[Framing, ...]:
    """Every family, the most specific first; the last one matches every model."""
    return tuple(Framing(**row) for row in _fitted()["families"])


def framing_for(profile: ModelProfile) -> Framing:
    """The family of the model ``profile``."""
    # Always one: the last family matches every model.
    return next(framing for framing in framings() if belongs(profile, framing))


def belongs(profile: ModelProfile, framing: Framing) -> bool:
    """Whether the model ``profile`` is of the family ``framing``."""
    return (
        re.search(framing.models, profile.name.lower()) is not None
        and (not framing.providers or profile.provider in framing.providers)
        and (not framing.mode or framing.mode == (profile.mode or "chat"))
    )
