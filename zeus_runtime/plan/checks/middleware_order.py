"""Warn about orders of middlewares that work but cost money or context. The YAML still decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from zeus_runtime.context import DropBefore, Evict, Pin, Summarize, TruncateArguments
from zeus_runtime.middleware.chain import overrides

if TYPE_CHECKING:
    from zeus_runtime.config import Diagnostic
    from zeus_runtime.middleware.protocol import Middleware
    from zeus_runtime.plan.components import PlannedMiddleware
    from zeus_runtime.plan.validated import Checked


def harmful_orders(checked: Checked, middlewares: Sequence[PlannedMiddleware]) -> Iterator[Diagnostic]:
    """A warning for each pair of middlewares whose order costs money or context.

    Policies propose in the order of the YAML, and each sees the view after the ones above it. ``Middleware.proposes``
    and ``Middleware.finishes_request`` declare what a middleware does; one that declares nothing is never in a wrong
    place.
    """
    for upper, lower in combinations(middlewares, 2):
        for harm in _harms(upper.loaded, lower.loaded):
            found = checked.diagnostic(
                "harmful-order",
                f"{upper.name} stands above {lower.name}: " + harm.format(upper=upper.name, lower=lower.name),
                lower.path,
                hint=f"list {lower.name} above {upper.name}",
            )
            yield replace(found, severity="warning")


def _harms(above: type[Middleware], below: type[Middleware]) -> Iterator[str]:
    if Summarize in above.proposes and {Evict, TruncateArguments} & {*below.proposes}:
        yield "{upper} pays a model for a summary before {lower} could make room for nothing"
    if {Summarize, DropBefore} & {*above.proposes} and Pin in below.proposes:
        yield "{upper} may shed a message before {lower} can pin it"
    if above.finishes_request and overrides(below, "wrap_model_call"):
        yield "{lower} can change a request after {upper} has finished it, which breaks the provider's cache"
