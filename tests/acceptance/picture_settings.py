"""What the settings of pictures change."""

from __future__ import annotations

from tests.acceptance.settings import Flip, Scene
from tests.support.pictures import png
from zeus_runtime.testing import ScriptedModel


async def told_unseen(scene: Scene) -> bool:
    """Whether the user is told that the model is not shown an attached picture."""
    (scene.folder / "map.png").write_bytes(png())
    async with scene.agent(ScriptedModel(["a map"])) as agent:
        events = [event async for event in agent.stream("see", attachments=["map.png"])]
    return any(getattr(event, "code", "") == "picture_not_shown" for event in events)


PICTURES = (
    Flip(
        "profiles.models.*.vision",
        True,
        told_unseen,
        True,
        False,
        {
            "model": "acme-1",
            "middlewares": [{"resources": {}}],
            "profiles": {"models": {"acme-1": {"max_input_tokens": 9_000}}},
        },
    ),
)
