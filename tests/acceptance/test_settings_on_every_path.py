"""A setting counts on every path: ``zeus run``, ``zeus chat``, a resumed session, a sub-agent's overrides, Python."""

from __future__ import annotations

import pytest

from tests.acceptance.path_settings import ON_PATHS, PathFlip, changes
from tests.acceptance.paths import PATHS, played


@pytest.mark.parametrize("flip", [pytest.param(each, id=each.key) for each in ON_PATHS])
@pytest.mark.parametrize("path", [pytest.param(each, marks=pytest.mark.xdist_group(each)) for each in PATHS])
def test_a_key_changes_what_is_seen_on_a_path(path: str, flip: PathFlip) -> None:
    without = flip.see(played(path, flip.scenario, "{}"))
    set_ = flip.see(played(path, flip.scenario, changes(flip)))
    assert (without, set_) == (flip.before, flip.after)
    assert flip.before != flip.after
