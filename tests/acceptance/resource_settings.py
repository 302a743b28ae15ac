"""What the settings of referenced files change."""

from __future__ import annotations

from collections.abc import Sequence

from tests.acceptance.settings import Flip, Scene, See
from zeus_runtime.testing import ScriptedModel

GIVEN = {"middlewares": [{"resources": {}}]}


def lines_shown(prompt: str, attachments: Sequence[str] = ()) -> See:
    """Whether all of a file of 200 lines stands in the prompt."""

    async def see(scene: Scene) -> bool:
        scene.write("long.txt", "\n".join(f"entry {number} of it" for number in range(200)))
        model = ScriptedModel(["done"])
        async with scene.agent(model) as agent:
            _ = [event async for event in agent.stream(prompt, attachments=attachments)]
        return "entry 199 of it" in model.requests[0].system

    return see


RESOURCES = (
    Flip("middleware:resources.max_tokens", 200, lines_shown("see @long.txt"), True, False, GIVEN),
    Flip(
        "middleware:resources.max_attachment_tokens",
        200,
        lines_shown("see", ["long.txt"]),
        True,
        False,
        GIVEN,
    ),
    Flip("middleware:resources.max_file_tokens", 100, lines_shown("see @long.txt"), True, False, GIVEN),
)
