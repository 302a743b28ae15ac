"""From a YAML file to a checked config: load, discover, validate. Fast; nothing runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from zeus_runtime.config import ConfigError, load
from zeus_runtime.config import check as check_document
from zeus_runtime.config.layers.files import any_layer, configs_in, homes_for
from zeus_runtime.config.layers.loading import shown_setting
from zeus_runtime.config.layers.plugin_home import plugin_named
from zeus_runtime.config.schema.validate import hiding, prepared, read_early
from zeus_runtime.config.secrets.masking import MASK, HiddenStr, Learned, Redactor
from zeus_runtime.config.secrets.secret_files import SecretFiles
from zeus_runtime.cutting import mask_before_cutting
from zeus_runtime.disk_paths import expanded, leads_through
from zeus_runtime.errors import MissingError, UsageError, masking_errors
from zeus_runtime.frozen import dataclass
from zeus_runtime.library_records import mask_library_records
from zeus_runtime.models.profile_tables import litellm_table
from zeus_runtime.plan.agent_documents import work_folders
from zeus_runtime.plan.executed_parts import executing, folders_named, lifting, project_of
from zeus_runtime.plan.part_sources import part_source
from zeus_runtime.plan.workspace_root import is_workspace_name, place_for
from zeus_runtime.process_path import given_environ, pass_over
from zeus_runtime.registry import (
    bundled_folders,
    bundled_home,
    discover,
    installed_homes,
    installed_schema,
    search_path,
    user_home,
)
from zeus_runtime.registry.home import homes_of_next_run
from zeus_runtime.tools.moved_links import FollowedDeciding
from zeus_runtime.trust.decision import name_in_record, recorded_trust
from zeus_runtime.trust.layers import permit_layer

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Diagnostic, Document
    from zeus_runtime.config.model import Plugins
    from zeus_runtime.config.yaml.tree import Path as ConfigPath
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.models.profile_tables import Table
    from zeus_runtime.notice import Notice
    from zeus_runtime.plan.spelled_files import Spelled
    from zeus_runtime.registry import PluginProblem, Registry
    from zeus_runtime.store.threads import Role
    from zeus_runtime.tools.access import AccessRule, Deciding
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Part


@dataclass(frozen=True)
class Checked:
    """A valid config, and everything that it was checked against.

    Args:
        document: values, positions, origins, redactor.
        registry: the plugins and their components.
        homes: the Home folders, nearest first.
        config: the typed Config.
        directory: the working directory.
        given_environ: the environment that the config was checked with, without ``.env``.
        environ: the same, with ``.env`` for the variables that it lacks.
        trust: decides which of its parts may be executed.
        secret_files: the files whose text makes secrets, as the check saw them.
        parts: the parts that it would execute, without those of its sub-agents.
        lifting: the rules that lift a built-in protection, each with why its files are protected.
        notices: what the user should know before a run.
        family: the secrets of the outermost agent, if this is a sub-agent's config, or of an agent of a service.
        own_secrets: what is learned from the workspaces of its user and sessions; None if all that use the config do.
        model_table: the known models; 3 MB that are read once.
        apart: the folder that replaces the project for the agent's own files (``plan/apart.py``).
        beside: the configs of the agents that the same service runs; their files are closed to this agent's tools too.
        work_beside: the folders of these agents' projects and workspaces; for their sub-agents too.
        service_files: the service's settings and its database; they are closed too.
        service_folders: the folders whose configs the service runs; no tool makes a further one there.
        closed_later: what is closed after the planning, because an edited text names it (`edited_configs`).
        spelled: what edited texts of its files spell, which is closed too; None if they were not read for it.
        place: whose the workspace is, if users have their own: the user, and the project if there is one.
        session: whose the workspace is, if sessions have their own; empty for none yet.
        lender: the context of a plan of the same config, whose memory and knowledge bases are used.
    """

    document: Document
    registry: Registry
    homes: tuple[Path, ...]
    config: Config
    directory: Path
    given_environ: Mapping[str, str]
    environ: Mapping[str, str]
    trust: Trust
    secret_files: SecretFiles = field(repr=False, compare=False)
    parts: tuple[Part, ...] = ()
    lifting: tuple[tuple[AccessRule, Sequence[str]], ...] = ()
    notices: tuple[Notice, ...] = ()
    family: Redactor | None = field(default=None, repr=False, compare=False)
    own_secrets: Learned | None = field(default=None, repr=False, compare=False)
    model_table: Callable[[], Table] = field(default=litellm_table, repr=False, compare=False)
    apart: Path | None = None
    beside: tuple[Checked, ...] = field(default=(), repr=False, compare=False)
    work_beside: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    service_files: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    service_folders: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    closed_later: FollowedDeciding = field(default_factory=FollowedDeciding, repr=False, compare=False)
    spelled: Spelled | None = field(default=None, repr=False, compare=False)
    place: tuple[str, ...] = ()
    session: str = ""
    lender: PlanContext | None = field(default=None, repr=False, compare=False)

    @property
    def process_environ(self) -> Mapping[str, str]:
        """The environment of the process itself: the one that ``check`` gets may contain a project's values."""
        return given_environ()

    def middlewares_for_overlay(self) -> list[Any]:
        """The value of ``middlewares``, with its variables filled in.

        Raises:
            UsageError: a secret is among the options, and an overlay would show it.
        """
        lines = _middlewares(self.document)
        if _shown(lines, self.document.redactor) != lines:
            raise UsageError(
                "an option of a middleware is a secret, and the overlay would hold it", remedy=_ELSEWHERE
            )
        return lines

    def shown_middlewares(self, text: str) -> str:
        """The middlewares of a session as they may be shown: those from before may hold a secret.

        Args:
            text: their YAML; it is given as it is, if it holds none.

        Raises:
            ConfigError: it is not valid YAML.
        """
        document = self._document_with(text)
        if not _holds_secret(document, text):
            return text
        import yaml

        shown = _shown(_middlewares(document), document.redactor)
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)

    def with_middlewares(self, text: str, parts: Sequence[Part], *, are_new: bool = False) -> Checked:
        """The same config with other middlewares, for one session.

        Args:
            text: the value of ``middlewares`` in YAML, without variables.
            parts: the config's own, with those of its sub-agents (``all_parts``).
            are_new: they may hold no secret. Stored ones from before may; from now on, this config masks it.

        Raises:
            ConfigError: they are not valid.
            UsageError: new ones hold a secret.
            UntrustedError: their check would execute something that the user has not allowed.
        """
        document = self._document_with(text)
        if not are_new:
            self.secrets.learn_all(document.redactor)
        elif _holds_secret(document, text):
            raise UsageError(
                "the policies of a session hold a secret, and they would be stored", remedy=_ELSEWHERE
            )
        # A user of a service may bring them. Only with them does `zeus trust` show what they need.
        trust = self.trust.for_other_text(parts)
        trust = replace(trust, words=(*trust.words, "--set", "middlewares=…"))
        found = check_loaded(document, directory=self.directory, environ=self.given_environ, trust=trust)
        # The rest says for whom this config acts; only its files and their check are new.
        return replace(
            self,
            document=found.document,
            registry=found.registry,
            config=replace(found.config, memory=self.config.memory),
            trust=found.trust,
            secret_files=found.secret_files,
            parts=found.parts,
            lifting=found.lifting,
            notices=found.notices,
        )

    def _document_with(self, text: str) -> Document:
        """The document with other middlewares, not checked; it knows their secrets, by name and by type."""
        from zeus_runtime.config.layers.loading import with_setting

        schema = self.document.schema
        assert schema is not None  # a checked one has it
        return prepared(with_setting(self.document, f"middlewares={text}"), schema)

    @property
    def private_homes(self) -> Sequence[Path]:
        """The Homes of the project and the user, there or not, without those of installed distributions."""
        return _private(self.homes, self.registry, self.directory, self.given_environ)

    @property
    def secrets(self) -> Redactor:
        """The secrets of an agent and of all agents that are planned with it: each may read the others' files."""
        return self.document.redactor if self.family is None else self.family

    def working_for(self, above: Checked) -> Checked:
        """The same config as a sub-agent's of ``above``: from now on, each masks the other's secrets."""
        above.secrets.learn_all(self.document.redactor)
        own = replace(self, family=above.secrets, own_secrets=above.own_secrets)
        return replace(own, lender=None, work_beside=above.work_beside)

    def standing_beside(self, others: Sequence[Checked]) -> Checked:
        """The same config in a service that also runs these: it closes their files, and masks what they know now."""
        # Not where this config's own are: the others would learn theirs back from there, and none would go.
        theirs = Learned()
        for each in others:
            self.secrets.learn_all(each.secrets, theirs)
        work = (folder for each in others for folder in each.work)
        own = replace(self, beside=tuple(others), work_beside=tuple(dict.fromkeys(work)))
        return own.knowing(theirs)

    def with_files_unread(self) -> Checked:
        """The same config, whose files count as not loaded: what they name now is closed, also if it is not valid."""
        return replace(self, document=replace(self.document, files={}))

    def with_files_unfit(self, work: Collection[Path]) -> Checked:
        """The same, and what their edited texts spell is closed, since the schema finds nothing at a misspelt key.

        Args:
            work: where the other agents work; these folders stay open.
        """
        from zeus_runtime.plan.spelled_files import spelled_files

        return replace(self.with_files_unread(), spelled=spelled_files(self, work))

    def knowing(self, learned: Learned) -> Checked:
        """The same config, which also masks what ``learned`` has, now and later; new tokens go there."""
        return replace(self, family=self.secrets.joined(Redactor(learned=(learned,), form=learned.form)))

    def for_one_user(self) -> Checked:
        """The same config, which keeps to itself what it learns from the workspaces of its user and sessions."""
        own = Learned()
        return replace(self.knowing(own), own_secrets=own)

    def served_with(self, settings: Document, *, files: Iterable[Path], folders: Iterable[Path]) -> Checked:
        """The same config in a service with these settings: it closes the service's files, and masks their secrets.

        Args:
            settings: as they were read.
            files: the settings and the files that they name; they are closed.
            folders: those whose configs the service runs.
        """
        self.secrets.learn_all(settings.redactor)
        return replace(self, service_files=tuple(files), service_folders=tuple(folders))

    @property
    def served_configs(self) -> Iterator[Path]:
        """The configs that the next start of the service would run from its folders: a person may have added one."""
        return chain.from_iterable(map(configs_in, self.service_folders))

    @property
    def work(self) -> Sequence[Path]:
        """The folders whose files may change without the user's knowledge: the project's and the workspaces'."""
        return project_of(self.document, self.config, self.trust).folders

    def acting_for(self, user: str, project: str | None, role: Role | None) -> Checked:
        """The same config on behalf of a service's user: with that user's memories, in that project, in that role."""
        own = replace(self, place=place_for(user, project))
        memory = self.config.memory
        if memory is None:
            return own
        acting = replace(memory, user=user, project=project, role=role or "viewer")
        return replace(own, config=replace(self.config, memory=acting))

    def diagnostic(self, code: str, message: str, path: ConfigPath, *, hint: str | None = None) -> Diagnostic:
        """A problem with the value at ``path``, with its position."""
        return self.document.diagnostic(path, code, message, hint=hint)


def check(
    config: str | Path | None,
    *,
    env: str | None = None,
    sets: Sequence[str] = (),
    directory: Path,
    environ: Mapping[str, str],
    stdin: BinaryIO | None = None,
    trust: Trust | None = None,
    text: str | None = None,
) -> Checked:
    """Read a config and check everything that can be checked without running it.

    Nothing that is not trusted is executed (docs/explanation/trust.md).

    Args:
        config: a file, a preset's name, ``-`` for standard input, or None for ``zeus.yaml`` in ``directory``.
        env: the overlay's name.
        sets: ``a.b=value`` overrides.
        directory: the working directory.
        environ: the process environment.
        stdin: where ``-`` reads.
        trust: decides what may be executed; None for the record of this process's user.
        text: is read instead of the content of the file that ``config`` names.

    Raises:
        ConfigError: every problem, with positions.
        MissingError: a plugin that the config needs is missing, or two plugins register the same name.
        UntrustedError: a plugin file or an option would be executed, and the user has not allowed it.
    """
    found = examine_config(
        config,
        env=env,
        sets=sets,
        directory=directory,
        environ=environ,
        stdin=stdin,
        trust=trust,
        text=text,
    )
    return refusing_untrusted(found)


def examine_config(
    config: str | Path | None,
    *,
    env: str | None = None,
    sets: Sequence[str] = (),
    directory: Path,
    environ: Mapping[str, str],
    stdin: BinaryIO | None = None,
    trust: Trust | None = None,
    text: str | None = None,
) -> Checked:
    """The same as ``check``, also for a config that would execute something untrusted.

    The components of an untrusted plugin file are unknown, so the result can be inspected but not planned.
    """
    near = search_path(directory=directory, environ=environ)
    document = load(
        config,
        env=env,
        sets=sets,
        environ=environ,
        homes=near,
        plugin_homes=lambda rules: installed_homes(rules, environ),
        stdin=stdin,
        directory=directory,
        text=text,
        permit=any_layer if trust is None else partial(permit_layer, trust, directory),
    )
    words = [document.source if config is None else str(config)]
    words += ["--env", env] if env else []
    words += [word for each in sets for word in ("--set", shown_setting(each, document.redactor))]
    trust = trust_of(document, words, environ=environ, trust=trust)
    return examine(document, directory=directory, environ=environ, trust=trust)


def trust_of(
    document: Document, words: Sequence[str], *, environ: Mapping[str, str], trust: Trust | None = None
) -> Trust:
    """What a config may execute.

    Args:
        words: the config as a command line names it.
        environ: the environment without the config's ``.env``.
        trust: None for the record of this process's user.
    """
    # Here and below the process's own environment: the given one may contain a project's values.
    if trust is None:
        trust = recorded_trust(os.environ)
    path = document.directory / document.source if document.path is None else document.path
    homes = user_home(os.environ)
    # A container may have a clone as its home folder.
    project = (document.directory, path.parent)
    own = [home for home in homes if not any(leads_through(home, folder) for folder in project)]
    # A value that the caller changed is not the process's own.
    process = given_environ()
    variables = frozenset(name for name, value in environ.items() if process.get(name) == value)
    return replace(
        trust,
        file=name_in_record(document.path, document.source, document.directory),
        folder=str(path.parent.resolve()),
        named=str(path.parent.resolve() / path.name),
        words=tuple(words),
        homes=tuple(home.resolve() for home in homes),
        own_homes=tuple(home.resolve() for home in own),
        bundled=tuple(folder.resolve() for folder in bundled_folders()),
        variables=variables,
        environ=environ,
    )


def check_loaded(document: Document, *, directory: Path, environ: Mapping[str, str], trust: Trust) -> Checked:
    """The same as ``check`` for a config that is already read."""
    return refusing_untrusted(examine(document, directory=directory, environ=environ, trust=trust))


def refusing_untrusted(found: Checked) -> Checked:
    """Return ``found``.

    Raises:
        UntrustedError: its check needs to execute something untrusted.
    """
    needed = [part for part in found.parts if part.is_needed_to_check and not found.trust.allows(part)]
    if not needed:
        return found
    if not any(part.kind in ("plugin", "option") for part in needed):
        raise found.trust.refusal(needed)
    whose = "its" if len(needed) == 1 else "their"
    raise found.trust.refusal(needed, f"so {whose} components were not checked")


def examine(document: Document, *, directory: Path, environ: Mapping[str, str], trust: Trust) -> Checked:
    """The same as ``examine_config`` for a config that is already read; its errors are masked."""
    with masking_errors(document.redactor):
        return _examined(document, directory=directory, environ=environ, trust=trust)


def _examined(document: Document, *, directory: Path, environ: Mapping[str, str], trust: Trust) -> Checked:
    near = search_path(directory=directory, environ=environ)
    early = read_early(document)
    for home in early.homes:
        # Its presets and the profiles of models are read before the parts are judged.
        if plugin_named(home) is None:
            permit_layer(trust, directory, home, directory / expanded(home) / "configs")
    registry = discovered(document, early.plugins, environ=environ, homes=near, trust=trust)
    registry.require_plugins(document.position)
    # Again, because plugins may bring further Homes.
    homes = search_path(
        directory=directory,
        environ=environ,
        homes=early.homes,
        homes_of=registry.homes_of,
        position=document.position,
    )
    installed = installed_schema(registry)
    model_table = cache(litellm_table)
    try:
        document = check_document(
            document,
            installed.schema,
            known_model=lambda name: _suggestions(name, homes, registry, model_table()),
            unknown_components=any(plugin.status == "untrusted" for plugin in registry.plugins),
        )
    except ConfigError as error:
        raise _with_plugins(error, document, registry) from None
    config = document.config()
    # A program in the workspace asks Git for the addresses of its repositories.
    workspace = config.workspace
    folders = (".", *([] if workspace.per else [workspace.root]), *workspace.routes.values())
    secret_files = SecretFiles(
        document,
        folders=[document.directory / each for each in dict.fromkeys(folders)],
        # What a session or a user has there alone is known where their plan runs (`workspace_secrets`).
        shared=[document.directory / workspace.root] if workspace.per else (),
        is_workspace=is_workspace_name if workspace.per else lambda _: False,
        homes=_private(homes, registry, directory, environ),
        given=trust.paths,
        environ=environ,
        folders_named=partial(folders_named, document.directory),
    )
    secrets = secret_files.changed()
    # The files of servers, which are read now, name further ones.
    further = (*document.further, *secret_files.named)
    document = hiding(replace(document, further=further), secrets)
    checked = Checked(
        document=document,
        registry=registry,
        homes=homes,
        config=config,
        trust=trust,
        secret_files=secret_files,
        directory=directory,
        given_environ=environ,
        environ=document.environ,
        notices=tuple(_notices(document, (*registry.problems, *installed.problems))),
        model_table=model_table,
    )
    if not trust.work:  # a sub-agent's config gets that of the outermost one
        trust = replace(trust, work=work_folders(checked))
        # Before any component is made: its library may look programs up.
        pass_over(trust.work)
    source = part_source(document, config, registry, homes, trust)
    # Before a provider, a server or a plugin says anything that could repeat one.
    mask_before_cutting(checked.secrets)
    mask_library_records()
    checked = replace(checked, trust=trust)
    checked = replace(checked, parts=executing(source, partial(_protected, checked)))
    if not config.workspace.access:
        return checked
    # The files of the other parts are protected too, so these parts come last.
    from zeus_runtime.plan.workspace import lifts

    found = tuple(lifts(checked))
    allowed = tuple((each.rule, each.reasons) for each in found)
    return replace(checked, lifting=allowed, parts=(*checked.parts, *lifting(source, found)))


def _protected(checked: Checked) -> Deciding:
    from zeus_runtime.plan.protected_files import add_deciding
    from zeus_runtime.tools.access import Deciding

    # Most configs name no text, so these modules are imported only for one.
    deciding = Deciding()
    add_deciding(deciding, checked)
    return deciding


def discovered(
    document: Document,
    plugins: Plugins,
    *,
    environ: Mapping[str, str],
    homes: Sequence[Path],
    trust: Trust,
) -> Registry:
    """The plugins of a config, whose plugin files are in its own folder, or in a Home that it may take them from.

    Args:
        plugins: its `plugins`.
        environ: without the config's ``.env``, which must not keep a plugin of the user from loading.
        homes: all Homes, nearest first.
    """
    folder = document.directory if document.path is None else document.path.parent
    own = homes_for(folder, document.directory, homes)
    return discover(plugins, environ=environ, directory=folder, homes=own, trust=trust)


def _private(
    homes: Iterable[Path], registry: Registry, directory: Path, environ: Mapping[str, str]
) -> Sequence[Path]:
    installed = {home for plugin, home in registry.homes if plugin.distribution is not None}
    found = (home for home in homes if home not in installed and home != bundled_home())
    # Also those that are not there yet, since the next run would look there.
    return list(dict.fromkeys((*found, *homes_of_next_run(directory, environ))))


def _with_plugins(error: ConfigError, document: Document, registry: Registry) -> ConfigError | MissingError:
    """``error``, with the plugins that may provide each missing component, or that collide on its name."""
    told: list[Diagnostic] = []
    collided: list[MissingError] = []
    for each in error.diagnostics:
        if each.code != "unknown-component":
            told.append(each)
            continue
        value = document.get(each.path)
        name = value if isinstance(value, str) else str(each.path[-1])
        # A name that two plugins register belongs to neither, so the config finds no such component.
        for problem in registry.collisions(name):
            where = None if each.position is None else str(each.position)
            collided.append(MissingError(problem.message, remedy=problem.remedy, where=where))
            each = replace(each, message=problem.message, hint=problem.remedy)
        suspects = registry.suspects(name)
        if len(suspects) <= _FEW:
            why = tuple((f"plugin {plugin} is {plugin.status}: {plugin.reason}", None) for plugin in suspects)
            each = replace(each, related=(*each.related, *why))
        told.append(each)
    told += [
        document.diagnostic(
            problem.path, problem.code, problem.message, hint=problem.remedy, severity="warning"
        )
        for problem in registry.problems
        if problem.code == "plugin-untrusted"
    ]
    # Nothing else is wrong, so the config is valid and a plugin is missing: exit 4 and not 3.
    if len(collided) == sum(each.severity == "error" for each in told):
        return MissingError("\n".join(map(str, collided))) if len(collided) > 1 else collided[0]
    return ConfigError(told)


_FEW: Final = 3
"""If more plugins than these did not load, the cause is common to them and says nothing about one component."""


def _notices(document: Document, problems: Sequence[PluginProblem]) -> list[Notice]:
    if not document.notices and not problems:
        return []
    from zeus_runtime.notice import Notice

    told = [Notice(each.code, str(each)) for each in document.notices]
    return [*told, *(problem.notice() for problem in problems if not problem.is_harmless)]


def _suggestions(name: str, homes: Sequence[Path], registry: Registry, table: Table) -> Sequence[str] | None:
    """None for a known model, else the likely meanings: a component, or models with a similar name."""
    from zeus_runtime.models.profiles import lookup

    if name in registry.names("model"):
        return (f"{{{name}: {{}}}}",)
    profile = lookup(name, homes=homes, table=table)
    return None if profile.known else profile.suggestions


_ELSEWHERE: Final = (
    "Write the option elsewhere, such as in an environment variable that the middleware reads."
)


def _middlewares(document: Document) -> list[Any]:
    lines: list[Any] = document.get(("middlewares",), [])
    return lines


def _holds_secret(document: Document, text: str) -> bool:
    """Whether the middlewares of a document hold a secret, or ``text``, which they were read from, in a comment."""
    lines = _middlewares(document)
    return document.redactor.text(text) != text or _shown(lines, document.redactor) != lines


def _shown(value: Any, redactor: Redactor) -> Any:
    """A JSON value without secrets, and without the values that do not print, which may be too short to be masked."""
    if isinstance(value, Mapping):
        return {redactor.text(key): _shown(each, redactor) for key, each in value.items()}
    if isinstance(value, list):
        return [_shown(each, redactor) for each in value]
    if not isinstance(value, str):
        return value
    shown = redactor.text(value)
    return MASK if shown == value and isinstance(value, HiddenStr) else shown
