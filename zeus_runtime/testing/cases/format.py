"""The keys of an evaluation file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from zeus_runtime.config.model import SchemaFile
from zeus_runtime.config.schema.markers import (
    AlsoCalled,
    Doc,
    FileRelative,
    Maximum,
    Minimum,
    MinLength,
)

Approvals: TypeAlias = Literal["allow", "deny"]
Text: TypeAlias = Annotated[str, MinLength(1)]
Texts: TypeAlias = Text | tuple[Text, ...]
Call: TypeAlias = Text | Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class CaseFile:
    """The content of a file for a case's workspace, taken from another file."""

    file: Annotated[str, FileRelative(), Doc("A file of any kind, relative to this YAML file.")]


@dataclass(frozen=True)
class CaseAttachment:
    """A file that goes with one of several prompts."""

    file: Annotated[str, FileRelative(), Doc("A file of any kind, relative to this YAML file.")]
    prompt: Annotated[int, Doc("Which of `prompts` it goes with, from 1."), Minimum(1)] = 1


@dataclass(frozen=True)
class FileState:
    """A file of the workspace after the last turn."""

    path: Annotated[Text, Doc("Its path in the workspace, such as /report.md.")]
    contains: Annotated[Texts | None, Doc("A text, or several, that the file must have.")] = None
    not_contains: Annotated[Texts | None, Doc("A text, or several, that it must not have.")] = None
    equals: Annotated[str | None, Doc("Its whole content.")] = None
    regex: Annotated[str | None, Doc("A regular expression that is found in it.")] = None
    absent: Annotated[bool, Doc("There must be no such file.")] = False


@dataclass(frozen=True)
class Judge:
    """A question to a judging model."""

    criterion: Annotated[Text, AlsoCalled(("rubric", "prompt", "question")), Doc("What must be true.")]
    model: Annotated[Text | None, Doc("The name of the judging model; null: `judge_model`.")] = None


@dataclass(frozen=True)
class Expectation:
    """One or more conditions. Each of them must hold after the last turn."""

    contains: Annotated[Texts | None, Doc("A text, or several, that the last answer must have.")] = None
    not_contains: Annotated[Texts | None, Doc("A text, or several, that it must not have.")] = None
    regex: Annotated[
        str | None, AlsoCalled(("matches", "pattern")), Doc("A regular expression that is found in it.")
    ] = None
    schema: Annotated[
        SchemaFile | Mapping[str, Any] | None,
        AlsoCalled(("json_schema",)),
        Doc("A JSON Schema, or {file: PATH}, that the answer's JSON value must fit."),
    ] = None
    file: Annotated[FileState | None, Doc("The state of a file of the workspace.")] = None
    tool_calls: Annotated[
        tuple[Call, ...] | None,
        Doc(
            "The names of tools that are called in this order; other calls may come between. {NAME: {ARGUMENT: VALUE}}"
            " also compares the arguments that it names."
        ),
    ] = None
    exact: Annotated[bool, Doc("No calls other than those of `tool_calls`.")] = False
    not_called: Annotated[Texts | None, Doc("A tool, or several, that must not be called.")] = None
    max_cost_usd: Annotated[
        float | None,
        AlsoCalled(("max_cost",)),
        Doc("The most that all turns may cost, in US dollars."),
        Minimum(0),
    ] = None
    max_steps: Annotated[int | None, Doc("The most model calls of all turns together."), Minimum(1)] = None
    judge: Annotated[Text | Judge | None, Doc("What a judging model must find true of the conversation.")] = (
        None
    )


@dataclass(frozen=True)
class Case:
    """One conversation, and what is expected of it."""

    name: Annotated[Text, AlsoCalled(("id", "title")), Doc("Its name; no two cases have the same.")]
    expect: Annotated[
        tuple[Expectation, ...],
        AlsoCalled(("assert", "asserts", "expected", "expectations")),
        MinLength(1),
        Doc("What must be true."),
    ]
    prompt: Annotated[str | None, AlsoCalled(("input", "question")), Doc("The user's prompt.")] = None
    prompts: Annotated[
        tuple[str, ...],
        AlsoCalled(("turns",)),
        Doc("Several prompts, each after the answer to the one before."),
    ] = ()
    files: Annotated[
        Mapping[str, str | CaseFile],
        Doc("The files of the workspace before the first turn: path to content, or to {file: PATH}."),
    ] = field(default_factory=dict)
    attachments: Annotated[
        tuple[Annotated[str, FileRelative()] | CaseAttachment, ...],
        AlsoCalled(("attach",)),
        Doc(
            "Files that go with the first prompt, relative to this YAML file. {file: PATH, prompt: 2}: with the second."
        ),
    ] = ()
    approvals: Annotated[
        Approvals | None, Doc("The answer to every question for approval, instead of the file's.")
    ] = None
    repeats: Annotated[int | None, Doc("How often the case is run, instead of the file's."), Minimum(1)] = (
        None
    )
    min_pass_rate: Annotated[
        float | None,
        Doc("The share of its repeats that must pass, instead of the file's."),
        Minimum(0),
        Maximum(1),
    ] = None

    @property
    def turns(self) -> Sequence[str]:
        """The prompts, in their order."""
        return self.prompts or (self.prompt or "",)

    @property
    def attached(self) -> Sequence[CaseAttachment]:
        """The attachments, each with the number of its prompt."""
        return [CaseAttachment(each) if isinstance(each, str) else each for each in self.attachments]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation file."""

    version: Annotated[Literal[1], Doc("The format's version.")]
    cases: Annotated[tuple[Case, ...], AlsoCalled(("tests",)), MinLength(1), Doc("The cases.")]
    agent: Annotated[
        Text | None,
        AlsoCalled(("config",)),
        Doc("The agent's config: a file (*.yaml) relative to this one, or a preset's name."),
    ] = None
    agents: Annotated[tuple[Text, ...], Doc("Several configs: every case is run with each.")] = ()
    models: Annotated[
        tuple[Text, ...],
        AlsoCalled(("providers",)),
        Doc("Model names that replace the configs' own, as --model does: every case is run with each."),
    ] = ()
    judge_model: Annotated[
        Text | None, Doc("The name of the model that judges; null: the model of the agent that is judged.")
    ] = None
    repeats: Annotated[int, Doc("How often each case is run."), Minimum(1)] = 1
    min_pass_rate: Annotated[
        float, Doc("The share of a case's repeats that must pass."), Minimum(0), Maximum(1)
    ] = 1.0
    approvals: Annotated[
        Approvals | None,
        Doc("The answer to every question for approval; null: a run that asks ends with an error."),
    ] = None
    cassette: Annotated[
        str | None,
        FileRelative(),
        AlsoCalled(("cassettes", "recordings")),
        Doc(
            "The folder of the recordings, relative to this file. If it is set, answers are replayed and no model is"
            " asked, unless --record or --live is given."
        ),
    ] = None

    def judged(self, case: Case) -> Sequence[tuple[str, str | None]]:
        """The criteria of a case, each with the name of its judging model; None for the agent's own."""
        judges = [each.judge for each in case.expect if each.judge is not None]
        return [
            (judge, self.judge_model)
            if isinstance(judge, str)
            else (judge.criterion, judge.model or self.judge_model)
            for judge in judges
        ]

    @property
    def judges(self) -> Sequence[str]:
        """The names of all judging models."""
        named = [self.judge_model, *(model for case in self.cases for _, model in self.judged(case))]
        return list(dict.fromkeys(each for each in named if each is not None))
