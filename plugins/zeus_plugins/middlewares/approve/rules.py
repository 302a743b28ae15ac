"""Matches calls with the rules in `allow`, `ask` and `deny`. Pure, except that `leads_to` may follow links."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import cache, cached_property, lru_cache
from itertools import chain
from posixpath import normpath
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from unicodedata import normalize
from urllib.parse import unquote

from zeus_plugins.middlewares.approve.commands import is_command_pattern
from zeus_plugins.middlewares.approve.readings import (
    UNCLEAR,
    address_readings,
    authority,
    has_escaped_host,
    is_address,
    is_file_uri,
    is_open,
    is_plainly_spelled,
    is_web,
    json_content,
    meets,
    openings,
    plain_readings,
    readings,
    trims,
)
from zeus_runtime.plugin import dataclass
from zeus_runtime.plugin.files import (
    compile_glob,
    compile_way,
    composed,
    expand_braces,
    folded_cover,
    folded_glob,
    parts_of,
    pattern_slip,
    text_slip,
    text_test,
)
from zeus_runtime.plugin.tool import fill_defaults, map_texts

if TYPE_CHECKING:
    from zeus_plugins.middlewares.approve.options import Rule as Written
    from zeus_plugins.middlewares.approve.options import Value
    from zeus_runtime.plugin import Misfit, Surroundings
    from zeus_runtime.plugin.files import PathTest
    from zeus_runtime.plugin.tool import Tool


class Spelling(NamedTuple):
    """An absolute path of a file: its name in the workspace, or its path on this machine.

    Args:
        parts: the names.
        above: how many of the first names are of folders of this machine that lead to the workspace or a route. They
            do not count for a pattern that is a name. All names of a path of the workspace count.
    """

    parts: tuple[str, ...]
    above: int = 0


LeadsTo: TypeAlias = Callable[[str], Iterable[Collection[Spelling]]]
"""Maps a path as written to its possible meanings, normalised and with links followed: each a set of spellings.

An empty set is a meaning that nobody can tell: `ask` and `deny` match it, and `allow` does not.
"""

_Meanings: TypeAlias = Sequence[Collection[Spelling]]

Named: TypeAlias = Literal["as_is", "path"] | None
"""Whether an argument is a path: ``path`` by its name, ``as_is`` if the tool declares that it opens that path."""

_MAGIC: Final = re.compile(r"[*?\[]")
_NAME_SIGNS: Final = f"{ascii_letters}{digits}_-"
"""A pattern that matches each of these alone, and a longer name, has one sign at most besides stars: it matches all."""
_FILE_WORDS: Final = frozenset(
    "path paths file files filename filenames filepath filepaths dir directory directories folder folders".split()
)
_PATH_WORDS: Final = _FILE_WORDS | {"cwd", "source", "src", "destination", "dst"}


@dataclass(frozen=True)
class Rule:
    """A tool or a pattern of tools, with conditions on the arguments.

    Args:
        tool: a name or glob pattern.
        arguments: an argument's name to its patterns; the argument must match one of them.
    """

    tool: str
    arguments: Mapping[str, tuple[Value, ...]]

    def __str__(self) -> str:
        if not self.arguments:
            return self.tool
        shown = {name: each[0] if len(each) == 1 else list(each) for name, each in self.arguments.items()}
        return f"{self.tool} {json.dumps(shown, ensure_ascii=False)}"

    @property
    def is_exact(self) -> bool:
        """Whether the rule names exactly one tool."""
        return not _MAGIC.search(self.tool)

    @cached_property
    def names_all(self) -> bool:
        """Whether the rule matches every name that a tool can have: `*`, and also `**`, `?*` and the like."""
        return self.names("aa") and all(map(self.names, _NAME_SIGNS))

    def says_more_than(self, other: Rule) -> bool:
        """Whether the rule is more specific: a name instead of a pattern, or more arguments, and nothing less."""
        names, others = set(self.arguments), set(other.arguments)
        if names < others or not names >= others or self.is_exact < other.is_exact:
            return False
        return names > others or self.is_exact > other.is_exact

    def names(self, tool: str) -> bool:
        """Whether the rule's tool or pattern matches ``tool``, whatever the arguments."""
        return self._tool.match(tool) is not None

    def fits(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        leads_to: LeadsTo,
        *,
        surely: bool,
        runs: Callable[[str], bool] | None = None,
        missing: Collection[str] = (),
    ) -> bool:
        """Whether the rule matches a call.

        Args:
            arguments: the arguments that will run, with defaults filled in.
            runs: whether one of the call's commands is what a pattern means; it judges the arguments with commands.
            surely: if true, unclear values (an object, an invalid path) do not match, and all entries of a list and all
                values of that name inside objects must match. If false, unclear values match, and one entry of a list
                or one value inside an object is enough.
            missing: arguments that match whatever the call has.
        """
        if not self.names(tool.name):
            return False
        # A server may read JSON in a text: `deny` and `ask` judge both, and `allow` must not.
        opened = _with_content(tool, arguments, () if surely else self.arguments) if self.arguments else None

        def fit(name: str, patterns: Sequence[Any], value: Any) -> bool:
            if runs is not None and _has(tool.commands, name):
                return any(runs(str(pattern)) for pattern in patterns)
            named: Named = "as_is" if _has(tool.paths, name) else "path" if is_path(name) else None
            return any(_fits(pattern, value, leads_to, named=named, surely=surely) for pattern in patterns)

        def values(name: str) -> list[Any]:
            return list(_named(name, arguments)) + (list(_named(name, opened)) if opened else [])

        def is_clear(name: str) -> bool:
            return name in arguments and (
                opened is None or [*_named(name, opened)] == [*_named(name, arguments)]
            )

        # A name may occur several times at different depths: `allow` needs all of them to fit, `deny` one.
        several = all if surely else any
        return all(
            name in missing
            or (
                (not surely or is_clear(name))
                and several(fit(name, patterns, value) for value in values(name))
            )
            for name, patterns in self.arguments.items()
        )

    def missing(self, tool: Tool, arguments: Mapping[str, Any], others: Iterable[Tool]) -> Collection[str]:
        """Return the arguments that no tool that the rule names has: what the call does with its own is unclear.

        A server may rename an argument, and the rule would close nothing then. A rule for `*` names no tool, a call
        without arguments has nothing to judge, and where a schema names no argument, the call does.

        Args:
            tool: the tool that is called.
            others: further tools that the rule may name.
        """
        if not arguments or self.names_all or not self.names(tool.name):
            return ()
        named = [tool, *(each for each in others if self.names(each.name))]
        is_free = not any(argument_names(tool))
        return [
            name
            for name in self.arguments
            if not any(_has(argument_names(each), name) for each in named)
            and not (is_free and any(True for _ in _named(name, arguments)))
        ]

    @cached_property
    def files(self) -> PathTest | None:
        """Return a test for files if the rule's only argument is a path; else None.

        It is for a rule that denies or asks, and covers all that the pattern does in ``workspace.access``.
        """
        if len(self.arguments) != 1:
            return None
        ((name, patterns),) = self.arguments.items()
        if _last_word(name) not in _FILE_WORDS:
            return None
        tests = [folded_cover(each) for each in patterns if isinstance(each, str)]
        return lambda path: any(test(path) for test in tests)

    @cached_property
    def surely_files(self) -> PathTest | None:
        """Return ``files`` for a rule that allows: as ``fits`` does for calls, it fits the pattern alone."""
        return self._surely(compile_glob)

    @cached_property
    def surely_way(self) -> PathTest | None:
        """Return a test for the folders that the plain beginning of a pattern names; None as for ``files``."""
        return self._surely(compile_way)

    def _surely(self, compiled: Callable[[str], PathTest]) -> PathTest | None:
        if self.files is None:
            return None
        (patterns,) = self.arguments.values()
        tests = [compiled(each) for each in patterns if isinstance(each, str)]
        return lambda path: any(all(test(parts_of(each)) for each in trims("/".join(path))) for test in tests)

    @property
    def path_patterns(self) -> Iterator[str]:
        """Yield the patterns of its arguments that may be paths."""
        for patterns in self.arguments.values():
            for each in patterns:
                if isinstance(each, str) and unreadable(each) is None:
                    yield each

    @cached_property
    def _tool(self) -> re.Pattern[str]:
        return re.compile(translate(self.tool))


def _has(names: Iterable[str], name: str) -> bool:
    """Whether ``name`` is one of these as ``_named`` finds it: in any spelling."""
    same = _spelling(name)
    return any(each == name or _spelling(each) == same for each in names)


def _named(name: str, value: Any) -> Iterator[Any]:
    """Yield the values under a name at any depth: a server's tool may take its arguments in one object.

    Libraries of servers take a name in another case for it too (Go's JSON, .NET), and `file_path` for `filePath`.
    """
    same = _spelling(name)
    # A stack and no recursion: a model's arguments may be nested very deeply.
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            found = [key for key in each if key == name or _spelling(key) == same]
            yield from (each[key] for key in found)
            if not found and UNCLEAR in each:
                yield each
            left += [inner for key, inner in each.items() if key not in found]
        elif isinstance(each, list | tuple):
            left += each


@lru_cache(maxsize=4_096)
def _spelling(name: str) -> str:
    """Return the letters and digits of an argument's name, which are the same in all its spellings."""
    return "".join(filter(str.isalnum, normalize("NFKC", name).casefold()))


_DATA: Final = frozenset({"default", "const", "enum", "examples"})


def argument_names(tool: Tool) -> Iterator[str]:
    """Yield the names of arguments in a tool's schema, at any depth, as ``_named`` finds their values."""
    left: list[Any] = [tool.parameters]
    while left:
        each = left.pop()
        if isinstance(each, list | tuple):
            left += each
        elif isinstance(each, Mapping):
            for key, inner in each.items():
                if key == "properties" and isinstance(inner, Mapping):
                    yield from inner
                    left += inner.values()
                elif key not in _DATA:
                    left.append(inner)


def rules_of(written: Iterable[Written]) -> list[Rule]:
    """Convert entries of the YAML to rules; a mapping may name several tools."""
    rules: list[Rule] = []
    for line in written:
        if isinstance(line, str):
            rules.append(Rule(line, {}))
            continue
        for tool, arguments in line.items():
            patterns = {
                name: tuple(each) if isinstance(each, tuple | list) else (each,)
                for name, each in arguments.items()
            }
            rules.append(Rule(tool, patterns))
    return rules


def looked_up_once(leads_to: LeadsTo) -> LeadsTo:
    """``leads_to`` for one judgement: each path is looked up on the disk once, for all rules and patterns."""
    return cache(lambda path: list(leads_to(path)))


def with_defaults(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Add the schema's defaults to the arguments, because an argument that is left out has a value too.

    If nobody can tell its default, its value is an object, which is unclear.
    """
    filled: dict[str, Any] = fill_defaults(
        tool.parameters, dict(arguments), unclear=True, computed=tool.computed
    )
    return filled


def _with_content(tool: Tool, arguments: Mapping[str, Any], named: Collection[str]) -> dict[str, Any] | None:
    """Return the arguments with the content of each JSON text that the schema lets be more than text; None if none is.

    A plain text is opened only if it is a path, or if a rule has its name: it is a document otherwise, which may have
    a `path` of its own.
    """
    found = False

    def read(text: str, name: str, is_plain: bool) -> Any:
        nonlocal found
        is_path_text = name in tool.paths or is_path(name)
        if is_plain and not is_path_text and not _has(named, name):
            return text
        content = json_content(text)
        if content is None:
            return text
        found = True
        return content if is_path_text or not is_plain or UNCLEAR in content else list(_leaves(content))

    opened: dict[str, Any] = map_texts(tool.parameters, arguments, read)
    return with_defaults(tool, opened) if found else None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def is_path(name: str) -> bool:
    """Whether an argument with this name holds paths: `path`, `file_path`, `targetDir`."""
    return _last_word(name) in _PATH_WORDS


def _last_word(name: str) -> str:
    # `targetDir` becomes `target_Dir`.
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.split(r"[^A-Za-z0-9]+", spaced.lower())[-1]


def unsound(rule: Rule, around: Surroundings, where: tuple[str | int, ...]) -> Iterator[Misfit]:
    """Report a rule that can never match a call, or that has an invalid pattern."""
    from zeus_runtime.plugin import Misfit

    if (name_slip := text_slip(rule.tool)) is not None:
        yield Misfit(where, *name_slip, "access-pattern")
        return
    if rule.is_exact:
        yield from around.unknown_tools([rule.tool], where[:-1])
    meant = [tool for name, tool in around.tools.items() if rule.names(name)]
    may_join = not rule.is_exact and around.may_have_like(rule.tool)
    if not rule.is_exact and not meant and not may_join:
        yield Misfit(where, f"no tool of this agent matches {rule.tool!r}", None, "unknown-tool")
    for name, patterns in rule.arguments.items():
        known = sorted({each for tool in meant for each in argument_names(tool)})
        # `allow` takes a call's argument only by its own name.
        is_known = name in known if where[0] == "allow" else _has(known, name)
        if meant and not may_join and not is_known:
            yield Misfit(
                (*where, rule.tool, name),
                f"{rule.tool} has no argument {name!r}",
                f"its arguments: {', '.join(known) or 'none'}",
                "unknown-argument",
            )
        is_command = any(_has(tool.commands, name) for tool in meant)
        is_file = is_path(name) or any(_has(tool.paths, name) for tool in meant)
        for index, pattern in enumerate(patterns):
            at = (*where, rule.tool, name, *((index,) if len(patterns) > 1 else ()))
            if is_command and not (isinstance(pattern, str) and is_command_pattern(pattern)):
                hint = "write the command's words, such as `git status`; a last `*` means any further words"
                yield Misfit(at, f"{pattern!r} means no command", hint)
            if isinstance(pattern, str):
                if is_file:
                    # To allow `ls` of the workspace's folder is exact, and a wider pattern is no remedy.
                    slip = unreadable(pattern, may_be_root=where[0] == "allow")
                else:
                    slip = None if is_command else text_slip(pattern)
                # Files that are opened have paths of the workspace; only a server's tool may take one of this machine.
                if (
                    slip is None
                    and is_file
                    and (rule.names_all or any(_has(each.paths, name) for each in meant))
                ):
                    slip = _of_machine(pattern, around)
                if slip is not None:
                    yield Misfit(at, *slip, "access-pattern")
            elif is_file:
                written = json.dumps(pattern)
                yield Misfit(
                    at, f"{written} is not text, so it matches no path", f'write "{written}" with quotes'
                )


def _of_machine(pattern: str, around: Surroundings) -> tuple[str, str] | None:
    """Return why a pattern that is a path of this machine matches nothing, and what to do; None if it may match."""
    for each in expand_braces(pattern):
        meant = around.pattern_of(each)
        if meant is not None or re.match("~(/|$)", each):
            message = f"the pattern {pattern!r} is a path of this machine"
            return (
                message,
                f"patterns start at the workspace: {meant}" if meant else "write the whole path, without ~",
            )
    return None


def unreadable(pattern: str, *, may_be_root: bool = False) -> tuple[str, str] | None:
    """Return why a pattern for paths can match none, and what to do; None if it can.

    Args:
        may_be_root: as for ``pattern_slip``.
    """
    try:
        slip: tuple[str, str] | None = pattern_slip(pattern, may_be_root=may_be_root)
    except ValueError as error:
        return str(error), "write several patterns"
    if ".." in re.split(r"[/{},]", pattern):
        why = f"{pattern!r} contains `..`: patterns are compared with resolved paths, which contain none"
        return why, "write the path that it leads to"
    return slip


def _fits(pattern: Value, value: Any, leads_to: LeadsTo, *, named: Named, surely: bool) -> bool:
    """Whether one value matches one pattern.

    Args:
        named: of the argument that has the value.
    """
    if isinstance(value, list):
        each = [_fits(pattern, item, leads_to, named=named, surely=surely) for item in value]
        return (bool(each) and all(each)) if surely else any(each)
    # A server may find a path or a command anywhere in an object.
    if isinstance(value, Mapping):
        return not surely
    if value is None:
        return False
    if not isinstance(pattern, str):
        # `True == 1` in Python, and a rule for 1 is not one for true.
        return type(value) in _same_kind(pattern) and value == pattern
    if not isinstance(value, str):
        return _text_fits(pattern, json.dumps(value), surely=surely)
    # An address or a path may be read in more ways than rules can list: `allow` takes only a plain one.
    if surely and named != "as_is" and (named or "/" in pattern):
        return is_plainly_spelled(value) and all(
            _plainly_fits(meant, each, leads_to, named=named)
            for meant, each in plain_readings(pattern, value)
        )
    forms = trims(value)
    # A server may remove characters at the ends: `allow` must fit every form, `deny` one.
    if surely:
        return all(
            _all_fit(pattern, list(leads_to(form))) and not is_file_uri(form)
            if named
            else _as_text(pattern, form, surely=True)
            for form in forms
        )
    return any(_may_fit(pattern, form, leads_to, named=named) for form in forms)


def _plainly_fits(pattern: str, value: str, leads_to: LeadsTo, *, named: Named) -> bool:
    """Whether a plainly spelled value fits as a path; or as a text, and as a path where it leads elsewhere."""
    if named:
        return _all_fit(pattern, list(leads_to(value)))
    if not _as_text(pattern, value, surely=True):
        return False
    if is_web(value):
        return True
    # A server may have a template such as `docs://{+path}`.
    meant, path = (each.partition("://")[2] if "://" in each else each for each in (pattern, value))
    meanings = list(leads_to(path))
    found = [spellings for spellings in meanings if spellings]
    return _is_among(path, found) or _all_fit(meant, meanings)


def _is_among(path: str, meanings: _Meanings) -> bool:
    """Whether a path is a spelling in each of one or more meanings."""
    parts = parts_of(path)
    return bool(meanings) and all(any(parts == each.parts for each in spellings) for spellings in meanings)


def _as_text(pattern: str, value: str, *, surely: bool) -> bool:
    return (_address_fits if is_address(value) else _text_fits)(pattern, value, surely=surely)


def _may_fit(pattern: str, value: str, leads_to: LeadsTo, *, named: Named) -> bool:
    if named:
        is_replaced = named == "path"
        return (is_replaced and is_open(value)) or _path_may_fit(
            pattern, value, leads_to, replaced=is_replaced
        )
    if _as_text(pattern, value, surely=False):
        return True
    if is_file_uri(value):
        return _uri_fits(pattern, value, leads_to)
    # A server's argument may be a path although its name does not say so.
    return "/" in pattern and any(
        _opening_fits(meant, path, leads_to) for meant, path in openings(pattern, value)
    )


def _opening_fits(pattern: str, text: str, leads_to: LeadsTo) -> bool:
    """Whether a text that a server may open as a path may match, as a text or as a path.

    If it leads to itself, it may be any text. If it leads elsewhere, it is a path, and unclear if a reading of it
    fails, unless it has several lines.
    """
    path = re.sub("/+", "/", text)  # else it would be refused as a URL
    meanings = list(leads_to(path))
    resolved = normpath(path) if ".." in path.split("/") else text
    found = [spellings for spellings in meanings if spellings]
    # Behind `~`, `..` leads above a home folder, which the text does not tell.
    is_plain = not path.startswith("~/") and _is_among(resolved, found)
    is_unclear = not is_plain and len(found) < len(meanings) and "\n" not in text
    return is_unclear or _text_fits(pattern, text, surely=False) or _one_of_fits(pattern, found)


def _path_may_fit(pattern: str, value: str, leads_to: LeadsTo, *, replaced: bool) -> bool:
    """Whether a path may match. A program behind a server's argument may fill in variables and read patterns."""
    meanings = _meanings(value, leads_to)
    return (
        not all(meanings)
        or _covers(pattern, meanings)
        or (replaced and any(_may_meet(pattern, "/".join(each.parts)) for each in chain(*meanings)))
    )


def _covers(pattern: str, meanings: _Meanings) -> bool:
    """Whether a pattern covers one of the paths, as it covers files."""
    test = folded_cover(pattern)
    return any(test(each.parts, each.above) for each in chain(*meanings))


def _may_meet(pattern: str, path: str) -> bool:
    """Whether a path with replaced parts may become one that a pattern names; what is in it does not count."""
    names = (f"**/{each}" for each in expand_braces(pattern) if "/" not in each)
    return any(meets(each, path) for each in (pattern, *names))


def _all_fit(pattern: str, meanings: _Meanings) -> bool:
    test = compile_glob(pattern)
    return all(any(test(each.parts) for each in spellings) for spellings in meanings)


def _one_of_fits(pattern: str, meanings: _Meanings) -> bool:
    test = folded_glob(pattern)
    return any(test(each.parts) for each in chain(*meanings))


def _uri_fits(pattern: str, value: str, leads_to: LeadsTo) -> bool:
    """Whether a pattern may match the path that a `file:` URI names, as a path, as a text or as a URI."""
    meanings = _meanings(value, leads_to)
    return (
        not all(meanings)
        or _one_of_fits(pattern, meanings)
        or any(
            _text_fits(pattern, f"{start}/{'/'.join(each.parts)}", surely=False)
            for each in chain(*meanings)
            for start in ("", "file://")
        )
    )


def _address_fits(pattern: str, value: str, *, surely: bool) -> bool:
    """Whether a pattern matches an address.

    If ``surely``, it matches the text, the text with `..` resolved, and with its own host the address's: a `*` for a
    subdomain is not for a path of another host. If not, one spelling of the address is enough, in any case of letters.
    """
    text_fits = _text_fits(pattern, value, surely=surely)
    found = address_readings(value)
    if found is None:
        return not surely and (text_fits or "://" in pattern or has_escaped_host(value))
    if surely:
        hosts = "://" not in pattern or re.match(translate(authority(pattern)), authority(value)) is not None
        return text_fits and hosts and all(_text_fits(pattern, each, surely=True) for each in found[1:])
    meant = pattern.lower()
    return text_fits or any(
        _text_fits(meant, form.lower(), surely=False)
        for each in found
        for form in (each, each.removesuffix("/"), unquote(each))
    )


def _meanings(value: str, leads_to: LeadsTo) -> _Meanings:
    """Return all meanings of a value as a path, also of what a server reads that cleans or decodes it."""
    return [spellings for text in readings(value) for spellings in leads_to(text)]


def _same_kind(pattern: Value) -> Sequence[type]:
    return (bool,) if isinstance(pattern, bool) else (int, float)


def _text_fits(pattern: str, text: str, *, surely: bool) -> bool:
    if re.match(translate(pattern), text) is not None:
        return True
    # A bracket that was meant as text closes something too.
    return not surely and text_test(composed(pattern))(composed(text))
