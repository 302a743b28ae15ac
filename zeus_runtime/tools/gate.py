"""Checks the access policy for each file that the workspace opens, on the open descriptor."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final

from zeus_runtime.disk_paths import is_folder, links_passed, real_path
from zeus_runtime.escaping import printable
from zeus_runtime.frozen import dataclass
from zeus_runtime.proc_files import is_proc
from zeus_runtime.tools.access import (
    ANY_TOOL,
    FLOOR_NAMES,
    AccessPolicy,
    AccessRule,
    Deciding,
    Floor,
    Kind,
    Name,
    Reached,
    Ruling,
    is_floor_name,
    is_key_name,
    refusal_text,
    strictest,
)
from zeus_runtime.tools.calling_tool import CallingTool, calling_now, kept_now
from zeus_runtime.tools.git_folders import git_depth
from zeus_runtime.tools.links import LinkedNames, folded_parts, once_in_call
from zeus_runtime.tools.mounts import Mounts, Parts
from zeus_runtime.tools.own_folders import ARCHIVES, SANDBOXES, STATE
from zeus_runtime.tools.paths import WorkspaceError, folded, join
from zeus_runtime.tools.patterns import parts_of
from zeus_runtime.tools.second_mounts import SecondMounts


class AccessAsked(BaseException):
    """A running tool opened a file that needs approval. The call ends, a person is asked, and the call is repeated.

    Not an error: like a cancellation it passes through ``except Exception``.

    Args:
        path: the file.
        ruling: the reason.
        parts: the file's path with links resolved.
    """

    def __init__(self, path: str, ruling: Ruling, parts: Parts = ()) -> None:
        super().__init__(path)
        self.path = path
        self.ruling = ruling
        self.parts = parts


OTHER_KEY: Final = "is another name of a file that holds keys"
OF_PROCESSES: Final = "is in a proc file system, whose files show the environment and memory of processes"


@dataclass(frozen=True)
class Gate:
    """One agent's access policy, applied to the folders of its workspace.

    Args:
        mounts: the folders.
        policy: the access policy.
        linked: names of folders whose files may have other names elsewhere (hard links), since a package manager fills
            them.
        above: the gate of this agent's parent, which must allow an access too.
        project: for an agent that works apart from its project, as in an evaluation: the gate that it has in the
            project. It must allow an access to a file outside of this workspace too.
    """

    mounts: Mounts
    policy: AccessPolicy
    linked: tuple[str, ...] = ()
    above: Gate | None = None
    project: Gate | None = None

    def for_programs(self) -> Gate:
        """The gate as programs pass it: package managers among them may write what they install."""
        floor = replace(self.policy.floor, for_programs=True)
        above, project = (each and each.for_programs() for each in (self.above, self.project))
        return replace(self, policy=replace(self.policy, floor=floor), above=above, project=project)

    def ruling(self, parts: Parts | None, host: str, kind: Kind, *, foreign: bool = False) -> Ruling | None:
        """Return the ruling against the running tool's access to a file; None if it is allowed.

        Args:
            parts: its virtual path; None for a file that is named by its real path.
            host: its real path.
            foreign: ``parts`` is not a path of this workspace; outside of it only rules about names apply.
        """
        return self._ruling(parts, host, kind, calling_now().call.tool, foreign=foreign)

    def way_ruling(self, parts: Parts, host: str) -> Ruling | None:
        """Return the ruling against making a missing folder on the way to a file that the running tool may write.

        Args:
            parts: its virtual path.
            host: its real path.
        """
        found = self._ruling(parts, host, "write", calling_now().call.tool, on_way=True)
        return found and found._replace(why=f"the folder is missing, and {found.why}")

    def writing_elsewhere(self, parts: Parts, host: str) -> Ruling | None:
        """Return the ruling on a file outside of the workspace that Zeus itself would write, by all parts of its path.

        Only the built-in protection counts, and no rule lifts it.

        Args:
            parts: its path below a folder that the user named.
            host: its real path.
        """
        elsewhere = self._second_mounts.of(host)
        reached = Reached((Name(parts, foreign=True),), host, git_depth(host), elsewhere=elsewhere)
        return Floor(self.policy.floor.deciding).ruling(reached, "write", ANY_TOOL)

    def hidden(self, parts: Parts, folder: str, entries: Iterable[str]) -> set[str]:
        """Return the entries of a folder that listings and searches must not show.

        Args:
            parts: the folder's virtual path.
            folder: its real path.
        """
        tool = calling_now().call.tool
        base = folder.rstrip("/")
        written = self.mounts.written(parts)
        gates = [
            (
                gate,
                (*gate._names(parts, folder, foreign=number > 0), *gate._named_as(written, number > 0)),
                gate._below_git(f"{base}/.", "read", tool),
                gate._second_mounts,
            )
            for number, gate in enumerate(self._all)
        ]
        ends = {target for gate, *_ in gates for target in gate._links.targets}
        ends |= {folded_parts(real) for gate, *_ in gates for real in gate.mounts.reals()}
        here = folded_parts(base)
        found = set()
        for entry in entries:
            host = f"{base}/{entry}"
            # A mounted folder or a link's target has more names than those of this folder with the entry at their end.
            if (*here, folded(entry)) in ends:
                ruling = self.ruling((*parts, entry), host, "read")
            else:
                ruling = strictest(
                    gate._judged(
                        Reached(
                            tuple(each._replace(parts=(*each.parts, entry)) for each in names),
                            host,
                            below_git,
                            elsewhere=mounts.of(host),
                        ),
                        "read",
                        tool,
                    )
                    for gate, names, below_git, mounts in gates
                )
            if ruling is not None and ruling.action == "deny":
                found.add(entry)
        return found

    @property
    def _all(self) -> Iterator[Gate]:
        yield self
        if self.above is not None:
            yield from self.above._all

    def _names(self, parts: Parts | None, host: str, *, foreign: bool = False) -> tuple[Name, ...]:
        """Return all names of a file here. If ``foreign``, ``parts`` is its path elsewhere, as in a sub-agent."""
        names = self.mounts.names_of(host)
        if parts is not None and all(name.parts != parts for name in names):
            if not foreign:
                names = (Name(parts), *names)
            elif not names:
                names = (Name(parts, foreign=True),)
        return (*names, *self._links.of(host))

    @property
    def _deciding(self) -> Deciding:
        """The files that decide about these agents, as links lead now."""
        return self.policy.floor.deciding.now()

    @property
    def _second_mounts(self) -> SecondMounts:
        return once_in_call(self.policy.floor, lambda: SecondMounts(self._deciding.added))

    @cached_property
    def _links(self) -> LinkedNames:
        return LinkedNames(self.mounts, self.policy.restricting, self.linked)

    def _named_as(self, written: str, is_sub_agents: bool) -> Iterator[Name]:
        """Yield the names of a file of a sub-agent whose root or route is written as a path through a link here."""
        return self.mounts.names_of_written(written) if is_sub_agents else iter(())

    def _ruling(
        self,
        parts: Parts | None,
        host: str,
        kind: Kind,
        tool: str | None,
        *,
        foreign: bool = False,
        written: str = "",
        on_way: bool = False,
    ) -> Ruling | None:
        names = (*self._names(parts, host, foreign=foreign), *self._named_as(written, bool(written)))
        below_git = self._below_git(host, kind, tool) if not on_way else None
        elsewhere = self._second_mounts.of(host)
        own = self._judged(Reached(names, host, below_git, on_way, elsewhere), kind, tool)
        if self.project is not None and not self.mounts.names_of(host):
            own = strictest((own, self.project._ruling(parts, host, kind, tool, foreign=True, on_way=on_way)))
        if self.above is None:
            return own
        if parts is not None and not foreign:
            written = self.mounts.written(parts)
        above = self.above._ruling(parts, host, kind, tool, foreign=True, written=written, on_way=on_way)
        return strictest((own, above))

    def _below_git(self, host: str, kind: Kind, tool: str | None) -> int | None:
        """Return how many parts of a path are below a git folder; for reading only if a rule closes files."""
        if kind == "write":
            return git_depth(host)
        below = None if self.policy.closes(tool) is None else git_depth(host)
        if below is None:
            return None
        # A path through a link to the folder is judged again where the link leads, by the name that a rule may open.
        folder = "/".join(host.split("/")[:-below])
        return below if real_path(folder) == folder else None

    def _judged(self, reached: Reached, kind: Kind, tool: str | None) -> Ruling | None:
        own = self.policy.ruling(reached, kind, tool), self._not_own(reached)
        return strictest((*own, self._in_the_way(reached) if kind == "write" else None))

    def _in_the_way(self, reached: Reached) -> Ruling | None:
        """Return a denial to write a file where Zeus needs a folder."""
        is_way = self._deciding.is_way(reached.host)
        return _IN_THE_WAY if is_way and not reached.on_way and not is_folder(Path(reached.host)) else None

    def _not_own(self, reached: Reached) -> Ruling | None:
        """Return a denial of a file that Zeus keeps for sessions, if it is not the running session's.

        Archived texts, and the copies in a sandbox, were read under the rules of the agent that made them; another
        agent's rules may deny them.
        """
        may_read = kept_now() if calling_now().call.of_session else None
        for path in self._kept_paths(reached.names, reached.host):
            if may_read is None or not may_read(path):
                return _NOT_OWN
        return None

    def _kept_paths(self, names: Iterable[Name], host: str) -> Iterator[str]:
        """Yield the paths by which the archive's routes name a file, as far as Zeus keeps it for sessions."""
        yield from (join(each) for each in self._deciding.archived(host) if len(each) > 1)
        spelled = [each.parts for each in names]
        if f"/{STATE}/" in folded(host):
            # A route can lead to Zeus's folder, so the mount's own folder counts too.
            spelled += self.mounts.tails_of(host)
        yield from filter(None, map(kept_path, spelled))

    def require(
        self,
        parts: Parts,
        host: str,
        kind: Kind,
        *,
        looks: bool = False,
        foreign: bool = False,
        asked: Parts = (),
    ) -> None:
        """Ensure that the running tool may access a file.

        Args:
            looks: the tool only learns that the file exists, which needs no approval.
            foreign: as for ``ruling``.
            asked: the path that the tool named, if links lead from it to ``parts``.

        Raises:
            WorkspaceError: it may not.
            AccessAsked: a person must approve it first.
        """
        ruling = self.ruling(parts, host, kind, foreign=foreign)
        if ruling is None:
            return
        if ruling.action == "deny":
            raise WorkspaceError(refusal_text(asked or parts, ruling), remedy=ruling.remedy)
        call = calling_now().call
        # After the denial: an approval never lifts one.
        if not looks and not call.covers(parts):
            raise _asking(call, parts, ruling)

    def require_way(self, folders: Iterable[tuple[Parts, str]]) -> None:
        """Ensure that the running tool may make missing folders on the way to a file that it may write.

        Args:
            folders: their virtual and real paths, each before those in it.

        Raises:
            WorkspaceError: it may not make one of them.
            AccessAsked: a person must approve it first. The innermost folder that needs this is named, because its path
                shows the others.
        """
        asked: AccessAsked | WorkspaceError | None = None
        call = calling_now().call
        for parts, host in folders:
            ruling = self.way_ruling(parts, host)
            if ruling is None:
                continue
            if ruling.action == "deny":
                raise WorkspaceError(refusal_text(parts, ruling), remedy=ruling.remedy)
            if not call.covers_way(parts):
                asked = _asking(call, parts, ruling)
        if asked is not None:
            raise asked

    def paths_of(self, host: str) -> list[str]:
        """Return the virtual paths here of a file at a real path, also those through links that a rule may match."""
        in_project = [] if self.project is None else self.project.paths_of(host)
        return [*(join(name.parts) for name in self._names(None, host)), *in_project]

    def lifts(self) -> Mapping[AccessRule, Sequence[str]]:
        """The rules that lift a protection if the user allows them, each with why its files are protected."""
        found = {
            rule: [
                why for reached in self._nameable(rule) for why in self.policy.floor.lifted_by(rule, reached)
            ]
            for rule in self.policy.rules.rules
            if rule.is_exact and rule.right != "deny"
        }
        return {rule: list(dict.fromkeys(reasons)) for rule, reasons in found.items() if reasons}

    def _nameable(self, rule: AccessRule) -> Iterator[Reached]:
        """Yield the files whose protection a rule without wildcards may lift."""
        host = self.mounts.host_of(rule.parts)
        below = git_depth(f"{host}/.")
        below = None if below is None else below - 1
        yield Reached((Name(rule.parts),), host, below, elsewhere=self._second_mounts.of(host))
        for protected in () if rule.is_rooted else self.policy.floor.deciding.added:
            host = f"{protected.rpartition('/')[0]}/{rule.parts[0]}"
            yield Reached(self.mounts.names_of(host), host)

    def protected(self) -> Sequence[str]:
        """Return the files protected without rules, as virtual paths, names and patterns."""
        found = {
            join(name.parts): None
            for host in self.policy.floor.deciding.added
            for name in self.mounts.names_of(host)
            if not any(is_floor_name(part) for part in name.parts)
        }
        return [*FLOOR_NAMES, *sorted(found)]

    def needs_question(self, parts: Parts, ruling: Ruling | None) -> bool:
        """Whether the running tool may access a file only after a question that it has not been asked."""
        return ruling is not None and ruling.action == "ask" and not calling_now().call.covers(parts)

    def moved_rulings(self, host: str) -> Iterator[tuple[Parts, Ruling]]:
        """Yield the rulings against reading a file that is not at ``host`` any more, each with the path that it judges.

        The file may have any end of its path in the workspace of each agent, so each gate judges all as its own.
        """
        tool = calling_now().call.tool
        ends = [parts_of(host)[start:] for start in range(len(parts_of(host)))]
        for gate in self._all:
            for parts in ends:
                ruling = gate._judged(Reached(gate._names(parts, host), host), "read", tool)
                if ruling is not None:
                    yield parts, ruling

    def mount_refusal(self, folder: str) -> str | None:
        """Return why programs may not see a whole folder; None if they may.

        Programs read its files without a check, so it must not contain files that this gate checks.

        Args:
            folder: its real path.
        """
        if any(_overlap(folder, each) for gate in self._all for each in gate.mounts.reals()):
            return "it is in the workspace, or the workspace is in it"
        deciding = self._deciding
        if any(_overlap(folder, each) for each in deciding.added):
            return "it holds files that decide about this agent, or is among them"
        works = (*map(real_path, deciding.folders), *map(real_path, deciding.archives))
        if any(_overlap(folder, each) for each in works):
            return "another agent works in it or around it, or Zeus keeps files of sessions there"
        ruling = self._ruling(self.mounts.parts_outside(folder), folder, "read", None, foreign=True)
        return None if ruling is None else ruling.why

    def unseen(self) -> Iterator[str]:
        """Yield the real folders and files that programs may not see: those of the workspace, and keys.

        A folder in which all names are of keys is one of them: SQLite makes files beside its database at any time.
        """
        for gate in self._all:
            deciding = gate._deciding
            yield from gate.mounts.reals()
            yield from deciding.keys
            for folder in deciding.key_folders:
                inside = [f"{folder.rstrip('/')}/{each}" for each in _names_in(folder)]
                keys = [each for each in inside if deciding.holds_keys(each)]
                yield from [folder] if keys and keys == inside else keys

    def around(self) -> Iterator[str]:
        """Yield the real folders where these agents and those beside them work, and where their configs are."""
        for gate in self._all:
            deciding = gate._deciding
            yield from map(real_path, (*deciding.folders, *deciding.around))

    def seen_with(self) -> object:
        """Return what rulings depend on besides the file and its folder: the running tool, and where links lead."""
        return calling_now().call.tool, [(dict(gate._links.targets), gate._deciding) for gate in self._all]

    def tops(self) -> Iterator[Path]:
        """Yield the folders that Zeus opens by their paths, as they are written, of all agents that run with this one.

        They are roots, routes and folders of options: a program must not make them lead elsewhere.
        """
        for gate in self._all:
            yield from gate.mounts.written_folders()
            yield from (*gate._deciding.folders, *gate._deciding.shown)

    def unasked(self) -> Iterator[tuple[Path, bool]]:
        """Yield the places, there or not, whose contents decide, or are executed, without a question.

        Each comes with whether it is a folder.
        """
        for gate in self._all:
            deciding = gate._deciding
            for places, are_folders in ((deciding.unasked, True), (deciding.unasked_files, False)):
                for each in map(Path, places):
                    found = deciding.find(str(each.parent))
                    # What is in another protected folder that is there cannot be made.
                    if found is None or not os.path.lexists((each.parent, *each.parent.parents)[found[1]]):
                        yield each, are_folders

    def is_served(self, host: str) -> bool:
        """Whether a service runs the configs in a folder, also those that are made there later."""
        return any(host in gate._deciding.served for gate in self._all)

    def deciding_links(self) -> frozenset[str]:
        """Return the links on the way to files that the rules or the built-in protection name.

        If such a link led elsewhere, other files would be protected.
        """
        found = ((gate._deciding, gate._links.hosts) for gate in self._all)
        paths = (each for known, hosts in found for each in (*(known.added.keys() - known.installed), *hosts))
        return frozenset(links_passed(paths))

    def keys_on(self, device: int) -> object:
        """Return which files on a device hold keys, by any name: what rulings on files with several names depend on."""
        return [_identities(set(gate._deciding.keys)) | gate._linked_keys(device) for gate in self._all]

    def is_of_sessions(self, parts: Parts, host: str) -> bool:
        """Whether Zeus keeps files of all sessions in a folder, and each may read its own alone; also for `.zeus`."""
        if folded(host.rpartition("/")[2]) == STATE:
            return True
        within, inside = (*parts, "file"), f"{host.rstrip('/')}/file"
        written = self.mounts.written(within)
        return any(
            any(gate._kept_paths((*names, *gate._named_as(written, number > 0)), inside))
            for number, gate in enumerate(self._all)
            for names in (gate._names(within, inside, foreign=number > 0),)
        )

    def folders_of_sessions(self) -> Iterator[Path]:
        """Yield the folders, there or not, where Zeus keeps files of sessions: `.zeus`, and those that configs name."""
        for gate in self._all:
            deciding = gate._deciding
            yield from (each for each in map(Path, deciding.unasked) if each.name == STATE)
            yield from map(Path, deciding.archives)

    def hides(self, parts: Parts, host: str) -> bool:
        """Whether listings and searches must not show a file."""
        ruling = self.ruling(parts, host, "read")
        return ruling is not None and ruling.action == "deny"

    def require_opened(self, parts: Parts, host: str, status: os.stat_result) -> None:
        """Ensure that an open file is not one of processes, and has no second name (hard link) outside or denied.

        Raises:
            WorkspaceError: it is one, or has one, and the config does not allow that.
        """
        why = self.opened_refusal(parts, host, status)
        if why is not None:
            raise WorkspaceError(
                f"{printable(join(parts))} {why}.",
                remedy="Tell the user if the task needs it."
                if why == OF_PROCESSES
                else "Tell the user: `workspace.hard_links` lists the folders where such files may be read.",
            )

    def opened_refusal(self, parts: Parts | None, host: str, status: os.stat_result) -> str | None:
        """Return why the file system or the second name (hard link) of an open file closes it; None if neither does.

        The reason is the rest of a sentence.

        Args:
            parts: its virtual path; None for a file that is not in the workspace, whose names are not judged.
            host: its real path.
        """
        if is_proc(status.st_dev) and not self._is_judged_as_key(host):
            return OF_PROCESSES
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return None
        if self.is_key(status):
            return OTHER_KEY
        if parts is None:
            return None
        # The gates above know the file by its path in their own workspaces.
        above = () if self.above is None else self.above._all
        named = [
            (self, (parts,)),
            *((gate, [each.parts for each in gate.mounts.names_of(host)]) for gate in above),
        ]
        if all(gate._may_be_linked(names or (parts,)) for gate, names in named):
            return None
        return f"has {status.st_nlink} names (hard links), and the others may be files that no tool may read"

    def _is_judged_as_key(self, host: str) -> bool:
        """Whether the floor closes the path to reading: then only a rule that names it can have opened the file."""
        found = self._deciding.find(host)
        return found is not None and found[0].holds_keys

    def _may_be_linked(self, names: Iterable[Parts]) -> bool:
        allowed = {folded(each) for each in self.linked}
        return any(folded(part) in allowed for parts in names for part in parts[:-1])

    def is_key(self, status: os.stat_result) -> bool:
        """Whether the file contains keys, by whichever name it was opened."""
        this = (status.st_dev, status.st_ino)
        keys = set(self._deciding.keys)
        if this in _identities(keys) or (status.st_nlink > 1 and this in self._linked_keys(status.st_dev)):
            return True
        return self.above is not None and self.above.is_key(status)

    def _linked_keys(self, device: int) -> set[tuple[int, int]]:
        """Return the files on a device that have a key file's name in the workspace.

        Folders of packages are left out: a search of 100,000 files takes a second, and each call would need one.
        """
        known = calling_now().linked_keys
        key = (id(self), device)
        if known is None or key not in known:
            skipped = frozenset(map(folded, self.linked))
            found = {each for base in self.mounts.reals() for each in _keys_below(base, device, skipped)}
            if known is None:
                return found
            known[key] = found
        return known[key]


_IN_THE_WAY: Final = Ruling("deny", "Zeus looks for files in a folder of that name, so it can be no file")

_NOT_OWN: Final = Ruling(
    "deny",
    "this session has kept no such file, and was given none",
    "Read the source again if the task needs it.",
)


def _asking(call: CallingTool, parts: Parts, ruling: Ruling) -> AccessAsked | WorkspaceError:
    """Return what to raise where a call needs an approval that it does not have."""
    if call.tool in (None, ANY_TOOL):
        return WorkspaceError(refusal_text(parts, ruling), remedy="Only a tool call can ask for an approval.")
    return AccessAsked(join(parts), ruling, parts)


def kept_path(parts: Parts) -> str | None:
    """Return the path of a file that Zeus keeps as the archive's routes name it; None if it is another file."""
    for at, part in enumerate(parts[:-1]):
        name = folded(part)
        is_state = at > 0 and folded(parts[at - 1]) == STATE
        if (name in ARCHIVES and (at == 0 or is_state)) or (name == SANDBOXES and is_state):
            return join((name, *parts[at + 1 :]))
    return None


def _overlap(one: str, other: str) -> bool:
    """Whether one of two folders is the other, or is in it."""
    parts = [map(folded, PurePath(each).parts) for each in (one, other)]
    return all(a == b for a, b in zip(*parts, strict=False))


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are wanted
    except OSError:
        return []


def _identities(paths: set[str]) -> set[tuple[int, int]]:
    found = set()
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:
            continue
        found.add((status.st_dev, status.st_ino))
    return found


def _keys_below(
    folder: str, device: int, skipped: frozenset[str], *, closed: bool = False
) -> Iterator[tuple[int, int]]:
    """Return the files below a folder that have a key file's name; hard links never lead to another device."""
    try:
        with os.scandir(folder) as scanned:
            entries = list(scanned)
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        is_closed = closed or is_key_name(entry.name)
        if not is_folder and not is_closed:
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if not is_folder:
            yield status.st_dev, status.st_ino
        elif status.st_dev == device and folded(entry.name) not in skipped:
            yield from _keys_below(entry.path, device, skipped, closed=is_closed)


def host_of(descriptor: int) -> str | None:
    """Return the current path of the folder behind a descriptor; None if the system does not report it."""
    if sys.platform == "darwin":
        import fcntl

        found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
        return os.fsdecode(found.rstrip(b"\0"))
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - a str is wanted
    except OSError:
        return None
