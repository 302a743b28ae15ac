"""The commands of a line that every POSIX shell reads alike. Pure.

This is a small part of a shell's grammar, read character by character: simple commands of plain words in lists,
pipelines, groups, conditions, loops, and `$(…)`. A line with anything else is refused whole, so nothing in it can be a
comment or a part of a word here and a command for the shell. A full grammar would find more, and each mistake in it
would let a command run that no rule allows.
"""

from __future__ import annotations

import re
import shlex
from typing import Final, TypeAlias

from zeus_runtime.plugin import dataclass

Word: TypeAlias = str | None
"""A word as the program gets it; None if the shell computes it, maybe to several words or to none."""


@dataclass(frozen=True)
class SimpleCommand:
    """A simple command.

    Args:
        words: the program's name and its arguments; empty if the line is not understood, so that it may be any command.
        is_plain: whether the words are all that it does: it has no redirection to a file and sets no variables.
        texts: what its program gets besides: the variables that the command sets (`NAME=value`), and its
            here-documents; None if the shell computes one.
    """

    words: tuple[Word, ...]
    is_plain: bool = True
    texts: tuple[Word, ...] = ()

    def __str__(self) -> str:
        return " ".join("…" if each is None else shlex.quote(each) for each in self.words)


class NotClearError(Exception):
    """A shell may run something else than what was read."""


_STRANGE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Shells remove some of these, or stop at them."""
# Takes a blank, and ` \` with a line end behind it; not `\` with a line end in the middle of a word.
_GAP: Final = re.compile(r"[ \t]+(?:\\\n[ \t]*)*")
"""What separates words. A line that is continued without a blank before joins what is around it."""
# A single `&` separates, and `&>` does not: it redirects.
_SEPARATOR: Final = re.compile(r"&&|\|\||[;|\n]|&(?!>)")
_JOINING: Final = frozenset(("&&", "||", "|"))
"""Separators after which a command has to come, maybe on the next line."""
_ENDS: Final = re.compile(r"[ \t\n;&|)]|\Z")
"""What may follow a word."""
_COMMENT: Final = re.compile(r"#[^\n]*")
# Takes `2>&1` and `>&-`, which open no file.
_DUPLICATED: Final = re.compile(r"[0-9]?[<>]&(?:[0-9]|-)")
# Takes `>`, `2>>` and `<` with the blanks before their file; not `<<`, `<(`, `>&` or `>|`.
_OPENED: Final = re.compile(r"[0-9]?(?:>>(?![>&|(])|>(?![>&|(])|<(?![<>&(]))[ \t]*")
_HEREDOC: Final = re.compile(r"<<(?:'([A-Za-z_]+)'|\"([A-Za-z_]+)\")")
"""With a quoted end: the shell evaluates nothing in it."""
_ASSIGNED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_BARE: Final = re.compile(r"""[^\s\\'"`$()<>;|&]+""")
_ESCAPED: Final = re.compile(r"\\([^\n])")
_SINGLE: Final = re.compile(r"'([^']*)'")
_QUOTE: Final = re.compile('"')
_IN_DOUBLE: Final = re.compile(r"""[^"`$\\]+|\\[^\n]""")
_VARIABLE: Final = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|\?)")
_COMPUTED: Final = re.compile(r"[*?{}~]")
_LEADING: Final = frozenset("! { if then elif else while until do".split())
"""Reserved words before a command."""
_CLOSING: Final = frozenset("} fi done".split())
"""Reserved words after the last command."""
_NOT_PROGRAMS: Final = frozenset(
    ". alias bind builtin command compgen complete compopt declare enable eval exec export fc getopts hash let local"
    " mapfile read readarray readonly set shopt source trap typeset unalias unset"
    " time coproc function select for case while until if then elif else fi do done esac in { } ! [[ ]]".split()
)
"""Builtins that evaluate their words or change the meaning of later words, and reserved words."""
_TAKING_NAMES: Final = frozenset(("printf", "wait"))
"""Builtins that evaluate the name of a variable after an option."""
_TESTING: Final = frozenset(("test", "["))
_SUBSTITUTED: Final = frozenset("$`")
_DEEPEST: Final = 50


def commands_in(line: str) -> tuple[SimpleCommand, ...]:
    """Return all commands that a line may run, at least one.

    Raises:
        NotClearError: a shell may run something else.
    """
    if _STRANGE.search(line):
        raise NotClearError
    reader = _Reader(line)
    reader.read_list(0)
    if not reader.commands or reader.at != len(line):
        raise NotClearError
    return tuple(SimpleCommand(tuple(words), plain, tuple(texts)) for words, plain, texts in reader.commands)


class _Reader:
    def __init__(self, line: str) -> None:
        self.line = line
        self.at = 0
        self.commands: list[tuple[list[Word], bool, list[Word]]] = []
        """The fields of each command; the texts of the last ones may still come."""
        self.heredocs: list[tuple[str, list[Word]]] = []
        """The ends of here-documents that begin after this line, and the texts of their commands."""
        self.first_heredoc = 0

    def read_list(self, depth: int) -> None:
        """Read commands to the end of the line, or to the `)` around them."""
        if depth > _DEEPEST:
            raise NotClearError
        awaits = False  # whether a command has to come, as after `&&` or `then`
        while True:
            kind = self._command(depth)
            self._gap()
            if self._take(_COMMENT) and depth > 0:
                raise NotClearError  # shells differ in where a substitution ends
            found = self._take(_SEPARATOR)
            separator = found[0] if found else ""
            if separator == "\n":
                self._heredocs()
            if kind == "command":
                awaits = separator in _JOINING
            elif separator not in ("", "\n"):
                raise NotClearError
            else:
                awaits = awaits or kind == "leading"
            if not separator:
                break
        if awaits or self.heredocs:
            raise NotClearError
        is_closed = self.line[self.at : self.at + 1] == ")"
        if is_closed != (depth > 0):
            raise NotClearError

    def _command(self, depth: int) -> str:
        """Read one command. Return `nothing` if there is none, or `leading` if it has only reserved words before it."""
        words: list[Word] = []
        texts: list[Word] = []
        is_plain, does_more, is_leading = True, False, False
        while True:
            self._gap()
            start = self.at
            # `_ENDS` takes the end of the line, too, so the second look has a character.
            if _ENDS.match(self.line, self.at) or self.line[self.at] == "#":
                break
            if self.line[self.at] == "(":
                # `f()` defines a function, and `((` computes.
                if words or does_more or self.line[self.at + 1 : self.at + 2] == "(":
                    raise NotClearError
                self._nested(depth)
                return "command"
            if heredoc := self._take(_HEREDOC):
                if depth > 0:
                    raise NotClearError
                self.first_heredoc = self.first_heredoc if self.heredocs else start
                self.heredocs.append((heredoc[1] or heredoc[2], texts))
                does_more = True
            elif self._take(_DUPLICATED):
                does_more = True
            elif self._take(_OPENED):
                target = self.at
                # The word is read in any case; of several redirections each must lead nowhere.
                is_plain = self._word(depth) == "/dev/null" and is_plain
                if self.at == target:
                    raise NotClearError
                does_more = True
            elif not words and (name := self._take(_ASSIGNED)):
                value = self._word(depth)
                texts.append(None if value is None else name[0] + value)
                is_plain, does_more = False, True
            else:
                word = self._word(depth)
                raw = self.line[start : self.at]
                if not words and not does_more and raw in _LEADING:
                    if self.line[self.at : self.at + 1] not in (" ", "\t", "\n"):
                        raise NotClearError
                    is_leading = True
                    continue
                if not words and not does_more and raw in _CLOSING:
                    if is_leading:
                        raise NotClearError
                    return "command"
                if not words and "=" in raw:
                    raise NotClearError  # `a+=b` and `a[0]=b` are not programs
                words.append(word)
            # Something touches the word and is not a part of it: this reader does not know it.
            if not _ENDS.match(self.line, self.at):
                raise NotClearError
        if words:
            if not _runs_its_program(words):
                raise NotClearError
            # A test of files or texts runs nothing and changes nothing.
            if not (is_plain and words[0] == "[" and words[-1] == "]"):
                self.commands.append((words, is_plain, texts))
            return "command"
        if does_more:  # `> file` alone empties the file
            raise NotClearError
        return "leading" if is_leading else "nothing"

    def _nested(self, depth: int) -> None:
        self.at += 1
        if self.heredocs:
            raise NotClearError
        self.read_list(depth + 1)
        self.at += 1

    def _word(self, depth: int) -> Word:
        """Read the parts of a word that touch each other; there may be none."""
        start, parts, is_computed, has_bracket = self.at, list[str](), False, False
        while True:
            if bare := self._take(_BARE):
                is_computed = is_computed or _COMPUTED.search(bare[0]) is not None
                has_bracket = has_bracket or "[" in bare[0]
                parts.append(bare[0])
            elif escaped := self._take(_ESCAPED):
                parts.append(escaped[1])
            elif quoted := self._take(_SINGLE):
                parts.append(quoted[1])
            elif self._take(_QUOTE):
                is_computed = self._double(parts, depth) or is_computed
            elif self._expansion(depth):
                is_computed = True
            else:
                break
        # `[` alone is a program, else it may begin a pattern of names.
        is_pattern = has_bracket and self.line[start : self.at] != "["
        return None if is_computed or is_pattern else "".join(parts)

    def _double(self, parts: list[str], depth: int) -> bool:
        """Read the rest of a text in double quotes. Return whether the shell computes something in it."""
        is_computed = False
        while not self._take(_QUOTE):
            if inner := self._take(_IN_DOUBLE):
                text = inner[0]
                parts.append(text[1] if text[0] == "\\" and text[1] in '$`"\\' else text)
            elif self._expansion(depth):
                is_computed = True
            else:
                raise NotClearError
        return is_computed

    def _expansion(self, depth: int) -> bool:
        if self._take(_VARIABLE):
            return True
        if self.line[self.at : self.at + 2] != "$(" or self.line[self.at + 2 : self.at + 3] == "(":
            return False
        self.at += 1
        self._nested(depth)
        return True

    def _heredocs(self) -> None:
        """Skip the here-documents that begin after the new line that was just read."""
        if self.heredocs and "\n" in self.line[self.first_heredoc : self.at - 1]:
            raise NotClearError  # shells differ in whether they begin in the middle of a word
        for name, texts in self.heredocs:
            start = self.at
            while True:
                end = self.line.find("\n", self.at)
                text = self.line[self.at : None if end < 0 else end]
                if text != name and end < 0:
                    raise NotClearError
                self.at = len(self.line) if end < 0 else end + 1
                if text == name:
                    texts.append(self.line[start : self.at])
                    break
        self.heredocs.clear()

    def _gap(self) -> None:
        self._take(_GAP)

    def _take(self, form: re.Pattern[str]) -> re.Match[str] | None:
        found = form.match(self.line, self.at)
        if found is not None:
            self.at = found.end()
        return found


def _runs_its_program(words: list[Word]) -> bool:
    """Whether a command certainly runs the program that its first word names, with the other words as mere text."""
    if not words[0] or words[0] in _NOT_PROGRAMS:
        return False
    if len(words[0]) > 1 and words[0].endswith(":"):  # ksh93 runs what follows such a label
        return False
    if words[0] in _TAKING_NAMES:
        return len(words) == 1 or not (words[1] is None or words[1].startswith("-"))
    if words[0] in _TESTING:
        # mksh computes the numbers that it compares, and runs the substitutions in them.
        return not any(
            each is None or each in ("-v", "-R") or not _SUBSTITUTED.isdisjoint(each) for each in words
        )
    return True
