"""``zeus kb``."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Project, Zeus
from tests.cli.pseudo_terminal import PseudoTerminal

YAML = "version: 1\nmodel: gpt-4o\n"


def test_a_file_behind_a_nested_route_is_said_to_be_there(project: Project, zeus: Zeus) -> None:
    for each in ("data/pub/x.md", "pub/y.md"):
        project.write(each, "Text.")
    project.write(
        "zeus.yaml",
        f"{YAML}knowledge: [handbook]\ntools: [knowledge]\nworkspace: {{routes: {{/data/pub/: pub}}}}\n",
    )
    added = zeus("kb", "add", "handbook", "data")
    assert "data/pub/x.md was left out" in added.err
    assert "lies behind a route of the workspace" in added.err
    assert "does not exist" not in added.err


def test_a_base_is_filled_listed_searched_and_removed(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("zeus.yaml", YAML)
    project.write("docs/ports.md", "# Ports\n\nPylos is three days away.\n")
    project.write("docs/broken.pdf", "none")
    with monkeypatch.context() as key:
        key.setenv("OPENAI_API_KEY", "sk-test")
        added = zeus("kb", "add", "handbook", "docs")
    assert added.out.startswith("handbook: 1 added, 0 changed, 0 unchanged, 0 removed; 1 chunks")
    assert "docs/broken.pdf was left out: it is damaged" in added.err
    assert zeus("kb", "add", "handbook", "--json").json["unchanged"] == 1
    (listed,) = zeus("kb", "list", "--json").json
    assert (listed["name"], listed["documents"], listed["chunks"]) == ("handbook", 1, 1)
    shown = zeus("kb", "list").out
    assert "handbook" in shown
    assert "static-minilm-l6-v2-1" in shown, "a key in the environment does not decide where texts go"
    found = zeus("kb", "search", "handbook", "how far is Pylos")
    head, *passage = found.out.splitlines()
    assert head.startswith("[1] handbook/docs/ports.md · Ports · line 3 (")
    assert all(line.startswith("  ") for line in passage if line), "no line passes for a head"
    assert zeus("kb", "remove", "handbook").exit_code == 2
    with PseudoTerminal(["kb", "remove", "handbook"], project.folder) as terminal:
        asked = terminal.until("Remove this knowledge base?")
        terminal.press("n\r")
        assert terminal.end() == 130
    assert asked.splitlines()[1].split()[:4] == ["handbook", "user", "1", "1"]
    with PseudoTerminal(["kb", "remove", "handbook"], project.folder) as terminal:
        terminal.until("Remove this knowledge base?")
        project.write("docs/later.md", "# Later\n\nAnother port.\n")
        assert zeus("kb", "add", "handbook").exit_code == 0
        terminal.press("y\r")
        terminal.until("'handbook' was not removed: it changed after it was shown")
        assert terminal.end() == 2
    assert zeus("kb", "remove", "handbook", "--yes").out == "2 documents removed\n"
    assert zeus("kb", "list").out == ""


def test_a_file_that_is_denied_to_the_agent_does_not_come_to_it_by_a_base(
    zeus: Zeus, project: Project
) -> None:
    project.write("zeus.yaml", YAML)
    project.write("docs/open.md", "# Ports\n\nPylos is three days away.\n")
    project.write("docs/private/a.md", "# Ports\n\nSphacteria is an island.\n")
    project.write("docs/.env", "Methone=1\n")
    assert zeus("kb", "add", "handbook", "docs", "--json").json["added"] == 2
    project.write("zeus.yaml", YAML + "workspace: {access: {'docs/private/**': deny}}\n")
    before = zeus("kb", "search", "handbook", "ports island")
    assert "Pylos" in before.out
    assert "Sphacteria" not in before.out
    again = zeus("kb", "add", "handbook", "docs/.env", "docs")
    assert "1 removed" in again.out
    assert "docs/private/a.md was left out: the rule `docs/private/**: deny`" in again.err
    assert "docs/.env was left out: it may hold keys" in again.err
    assert "Sphacteria" not in zeus("kb", "search", "handbook", "ports").out


def test_the_administrator_finds_what_the_model_needs_an_approval_for(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", YAML)
    project.write("docs/team.md", "# Ports\n\nPylos is three days away.\n")
    assert zeus("kb", "add", "handbook", "docs", "--json").json["added"] == 1
    rules = "middlewares: [{approve: {mode: run_everything, ask: [{'*': {path: docs/team.md}}]}}]\n"
    project.write("zeus.yaml", f"{YAML}tools: [filesystem]\n{rules}")
    assert "Pylos" in zeus("kb", "search", "handbook", "ports").out


def test_what_a_link_brings_into_the_workspace_is_judged_by_its_name_there(
    zeus: Zeus, project: Project
) -> None:
    rules = "workspace: {access: {'data/private/**': deny, 'secrets/**': deny}}\n"
    project.write("zeus.yaml", YAML)
    project.write("../ext/private/a.md", "# Ports\n\nSphacteria is an island.\n")
    project.write("../ext/b.md", "# Ports\n\nPylos is three days away.\n")
    project.write("secrets/k.md", "# Ports\n\nMethone is a port.\n")
    project.write("docs/open.md", "# Ports\n\nZarax is a port.\n")
    (project.folder / "data").symlink_to("../ext")
    (project.folder / "docs/second.md").hardlink_to(project.folder / "secrets/k.md")
    assert zeus("kb", "add", "handbook", "data", "docs", "--json").json["added"] == 3
    project.write("zeus.yaml", YAML + rules)
    found = zeus("kb", "search", "handbook", "ports island").out
    assert "Pylos" in found
    assert "Zarax" in found
    assert "Sphacteria" not in found
    assert "Methone" not in found
    again = zeus("kb", "add", "handbook", "data")
    assert "data/private/a.md was left out: the rule `data/private/**: deny`" in again.err
    assert "docs/second.md was left out: it has 2 names (hard links)" in again.err
    assert zeus("kb", "remove", "handbook", "data").out == "1 documents removed\n"


def test_a_source_follows_the_workspace_when_its_folder_is_a_link_that_moves_on(
    zeus: Zeus, project: Project
) -> None:
    """As a deployment's `current`, which leads to the newest release while former ones are kept."""
    project.write(
        "zeus.yaml", YAML + "workspace: {root: current, access: {'docs/secrets/**': deny, 'ext/**': deny}}\n"
    )
    project.write("../ext/a.md", "# Ports\n\nMethone is a port.\n")
    for release, port in (("1", "Pylos"), ("2", "Zarax")):
        project.write(f"releases/{release}/docs/open.md", f"# Ports\n\n{port} is a port.\n")
        project.write(
            f"releases/{release}/docs/secrets/a.md", f"# Ports\n\nSphacteria is an island {release}.\n"
        )
        (project.folder / "releases" / release / "ext").symlink_to(project.folder / "../ext")
    link = project.folder / "current"
    link.symlink_to("releases/1")
    added = zeus("kb", "add", "handbook", "current/docs")
    assert "docs/secrets/a.md was left out: the rule `docs/secrets/**: deny`" in added.err
    assert "the rule `ext/**: deny`" in zeus("kb", "add", "handbook", "current/ext").err
    link.unlink()
    link.symlink_to("releases/2")
    again = zeus("kb", "add", "handbook")
    assert "docs/secrets/a.md was left out: the rule `docs/secrets/**: deny`" in again.err
    assert "current/ext" in again.err
    assert "it is a link out of the workspace" in again.err
    assert "the rule `ext/**: deny`" in zeus("kb", "add", "handbook", "current/ext").err
    found = zeus("kb", "search", "handbook", "ports island").out
    assert "Zarax" in found
    assert not any(each in found for each in ("Pylos", "Sphacteria", "Methone"))
    assert zeus("kb", "remove", "handbook", "current/docs").out == "1 documents removed\n"


def test_a_base_or_path_that_is_not_there_is_a_usage_error(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", YAML)
    missing = zeus("kb", "search", "handbook", "x")
    assert missing.exit_code == 2
    assert "zeus kb add handbook PATH" in missing.err
    assert zeus("kb", "add", "handbook", "nowhere").exit_code == 2
    assert zeus("kb", "add", "handbook").exit_code == 2
    assert zeus("kb", "add", "hand book", "zeus.yaml").exit_code == 2


def test_chunks_can_be_smaller(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", YAML)
    project.write("long.txt", "\n\n".join(f"Paragraph {number} of the text." for number in range(40)))
    zeus("kb", "add", "small", "long.txt", "--chunk-tokens", "20")
    (listed,) = zeus("kb", "list", "--json").json
    assert listed["chunks"] > 10
    assert zeus("kb", "add", "small", "--chunk-tokens", "50").exit_code == 2
    assert zeus("kb", "add", "other", "long.txt", "--overlap-tokens", "300").exit_code == 2
