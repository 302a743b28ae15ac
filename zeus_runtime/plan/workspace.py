"""An agent's files: the workspace, its routes, the access of tools, and the archive of what leaves the window."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.config import ConfigError
from zeus_runtime.disk_paths import real_path
from zeus_runtime.plan.protected_files import add_deciding
from zeus_runtime.plan.workspace_root import earlier_root, place_of, session_name, workspace_root
from zeus_runtime.tools import WorkspaceFiles
from zeus_runtime.tools.access import AccessLayer, AccessPolicy, AccessRule, AccessRules, Deciding, Floor
from zeus_runtime.tools.gate import Gate
from zeus_runtime.tools.mounts import Mounts
from zeus_runtime.tools.moved_links import FollowedDeciding
from zeus_runtime.tools.own_folders import ARCHIVES, STATE
from zeus_runtime.tools.patterns import expand_braces, parts_of, pattern_slip
from zeus_runtime.tools.quota import Quota
from zeus_runtime.tools.routes import WorkspaceConfigError, routes_of

if TYPE_CHECKING:
    from zeus_runtime.config import Diagnostic
    from zeus_runtime.config.model import Mode
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.subagents import Above
    from zeus_runtime.plan.validated import Checked

ARCHIVE_ROUTES: Final = {f"/{name}/": f"{STATE}/{name}" for name in ARCHIVES}
"""Folders of originals and attachments unless ``workspace.routes`` sets others, so that the workspace stays clean."""


def planned_workspace(
    checked: Checked, mode: Mode, components: Iterable[PlannedComponent], above: Above | None
) -> WorkspaceFiles:
    """The workspace of the config.

    Args:
        mode: the mode the agent runs in.
        components: their options may give rules for files (``access_layer``).
        above: the parent's access and quota, which this agent's cannot exceed.

    Raises:
        ConfigError: its root or a route does not exist, a prefix is invalid, or a pattern cannot be read.
    """
    workspace = checked.config.workspace
    rules = _rules(checked)
    # One record for the whole family: a sub-agent must not open the files that decide about its parent.
    gate_above = None if above is None else above.gate
    deciding = (
        FollowedDeciding(checked.closed_later) if gate_above is None else gate_above.policy.floor.deciding
    )
    add_deciding(deciding, checked)
    _refuse_kept(checked, deciding)
    quiet = frozenset(ARCHIVE_ROUTES) - workspace.routes.keys()
    try:
        routes = routes_of(_routes(checked))
        mounts = _mounts(checked, routes)
        _refuse_host_paths(checked, rules, mounts)
        floor = Floor(deciding, dict(checked.lifting))
        policy = AccessPolicy(rules, floor, tuple(_layers(components, mode)))
        project = _project_gate(checked, policy)
        gate = Gate(mounts, policy, workspace.hard_links, gate_above, project)
        files = WorkspaceFiles(
            mounts.root,
            routes,
            quiet=quiet,
            gate=gate,
            is_own=bool(place_of(checked)),
            earlier=earlier_root(checked),
            quota=_quota(checked, None if above is None else above.quota),
            shown=checked.secrets.text,
            meant=checked.secrets.real,
            project=None if project is None else project.mounts.root,
        )
        files.check()
    except WorkspaceConfigError as error:
        written = {f"/{prefix.strip('/')}/": prefix for prefix in workspace.routes}
        place = ("workspace", *(written.get(step, step) for step in error.key))
        raise ConfigError([checked.diagnostic(error.code, error.message, place, hint=error.remedy)]) from None
    return files


def _project_gate(checked: Checked, policy: AccessPolicy) -> Gate | None:
    """The gate that an agent has in its project, if it works apart: its knowledge bases, skills and servers are there.

    Raises:
        ConfigError: a pattern is a path of this machine into the project.
    """
    if checked.apart is None:
        return None
    own = replace(checked, config=checked.document.config(), apart=None)
    mounts = _mounts(own, routes_of(_routes(own)))
    _refuse_host_paths(checked, policy.rules, mounts)
    return Gate(mounts, policy, own.config.workspace.hard_links)


def _refuse_kept(checked: Checked, deciding: Deciding) -> None:
    """Refuse a workspace that is, or is in, a folder where Zeus keeps files of all sessions.

    Its tools could open nothing, or they would read other sessions' files. The workspaces of all agents count that
    share ``deciding``: a sub-agent's config may name the folder that its parent works in.

    Raises:
        ConfigError: there is one.
    """
    for work in dict.fromkeys(each.workspace for each in deciding.sources):
        for kept, _ in deciding.archives_around(real_path(work)):
            option = _option_of(checked, kept)
            hint = (
                "another config or layer names it: write there a folder in the workspace or beside it"
                if option is None
                else "leave it out, or write a folder in the workspace or beside it"
            )
            message = f"the folder {kept}, where Zeus keeps files of all sessions, holds the workspace {work}"
            place = option or ("workspace", "root")
            raise ConfigError([checked.diagnostic("workspace", message, place, hint=hint)])


def _option_of(checked: Checked, folder: str) -> tuple[str | int, ...] | None:
    """The place of the option or the route that names a folder; None if another config does."""
    named = {each.path: each.text for each in checked.document.marked if each.is_of_sessions}
    routes = checked.config.workspace.routes
    named |= {("workspace", "routes", prefix): target for prefix, target in routes.items()}
    same = real_path(folder)
    return next((at for at, text in named.items() if real_path(checked.directory / text) == same), None)


def session_folder(plan: Plan, session: str) -> WorkspaceFiles | None:
    """The folder of a session, without its access policy; None if sessions have none of their own.

    Args:
        plan: that of the agent or of one of its sub-agents, for whichever session.
        session: the id of the outermost agent's session.
    """
    if plan.config.workspace.per != "session":
        return None
    return WorkspaceFiles(plan.context.workspace.root.parent / session_name(session), is_own=True)


def _quota(checked: Checked, above: Quota | None) -> Quota | None:
    given = checked.config.workspace.quota
    if given.bytes is None and given.files is None:
        return above
    spare = (checked.apart or checked.directory).absolute() / STATE
    root = workspace_root(checked)
    return Quota(root, max_bytes=given.bytes, max_files=given.files, spare=spare, above=above)


class LiftingRule(NamedTuple):
    """A rule of ``workspace.access`` that would lift a built-in protection.

    Args:
        rule: the rule.
        reasons: why its files are protected.
        file: the real path that the pattern means; None for the name of any file.
    """

    rule: AccessRule
    reasons: Sequence[str]
    file: Path | None


def lifts(checked: Checked) -> Iterator[LiftingRule]:
    """The rules that would lift a protection; none for a workspace that cannot be planned: the planner says why."""
    try:
        rules = _rules(checked)
        mounts = _mounts(checked, routes_of(_routes(checked)))
    except (ConfigError, WorkspaceConfigError):
        return
    # Only an exact rule lifts a protection, so most configs need no search for deciding files here.
    if all(rule.right == "deny" or not rule.is_exact for rule in rules.rules):
        return
    deciding = Deciding()
    add_deciding(deciding, checked)
    for rule, reasons in Gate(mounts, AccessPolicy(rules, Floor(deciding))).lifts().items():
        file = Path(real_path(mounts.host_of(rule.parts))) if rule.is_rooted else None
        yield LiftingRule(rule, reasons, file)


def _mounts(checked: Checked, routes: Mapping[str, Path]) -> Mounts:
    workspace = checked.config.workspace
    return Mounts(workspace_root(checked), routes, [f"/{prefix.strip('/')}/" for prefix in workspace.routes])


def _routes(checked: Checked) -> Mapping[str, Path]:
    routes = checked.config.workspace.routes
    written = {f"/{prefix.strip('/')}/" for prefix in routes}
    missing = {prefix: target for prefix, target in ARCHIVE_ROUTES.items() if prefix not in written}
    for prefix, target in routes.items():
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", target):
            raise WorkspaceConfigError(
                f"the route {prefix} leads to {target}, which is not a folder of this machine",
                remedy="name a folder; to keep files elsewhere, mount that place as a folder first",
                key=("routes", prefix),
            )
    own = {prefix: (checked.apart or checked.directory) / target for prefix, target in missing.items()}
    return {**{prefix: checked.directory / target for prefix, target in routes.items()}, **own}


def _layers(components: Iterable[PlannedComponent], mode: Mode) -> Iterator[AccessLayer]:
    for each in components:
        given = getattr(each.value, "access_layer", None)
        if given is None:
            continue
        with each.blamed("access_layer"):
            layer: AccessLayer | None = given(mode)
        if layer is not None:
            yield layer


def _rules(checked: Checked) -> AccessRules:
    access = checked.config.workspace.access
    problems = [problem for pattern in access if (problem := _unreadable(checked, pattern)) is not None]
    if problems:
        raise ConfigError(problems)
    return AccessRules(tuple(rule for written in access.items() for rule in AccessRule.of(*written)))


def _unreadable(checked: Checked, pattern: str) -> Diagnostic | None:
    try:
        alternatives = expand_braces(pattern)
    except ValueError as error:
        return _problem(checked, pattern, str(error), "write several patterns")
    if (slip := pattern_slip(pattern, may_be_name=True)) is not None:
        return _problem(checked, pattern, *slip)
    if "${" in pattern:
        return _problem(
            checked,
            pattern,
            f"the pattern {pattern!r} has a variable, and variables are replaced in values only",
            "write the path itself, in each overlay its own; for a name with a $, write ? in its place",
        )
    if any(".." in parts_of(each) for each in alternatives):
        return _problem(
            checked,
            pattern,
            f"the pattern {pattern!r} has a `..`",
            "patterns start at the workspace, as in secrets/**",
        )
    if any(re.match(r"[A-Za-z]:|~(/|$)", each) for each in alternatives):
        return _problem(
            checked,
            pattern,
            f"{pattern!r} is not a path of the workspace",
            "separate parts with /, as in secrets/**",
        )
    return None


def _refuse_host_paths(checked: Checked, rules: AccessRules, mounts: Mounts) -> None:
    """Refuse a pattern that is a path of this machine into the workspace: as one of the workspace it matches nothing.

    Raises:
        ConfigError: there is one.
    """
    problems: list[Diagnostic] = []
    for rule in rules.rules:
        if (meant := mounts.pattern_of(rule.pattern)) is not None:
            message = f"the pattern {rule.written!r} is a path of this machine"
            problems.append(
                _problem(checked, rule.written, message, f"patterns start at the workspace: {meant}")
            )
    if problems:
        raise ConfigError(problems)


def _problem(checked: Checked, pattern: str, message: str, hint: str) -> Diagnostic:
    return checked.document.diagnostic(
        ("workspace", "access", pattern), "access-pattern", message, at="key", hint=hint
    )
