"""The form of the answer: the schema of ``output``, and how the model is to give it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.models.interface import ToolSchema
from zeus_runtime.plan.answer_schema import faults_of, no_parameters, sent_schema, unenforced, validator_of

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from zeus_runtime.config import Diagnostic
    from zeus_runtime.config.model import Output
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.plan.tools import PlannedTools
    from zeus_runtime.plan.validated import Checked

Strategy: TypeAlias = Literal["response_format", "tool", "prompt"]

FINAL_TOOL: Final = "final_answer"
"""The name of the call that gives the answer. No tool runs for it."""

_FINAL: Final = (
    "Gives your final answer and ends the run: the arguments are the answer. Call it once and alone, after all other"
    " work is done."
)
_HEAD: Final = "# The form of your answer\n\n"
_TOLD: Final[Mapping[Strategy, str]] = {
    "response_format": (
        "Your final answer is one JSON value that fits the response format of the request, without any other text. Do"
        " all other work before."
    ),
    "tool": (
        f"Give your final answer by calling `{FINAL_TOOL}`, once and alone, after all other work is done. The arguments"
        " are the answer; the user does not see text outside of them."
    ),
    "prompt": (
        "Your final answer is one JSON value that fits this JSON Schema, without any other text. Do all other work"
        " before.\n\n"
    ),
}
_LABELS: Final[Mapping[Strategy, str]] = {
    "response_format": "the provider's response format",
    "tool": f"a final call of {FINAL_TOOL}",
    "prompt": "a text that the prompt describes",
}


@dataclass(frozen=True)
class PlannedOutput:
    """The form of an agent's answers.

    Args:
        schema: the JSON Schema.
        strategy: how the model gives the answer.
        why: the reason.
        repairs: how often a turn asks again for an answer that does not fit.
        model: the pydantic model that the schema is of; None for a schema by itself.
        source: the schema's origin, for people.
    """

    schema: Mapping[str, Any]
    strategy: Strategy
    why: str
    repairs: int
    model: Any = field(default=None, repr=False)
    source: str = "a schema"

    @cached_property
    def tool(self) -> ToolSchema | None:
        """The call that gives the answer, as the provider sees it; None with another strategy."""
        return ToolSchema(FINAL_TOOL, _FINAL, sent_schema(self.schema)) if self.strategy == "tool" else None

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The settings of each request."""
        if self.strategy != "response_format":
            return {}
        form = {"name": "answer", "strict": True, "schema": sent_schema(self.schema)}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    @property
    def told(self) -> str:
        """The text at the end of section 6."""
        told = _HEAD + _TOLD[self.strategy]
        return (
            told + json.dumps(sent_schema(self.schema), ensure_ascii=False)
            if self.strategy == "prompt"
            else told
        )

    @property
    def shown(self) -> str:
        """The form in one line, for ``zeus plan``."""
        return f"JSON that fits {self.source}, by {_LABELS[self.strategy]}: {self.why}"

    @cached_property
    def validator(self) -> Validator:
        """Checks answers."""
        return validator_of(self.schema)

    def typed(self, value: Any) -> Any:
        """The instance of the model that ``value`` stands for; without a model, ``value`` itself."""
        # As JSON and not as Python values: in pydantic's strict mode, a text is a date only in JSON.
        return value if self.model is None else self.model.model_validate_json(json.dumps(value))


class _Schema(NamedTuple):
    """A schema and its origin.

    Args:
        value: the schema.
        path: the key of the config.
        source: for people.
        file: the file that it was read from, if any.
        model: the pydantic model.
    """

    value: Any
    path: tuple[str, ...]
    source: str = "a schema"
    file: str = ""
    model: Any = None


def planned_output(
    checked: Checked, written: Output, profiles: Sequence[ModelProfile], given: PlannedTools
) -> PlannedOutput:
    """The form of the answers of a config.

    Args:
        written: its ``output``.
        profiles: of its models; they all give it in the same way, so that any of them can go on with a turn.
        given: its tools.

    Raises:
        ConfigError: the schema is not one, cannot be read, or does not go with the strategy.
    """
    schema = _read(checked, written)
    problem = next(faults_of(schema.value), None)
    if problem is not None:
        raise ConfigError([_diagnostic(checked, schema, *problem)])
    strategy, why = _chosen(checked, written, schema, profiles)
    if strategy == "tool" and any(tool.name == FINAL_TOOL for tool in given.bare):
        message = f"a tool is named {FINAL_TOOL!r}, like the call that gives the answer"
        hint = "rename the tool, or write another output.strategy"
        raise ConfigError([checked.diagnostic("tool-conflict", message, ("output",), hint=hint)])
    return PlannedOutput(schema.value, strategy, why, written.repairs, schema.model, schema.source)


def internal_output(schema: Mapping[str, Any], profiles: Sequence[ModelProfile]) -> PlannedOutput:
    """The form of an answer that the runtime itself asks for.

    Args:
        schema: one that response formats and calls take.
        profiles: of the models that may answer.
    """
    if all(each.response_schema for each in profiles):
        strategy: Strategy = "response_format"
    elif any(each.mode is not None and not each.tool_calls for each in profiles):
        strategy = "prompt"
    else:
        strategy = "tool"
    return PlannedOutput(schema, strategy, "as its profile says", repairs=1)


def _chosen(
    checked: Checked, written: Output, schema: _Schema, profiles: Sequence[ModelProfile]
) -> tuple[Strategy, str]:
    unfit: dict[Strategy, str | None] = {
        "response_format": next(unenforced(schema.value), None),
        "tool": no_parameters(schema.value),
    }
    asked = written.strategy
    free = next((each.name for each in profiles if not each.response_schema), None)
    if asked == "response_format" and free is not None:
        message = f"no table says that {free} holds answers to a schema"
        hint = (
            f"if it does, write `response_schema: true` under profiles.models.{free}; else `strategy: auto`"
        )
        raise ConfigError([checked.diagnostic("output-unfit", message, ("output", "strategy"), hint=hint)])
    if asked != "auto":
        if why := unfit.get(asked):
            message = f"{_LABELS[asked]} does not take this schema: {why}"
            hint = "change the schema, or write `strategy: auto`"
            raise ConfigError(
                [checked.diagnostic("output-unfit", message, ("output", "strategy"), hint=hint)]
            )
        return asked, "output.strategy says so"
    why = (
        f"a response format does not take it: {unfit['response_format']}" if unfit["response_format"] else ""
    )
    if free is not None:
        why = f"no table says that {free} holds answers to a schema"
    if not why:
        verb = "holds" if len(profiles) == 1 else "hold"
        return "response_format", f"{' and '.join(each.name for each in profiles)} {verb} answers to it"
    if any(each.mode is not None and not each.tool_calls for each in profiles):
        return "prompt", f"{why}, or calls tools"
    if no := unfit["tool"]:
        return "prompt", f"{why}; as a call: {no}"
    return "tool", why


def _read(checked: Checked, written: Output) -> _Schema:
    from zeus_runtime.config.model import SchemaFile

    schema = written.schema
    if isinstance(schema, SchemaFile):
        return _from_file(checked, Path(schema.file))
    if isinstance(schema, str):
        return _from_model(checked, schema)
    return _Schema(dict(schema), ("output", "schema"))


def _from_file(checked: Checked, file: Path) -> _Schema:
    from zeus_runtime.config.yaml.reader import decode, read
    from zeus_runtime.config.yaml.tree import plain

    path = ("output", "schema", "file")
    try:
        if file.exists() and not file.is_file():
            raise ValueError("it is not a regular file")  # a pipe would wait for its writer
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        message = f"the schema {file.name} cannot be read: {why}"
        hint = "a relative path starts at this YAML file"
        raise ConfigError([checked.diagnostic("missing-file", message, path, hint=hint)]) from None
    return _Schema(plain(read(decode(data, str(file)), str(file))), path, file.name, str(file))


def _from_model(checked: Checked, reference: str) -> _Schema:
    path = ("output", "schema")
    try:
        model = _model(checked, reference)
        value = model.model_json_schema()
    except _NoModelError as error:
        raise ConfigError(
            [checked.diagnostic("output-model", error.message, path, hint=error.hint)]
        ) from None
    except Exception as error:  # noqa: BLE001 - the code is the user's
        message = f"{reference} cannot be used: {type(error).__name__}: {error}"
        hint = "name a pydantic model that has a JSON Schema"
        raise ConfigError([checked.diagnostic("output-model", message, path, hint=hint)]) from None
    return _Schema(value, path, reference, model=model)


class _NoModelError(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def _model(checked: Checked, reference: str) -> Any:
    """The class that a reference names: of a plugin file, or of an installed distribution.

    Raises:
        _NoModelError: there is no such class.
    """
    import sys
    from importlib import import_module

    from zeus_runtime.registry.contribution import is_model
    from zeus_runtime.registry.importing import FAILURES, brief, module_of_file

    name, _, attributes = reference.partition(":")
    file = next((each for each in checked.config.plugins.files if Path(each).stem == name), None)
    # The trusted bytes of a plugin file were executed when the config was checked.
    module = None if file is None else sys.modules.get(module_of_file(Path(file)))
    # A plugin file has priority: its bytes are the ones that the user allowed, whatever module has the same name.
    if module is None:
        if not _is_installed(name):
            raise _NoModelError(
                f"no installed distribution has the module {name!r}",
                f"install it, or list its file under plugins.files: `plugins: {{files: [{name}.py]}}`",
            )
        try:
            module = import_module(name)
        except FAILURES as error:
            raise _NoModelError(f"{name} cannot be imported: {brief(error)}", "correct the module") from error
    found: Any = module
    for attribute in attributes.split("."):
        found = getattr(found, attribute, None)
    if not is_model(found):
        raise _NoModelError(
            f"{reference} is not a pydantic model", "name a class that inherits from pydantic.BaseModel"
        )
    return found


def _is_installed(module: str) -> bool:
    """Whether a module is in a folder that packages are installed in. Only its parent folders are looked at."""
    import site
    import sysconfig
    from importlib.machinery import PathFinder

    # Of the first name only: to look for a submodule, Python would execute its parent packages.
    spec = PathFinder.find_spec(module.partition(".")[0])
    if spec is None:
        return False
    places = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")]
    roots = [Path(place).resolve() for place in places]
    files = (
        [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
    )
    if files and all(any(Path(file).resolve().is_relative_to(root) for root in roots) for file in files):
        return True
    from importlib.metadata import packages_distributions

    return module.partition(".")[0] in packages_distributions()


def _diagnostic(
    checked: Checked, schema: _Schema, place: Sequence[str | int], message: str, hint: str
) -> Diagnostic:
    """A fault of the schema, at its position in the YAML or in its own file."""
    if schema.model is not None:
        return checked.diagnostic("output-schema", f"{schema.source}: {message}", schema.path, hint=hint)
    if not schema.file:
        return checked.diagnostic("output-schema", message, (*schema.path, *place), hint=hint)
    from zeus_runtime.config.yaml.reader import decode, read
    from zeus_runtime.config.yaml.sources import Sources
    from zeus_runtime.config.yaml.tree import nearest

    text = decode(Path(schema.file).read_bytes(), schema.file)
    node, _ = nearest(read(text, schema.file), tuple(place))
    return Sources({schema.file: text}).diagnostic("output-schema", message, node.origin.value, hint=hint)
