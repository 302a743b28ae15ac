"""What docs/plugins.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.plugins.conftest import Discover, Install
from zeus_runtime.config.model import Plugins
from zeus_runtime.plugins import load_create, load_options, options_schema

DOCS = Path(__file__).parents[2] / "docs" / "plugins.md"


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


async def test_the_plugin_in_one_file_loads_has_a_schema_and_rolls(
    tmp_path: Path, find_plugins: Discover
) -> None:
    (tmp_path / "dice.py").write_text(blocks("python")[0], encoding="utf-8")
    registry = find_plugins(Plugins(files=("dice.py",)))
    assert registry.problems == ()
    dice = registry.get("tool", "dice")
    schema = options_schema(dice)
    assert schema is not None
    assert schema["properties"]["sides"]["minimum"] == 2
    options = load_options(dice)
    assert options is not None
    (tool,) = load_create(dice)(options(sides=20), None)
    sides = str(await tool.function(count=50)).split()
    assert tool.name == "roll_dice"
    assert len(re.findall(r"\d+", " ".join(sides))) >= 50


def test_the_hook_module_of_a_distribution_loads_without_what_it_names(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki", blocks("python")[1])
    assert find_plugins().names("tool") == ("wiki",)


def test_the_entry_point_shown_is_the_examples_own() -> None:
    import tomllib

    example = DOCS.parents[1] / "examples" / "zeus-wiki" / "pyproject.toml"
    shown = tomllib.loads(blocks("toml")[0])["project"]
    real = tomllib.loads(example.read_text(encoding="utf-8"))["project"]
    assert shown == {key: real[key] for key in shown}


def test_the_rules_of_blocking_are_told_as_the_code_tells_them() -> None:
    from zeus_runtime.plugins import choice

    rules = [line for line in str(choice.__doc__).splitlines() if line.startswith("|")]
    assert "\n".join(rules) in DOCS.read_text(encoding="utf-8")
