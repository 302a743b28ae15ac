"""Paths with a placeholder, as listings show the name of an entry that holds a known secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.tools.access import AccessPolicy, AccessRule, AccessRules, Deciding, Floor, Right
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.gate import AccessAsked, Gate
from zeus_runtime.tools.mounts import Mounts
from zeus_runtime.tools.paths import NoSuchFileError, WorkspaceError
from zeus_runtime.tools.workspace import WorkspaceFiles

SECRETS = Redactor({"shop-api-77": "DB"})
SHOWN = "/services/<secret:DB>"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "services/shop-api-77").mkdir(parents=True)
    (tmp_path / "services/shop-api-77/shop-api-77.py").write_text("x")
    return tmp_path


def files_of(root: Path, rules: dict[str, Right] | None = None) -> WorkspaceFiles:
    made = AccessRules(tuple(rule for line in (rules or {}).items() for rule in AccessRule.of(*line)))
    gate = Gate(Mounts(root, {}), AccessPolicy(made, Floor(Deciding())))
    return WorkspaceFiles(root, gate=gate, shown=SECRETS.text)


def names(root: Path) -> list[str]:
    return sorted(str(each.relative_to(root)) for each in root.rglob("*"))


def test_a_placeholder_in_a_path_means_the_entry_that_listings_show_so(root: Path) -> None:
    files = files_of(root)
    (listed,) = [SECRETS.text(each.path) for each in files.walk() if each.kind == "file"]
    assert listed == f"{SHOWN}/<secret:DB>.py"
    assert files.read(listed, max_bytes=9) == b"x"
    assert files.write(f"{SHOWN}/new/b.py", b"")
    files.edit(listed, lambda data: data + b"y", max_bytes=9)
    assert (root / "services/shop-api-77/shop-api-77.py").read_text() == "xy"
    assert files.real(SHOWN) == files.normalize(SHOWN) == "/services/shop-api-77"
    files.remove(f"{SHOWN}/new/b.py", with_folder=True)
    assert names(root) == ["services", "services/shop-api-77", "services/shop-api-77/shop-api-77.py"]


@pytest.mark.parametrize("path", ["/<secret:DB>/a", "/services/<secret:OTHER>", f"{SHOWN}/<secret:DB>.txt"])
def test_nothing_is_made_under_a_placeholder(root: Path, path: str) -> None:
    before = names(root)
    for make in (WorkspaceFiles.write, WorkspaceFiles.create, WorkspaceFiles.append):
        with pytest.raises(NoSuchFileError, match="nothing new is made under it"):
            make(files_of(root), path, b"")
    assert names(root) == before


def test_two_entries_that_are_shown_alike_are_refused(root: Path) -> None:
    (root / "services/<secret:DB>").mkdir()
    with pytest.raises(WorkspaceError, match=f"/services has 2 entries that are shown as {Path(SHOWN).name}"):
        files_of(root).entries(SHOWN)


def test_the_rules_judge_the_entry_that_a_placeholder_means(root: Path) -> None:
    path = f"{SHOWN}/<secret:DB>.py"
    for rule in ("services/shop-api-77/**", "shop-api-77.py"):
        assert files_of(root, {rule: "read"}).write_refusal(path) is not None
        with pytest.raises(WorkspaceError, match="lets no tool write it"):
            files_of(root, {rule: "read"}).write(path, b"")
        with pytest.raises(NoSuchFileError, match="no entry"):  # a hidden name is not told
            files_of(root, {rule: "deny"}).open(path)
        with calling("write_file"), pytest.raises(AccessAsked) as asked:
            files_of(root, {rule: "ask"}).write(path, b"")
        assert asked.value.parts == ("services", "shop-api-77", "shop-api-77.py")


def test_a_suggestion_is_no_text_that_the_model_has_written(tmp_path: Path) -> None:
    (tmp_path / "shop-api-1").touch()
    files = WorkspaceFiles(tmp_path, shown=lambda text: text.replace("shop-api-2", "shop-api-1"))
    with pytest.raises(NoSuchFileError) as caught:
        files.open("shop-api-2")
    assert caught.value.remedy == "ls and glob find files."
