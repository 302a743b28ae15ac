"""The commands in a command line for a shell, as a parser of bash finds them, and the patterns that they match. Pure.

Each command of pipelines, lists, subshells and substitutions is found. A line is clear only if all of it is understood:
its syntax is listed here, its tokens are as bash splits them (`tokens.py`), and the shell computes no program's name.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from zeus_plugins.middlewares.approve.tokens import is_of_any_shell, splits_as_bash
from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

    from zeus_runtime.plugin.tool import Shell

Word: TypeAlias = str | None
"""A word as the program gets it; None if the shell computes it, maybe to several words or to none."""

_AROUND: Final = frozenset(
    "program list pipeline subshell compound_statement command_substitution process_substitution negated_command"
    " if_statement elif_clause else_clause while_statement do_group comment".split()
)
"""Syntax that runs the commands in it, and does nothing else."""
_IN_WORDS: Final = frozenset(
    "command_name word extglob_pattern number test_operator raw_string ansi_c_string string string_content"
    " concatenation brace_expression simple_expansion expansion variable_name special_variable_name".split()
)
"""Syntax that a word may have: bash evaluates nothing in it but the substitutions."""
_IN_REDIRECTS: Final = frozenset(
    "file_redirect file_descriptor herestring_redirect heredoc_redirect heredoc_start heredoc_body heredoc_end".split()
)
_IN_ASSIGNMENTS: Final = frozenset(("variable_assignment",))
_TESTS_OF_ONE: Final = frozenset(f"-{each}" for each in "abcdefghknprsuwxzGLNOS")
"""The operators that look at a file or a text. `-v` and `-R` evaluate an index."""
_TESTS_OF_TWO: Final = frozenset("= == != -nt -ot -ef".split())
_TESTS_OF_NUMBERS: Final = frozenset("-eq -ne -lt -le -gt -ge".split())
"""In `[[ ]]`, bash evaluates what is on both sides."""
_NOT_PROGRAMS: Final = frozenset(
    ". alias bind builtin command compgen complete compopt declare enable eval exec export fc getopts hash let local"
    " mapfile read readarray readonly set shopt source trap typeset unalias unset"
    " time coproc function select for case while until if then elif else fi do done esac in { } ! [[ ]]".split()
)
"""Builtins of bash that evaluate their words or change the meaning of later words, and reserved words."""
_TAKING_NAMES: Final = frozenset(("printf", "wait"))
"""Builtins that evaluate the name of a variable after an option."""
_TESTING: Final = frozenset(("test", "["))
_COMPUTED: Final = re.compile(r"[*?\[\]{}~$`]")
_TO_NOWHERE: Final = re.compile(r"(\d*(>|>>|>\||<)|&>|&>>|>&)\s*/dev/null|\d*[<>]&\d*-?")
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


def command_line(given: str | Sequence[str], shell: Shell) -> CommandLine:
    """Return what a shell runs for a text, or what the words of one command run without a shell.

    Args:
        shell: if not bash, a line is clear only if any shell reads it as bash does.
    """
    if not isinstance(given, str):
        return CommandLine((SimpleCommand(tuple(map(str, given))),), bool(given))
    return _parsed(given, shell)


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
            inner = _parsed(word, "bash")
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
def _parsed(text: str, shell: Shell) -> CommandLine:
    data = text.encode("utf-8", "surrogatepass")
    if b"\0" in data or b"\r" in data:  # the parser reads these otherwise than the shell
        return CommandLine((), is_clear=False)
    root = _parser().parse(data).root_node
    found = _Found()
    found.look(root, 0)
    is_clear = found.is_clear and not root.has_error and bool(found.commands)
    is_clear = is_clear and splits_as_bash(data, root) and (shell == "bash" or is_of_any_shell(root))
    return CommandLine(tuple(found.commands), is_clear)


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
        elif node.type == "test_command":
            self._test(node, depth)
        else:
            self.is_clear = self.is_clear and node.type in _AROUND
            for each in node.named_children:
                self.look(each, depth + 1)

    def _redirected(self, node: Node, depth: int) -> None:
        redirects = node.children_by_field_name("redirect")
        body = node.child_by_field_name("body")
        is_plain = all(self._goes_nowhere(each) for each in redirects)
        for each in redirects:
            self._inside(each, depth, _IN_WORDS | _IN_REDIRECTS)
        if body is None:  # `> file` alone empties the file
            self.is_clear = False
        elif body.type == "command":
            self._command(body, depth, is_plain=is_plain)
        else:
            self.is_clear = self.is_clear and is_plain
            self.look(body, depth + 1)

    def _command(self, node: Node, depth: int, *, is_plain: bool) -> None:
        words: list[Word] = []
        for each in node.children:
            if not each.is_named:  # an operator such as `==`, which for bash is a word of the command
                self.is_clear = False
            elif each.type == "variable_assignment":
                is_plain = False
                self._inside(each, depth, _IN_WORDS | _IN_ASSIGNMENTS)
            elif each.type.endswith("_redirect"):
                is_plain = self._goes_nowhere(each) and is_plain
                self._inside(each, depth, _IN_WORDS | _IN_REDIRECTS)
            else:
                is_name = each.type == "command_name" and len(each.named_children) == 1
                words.append(_word(each.named_children[0] if is_name else each))
                self._inside(each, depth, _IN_WORDS)
        self.is_clear = self.is_clear and _runs_its_program(words)
        self.commands.append(SimpleCommand(tuple(words), is_plain))

    def _test(self, node: Node, depth: int) -> None:
        opening, *inner, _ = node.children
        for each in inner:
            self._condition(each, depth, splits=opening.type == "[")

    def _condition(self, node: Node, depth: int, *, splits: bool) -> None:
        """Look at a condition; if ``splits``, bash splits its words, and finds the operators only then."""
        if depth > _DEEPEST:
            self.is_clear = False
        elif node.type == "unary_expression" and len(node.children) == 2:
            operator, operand = node.children
            self.is_clear = self.is_clear and (operator.type == "!" or _text(operator) in _TESTS_OF_ONE)
            self._condition(operand, depth + 1, splits=splits)
        elif node.type == "binary_expression" and len(node.children) == 3:
            left, operator, right = node.children
            text = _text(operator)
            self.is_clear = self.is_clear and (
                text in _TESTS_OF_TWO
                or (text in _TESTS_OF_NUMBERS and (splits or left.type == right.type == "number"))
                or (text in ("&&", "||") and not splits)
            )
            for each in (left, right):
                self._condition(each, depth + 1, splits=splits)
        else:
            is_one = not splits or node.type == "string" or _word(node) is not None or _is_number(node)
            self.is_clear = self.is_clear and is_one
            self._inside(node, depth, _IN_WORDS)

    def _inside(self, node: Node, depth: int, known: frozenset[str]) -> None:
        """Find the commands in the substitutions of a word, at any depth."""
        if node.type in ("command_substitution", "process_substitution") or depth > _DEEPEST:
            self.look(node, depth + 1)
            return
        self.is_clear = self.is_clear and node.type in known and _is_plain_expansion(node)
        for each in node.named_children:
            self._inside(each, depth + 1, known)

    def _goes_nowhere(self, redirect: Node) -> bool:
        if redirect.type == "heredoc_redirect":
            # The rest of a heredoc's first line is a part of its node, and may have commands.
            return all(each.type in _IN_REDIRECTS for each in redirect.named_children)
        if redirect.type == "herestring_redirect":
            return True
        return redirect.type == "file_redirect" and bool(_TO_NOWHERE.fullmatch(_text(redirect)))


def _runs_its_program(words: Sequence[Word]) -> bool:
    """Whether a command certainly runs the program that its first word names, with the other words as mere text."""
    if not words or words[0] is None or words[0] in _NOT_PROGRAMS:
        return False
    if words[0] in _TAKING_NAMES:
        return len(words) == 1 or not (words[1] is None or words[1].startswith("-"))
    if words[0] in _TESTING:
        return not any(each is None or each in ("-v", "-R") for each in words)
    return True


def _is_plain_expansion(node: Node) -> bool:
    """Whether a node that may be an expansion only puts in the value of a variable: `${NAME}`."""
    if node.type != "expansion":
        return True
    return [each.type for each in node.children] == ["${", "variable_name", "}"]


def _is_number(node: Node) -> bool:
    return _text(node) in ("$?", "$#", "$!", "$$")


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "surrogatepass")


def _word(node: Node) -> Word:
    """Return a word as the program gets it; None if the shell computes it."""
    text = _text(node)
    if node.type == "raw_string":
        return text[1:-1]
    if node.type in ("word", "extglob_pattern", "number", "test_operator"):
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
