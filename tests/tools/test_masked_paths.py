"""Paths with a placeholder, as listings show the name of an entry that holds a known secret."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.config.secrets.placeholders import is_searched
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


NAMES = ["shop-api-77", "images", "up.load5", "a", "web_2", "image"]
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)


@st.composite
def projects(draw: st.DrawFn) -> tuple[list[str], Redactor]:
    """The paths of files, and secrets that are parts of them: of a name, or with the names of several folders."""
    made = [
        f"/{'/'.join(each)}/f{number}.txt"
        for number, each in enumerate(draw(st.lists(paths, min_size=1, max_size=4)))
    ]
    known = Redactor()
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(made))
        start = draw(st.integers(0, len(path) - 6))
        # A longer one is also found in pieces, which no path is found by.
        secret = path[start : draw(st.integers(start + 6, min(start + 19, len(path))))]
        if is_searched(secret):
            known = known.adding({secret: draw(st.sampled_from(["DB", ".env.local/DB", "keys[0].token"]))})
    return made, known


@given(projects())
def test_each_path_that_is_shown_opens_again(project: tuple[list[str], Redactor]) -> None:
    made, known = project
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for path in made:
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            (root / path[1:]).write_text(path)
        files = WorkspaceFiles(root, shown=known.text, meant=known.real)
        for path in made:
            listed = "".join(f"/{known.text(name)}" for name in path[1:].split("/"))
            beside = known.text(path.rpartition("/")[0]) + "/" + known.text(path.rpartition("/")[2])
            # What the model writes is masked before a tool gets it.
            for shown in {known.text(path), known.text(listed), known.text(beside)}:
                assert files.read(shown, max_bytes=99).decode() == path


def test_a_placeholder_may_be_the_name_of_a_folder_and_of_a_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "<secret:a").mkdir()
    (tmp_path / "<secret:a/b>").write_text("x")
    files = WorkspaceFiles(tmp_path, shown=SECRETS.text, meant=SECRETS.real)
    assert files.read("/<secret:a/b>", max_bytes=9) == b"x"
    with pytest.raises(NoSuchFileError, match="nothing new is made under it"):
        files.write("/<secret:a/../../c>", b"")
