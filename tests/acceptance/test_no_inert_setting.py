"""No inert setting: every documented key, set to something else, changes something that can be seen.

Every leaf of the published schema is in ``FLIPS`` with what is seen before and after it is set; a leaf that is not
there fails the test, so no setting can be added that does nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.admission_settings import ADMITTED
from tests.acceptance.agent_settings import AGENTS
from tests.acceptance.approval_settings import APPROVALS
from tests.acceptance.config_settings import CONFIGURED
from tests.acceptance.context_settings import SUMMARIES
from tests.acceptance.embedding_settings import EMBEDDINGS
from tests.acceptance.file_settings import FILED
from tests.acceptance.hook_settings import HOOKED
from tests.acceptance.knowledge_settings import KNOWLEDGE, LINKED
from tests.acceptance.mcp_settings import OPTIONS, SERVERS
from tests.acceptance.memory_settings import REMEMBERED
from tests.acceptance.model_settings import MODELS
from tests.acceptance.output_settings import OUTPUTS
from tests.acceptance.picture_settings import PICTURES
from tests.acceptance.policy_settings import POLICIES
from tests.acceptance.resource_settings import RESOURCES
from tests.acceptance.role_settings import ROLES
from tests.acceptance.run_settings import RUNS
from tests.acceptance.sandbox_settings import DOCKED, SANDBOXED, SHELLED
from tests.acceptance.schema_leaves import REQUIRED, schema_leaves
from tests.acceptance.settings import Flip, Scene, See, with_key
from tests.acceptance.size_settings import SIZES
from tests.acceptance.skill_settings import SKILLS
from tests.acceptance.ssh_settings import SSHED
from tests.acceptance.store_settings import STORES
from tests.acceptance.web_settings import WEBBED

FLIPS = (
    *ADMITTED,
    *AGENTS,
    *APPROVALS,
    *CONFIGURED,
    *DOCKED,
    *EMBEDDINGS,
    *FILED,
    *HOOKED,
    *KNOWLEDGE,
    *LINKED,
    *MODELS,
    *OPTIONS,
    *OUTPUTS,
    *PICTURES,
    *POLICIES,
    *REMEMBERED,
    *RESOURCES,
    *ROLES,
    *RUNS,
    *SANDBOXED,
    *SHELLED,
    *SERVERS,
    *SIZES,
    *SKILLS,
    *SSHED,
    *STORES,
    *SUMMARIES,
    *WEBBED,
)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Retries wait for nothing, and the jitter is always half of what it may be."""

    async def at_once(_seconds: float) -> None:
        return None

    monkeypatch.setattr("zeus_runtime.models.retry._sleep", at_once)
    monkeypatch.setattr("random.random", lambda: 0.5)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "ZEUS_HOME",
        "ZEUS_LOAD_PLUGINS",
        "ZEUS_DISABLE_PLUGINS",
        "XDG_CONFIG_HOME",
        "OPENAI_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def seen_without() -> dict[tuple[See, str], Any]:
    """What was seen without a key: the keys of one config that are looked at alike need it once."""
    return {}


@pytest.mark.parametrize(
    "flip",
    [
        pytest.param(
            flip, id=flip.key, marks=[pytest.mark.xdist_group("litellm")] * (flip.group == "litellm")
        )
        for flip in FLIPS
    ],
)
async def test_a_key_set_to_something_else_changes_what_can_be_seen(
    flip: Flip, tmp_path: Path, seen_without: dict[tuple[See, str], Any]
) -> None:
    assert flip.value != schema_leaves()[flip.key], "the test sets the key to what it is anyway"
    given = {"version": 1, "model": "gpt-4o", **flip.given}
    without = (flip.see, json.dumps(given, sort_keys=True))
    if without not in seen_without:
        seen_without[without] = await flip.see(Scene(tmp_path / "before", given))
    seen_after = await flip.see(Scene(tmp_path / "after", with_key(given, flip.key, flip.value)))
    assert (seen_without[without], seen_after) == (flip.before, flip.after)
    assert flip.before != flip.after


def test_every_leaf_of_the_schema_is_flipped() -> None:
    assert not set(schema_leaves()) - {flip.key for flip in FLIPS}


def test_no_key_is_flipped_that_the_schema_does_not_have() -> None:
    assert not {flip.key for flip in FLIPS} - set(schema_leaves())


def test_no_key_is_flipped_twice() -> None:
    keys = [flip.key for flip in FLIPS]
    assert sorted(keys) == sorted(set(keys))


async def test_keys_that_begin_with_x_are_the_users_and_change_nothing(tmp_path: Path) -> None:
    given = {"version": 1, "model": "gpt-4o"}
    plain = Scene(tmp_path / "plain", given)
    noted = Scene(tmp_path / "noted", {**given, "x-note": {"limits": {"max_steps": "${UNSET}"}}})
    assert noted.problems() == ()
    assert noted.agent().plan.digest == plain.agent().plan.digest
    assert noted.agent().plan.config == plain.agent().plan.config


def test_the_walk_finds_keys_in_records_mappings_lists_and_alternatives() -> None:
    found = schema_leaves()
    assert found["limits.max_steps"] == 200
    assert found["model"] is REQUIRED
    assert {
        "prompt.files.core",
        "prompt.time.timezone",
        "profiles.models.*.tokenizer",
        "instructions",
        "instructions.file",
        "middleware:summarization.trigger.tokens",
        "mcpServers.*.oauth.scopes",
        "workspace.access",
    } <= set(found)
    assert not {"prompt", "workspace.access.*", "middleware:summarization.trigger"} & set(found)
