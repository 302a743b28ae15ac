"""The access policy: which files tools may read, list and change. Pure: it judges names and touches no disk.

A file is judged by every name that leads to it after the workspace has resolved it: the requested path, the path
below each mount (``/`` and the routes) that contains its real folder, and the paths through links (``tools/links.py``).
It is judged by several layers, and the strictest
ruling wins. The layers are the rules of ``workspace.access``, the floor that protects the agent's configuration and
keys, the path rules of components, and the policies of the agents above a sub-agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from functools import cached_property, lru_cache
from glob import escape
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from zeus_runtime.config.secrets.folder_listings import BEFORE_KEYS, ENV_NAME, KNOWN_DEPTH
from zeus_runtime.escaping import printable
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools.own_folders import ARCHIVES, SANDBOXES, STATE
from zeus_runtime.tools.paths import folded, join
from zeus_runtime.tools.patterns import (
    PartTest,
    PathTest,
    compile_way,
    folded_part,
    folded_plain,
    folded_start,
    has_magic,
    parts_of,
    plain_patterns,
)

Right: TypeAlias = Literal["deny", "read", "ask", "write"]
"""The right of tools: nothing; read; read, and write with an approval; read and write."""

Kind: TypeAlias = Literal["read", "write"]

KINDS: Final[tuple[Kind, ...]] = ("read", "write")

ANY_TOOL: Final = "*"
"""Used instead of a tool's name if the running tool is not known, as in a thread that a plugin started."""


class Ruling(NamedTuple):
    """Why an access is denied or needs an approval.

    Args:
        action: ``ask`` or ``deny``.
        why: a sentence about the file, without its path: "the rule `secrets/**: deny` closes it".
        remedy: for the model.
    """

    action: Literal["ask", "deny"]
    why: str
    remedy: str = "Do not try another way; tell the user if the task needs it."


class Name(NamedTuple):
    """One virtual path of a file.

    Args:
        parts: of the path.
        opened: how many leading parts belong to a route of the YAML; a ``.zeus`` among them protects nothing.
        foreign: the file is outside of the workspace, so rules about names apply, but rules about paths do not.
        linked: only a link of the workspace gives it this name. Rules may restrict the file by this name, but not open
            it, and the floor does not look at it.
    """

    parts: tuple[str, ...]
    opened: int = 0
    foreign: bool = False
    linked: bool = False


class Reached(NamedTuple):
    """A file, with all its names.

    Args:
        names: its virtual paths, or one that is ``foreign``; none for a file that has only a ``host`` path.
        host: its real path on this machine.
        below_git: how many parts of its path are below the git folder that contains it; None if there is no such
            folder, and for reading if no rule closes files.
        on_way: it is a missing folder, which is made on the way to a file that may be written.
        elsewhere: its other real paths, by which protected places know it (``second_mounts``).
    """

    names: tuple[Name, ...]
    host: str
    below_git: int | None = None
    on_way: bool = False
    elsewhere: Sequence[str] = ()

    @property
    def own(self) -> Iterator[Name]:
        """Its names, without those that only a link gives it."""
        return (name for name in self.names if not name.linked)


class AccessLayer(Protocol):
    """One source of rulings. The options of a tool component or middleware may give one (``access_layer(mode)``).

    A layer may have an attribute ``patterns``, in the form of ``workspace.access``: then its rulings also get the names
    that links of the workspace give to files and that one of the patterns may match.

    A layer that may keep a tool from reading files must have a method ``closes(tool)``: it returns the strictest ruling
    with which the layer does so, whose ``why`` is about "some files", or None. That ruling then also applies to the
    files in which git may keep copies of others.
    """

    def ruling(self, reached: Reached, kind: Kind, tool: str | None) -> Ruling | None:
        """Return the ruling against ``tool``'s access to the file; None if this layer does not object.

        Args:
            tool: the running tool. None for a file that the user names or a middleware reads. ``ANY_TOOL`` if the tool
                is not known; then every ``deny`` and ``ask`` for any tool must apply.
        """
        ...


def strictest(rulings: Iterable[Ruling | None]) -> Ruling | None:
    """Return the first ``deny``, else the first ``ask``, else None."""
    asked: Ruling | None = None
    for each in rulings:
        if each is not None and each.action == "deny":
            return each
        asked = asked or each
    return asked


@dataclass(frozen=True)
class AccessRule:
    """A line of ``workspace.access``, or one alternative of a line with braces.

    Args:
        pattern: a name that any part of a path may have (``*.pem``), or a path from ``/`` on if it contains a ``/``. If
            it names a folder, it also covers the folder's contents. Braces are text.
        right: the right of tools there.
        written: the pattern of the line, with its braces.
    """

    pattern: str
    right: Right
    written: str

    @classmethod
    def of(cls, written: str, right: Right) -> tuple[AccessRule, ...]:
        """The rules of a line, one for each pattern that its braces stand for.

        Raises:
            ValueError: more than 64 alternatives in braces.
        """
        # `write` lifts what other rules ask for, so a folder that the model names `{a,b}` must not fit `{a,b}: write`.
        patterns = plain_patterns(written, or_literal=right != "write")
        return tuple(cls(each, right, written) for each in patterns)

    def __str__(self) -> str:
        return f"{self.written}: {self.right}"

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return parts_of(self.pattern)

    @property
    def is_rooted(self) -> bool:
        return "/" in self.pattern

    @cached_property
    def exactness(self) -> int:
        """The number of its parts without a wildcard."""
        return sum(not has_magic(part) for part in self.parts)

    @property
    def is_exact(self) -> bool:
        """Whether its line has no wildcard and no braces."""
        return self.pattern == self.written and self.exactness == len(self.parts)

    def lifts(self, parts: tuple[str, ...], depth: int) -> bool:
        """Whether it lifts the protection of the place named by the first ``depth`` parts of a path.

        A path without wildcards lifts the protection of that path. A plain name lifts it only for a file or folder of
        that name, not for the contents: ``config`` must not open ``.git/config``.
        """
        if not self.is_exact or self.right == "deny" or depth <= 0:
            return False
        if self.is_rooted:
            return self.depth(parts) >= depth
        return folded(parts[depth - 1]) == folded(self.parts[0])

    @cached_property
    def _test(self) -> PathTest:
        # As for the braces, a folder that the model names `[ab]` must not fit `[ab]: write`.
        return folded_plain("/".join(self.parts), or_literal=self.right != "write")

    def fits(self, name: Name) -> bool:
        """Whether the rule applies to a file of that name."""
        return not (name.foreign and self.is_rooted) and self.depth(name.parts) > 0

    def leads_through(self, name: Name) -> bool:
        """Whether the rule lets tools make a folder of that name: the plain beginning of its pattern names it."""
        return self.right == "write" and not (name.foreign and self.is_rooted) and self._way(name.parts)

    @cached_property
    def _way(self) -> PathTest:
        return compile_way("/".join(self.parts), same=folded)

    def may_fit_below(self, parts: tuple[str, ...]) -> bool:
        """Whether a folder's own names may make the rule fit what is in the folder, which may be a link."""
        return self.depth(parts) > 0 or (self.is_rooted and self._start(parts))

    @cached_property
    def _start(self) -> PathTest:
        return folded_start("/".join(self.parts))

    def depth(self, parts: tuple[str, ...]) -> int:
        """Return how many leading parts of a path the pattern covers; 0 if it does not match."""
        if not parts:
            return 0
        return _folder_depth(self, parts[:-1]) or self._covers(parts)

    def _covers(self, parts: tuple[str, ...]) -> int:
        return len(parts) if self._test(parts if self.is_rooted else parts[-1:]) else 0


@lru_cache(maxsize=4_096)
def _folder_depth(rule: AccessRule, parts: tuple[str, ...]) -> int:
    return rule.depth(parts)


@dataclass(frozen=True)
class AccessRules:
    """The rules of ``workspace.access``.

    A matching ``deny`` wins. Of the other matching rules, the one with the most parts without a wildcard wins; of two
    with equally many, the stricter one.
    """

    rules: tuple[AccessRule, ...] = ()

    def ruling(self, reached: Reached, kind: Kind, tool: str | None) -> Ruling | None:
        return strictest(self._ruling(name, kind, reached) for name in reached.names)

    def closes(self, tool: str | None) -> Ruling | None:
        """Return the ruling if tools may not read some files."""
        return self._closes

    @cached_property
    def _closes(self) -> Ruling | None:
        denied = next((rule for rule in self.rules if rule.right == "deny"), None)
        if denied is None:
            return None
        return Ruling("deny", f"the rule `{denied}` of workspace.access closes some files")

    @cached_property
    def _of(self) -> Mapping[Kind, Sequence[AccessRule]]:
        """The rules that matter for each kind of access: for reading, all rights except ``deny`` are equal."""
        return {"read": [rule for rule in self.rules if rule.right == "deny"], "write": self.rules}

    def _ruling(self, name: Name, kind: Kind, reached: Reached) -> Ruling | None:
        fitting = [
            rule
            for rule in self._of[kind]
            if rule.fits(name) or (reached.on_way and rule.leads_through(name))
        ]
        if not fitting:
            return None
        rule = min(fitting, key=lambda each: (each.right != "deny", -each.exactness, _STRICTNESS[each.right]))
        # A rule for the file's own path as well, such as `**: read`, has its exceptions there: a link adds nothing.
        if name.linked and any(rule.fits(own) for own in reached.own):
            return None
        action = _ACTIONS[rule.right, kind]
        if action is None:
            return None
        what = "closes it" if rule.right == "deny" else f"lets no tool {kind} it"
        return Ruling(action, f"the rule `{rule}` of workspace.access {_ASKS if action == 'ask' else what}")


_ASKS: Final = "asks for an approval of each change"
_STRICTNESS: Final[Mapping[Right, int]] = {"deny": 0, "read": 1, "ask": 2, "write": 3}
_ACTIONS: Final[Mapping[tuple[Right, Kind], Literal["ask", "deny"] | None]] = {
    ("deny", "read"): "deny",
    ("deny", "write"): "deny",
    ("read", "read"): None,
    ("read", "write"): "deny",
    ("ask", "read"): None,
    ("ask", "write"): "ask",
    ("write", "read"): None,
    ("write", "write"): None,
}


@dataclass(frozen=True)
class Patterns:
    """A layer that lets tools read files that match patterns, but not change them.

    Args:
        patterns: in the form of ``workspace.access``.
        key: the option with the patterns.
    """

    patterns: tuple[str, ...]
    key: str

    def ruling(self, reached: Reached, kind: Kind, tool: str | None) -> Ruling | None:
        if kind == "write" and any(rule.fits(name) for rule in self._rules for name in reached.names):
            return Ruling("deny", f"it is protected by `{self.key}` and no tool may change it")
        return None

    @cached_property
    def _rules(self) -> Sequence[AccessRule]:
        return [rule for pattern in self.patterns for rule in AccessRule.of(pattern, "read")]


class Protected(NamedTuple):
    """Why the floor protects a file, whether it also forbids reading, and whether a rule of a config may lift that.

    ``is_installed`` says that package managers write it, so programs that the model starts may.
    """

    why: str
    holds_keys: bool = False
    is_liftable: bool = True
    is_installed: bool = False


_KEYS: Final = Protected("it may hold keys", holds_keys=True)
_NAMES: Final = {
    ".git": Protected("it belongs to the repository's own files"),
    ".zeus": Protected("it belongs to Zeus's own files"),
    ".mcp.json": Protected("it names servers, and may hold their keys", holds_keys=True),
}
_GIT_ADDRESSES: Final = frozenset({"config", "config.worktree", "fetch_head"})
"""Folded names in a ``.git`` that may hold a token in an address or a header."""
_GIT_KEYS: Final = Protected("it may hold the token of a repository deeper in the workspace", holds_keys=True)
_GIT_RECORDS: Final = frozenset(
    "branches commondir config config.worktree description fetch_head gitdir head hooks info logs merge_head"
    " orig_head packed-refs refs shallow".split()
)
"""Folded names in a ``.git`` that hold no contents of the repository's files, only names, settings and programs.

All others count as copies of files: git and its extensions keep them under more names than a list can know.
"""
_WORKTREES: Final = "worktrees"
"""The folder of ``.git`` with a folder for each linked worktree, in which the same names lie."""
_RECORDS: Final = Protected("Zeus keeps its sessions and records there", holds_keys=True)
_READABLE_STATE: Final = ("configs", "prompts", "plugins", "skills", SANDBOXES, *ARCHIVES)
"""Folders of ``.zeus`` that tools may read; who may read the archive's files depends on the session."""
_MODULES: Final = frozenset(map(folded, all_suffixes()))
_ARCHIVE: Final = Protected("Zeus itself keeps its originals there")
_KEY_NAMES: Final = {ENV_NAME: _KEYS, ".mcp.json": _NAMES[".mcp.json"]}
"""The names of files with keys, which also count within the names of copies."""
FLOOR_NAMES: Final = (
    *(name for name in _NAMES if name not in _KEY_NAMES),
    *(f"{before}{name}*" for name in _KEY_NAMES for before in ("", *(f"{sign}*" for sign in BEFORE_KEYS))),
)
"""Names that the floor protects at any place in a path."""


def _protection_by(name: str) -> Protected | None:
    """Return why a folded name is protected wherever it is: ``.envrc`` and ``..env.swp`` as ``.env`` is."""
    if name in _NAMES or not name.startswith(BEFORE_KEYS):
        return _NAMES.get(name)
    return next((why for each, why in _KEY_NAMES.items() if each in name), None)


def is_floor_name(part: str) -> bool:
    """Whether a part of a path is a name that is protected anywhere."""
    return _protection_by(folded(part)) is not None


def is_key_name(part: str) -> bool:
    """Whether a part of a path is a name whose file, or folder with all its contents, must not be read."""
    named = _protection_by(folded(part))
    return named is not None and named.holds_keys


_MOST_FOLDERS: Final = 10_000


class DecidingSource(NamedTuple):
    """A config whose files decide about an agent.

    Args:
        document: what was read; only its identity counts.
        workspace: the agent's root.
        places: the other values beside it that name files: the working directory and the database.
    """

    document: object
    workspace: Path
    places: tuple[object, ...]


class Deciding:
    """The files on this machine that decide about an agent and its sub-agents. Planning a config adds its files.

    A path that was added includes everything below it.

    Attributes:
        keys: the added paths that contain keys.
        key_folders: the folders in which names were added whose files contain keys.
        added: all added paths; a name may be a glob pattern.
        installed: those of them that programs may write.
        unasked: the protected folders whose contents decide, or are executed, without a question.
        unasked_files: such files. An empty one decides nothing.
        ways: the folders above both.
        archives: the folders in which routes of configs have Zeus keep originals, each with the route's name, and those
            of sandboxes.
        folders: the roots, routes and folders of options of these agents, and of those that a service runs beside
            them, as written.
        shown: the folders of options that programs see, as written.
        around: the working directories, and the folders of the configs.
        served: the real paths of folders whose configs a service runs: a command makes nothing in them.
        sources: the configs whose files have been added.
        texts: the texts in which these files were searched, there or not, with what tells a changed one.
    """

    def __init__(self) -> None:
        self._paths: dict[str, Protected] = {}
        self._patterns: dict[str, dict[str, tuple[PartTest, Protected]]] = {}
        self._in_each: dict[str, dict[str, dict[str, tuple[PartTest, Protected]]]] = {}
        self._modules: dict[str, tuple[Set[str], Protected]] = {}
        self._found: dict[str, tuple[Protected, int] | None] = {}
        self.keys: set[str] = set()
        self.key_folders: dict[str, None] = {}
        self.added: dict[str, None] = {}
        self.installed: set[str] = set()
        self.unasked: dict[str, None] = {}
        self.unasked_files: dict[str, None] = {}
        self.ways: set[str] = set()
        self.archives: dict[str, str] = {}
        self.folders: dict[Path, None] = {}
        self.shown: dict[Path, None] = {}
        self.around: dict[Path, None] = {}
        self.served: frozenset[str] = frozenset()
        self.sources: list[DecidingSource] = []
        self.texts: dict[Path, object] = {}

    def add(
        self,
        host: str,
        why: str = "it decides about this agent",
        *,
        holds_keys: bool = False,
        is_liftable: bool = True,
    ) -> None:
        """Protect the file or folder at an absolute path."""
        self.installed.discard(host)
        self.added[host] = None
        self._found.clear()
        new = Protected(why, holds_keys, is_liftable)
        known = self._paths.get(_folded_host(host), new)
        holds_keys = new.holds_keys or known.holds_keys
        is_liftable = new.is_liftable and known.is_liftable
        self._paths[_folded_host(host)] = Protected(known.why, holds_keys, is_liftable)
        if holds_keys:
            self.keys.add(host)

    def add_names(
        self,
        folder: str,
        pattern: str,
        why: str = "it would decide about this agent",
        *,
        but: Collection[str] = (),
        holds_keys: bool = False,
        is_installed: bool = False,
    ) -> None:
        """Protect all names in a folder that match a glob pattern, whether they exist yet or not.

        A file that was added by its path is judged only by that.

        Args:
            but: names that stay as they are, in small letters.
            is_installed: programs may write it.
        """
        place = f"{folder.rstrip('/')}/{pattern}"
        if is_installed and place in self.added:
            return  # it is protected from programs too
        (self.installed.add if is_installed else self.installed.discard)(place)
        self.added[place] = None
        self._found.clear()
        at = self._patterns.setdefault(_folded_host(folder), {})
        fits = folded_part(pattern)
        at[pattern] = (
            (lambda name: name not in but and fits(name)),
            Protected(why, holds_keys, is_installed=is_installed),
        )
        if holds_keys:
            self.key_folders[folder] = None

    def add_modules(self, folder: str, names: Set[str], why: str) -> None:
        """Protect the files in a folder as which Python would import modules of these names, whether they exist or not.

        Args:
            folder: one in which Python looks for modules.
            names: without a dot.
        """
        self.added[f"{folder.rstrip('/')}/*.py"] = None
        self._found.clear()
        self._modules[_folded_host(folder)] = frozenset(map(folded, names)), Protected(why)

    def add_beginning(self, file: str, why: str, *, holds_keys: bool = False) -> None:
        """Protect a file and its neighbours whose names begin with its name, such as SQLite's ``-wal``."""
        folder, _, name = file.rpartition("/")
        self.add_names(folder, f"{escape(name)}*", why, holds_keys=holds_keys)

    def add_in_each(self, folder: str, below: tuple[str, str], why: str) -> None:
        """Protect names below each folder in ``folder``, whether they exist yet or not.

        Args:
            below: the path from there to the folder of the names, empty for none, and a pattern for the name.
        """
        above, pattern = below
        self.added["/".join(filter(None, (folder.rstrip("/"), "*", above, pattern)))] = None
        self._found.clear()
        at = self._in_each.setdefault(_folded_host(folder), {}).setdefault(folded(above), {})
        at[pattern] = folded_part(pattern), Protected(why)

    def add_archive(self, folder: str, name: str) -> None:
        """Note a folder in which a route of a config has Zeus keep originals, or a sandbox keeps its files."""
        self.archives[folder] = name

    def add_way(self, host: str) -> None:
        """Note that all above a place must be folders."""
        folder = _folded_host(host)
        while folder:
            folder = folder.rpartition("/")[0]
            self.ways.add(folder)

    def is_way(self, host: str) -> bool:
        """Whether ``host`` must be a folder, because Zeus or its libraries look for something in it."""
        return _folded_host(host) in self.ways

    def include(self, other: Deciding) -> None:
        """Count the folders and places of ``other`` too, but not what it protects."""
        # New objects, because tools that run in other threads read these.
        self.unasked, self.unasked_files = (
            self.unasked | other.unasked,
            self.unasked_files | other.unasked_files,
        )
        self.ways, self.folders = self.ways | other.ways, self.folders | other.folders
        self.served |= other.served
        self.shown, self.around = self.shown | other.shown, self.around | other.around

    def now(self) -> Deciding:
        """The files that decide, as links lead at this moment; here as they led while planning."""
        return self

    def archived(self, host: str) -> Iterator[tuple[str, ...]]:
        """Yield the path that a file has by each archive's route which leads to it, also by another config's."""
        yield from ((self.archives[folder], *below) for folder, below in self.archives_around(host))

    def archives_around(self, host: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the folder of each archive that a file is in or that it is, and the parts of its path below."""
        if not self.archives:
            return
        parts = parts_of(host)
        same = tuple(map(folded, parts))
        for folder in self.archives:
            within = tuple(map(folded, parts_of(folder)))
            if same[: len(within)] == within:
                yield folder, parts[len(within) :]

    def find(self, host: str) -> tuple[Protected, int] | None:
        """Return why the file at ``host`` is protected, and how many parts of its path are below that place."""
        folder, _, name = host.rpartition("/")
        if not name:
            return None
        if folder not in self._found:
            if len(self._found) > _MOST_FOLDERS:
                self._found.clear()
            self._found[folder] = self.find(folder) if folder else None
        outer, at = self._found[folder], _folded_host(folder)
        above = None if outer is None else (outer[0], outer[1] + 1)
        inner = self._paths.get(f"{at}/{folded(name)}") or self._named(at, folded(name))
        if inner is None and self._in_each:
            inner = self._named_in_each(at, folded(name))
        if inner is None and self._modules:
            inner = self._module(at, folded(name))
        hit = None if inner is None else (inner, 0)
        return hit if above is None else above if hit is None else _stricter(above, hit)

    def holds_keys(self, host: str) -> bool:
        """Whether the file at ``host`` contains keys, by its path."""
        found = self.find(host)
        return found is not None and found[0].holds_keys

    def may_hold_keys(self, host: str) -> bool:
        """Whether the file at ``host`` may contain keys, by all names above it, also where a config names it."""
        parts = parts_of(host)
        places = (
            ("/".join(("", *map(folded, parts[:depth]))), folded(parts[depth])) for depth in range(len(parts))
        )
        named = (self._named(*place) for place in places)
        return self.holds_keys(host) or any(each is not None and each.holds_keys for each in named)

    def _named_in_each(self, folder: str, name: str) -> Protected | None:
        for outside, named in self._in_each.items():
            if folder.startswith(f"{outside}/"):
                tests = named.get(folder[len(outside) + 1 :].partition("/")[2], {}).values()
                if found := next((protected for fits, protected in tests if fits(name)), None):
                    return found
        return None

    def _module(self, folder: str, name: str) -> Protected | None:
        stem, _, ending = name.partition(".")
        if f".{ending}" not in _MODULES:
            return None
        if stem == "__init__":
            folder, _, stem = folder.rpartition("/")
        names, protected = self._modules.get(folder, (frozenset(), None))
        return protected if stem in names else None

    def _named(self, folder: str, name: str) -> Protected | None:
        named = self._patterns.get(folder, {}).values()
        return next((protected for fits, protected in named if fits(name)), None)


def _stricter(above: tuple[Protected, int], hit: tuple[Protected, int]) -> tuple[Protected, int]:
    """Of a protected folder and a protected file in it, the one to lift; what no rule may lift comes first."""
    if above[0].is_installed:
        return hit
    if above[0].is_liftable == hit[0].is_liftable:
        return above if above[0].holds_keys >= hit[0].holds_keys else hit
    closed, depth = hit if above[0].is_liftable else above
    return closed._replace(holds_keys=above[0].holds_keys or hit[0].holds_keys), depth


@dataclass(frozen=True)
class Floor:
    """Files that no tool may change, and keys that no tool may read, unless a rule without wildcards names them.

    No rule opens files that decide about all agents of the user: the config that has the rule may be a stranger's.

    Args:
        deciding: files that decide about the agents.
        lifting: the rules that the user has allowed to lift protections, each with why the files were protected then.
        for_programs: programs are judged, and no tool that writes by itself.
    """

    deciding: Deciding
    lifting: Mapping[AccessRule, Sequence[str]] = field(default_factory=dict)
    for_programs: bool = False

    def ruling(self, reached: Reached, kind: Kind, tool: str | None) -> Ruling | None:
        for protected, depths in self._protections(reached):
            if kind == "read" and not protected.holds_keys:
                continue
            if protected.is_installed and self.for_programs:
                continue
            if protected.is_liftable and any(
                self._opens(name.parts, depth, protected.why) for name, depth in depths
            ):
                continue
            may = "read or change" if protected.holds_keys else "change"
            return Ruling("deny", f"{protected.why}, so no tool may {may} it", _TELL)
        return None

    def _opens(self, parts: tuple[str, ...], depth: int, why: str) -> bool:
        """Whether the user has allowed a rule that lifts this protection of the place that ``depth`` parts name."""
        return any(why in reasons and rule.lifts(parts, depth) for rule, reasons in self.lifting.items())

    def holds_copies(self, reached: Reached) -> bool:
        """Whether git may store there what other files contain, and no rule opens it."""
        named = [
            (name, depth)
            for name in reached.own
            for depth, part in enumerate(name.parts, 1)
            if folded(part) == ".git"
        ]
        folders = [[each] for each in named]
        if not named and reached.below_git is not None:
            # One folder with all its names: by each of them a rule may open it.
            above = [(name, len(name.parts) - reached.below_git) for name in reached.own]
            # A root or route that leads into it opens what is there.
            folders = [above] if all(depth > name.opened for name, depth in above) else []
        for names in folders:
            places = [(name.parts, at) for name, depth in names for at in _copies_in(name.parts, depth)]
            if places and not any(self._opens(*each, _NAMES[".git"].why) for each in places):
                return True
        return False

    def lifted_by(self, rule: AccessRule, reached: Reached) -> Sequence[str]:
        """Return why the file is protected, for each protection that the rule lifts if the user allows it."""
        return [
            protected.why
            for protected, depths in self._protections(reached)
            if protected.is_liftable and any(rule.lifts(name.parts, depth) for name, depth in depths)
        ]

    def _protections(self, reached: Reached) -> Iterator[tuple[Protected, list[tuple[Name, int]]]]:
        """Yield a file's protections, each with its names and how many of their parts name the protected place."""
        for name in reached.own:
            for index, part in enumerate(map(folded, name.parts)):
                named = _protection_by(part)
                if named is not None and (part != ".zeus" or index >= name.opened):
                    yield named, [(name, index + 1)]
                    if part == ".git" and index > KNOWN_DEPTH and folded(name.parts[-1]) in _GIT_ADDRESSES:
                        yield _GIT_KEYS, [(name, index + 1)]
                    inside = name.parts[index + 1 : index + 2]
                    if part == STATE and inside and folded(inside[0]) not in _READABLE_STATE:
                        # Other agents' sessions are there, with texts that this agent's rules may deny.
                        yield _RECORDS, [(name, index + 1)]
                elif index == 0 and part in ARCHIVES:
                    yield _ARCHIVE, [(name, 1)]
        deciding = self.deciding.now()
        for kept in deciding.archived(reached.host):
            yield _ARCHIVE, [(name, len(name.parts) + 1 - len(kept)) for name in reached.own]
        for host in (reached.host, *reached.elsewhere):
            found = deciding.find(host)
            if found is not None:
                protected, below = found
                yield protected, [(name, len(name.parts) - below) for name in reached.own]
        if reached.below_git is not None:
            yield _NAMES[".git"], [(name, len(name.parts) - reached.below_git) for name in reached.own]


def _copies_in(parts: Sequence[str], depth: int) -> Iterator[int]:
    """Yield how many parts name the place in a git folder that may hold what files contain, if the path leads to one.

    Args:
        depth: how many parts name the git folder.
    """
    names = list(map(folded, parts))
    inner = depth + 2 if names[depth : depth + 1] == [_WORKTREES] else depth
    if inner < len(names) and names[inner] not in _GIT_RECORDS:
        yield inner + 1


_TELL: Final = "Tell the user what you would have it say; do not try another way."


@dataclass(frozen=True)
class AccessPolicy:
    """Rules on the files that an agent's tools open; the strictest ruling of its layers wins.

    Args:
        rules: the rules of ``workspace.access``.
        floor: the files that are protected without rules.
        layers: the layers of its components, such as the path rules of ``approve``.
    """

    rules: AccessRules
    floor: Floor
    layers: tuple[AccessLayer, ...] = ()

    def ruling(self, reached: Reached, kind: Kind, tool: str | None) -> Ruling | None:
        """Return the ruling against ``tool``'s access to a file; None if it is allowed."""
        layers: tuple[AccessLayer, ...] = (self.rules, *self.layers)
        if not reached.on_way:
            # It closes a folder with all that is in it, so it has judged the file at the end of the way.
            layers = (self.floor, *layers)
        found = strictest(layer.ruling(reached, kind, tool) for layer in layers)
        return strictest((found, self._copies(reached, tool))) if kind == "read" else found

    def closes(self, tool: str | None) -> Ruling | None:
        """Return the strictest ruling by which a layer keeps ``tool`` from reading some files; None if none does."""
        asked = (getattr(layer, "closes", None) for layer in (self.rules, *self.layers))
        return strictest(each(tool) for each in asked if each is not None)

    def _copies(self, reached: Reached, tool: str | None) -> Ruling | None:
        """Return the ruling against reading what git stores of files, if some of them are closed."""
        closing = self.closes(tool)
        if closing is None or not self.floor.holds_copies(reached):
            return None
        return closing._replace(why=f"git may keep copies of files there, and {closing.why}")

    @property
    def restricting(self) -> Sequence[AccessRule]:
        """The rules that close or restrict files; those of its layers as rules to read only."""
        rules = [rule for rule in self.rules.rules if rule.right != "write"]
        patterns = [each for layer in self.layers for each in getattr(layer, "patterns", ())]
        return [*rules, *(rule for each in patterns for rule in AccessRule.of(each, "read"))]


def refusal_text(path: tuple[str, ...], ruling: Ruling) -> str:
    """A sentence for the model."""
    return f"{printable(join(path))}: {ruling.why}."


@lru_cache(maxsize=4_096)
def _folded_host(path: str) -> str:
    return "/".join(map(folded, path.rstrip("/").split("/")))
