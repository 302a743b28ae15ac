"""Reword jsonschema's errors so that a user can act on them: the branch of a choice, the key, and the correction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from zeus_runtime.config.messages.diagnostics import listing, suggestion
from zeus_runtime.config.messages.other_words import belongs, called_here, component_with
from zeus_runtime.config.schema.types import DOCUMENT, PLAIN, REF
from zeus_runtime.config.schema.walk import resolve, type_name
from zeus_runtime.config.secrets.masking import HiddenStr
from zeus_runtime.config.yaml.tree import Path, show_path
from zeus_runtime.cutting import cut_text

_GROUPED: Final = re.compile(r"-?\d+(_\d+)+|-?\d{1,3}(,\d{3})+")
_COMMA: Final = re.compile(r"-?\d+,\d+")


class Problem(NamedTuple):
    """What is wrong at a path.

    Args:
        code: one of ``diagnostics.CODES``.
        message: a sentence without a period.
        path: where in the value.
        at_key: the key at ``path`` is wrong, not its value.
        hint: what to do.
        is_guess: it follows from the form that the value was probably meant to have, of several.
    """

    code: str
    message: str
    path: Path
    at_key: bool = False
    hint: str | None = None
    is_guess: bool = False


def problems(schema: Mapping[str, Any], value: Any) -> list[Problem]:
    """Everything jsonschema finds wrong with ``value``, in words, without repetitions."""
    from jsonschema import Draft202012Validator

    found = Draft202012Validator(schema).iter_errors(value)
    worded = (
        problem._replace(is_guess=error.validator in ("anyOf", "oneOf"))
        for error in found
        for problem in _worded(error, schema)
    )
    return list(dict.fromkeys(worded))


def _worded(error: Any, root: Mapping[str, Any]) -> Iterator[Problem]:
    path: Path = tuple(error.absolute_path)
    schema = error.schema
    if isinstance(schema, Mapping) and REF in schema and error.validator == "anyOf":
        yield from _ref(error, path, root)
    # The schema here is that of the key, and the instance is the key itself.
    elif "propertyNames" in error.absolute_schema_path:
        known = error.schema.get("enum", ())
        yield _unknown_key(path, error.instance, suggestion(error.instance, known), known, root)
    elif error.validator in ("anyOf", "oneOf") and error.context:
        yield from _choice(error, path, root)
    elif error.validator == "additionalProperties" and not isinstance(error.validator_value, Mapping):
        yield from _unknown_keys(error, path, root)
    elif error.validator == "required":
        yield from _missing(error.instance, schema, path, root)
    elif error.validator in ("const", "enum"):
        choices = [error.validator_value] if error.validator == "const" else error.validator_value
        yield _not_chosen(path, error.instance, choices)
    elif error.validator == "type":
        names = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
        yield wrong_type(path, error.instance, [_TYPES[name] for name in names], names)
    elif error.validator in _LIMITS:
        code, text = _LIMITS[error.validator]
        shown = text.format(value=shown_value(error.instance), limit=error.validator_value)
        if isinstance(error.instance, str):
            shown = _white(error) or shown
        yield Problem(code, shown, path, hint=_meaning(path, schema))
    else:
        yield Problem("invalid", f"{error.message} ({error.validator})", path, hint=_meaning(path, schema))


def _white(error: Any) -> str | None:
    """The problem of a text that has too little besides white space, or white space around a valid value."""
    text: str = error.instance
    if not text.strip():
        return "the text is blank" if text else "the text is empty"
    if error.validator != "pattern" or not re.search(error.validator_value, text.strip()):
        return None
    return f"there is white space before or after {shown_value(text.strip())}"


def wrong_type(path: Path, value: Any, expected: Iterable[str], names: Sequence[str] = ()) -> Problem:
    """A value of the wrong type, with the usual slip behind it as the hint."""
    return Problem(
        "wrong-type",
        f"expected {_either(expected)}, got {_kind(value)}{shown_value(value)}".rstrip(),
        path,
        hint=_slip(value, names),
    )


def shown_value(value: Any) -> str:
    """A scalar as YAML would write it, shortened, a secret masked; nothing for lists and mappings."""
    if isinstance(value, Mapping | list):
        return ""
    if isinstance(value, HiddenStr):
        return repr(value)
    if isinstance(value, str):
        return repr(cut_text(value, 60))
    return (
        {None: "null", True: "true", False: "false"}.get(value, str(value))
        if _is_named(value)
        else str(value)
    )


def _ref(error: Any, path: Path, root: Mapping[str, Any]) -> Iterator[Problem]:
    schema, value = error.schema, error.instance
    kind: str = schema[REF]
    known: Mapping[str, Any] = schema["anyOf"][-1].get("properties", {})
    plain = schema.get(PLAIN)
    if isinstance(value, str):
        yield _ref_text(path, value, kind, known, plain, root)
    elif not isinstance(value, Mapping):
        yield wrong_type(path, value, [f"{_a(kind)}'s name, or a mapping of the name to its options"])
    elif len(value) != 1:
        yield _ref_shape(path, value, kind, known, plain, root)
    else:
        (name,) = value
        if name not in known and (written := _as_ours(value, kind, known, plain, root)) is not None:
            message = f"{name!r} is an option, and a {kind}'s options stand below its name"
            yield Problem("ref-shape", message, path, hint=written)
        elif name not in known and isinstance(value[name], str) and value[name] in known:
            message = f"{_a(kind)} is its name, and here is the key {name!r}"
            yield Problem("ref-shape", message, path, hint=f"write `{value[name]}`")
        elif name not in known:
            yield _unknown_component((*path, name), name, kind, known, plain, root, at_key=True)
        elif value[name] is None:
            yield _ref_text((*path, name), name, kind, known, None, root)._replace(at_key=True)
        else:
            # `composed` puts the mapping of names to options last; the other arms take texts.
            last = len(schema["anyOf"]) - 1
            for inner in error.context:
                if inner.relative_schema_path[0] == last:
                    yield from _worded(inner, root)


def _ref_text(
    path: Path,
    value: str,
    kind: str,
    known: Mapping[str, Any],
    plain: Sequence[str] | None,
    root: Mapping[str, Any],
) -> Problem:
    if plain is not None and not value:
        return Problem("wrong-value", f"the {kind}'s name is empty", path, hint=f"write a {plain[1]}'s name")
    if plain is not None:
        message = f"a plain {kind} name is run by {plain[0]!r}, which is not installed or is disabled"
        return Problem("unknown-component", message, path, hint=_installed(kind, known))
    if value in known:
        needed = resolve(known[value], root).get("required", ())
        message = f"{value!r} cannot stand alone: it needs {listing(needed)}"
        options = ", ".join(f"{key}: …" for key in needed)
        return Problem("missing-key", message, path, hint=f"write `{value}: {{{options}}}`")
    return _unknown_component(path, value, kind, known, plain, root, at_key=False)


def _installed(kind: str, known: Mapping[str, Any]) -> str:
    ending = {"x": "es", "h": "es", "y": "ies"}.get(kind[-1], "s")
    plural = f"{kind.removesuffix('y')}{ending}"
    return f"installed {plural}: {listing(known)}"


def _unknown_component(
    path: Path,
    name: str,
    kind: str,
    known: Mapping[str, Any],
    plain: Sequence[str] | None,
    root: Mapping[str, Any],
    *,
    at_key: bool,
) -> Problem:
    tail = suggestion(name, known)
    if not tail and (giver := component_with(name, known, root)) is not None:
        tail = f"; did you mean {giver!r}?"
    message = f"there is no {kind} {name!r}{tail}"
    hint = _installed(kind, known)
    return Problem("unknown-component", message, path, at_key=at_key, hint=hint)


def _a(kind: str) -> str:
    """With its article: "a tool", "an embedding"."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _ref_shape(
    path: Path,
    value: Mapping[str, Any],
    kind: str,
    known: Mapping[str, Any],
    plain: Sequence[str] | None,
    root: Mapping[str, Any],
) -> Problem:
    keys = list(value)
    one = f"{_a(kind)} is one name with its options"
    if not keys:
        return Problem("ref-shape", f"{one}, and here is none", path, hint=_installed(kind, known))
    message = f"{one}, and here are {len(keys)} keys: {listing(keys)}"
    first = keys[0]
    hint = f"write one entry for each {kind}" if all(key in known for key in keys) else None
    if hint is None and first in known:
        hint = f"indent {listing(keys[1:])} below {first!r}, if they are its options"
    elif hint is None:
        hint = _as_ours(value, kind, known, plain, root)
    return Problem("ref-shape", message, path, hint=hint or _installed(kind, known))


def _as_ours(
    value: Mapping[str, Any],
    kind: str,
    known: Mapping[str, Any],
    plain: Sequence[str] | None,
    root: Mapping[str, Any],
) -> str | None:
    """How a mapping of options is written here, if all of them are options of what a plain name means.

    A ``provider`` beside the name goes before it: ``{provider: openai, name: gpt-5.2}`` is ``openai/gpt-5.2``.
    """
    if plain is None or plain[0] not in known:
        return None
    component, option = plain
    properties = resolve(known[component], root).get("properties", {})
    options = {called_here(key, properties) or key: each for key, each in value.items() if key != "provider"}
    provider, name = value.get("provider"), options.pop(option, "…")
    if not isinstance(name, str) or not set(options) <= set(properties):
        return None
    if isinstance(provider, str) and provider and not name.startswith(f"{provider}/"):
        name = f"{provider}/{name}"
    if not options:
        return f"write `{kind}: {name}`"
    shown = ", ".join(f"{key}: {_flow(each)}" for key, each in {option: name, **options}.items())
    return f"write `{kind}: {{{component}: {{{shown}}}}}`"


def _flow(value: Any) -> str:
    """A value as YAML writes it between braces; a secret's place is left open."""
    from json import dumps

    if isinstance(value, HiddenStr):
        return "…"
    if isinstance(value, str) and not any(char in value for char in ",[]{}#:\"'") and value == value.strip():
        return value
    return dumps(value, ensure_ascii=False)


def _choice(error: Any, path: Path, root: Mapping[str, Any]) -> Iterator[Problem]:
    """The branch that was meant: the one of the value's type that knows most of its keys and lacks least."""
    arms: dict[int, list[Any]] = {}
    for inner in error.context:
        arms.setdefault(inner.relative_schema_path[0], []).append(inner)
    parts = [resolve(part, root) if isinstance(part, Mapping) else {} for part in error.validator_value]
    # An arm for another type explains nothing: of `string or mapping`, a mapping's errors are those of the second arm.
    fitting = {arm: inner for arm, inner in arms.items() if not any(_is_mismatch(one) for one in inner)}
    objects = [part for part in parts if part.get("properties")]
    forms = " or ".join(f"{{{', '.join(part.get('required') or part['properties'])}}}" for part in objects)
    hint = f"write one of {forms}" if len(objects) > 1 else _around_list(path, error.instance, objects, root)
    if not fitting:
        mismatch = _mismatch(path, error.instance, parts)
        yield mismatch._replace(hint=mismatch.hint or hint)
        return
    best = min(fitting, key=lambda arm: (_strangeness(parts[arm], error.instance), len(fitting[arm]), arm))
    found = [problem for inner in fitting[best] for problem in _worded(inner, root)]
    if hint is not None and isinstance(error.instance, Mapping | list):
        found = [problem._replace(hint=hint) for problem in found]
    yield from found


def _around_list(
    path: Path, value: Any, objects: Sequence[Mapping[str, Any]], root: Mapping[str, Any]
) -> str | None:
    """The key that a list stands under, if a branch has one such key: ``model: {chain: […]}`` for a list of models."""
    if not isinstance(value, list):
        return None
    for part in objects:
        needed = part.get("required", ())
        if len(needed) == 1 and resolve(part["properties"][needed[0]], root).get("type") == "array":
            return f"write `{path[-1]}: {{{needed[0]}: […]}}`"
    return None


def _is_mismatch(error: Any) -> bool:
    """Whether a branch fails by what the value is, not by what is in it."""
    if error.relative_path:
        return False
    if error.validator in ("anyOf", "oneOf"):
        return (
            bool(error.context)
            and REF not in error.schema
            and all(_is_mismatch(one) for one in error.context)
        )
    return error.validator in ("type", "const", "enum")


def _mismatch(path: Path, value: Any, parts: Sequence[Mapping[str, Any]]) -> Problem:
    flat = list(_flat(parts))
    choices = [choice for part in flat for choice in _choices(part)]
    names = [name for part in flat if not _choices(part) for name in _type_names(part)]
    if choices and (not names or any(type_name(choice) == type_name(value) for choice in choices)):
        return _not_chosen(
            path, value, [*choices, *(None for name in names if name == "null" and None not in choices)]
        )
    return wrong_type(path, value, [*dict.fromkeys(_TYPES[name] for name in names)], names)


def _flat(parts: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for part in parts:
        inner = part.get("anyOf") or part.get("oneOf")
        if inner and "type" not in part:
            yield from _flat(inner)
        else:
            yield part


def _choices(part: Mapping[str, Any]) -> list[Any]:
    return [part["const"]] if "const" in part else list(part.get("enum", ()))


def _type_names(part: Mapping[str, Any]) -> list[str]:
    named = part.get("type", ())
    return [named] if isinstance(named, str) else list(named)


def _strangeness(part: Mapping[str, Any], value: Any) -> int:
    """How many of a value's keys a branch does not know."""
    if not isinstance(value, Mapping):
        return 0
    return sum(key not in part.get("properties", {}) for key in value)


def _unknown_keys(error: Any, path: Path, root: Mapping[str, Any]) -> Iterator[Problem]:
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    # A config that extends another may have them there.
    needed = error.schema.get("required") or error.schema.get("else", {}).get("required", ())
    for key in error.instance:
        if key not in known and not any(re.search(pattern, key) for pattern in patterns):
            ours = called_here(key, known)
            absent = [each for each in known if each not in error.instance]
            near = f"; did you mean {ours!r}?" if ours else suggestion(key, absent, rather=needed)
            yield _unknown_key(path, key, near or suggestion(key, known), known, root)


def _unknown_key(path: Path, key: str, near: str, known: Iterable[str], root: Mapping[str, Any]) -> Problem:
    where = f"of {show_path(path)}" if path else f"of {root.get(DOCUMENT, 'a config')}"
    hint = None if near else f"the keys are {listing(known)}"
    if not near and not path and (elsewhere := [*belongs(key, root), *_components(key, root)]):
        hint = f"did you mean {' or '.join(elsewhere[:3])}?"
    elif not list(known):
        hint = "it takes no options"
    return Problem("unknown-key", f"{key!r} is not a key {where}{near}", (*path, key), at_key=True, hint=hint)


def _components(word: str, root: Mapping[str, Any]) -> Iterator[str]:
    """The entries of ``tools`` and ``middlewares`` that do what the word says."""
    for kind, section in (("tool", "tools"), ("middleware", "middlewares")):
        listed = resolve(root.get("properties", {}).get(section, {}).get("items", {}), root)
        known = listed["anyOf"][-1].get("properties", {}) if REF in listed else {}
        name = called_here(word, known) or component_with(word, known, root, in_title=True)
        if name is not None:
            yield f"the {kind} {name!r} (`{section}: [{name}]`)"


def _missing(
    value: Mapping[str, Any], schema: Mapping[str, Any], path: Path, root: Mapping[str, Any]
) -> Iterator[Problem]:
    for key in schema["required"]:
        if key not in value:
            message = f"the key {key!r} is missing" + (f" in {show_path(path)}" if path else "")
            properties = schema.get("properties") or (root.get("properties", {}) if not path else {})
            hint = _meaning((key,), properties.get(key))
            yield Problem("missing-key", message, path, at_key=True, hint=hint)


def _not_chosen(path: Path, value: Any, choices: Sequence[Any]) -> Problem:
    shown = [str(choice) if isinstance(choice, str) else shown_value(choice) for choice in choices]
    texts = [choice for choice in choices if isinstance(choice, str)]
    # A near word would tell what a secret nearly is.
    near = suggestion(value, texts) if isinstance(value, str) and not isinstance(value, HiddenStr) else ""
    expected = f"one of {listing(shown)}" if len(shown) > 1 else shown[0]
    code = "wrong-value" if any(type_name(choice) == type_name(value) for choice in choices) else "wrong-type"
    return Problem(code, f"expected {expected}, got {_kind(value)}{shown_value(value)}{near}".rstrip(), path)


def _slip(value: Any, names: Sequence[str]) -> str | None:
    if isinstance(value, str) and "boolean" in names and value.lower() in _BOOLEAN_WORDS:
        return f"YAML 1.2 knows only true and false: write {_BOOLEAN_WORDS[value.lower()]}"
    if isinstance(value, str) and {"integer", "number"} & set(names):
        # Three digits behind each comma are thousands; other digits behind one are a fraction.
        if _GROUPED.fullmatch(value):
            return f"write {value.replace('_', '').replace(',', '')}"
        if "number" in names and _COMMA.fullmatch(value):
            return f"write {value.replace(',', '.')}"
        if value.lstrip("-").replace(".", "", 1).isdecimal():
            return "remove the quotes"
    if "string" in names and isinstance(value, bool | int | float):
        return "put it in quotes"
    if "array" in names and isinstance(value, Mapping) and value:
        entries = (str(key) if each in (None, {}) else f"{key}: …" for key, each in value.items())
        return f"write a list: {', '.join(f'`- {entry}`' for entry in entries)}, each on a line of its own"
    if "array" in names and value is not None:
        return "write a list: `[…]`, or one `- …` on each line"
    if "object" in names and value is True:
        return "write `{}` for the defaults"
    if "object" in names and value is False and "null" in names:
        return "write null for none"
    return None


def _either(expected: Iterable[str]) -> str:
    words = list(expected)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "the text " if isinstance(value, str) else ""


def _is_named(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _meaning(path: Path, schema: Any) -> str | None:
    """The purpose of the value at a path, from its schema."""
    if not isinstance(schema, Mapping) or not path:
        return None
    if "const" in schema:
        return f"write `{path[-1]}: {shown_value(schema['const'])}`"
    return f"{path[-1]}: {schema['description']}" if "description" in schema else None


_TYPES: Final = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "a mapping",
}
_BOOLEAN_WORDS: Final = {
    **dict.fromkeys(("yes", "on", "y", "true"), "true"),
    **dict.fromkeys(("no", "off", "n", "false"), "false"),
}
_LIMITS: Final = {
    "minimum": ("out-of-range", "{value} is less than {limit}"),
    "maximum": ("out-of-range", "{value} is more than {limit}"),
    "exclusiveMinimum": ("out-of-range", "{value} is not more than {limit}"),
    "exclusiveMaximum": ("out-of-range", "{value} is not less than {limit}"),
    "multipleOf": ("out-of-range", "{value} is not a multiple of {limit}"),
    "minLength": ("wrong-length", "{value} is shorter than {limit} characters"),
    "maxLength": ("wrong-length", "{value} is longer than {limit} characters"),
    "minItems": ("wrong-length", "the list has fewer than {limit} entries"),
    "maxItems": ("wrong-length", "the list has more than {limit} entries"),
    "minProperties": ("wrong-length", "the mapping has fewer than {limit} keys"),
    "maxProperties": ("wrong-length", "the mapping has more than {limit} keys"),
    "pattern": ("wrong-pattern", "{value} does not match the pattern {limit}"),
}
