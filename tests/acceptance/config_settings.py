"""What a config is made of: its name, prompt, mode, parts and plugins."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from datetime import datetime

from tests.acceptance.settings import Flip, Scene, See
from tests.acceptance.shared_settings import FILES, PROBED, problems, seen, tool_names
from zeus_runtime.cli import main
from zeus_runtime.plugin.middleware import Section
from zeus_runtime.testing import calling

LOCAL_ZONE = datetime.now().astimezone().tzname()


def section(name: Section) -> See:
    """The text of one of the prompt's sections."""

    async def see(scene: Scene) -> str:
        for file in ("CORE", "SOUL", "TOOLS", "WORKFLOW", "MEMORY", "agent_mode"):
            scene.write(f".zeus/prompts/{file}.md", f"{file} of the Home")
        scene.write("own.md", "my own")
        return scene.agent().plan.stable[name]

    return see


def core_prompt(text: str) -> See:
    """Section 1 of the prompt, or the codes of the diagnostics."""

    async def see(scene: Scene) -> str | tuple[str, ...]:
        scene.write("task.md", "Only Go.")
        scene.write(".zeus/prompts/CORE.md", text)
        return scene.problems() or scene.agent().plan.stable[Section.CORE]

    return see


async def described_parameters(scene: Scene) -> int:
    """How many parameters the prompt describes."""
    return scene.agent().plan.stable[Section.TOOLS].count("(string, required)")


def system(pattern: str) -> See:
    """Words in the system prompt."""

    async def see(scene: Scene) -> str | None:
        (request,) = (await scene.play("done")).requests
        found = re.search(pattern, request.system)
        return None if found is None else found[found.lastindex or 0]

    return see


async def secret_read(scene: Scene) -> str:
    """A secret in a tool result that the model reads."""
    scene.write(".env", "A_KEY=0123-abcdef\n")
    scene.write("kept.txt", "K=0123-abcdef\n")
    played = await scene.play(calling(("read_file", {"path": "/kept.txt"})), "done")
    return str(played.requests[-1].messages[-1].content)


async def told_of_project(scene: Scene) -> str | None:
    """The project's instructions in the prompt."""
    scene.write("AGENTS.md", "Use tabs.")
    scene.write("RULES.md", "Use spaces.")
    (request,) = (await scene.play("done")).requests
    found = re.search(r'<project_instructions path="[^"]*">\n(.*)\n', request.system)
    return found and found[1]


async def project_is_cut(scene: Scene) -> bool:
    """Whether the prompt leaves out the end of long project instructions."""
    scene.write("AGENTS.md", "Use tabs.\n" * 300 + "The end.\n")
    (request,) = (await scene.play("done")).requests
    assert "Use tabs." in request.system
    return "The end." not in request.system


async def write_is_refused(scene: Scene) -> bool:
    """Whether a tool that writes is refused."""
    call = calling(("write_file", {"path": "/a.txt", "content": "x"}))
    (result,) = (await scene.play(call, "done")).all("tool_call_result")
    return bool(result.is_error)


async def agent_name(scene: Scene) -> str:
    """The agent's name."""
    scene.write("base.yaml", "name: based\n")
    return scene.agent().plan.config.name


async def description(scene: Scene) -> str:
    """The description that `zeus plan` shows."""
    scene.agent()
    shown = io.StringIO()
    with redirect_stdout(shown):
        assert main(["plan", str(scene.folder / "zeus.yaml"), "--format", "json"]) == 0
    return str(json.loads(shown.getvalue())["description"])


CONFIGURED = (
    Flip("version", 7, problems, (), ("unsupported-version",)),
    Flip("name", "hermes", core_prompt("I am {{agent_name}}"), "I am zeus", "I am hermes"),
    Flip("instructions", "Only Go.", core_prompt("I am"), "I am", "I am\n\n# Your instructions\n\nOnly Go."),
    Flip(
        "instructions.file", "task.md", core_prompt("I am"), "I am", "I am\n\n# Your instructions\n\nOnly Go."
    ),
    Flip("project_instructions", True, told_of_project, None, "Use tabs."),
    Flip("project_instructions.files", ["RULES.md"], told_of_project, None, "Use spaces."),
    Flip("project_instructions.max_tokens", 200, project_is_cut, False, True, {"project_instructions": {}}),
    Flip("description", "writes odes", description, "", "writes odes"),
    Flip("mode", "ask", write_is_refused, False, True, FILES),
    *(
        Flip(f"prompt.files.{name}", "own.md", section(Section(name)), f"{file} of the Home", "my own")
        for name, file in (
            ("core", "CORE"),
            ("soul", "SOUL"),
            ("tools", "TOOLS"),
            ("workflow", "WORKFLOW"),
            ("memory", "MEMORY"),
            ("mode", "agent_mode"),
        )
    ),
    Flip("prompt.variables", {"team": "Argo"}, core_prompt("Of {{team}}"), ("unknown-variable",), "Of Argo"),
    Flip("prompt.tools_description", "brief", described_parameters, 8, 0, FILES),
    Flip("prompt.time.precision", "minute", system("Today is|It is"), "Today is", "It is"),
    Flip(
        "prompt.time.timezone",
        "Pacific/Kiritimati",
        system("the time zone is (.*)\\."),
        LOCAL_ZONE,
        "Pacific/Kiritimati",
    ),
    Flip("secrets.to_model", "allow", secret_read, "1\tK=<secret:A_KEY>", "1\tK=0123-abcdef", FILES),
    Flip("tools", ["todos"], tool_names, [], ["write_todos", "read_todos"]),
    Flip("middlewares", ["seen"], system("stamped"), None, "stamped", {"plugins": {"files": ["probe.py"]}}),
    Flip("plugins.disable", ["todos"], problems, (), ("unknown-component",), {"tools": ["todos"]}),
    Flip("plugins.only", ["litellm", "sqlite"], problems, (), ("unknown-component",), {"tools": ["todos"]}),
    Flip("plugins.files", ["probe.py"], problems, ("unknown-component",), (), {"tools": ["gauge"]}),
    Flip("metadata", {"owner": "Iris"}, seen("metadata"), {}, {"owner": "Iris"}, PROBED),
    Flip("extends", "./base.yaml", agent_name, "zeus", "based"),
)
"""``metadata`` is the user's own: all it does is to be there for plugins."""
