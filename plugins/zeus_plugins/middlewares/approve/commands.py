"""The commands in a command line for a shell, as a parser of bash finds them, and the patterns that they match. Pure.

Each command of pipelines, lists, subshells and substitutions is found. A line is not clear if it has syntax that is not
listed here, or a program's name that the shell computes.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Word: TypeAlias = str | None
"""A word as the program gets it; None if the shell computes it, maybe to several words or to none."""

_AROUND: Final = frozenset(
    "program list pipeline subshell compound_statement command_substitution process_substitution negated_command"
    " if_statement elif_clause else_clause while_statement do_group comment".split()
)
"""Syntax that runs the commands in it, and does nothing else."""
_RUNS_TEXT: Final = frozenset(("eval", "source", ".", "trap", "alias"))
"""The builtins of bash whose words are run as a command line, now or later."""
_COMPUTED: Final = re.compile(r"[*?\[\]{}~$`]")
_TO_NOWHERE: Final = re.compile(r"\d*(>|>>|>&|<)\s*(/dev/null|&?\d|-)|\d*[<>]&\d*-?")
_HEREDOC: Final = frozenset("heredoc_start heredoc_body heredoc_end string raw_string word".split())
_DEEPEST: Final = 100


@dataclass(frozen=True)
class SimpleCommand:
    """A simple command.

    Args:
        words: the program's name and its arguments.
        is_plain: whether the words are all that it does: it has no redirection to a file and sets no variables.
    """

    words: tuple[Word, ...]
    is_plain: bool = True

    def __str__(self) -> str:
        return " ".join("…" if each is None else shlex.quote(each) for each in self.words)


@dataclass(frozen=True)
class CommandLine:
    """The commands of a command line.

    Args:
        commands: its simple commands.
        is_clear: whether there is nothing else that it may run or change.
    """

    commands: tuple[SimpleCommand, ...]
    is_clear: bool


def command_line(given: str | Sequence[str]) -> CommandLine:
    """Return what a shell runs for a text, or what the words of one command run without a shell."""
    if not isinstance(given, str):
        return CommandLine((SimpleCommand(tuple(map(str, given))),), bool(given))
    return _parsed(given)


def matches(pattern: str, command: SimpleCommand) -> bool:
    """Whether a command certainly is what a pattern means: each word fits, and it does nothing besides.

    The patterns of the words are those of ``fnmatch``. A ``*`` as the last word stands for any further words.
    """
    return command.is_plain and _fit(_words_of(pattern), command.words, surely=True)


def may_match(pattern: str, command: SimpleCommand) -> bool:
    """Whether a command is what a pattern means, whatever else it does; its program may be named by a path."""
    wanted = _words_of(pattern)
    first, *rest = command.words or (None,)
    named = first if first is None or "/" in wanted[0] else os.path.basename(first)  # noqa: PTH119 - no path of here
    return _fit(wanted, (named, *rest), surely=False)


def may_run(pattern: str, command: SimpleCommand) -> bool:
    """Whether a command may run what a pattern means: its words may name another program (`env rm`, `sh -c 'rm a'`)."""
    for place, word in enumerate(command.words):
        if may_match(pattern, SimpleCommand(command.words[place:])):
            return True
        if word is not None and place > 0 and re.search(r"\s", word):
            inner = _parsed(word)
            if any(may_run(pattern, each) for each in inner.commands):
                return True
    return False


def is_command_pattern(pattern: str) -> bool:
    """Whether a pattern has words: closed quotes, and at least one word."""
    try:
        return bool(shlex.split(pattern))
    except ValueError:
        return False


@lru_cache(maxsize=1_000)
def _words_of(pattern: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(pattern))
    except ValueError:
        return (pattern,)


def _fit(wanted: Sequence[str], words: Sequence[Word], *, surely: bool) -> bool:
    if len(wanted) > 1 and wanted[-1] == "*":
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    if not surely and None in words:
        # A computed word may be several words or none.
        at = words.index(None)
        wanted, words = wanted[:at], words[:at]
    return len(wanted) == len(words) and all(
        not surely if word is None else fnmatchcase(word, pattern)
        for pattern, word in zip(wanted, words, strict=True)
    )


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


@lru_cache(maxsize=256)
def _parsed(text: str) -> CommandLine:
    data = text.encode("utf-8", "surrogatepass")
    # The parser reads these otherwise than the shell.
    if b"\0" in data or b"\r" in data:
        return CommandLine((), is_clear=False)
    root = _parser().parse(data).root_node
    found = _Found()
    found.look(root, 0)
    return CommandLine(tuple(found.commands), found.is_clear and not root.has_error and bool(found.commands))


class _Found:
    """The commands found so far, and whether all was understood."""

    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        self.is_clear = True

    def look(self, node: Node, depth: int) -> None:
        """Find the commands in a piece of syntax."""
        if depth > _DEEPEST or node.is_missing:
            self.is_clear = False
            return
        if node.type == "command":
            self._command(node, depth, is_plain=True)
        elif node.type == "redirected_statement":
            self._redirected(node, depth)
        elif node.type == "test_command":  # it runs nothing but the substitutions in it
            self._substitutions(node, depth)
        else:
            self.is_clear = self.is_clear and node.type in _AROUND
            for each in node.named_children:
                self.look(each, depth + 1)

    def _redirected(self, node: Node, depth: int) -> None:
        redirects = node.children_by_field_name("redirect")
        body = node.child_by_field_name("body")
        is_plain = all(self._goes_nowhere(each) for each in redirects)
        for each in redirects:
            self._substitutions(each, depth)
        if body is None:  # `> file` alone empties the file
            self.is_clear = False
        elif body.type == "command":
            self._command(body, depth, is_plain=is_plain)
        else:
            self.is_clear = self.is_clear and is_plain
            self.look(body, depth + 1)

    def _command(self, node: Node, depth: int, *, is_plain: bool) -> None:
        words: list[Word] = []
        for each in node.named_children:
            if each.type == "variable_assignment":
                is_plain = False
            elif each.type.endswith("_redirect"):
                is_plain = self._goes_nowhere(each) and is_plain
            elif each.type == "command_name":
                words.append(_word(each.named_children[0]) if each.named_children else None)
            else:
                words.append(_word(each))
            self._substitutions(each, depth)
        if not words or words[0] is None or words[0] in _RUNS_TEXT:
            self.is_clear = False
        self.commands.append(SimpleCommand(tuple(words), is_plain))

    def _substitutions(self, node: Node, depth: int) -> None:
        """Find the commands in the substitutions of a word, at any depth."""
        if node.type in ("command_substitution", "process_substitution") or depth > _DEEPEST:
            self.look(node, depth + 1)
            return
        for each in node.named_children:
            self._substitutions(each, depth + 1)

    def _goes_nowhere(self, redirect: Node) -> bool:
        if redirect.type in ("heredoc_redirect", "herestring_redirect"):
            # The rest of a heredoc's first line is a part of its node, and may have commands.
            known = {each.type for each in redirect.named_children} <= _HEREDOC
            self.is_clear = self.is_clear and known
            return known
        return redirect.type == "file_redirect" and bool(_TO_NOWHERE.fullmatch(_text(redirect)))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "surrogatepass")


def _word(node: Node) -> Word:
    """Return a word as the program gets it; None if the shell computes it."""
    text = _text(node)
    if node.type == "raw_string":
        return text[1:-1]
    if node.type in ("word", "number", "test_operator"):
        return None if _COMPUTED.search(re.sub(r"\\.", "", text, flags=re.DOTALL)) else _unescaped(text)
    if node.type == "string":
        if any(each.type != "string_content" for each in node.named_children):
            return None
        return re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), text[1:-1])
    if node.type == "concatenation":
        parts = [_word(each) for each in node.named_children]
        covered = sum(each.end_byte - each.start_byte for each in node.named_children)
        if None in parts or covered != node.end_byte - node.start_byte:
            return None
        return "".join(each for each in parts if each is not None)
    return None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: found[1].strip("\n"), text, flags=re.DOTALL)
