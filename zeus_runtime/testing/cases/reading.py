"""An evaluation file, read and checked: every problem has its position."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zeus_runtime.config.document import Document
from zeus_runtime.config.layers.files import names_preset
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.schema.composed import DIALECT
from zeus_runtime.config.schema.construct import BuildError, build
from zeus_runtime.config.schema.signatures import schema_of
from zeus_runtime.config.schema.types import DOCUMENT
from zeus_runtime.config.schema.validate import check
from zeus_runtime.config.secrets.unloaded_configs import secrets_of_folders
from zeus_runtime.config.yaml.reader import MAX_BYTES, decode, read
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Path as ConfigPath
from zeus_runtime.config.yaml.tree import show_path
from zeus_runtime.cutting import first_line, mask_before_cutting
from zeus_runtime.disk_paths import real_path
from zeus_runtime.errors import ZeusError, masking_errors
from zeus_runtime.escaping import printable
from zeus_runtime.testing.cases.format import Evaluation, FileState

if TYPE_CHECKING:
    from zeus_runtime.config.yaml.tree import Node
    from zeus_runtime.plan.part_sources import FileSource
    from zeus_runtime.testing.cases.format import Case, Expectation
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Part

JUDGED: Final = "+judge"
"""In the name of the recording of a judging model."""

PATTERN_SECONDS: Final = 5.0
"""How long a regular expression may search."""


@dataclass(frozen=True)
class ReadEvaluation:
    """An evaluation file.

    Args:
        evaluation: its content, in which file paths are absolute.
        document: the positions.
        path: the file.
        trust: decides about its parts.
        newline: the line end of the file; ``document.sources`` has its text with ``\\n``.
        answers: the part of ``approvals: allow``, as the disk was when the file was read: ``--record`` changes the
            recordings; None if no case has it.
        choice: the part of the configs and models that the file names, whatever the command line names. A digest that
            was given at process start allows a part of any config, so it matters who chooses the config.
    """

    evaluation: Evaluation
    document: Document
    path: Path
    trust: Trust
    newline: str = "\n"
    answers: Part | None = None
    choice: Part | None = None

    def config_of(self, agent: str) -> str:
        """The config that an entry of ``agents`` means, as the command line takes it."""
        return str(self.path.parent / agent) if is_file_name(agent) else agent

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents, as they are written."""
        return _agents(self.evaluation)

    @property
    def cassette(self) -> Path:
        """The folder of the recordings; beside the file unless it names another."""
        named = self.evaluation.cassette
        return Path(named) if named is not None else self.path.with_name(f"{self.path.stem}.cassettes")

    def recording(self, name: str, kind: str = "") -> Path:
        """The recording of a run.

        Args:
            kind: ``JUDGED`` for that of the judging model.
        """
        return self.cassette / f"{name}{kind}.jsonl"

    @property
    def ground(self) -> FileSource:
        """The inputs for finding the parts of the file."""
        from zeus_runtime.plan.part_sources import FileSource

        # A word may be a preset's, and otherwise a file or folder in the working directory.
        configs = {each: self.document.directory / self.config_of(each) for each in self.agents}
        document = replace(self.document, files={**configs, **self.document.files})
        return FileSource(document, self.trust, installed=())

    def parts(self) -> Sequence[Part]:
        """The parts of the file that need permission, as the disk is now; its configs have their own.

        All that the file names goes through here: its agents' configs, the recordings, and each value that is marked
        in ``format``.
        """
        from zeus_runtime.plan.executed_parts import elsewhere_part, named_parts

        ground = self.ground
        found: dict[str, Part] = {}
        for part in (
            *([] if self.answers is None else [self.answers]),
            *elsewhere_part(ground, ("cassette",), self.cassette, "writes"),
            *named_parts(ground),
        ):
            found.setdefault(part.digest, part)
        return tuple(found.values())


def _agents(evaluation: Evaluation) -> tuple[str, ...]:
    return evaluation.agents if evaluation.agent is None else (evaluation.agent,)


def is_file_name(agent: str) -> bool:
    """Whether the name of an agent means a file, and not a preset."""
    return agent.endswith((".yaml", ".yml")) or "/" in agent


def evaluation_schema() -> dict[str, Any]:
    """The JSON Schema of an evaluation file. As in a config, ``x-*`` keys at the top are free."""
    head = {"$schema": DIALECT, "title": "Zeus runtime evaluation", DOCUMENT: "an evaluation"}
    return {**head, **schema_of(Evaluation), "patternProperties": {"^x-": True}}


def read_evaluation(
    path: Path, *, directory: Path, environ: Mapping[str, str], is_run: bool = True
) -> ReadEvaluation:
    """Read and check an evaluation file. Nothing in it is a variable: ``${NAME}`` is a text.

    Args:
        path: relative to ``directory``.
        directory: the working directory, from which errors name the file.
        environ: its secrets are masked in errors, as are those in the file's folder, the working directory and the
            folders of the configs that the file names.
        is_run: whether its cases are run, so that its answers count.

    Raises:
        ConfigError: with every problem.
        UntrustedError: it names files or machines elsewhere, or answers approvals, and the user has not allowed it.
    """
    found = examine_evaluation(path, directory=directory, environ=environ)
    if not is_run:
        found = replace(found, answers=None)
    found.trust.require(found.parts())
    _refuse(found.document, _file_problems_of(found.evaluation))
    return found


def examine_evaluation(path: Path, *, directory: Path, environ: Mapping[str, str]) -> ReadEvaluation:
    """The same as ``read_evaluation``, also for a file that is not trusted: the files that it names stay closed."""
    from zeus_runtime.plan.validated import trust_of

    file = directory / path
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        hint = "name an evaluation file; `zeus eval add SESSION --to FILE` begins one"
        message = f"{path} cannot be read: {error.strerror}"
        raise ConfigError([Sources().diagnostic("unreadable-file", message, None, hint=hint)]) from None
    name = str(path)
    folders = (file.parent, directory)
    with masking_errors(secrets_of_folders(folders, environ)):
        text = decode(data, name)
        root = read(text, name)
    secrets = secrets_of_folders((*_agents_folders(root, file.parent), *folders), environ)
    mask_before_cutting(secrets)
    document = Document(
        source=name,
        path=file,
        root=root,
        sources=Sources({name: text}, secrets),
        folders={name: file.parent},
        files={name: file},
        environ=environ,
        directory=directory,
    )
    document = check(document, evaluation_schema())
    try:
        own = {key: value for key, value in document.value.items() if not key.startswith("x-")}
        evaluation: Evaluation = build(Evaluation, own)
    except BuildError as error:
        raise document.error([document.diagnostic(error.path, "wrong-type", error.message)]) from None
    _refuse(document, _problems(evaluation, file.parent))
    trust = trust_of(document, ["--eval", name], environ=environ)
    newline = "\r\n" if b"\r\n" in data else "\n"
    found = ReadEvaluation(evaluation, document, file, trust, newline)
    return replace(found, answers=_answers(found, data), choice=_choice(found))


def _agents_folders(root: Node, folder: Path) -> Iterator[Path]:
    """The folders of the configs that an evaluation names, which is not checked yet."""
    named = [root.value[key] for key in ("agent", "agents") if key in root.value]
    for node in [each for entry in named for each in (entry.value if entry.is_list else [entry])]:
        if isinstance(node.value, str) and is_file_name(node.value):
            config = folder / node.value
            yield from (each for each in (config, config.parent) if os.path.isdir(each))  # noqa: PTH112 - it never raises


def _choice(read: ReadEvaluation) -> Part:
    from zeus_runtime.plan.part_sources import with_owner
    from zeus_runtime.trust.parts import choice_part

    evaluation, document = read.evaluation, read.document
    choices = {"agent": read.agents, "model": evaluation.models, "judge": evaluation.judges}
    key: ConfigPath = ("agents",) if evaluation.agent is None else ("agent",)
    return with_owner(read.ground, choice_part(choices, where=str(document.position(key))))


def _answers(read: ReadEvaluation, data: bytes) -> Part | None:
    """The part of ``approvals: allow``: configs, prompts, files and recordings decide what the agents do unasked."""
    from zeus_runtime.plan.part_sources import with_owner
    from zeus_runtime.trust.parts import answers_part

    cases = enumerate(read.evaluation.cases)
    given: list[ConfigPath] = [
        ("cases", index, "approvals") for index, case in cases if case.approvals == "allow"
    ]
    if read.evaluation.approvals == "allow":
        given.insert(0, ("approvals",))
    if not given:
        return None
    document = read.document
    # Files elsewhere ask by their path, and stay closed until then.
    inside = (real_path(document.directory), real_path(read.path.parent))

    def is_inside(file: Path) -> bool:
        return any(Path(real_path(file)).is_relative_to(each) for each in inside)

    named = {*(Path(each.text) for each in document.marked if each.is_file), *read.cassette.glob("*.jsonl")}
    for config in map(read.config_of, read.agents):
        file = str(document.directory / config)
        if not os.path.lexists(file) or is_inside(Path(file)):
            named.update(_deciding_files(document, config))
    files = sorted(
        file
        for file in named - {read.path}
        if is_inside(file) and file.is_file() and os.access(file, os.R_OK)
    )
    held = [(file, sha256(file.read_bytes()).hexdigest()) for file in files]
    part = answers_part(
        show_path(given[0]),
        [(read.path, sha256(data).hexdigest()), *held],
        document.directory,
        where=str(document.position(given[0])),
    )
    return with_owner(read.ground, part)


def _deciding_files(document: Document, config: str) -> Iterator[Path]:
    """The files that an agent's config and those of its sub-agents are read from or name, also with each overlay.

    Files of keys are left out, because they are the user's own. The files that only an invalid config names are left
    out too: to run, it has to change, and then the question comes again.
    """
    from zeus_runtime.config.layers.files import overlay_path, overlays
    from zeus_runtime.plan.parts_with_subagents import agents_below
    from zeus_runtime.plan.validated import examine_config

    def read_with(env: str | None) -> Iterator[Document]:
        with suppress(ZeusError):
            checked = examine_config(config, env=env, directory=document.directory, environ=document.environ)
            yield checked.document
            yield from (each.document for each in agents_below(checked))

    documents = [*read_with(None)]
    main = documents[0].path if documents else None
    # A preset's file is known only once it is read.
    main = document.directory / config if main is None else main
    yield main
    for env in overlays(main):  # `zeus eval --env` chooses one after the permission was given
        yield overlay_path(main, env)
        documents += read_with(env)
    for each in documents:
        yield from (file for file in each.files.values() if file.name != ".env")
        yield from (Path(one.text) for one in each.marked if one.is_file and not one.is_closed)


def _refuse(document: Document, problems: Iterable[_Problem]) -> None:
    told = [document.diagnostic(*each[:3], at=each[4], hint=each[3]) for each in problems]
    if told:
        raise document.error(told)


_Problem: TypeAlias = tuple[ConfigPath, str, str, str, Any]
"""Path, code, message, hint, and whether the key or the value is wrong."""


_AGENT: Final = "name a config (*.yaml), relative to this file, or a preset"


def _problems(evaluation: Evaluation, folder: Path) -> Iterator[_Problem]:
    if (evaluation.agent is None) == (not evaluation.agents):
        both = evaluation.agent is not None
        message = "`agent` and `agents` are both there" if both else "no agent is named"
        path: ConfigPath = ("agents",) if both else ()
        yield path, "conflict", message, "write `agent: zeus.yaml`, or a list `agents: [...]`", "key"
    named: dict[ConfigPath, str] = {("agents", number): each for number, each in enumerate(evaluation.agents)}
    named |= {} if evaluation.agent is None else {("agent",): evaluation.agent}
    for path, agent in named.items():
        if is_file_name(agent) and not os.path.exists(folder / agent):  # noqa: PTH110 - it never raises
            message = f"there is no file {printable(str(folder / agent))}"
            yield path, "file-not-found", message, _AGENT, "value"
        elif agent == "-" or not (is_file_name(agent) or names_preset(agent)):
            message = f"{printable(agent)} is neither a file nor a preset's name"
            yield path, "wrong-value", message, _AGENT, "value"
    for key in ("agents", "models"):
        yield from _twice((key,), getattr(evaluation, key))
    names: dict[str, int] = {}
    for number, case in enumerate(evaluation.cases):
        path = ("cases", number)
        if case.name in names:
            first = names[case.name] + 1
            message = f"case {first} has the name {case.name!r} too"
            yield (*path, "name"), "duplicate-name", message, "give each case another name", "value"
        names.setdefault(case.name, number)
        yield from _case_problems(path, case)


def _twice(path: ConfigPath, values: tuple[str, ...]) -> Iterator[_Problem]:
    for number, value in enumerate(values):
        if value in values[:number]:
            yield (*path, number), "duplicate-name", f"{value!r} is there twice", "remove one", "value"


def _case_problems(path: ConfigPath, case: Case) -> Iterator[_Problem]:
    if (case.prompt is None) == (not case.prompts):
        both = case.prompt is not None
        message = "`prompt` and `prompts` are both there" if both else "the case has no prompt"
        place = (*path, "prompts") if both else (*path, "name")
        yield place, "conflict", message, "write `prompt: TEXT`, or a list `prompts: [...]`", "key"
    for key, text in (
        ("prompt", "x" if case.prompt is None else case.prompt),
        *((("prompts", n), t) for n, t in enumerate(case.prompts)),
    ):
        number = 1 if isinstance(key, str) else int(key[1]) + 1
        if not text.strip() and not any(each.prompt == number for each in case.attached):
            steps = (key,) if isinstance(key, str) else key
            yield (*path, *steps), "wrong-length", "the prompt is blank", "write a prompt", "value"
    for number, attached in enumerate(case.attached):
        if attached.prompt > len(case.turns):
            message = f"there is no prompt {attached.prompt}: the case has {len(case.turns)}"
            place = (*path, "attachments", number, "prompt")
            yield place, "wrong-value", message, "write the number of a prompt, from 1", "value"
    taken: dict[tuple[str, ...], str] = {}
    for name in case.files:
        problem = _path_problem(name) or _clash(name, taken)
        if problem is not None:
            hint = "write a path in the workspace, such as notes/today.md"
            yield (*path, "files", name), "wrong-value", f"{name!r}: {problem}", hint, "key"
        taken[parts_of(name)] = name
    for number, expectation in enumerate(case.expect):
        yield from _expectation_problems((*path, "expect", number), expectation)


def _file_problems_of(evaluation: Evaluation) -> Iterator[_Problem]:
    """The problems with the files that the cases name, which are opened here."""
    for number, case in enumerate(evaluation.cases):
        path = ("cases", number)
        for name, content in case.files.items():
            if not isinstance(content, str) and not Path(content.file).is_file():
                message = f"there is no file {printable(content.file)}"
                yield (*path, "files", name, "file"), "file-not-found", message, "correct the path", "value"
        for index, attached in enumerate(case.attached):
            if not Path(attached.file).is_file():
                steps = () if isinstance(case.attachments[index], str) else ("file",)
                message = f"there is no file {printable(attached.file)}"
                place = (*path, "attachments", index, *steps)
                yield place, "file-not-found", message, "correct the path", "value"
        for index, each in enumerate(case.expect):
            if each.schema is not None and not isinstance(each.schema, Mapping):
                yield from _schema_problems((*path, "expect", index, "schema"), each.schema)


def parts_of(name: str) -> tuple[str, ...]:
    """A path in the workspace as its parts; a leading slash means the workspace."""
    return tuple(part for part in name.split("/") if part not in ("", "."))


def _path_problem(name: str) -> str | None:
    parts = parts_of(name)
    if not parts or name.endswith("/"):
        return "this path names no file"
    if ".." in parts:
        return "a path must not leave the workspace"
    return "a path holds no backslash and no NUL" if "\\" in name or "\0" in name else None


def _clash(name: str, taken: Mapping[tuple[str, ...], str]) -> str | None:
    parts = parts_of(name)
    for other, written in taken.items():
        short, long = sorted((parts, other), key=len)
        if long[: len(short)] == short:
            return f"{written!r} is there too, and a path is one file or one folder"
    return None


def _expectation_problems(path: ConfigPath, expectation: Expectation) -> Iterator[_Problem]:
    given = {key: value for key, value in vars(expectation).items() if value not in (None, False)}
    if not given:
        yield (
            path,
            "missing-key",
            "nothing is expected here",
            "write a condition such as `contains: TEXT`",
            "value",
        )
    if expectation.exact and expectation.tool_calls is None:
        yield (
            (*path, "exact"),
            "conflict",
            "`exact` needs `tool_calls`",
            "add `tool_calls: [...]` here",
            "key",
        )
    yield from _pattern_problem((*path, "regex"), expectation.regex)
    for number, call in enumerate(expectation.tool_calls or ()):
        if not isinstance(call, str) and len(call) != 1:
            hint = "write a name, or {NAME: {ARGUMENT: VALUE}}"
            yield (*path, "tool_calls", number), "ref-shape", "a call is one name", hint, "value"
    if isinstance(expectation.schema, Mapping):
        yield from _schema_problems((*path, "schema"), expectation.schema)
    if expectation.file is not None:
        yield from _file_problems((*path, "file"), expectation.file)


def _file_problems(path: ConfigPath, state: FileState) -> Iterator[_Problem]:
    problem = _path_problem(state.path)
    if problem is not None:
        hint = "write a path in the workspace, such as /notes/today.md"
        yield (*path, "path"), "wrong-value", f"{state.path!r}: {problem}", hint, "value"
    others = [
        key for key in ("contains", "not_contains", "equals", "regex") if getattr(state, key) is not None
    ]
    if state.absent and others:
        yield (
            (*path, "absent"),
            "conflict",
            f"an absent file has no `{others[0]}`",
            "remove one of them",
            "key",
        )
    yield from _pattern_problem((*path, "regex"), state.regex)


def _pattern_problem(path: ConfigPath, pattern: str | None) -> Iterator[_Problem]:
    if pattern is None:
        return
    import regex

    try:
        regex.compile(pattern)
    except regex.error as error:
        yield (
            path,
            "wrong-pattern",
            f"this is not a regular expression: {error}",
            "correct the pattern",
            "value",
        )


def _schema_problems(path: ConfigPath, schema: Any) -> Iterator[_Problem]:
    from zeus_runtime.plan.answer_schema import faults_of

    try:
        value = schema_value(schema)
    except (OSError, ValueError, ConfigError) as error:
        why = getattr(error, "strerror", None) or first_line(str(error))
        hint = "name a JSON or YAML file that holds a JSON Schema"
        yield (*path, "file"), "unreadable-file", f"the schema cannot be read: {why}", hint, "value"
        return
    from_file = not isinstance(schema, Mapping)
    for place, message, hint in faults_of(value):
        yield (*path, "file") if from_file else (*path, *place), "wrong-value", message, hint, "value"


def schema_value(schema: Any) -> Mapping[str, Any]:
    """The JSON Schema of ``schema``, from its file if it names one.

    Raises:
        OSError, ValueError, ConfigError: the file cannot be read, or holds no mapping.
    """
    if isinstance(schema, Mapping):
        return schema
    from zeus_runtime.config.yaml.tree import plain

    file = Path(schema.file)
    if not file.is_file():
        raise ValueError("there is no such file")
    with file.open("rb") as stream:
        text = decode(stream.read(MAX_BYTES + 1), file.name)
    value = json.loads(text) if file.suffix == ".json" else plain(read(text, file.name))
    if not isinstance(value, dict):
        raise ValueError("it holds no mapping")
    return value
