"""What docs/how-to/plugins.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.registry.conftest import Discover, Install
from zeus_runtime.config import ConfigError, check, load
from zeus_runtime.config.model import Plugins
from zeus_runtime.config.schema.validate import read_early
from zeus_runtime.registry import discover, load_create, load_options, options_schema
from zeus_runtime.registry.schema import installed_schema
from zeus_runtime.trust.decision import recorded_trust

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "plugins.md"


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


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sides: 20", None),
        ("sides: 1", "zeus.yaml:6:19: out-of-range"),
        ("site: 20", "zeus.yaml:6:12: unknown-key"),
    ],
)
def test_the_yaml_beside_it_is_valid_and_its_mistakes_have_a_place(
    tmp_path: Path, line: str, says: str | None
) -> None:
    (tmp_path / "dice.py").write_text(blocks("python")[0], encoding="utf-8")
    yaml = blocks("yaml")[0]
    assert "sides: 20" in yaml
    (tmp_path / "zeus.yaml").write_text(yaml.replace("sides: 20", line), encoding="utf-8")
    document = load(tmp_path / "zeus.yaml", environ={}, directory=tmp_path)
    trust = recorded_trust({"ZEUS_TRUST": "all"})
    registry = discover(read_early(document).plugins, environ={}, directory=tmp_path, trust=trust)
    registry.require_plugins()
    schema = installed_schema(registry).schema
    if says is None:
        assert check(document, schema).config().tools[0].options == {"sides": 20}
    else:
        with pytest.raises(ConfigError, match=says):
            check(document, schema)


def test_the_hook_module_of_a_distribution_loads_without_what_it_names(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki", blocks("python")[1])
    assert find_plugins().names("tool") == ("wiki",)


def test_the_entry_point_shown_is_the_examples_own() -> None:
    import tomllib

    example = DOCS.parents[2] / "examples" / "zeus-wiki" / "pyproject.toml"
    shown = tomllib.loads(blocks("toml")[0])["project"]
    real = tomllib.loads(example.read_text(encoding="utf-8"))["project"]
    assert shown == {key: real[key] for key in shown}


def test_the_rules_of_blocking_are_told_as_the_code_tells_them() -> None:
    from zeus_runtime.registry import choice

    rules = [line for line in str(choice.__doc__).splitlines() if line.startswith("|")]
    assert "\n".join(rules) in DOCS.read_text(encoding="utf-8")
