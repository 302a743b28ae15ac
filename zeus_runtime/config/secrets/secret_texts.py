"""Read a text that is known to hold secrets, in whatever form: to names and values, about which other rules decide.

Lines of a ``.env`` are read as they are, and so are JSON, TOML and YAML. Elsewhere a value is what is behind a name,
and each way to read it is a candidate: what is in quotes, the word, the rest of the line, the lines below that are
further in. A wrong candidate does no harm, as it is in no other text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from zeus_runtime.config.layers.dotenv_lines import entry_at
from zeus_runtime.config.secrets.secret_trees import trees_of

_COMMENT: Final = re.compile(r"[ \t]*+(?:#|//|;|<!--)")
_COMMAND: Final = re.compile(r"\$\((?:[^()<]|<(?!<)|\([^()]*+\))*+\)|`[^`\s]*+[ \t][^`\n]*+`")
"""What a program writes: its words are no values. A text for it that begins there (``<<``) may be one."""
_MARGIN: Final = " \t\"'|-"
_NAME: Final = re.compile(r"(?<![\w.])(?<!\w-)[A-Za-z_][\w.-]*+")
_BEHIND_NAME: Final = re.compile(
    r"""(?P<close>["'`”’\]}]*+)
    (?: (?:,?\s*+["']?value["']?)?+ [ \t]*+
        (?P<sign>:[ \t]*+\w++[ \t]*+=(?=[ \t]*+["'])|<<<?|=>|<-|[:?+]{0,2}=(?!=)|:-|:(?!//|[:?])|(?<=["']),(?=\s*["'])
          |(?:(?<=\w)|</key>\s*+<string)>(?=[^\s<"'`])) [ \t]*+
      | [ \t]++ )""",
    re.VERBOSE,
)
"""A sign or a blank. Also ``name: NAME, value: VALUE``."""
_LONGEST: Final = 20_000
_LONGEST_REST: Final = 300
"""Of a value with blanks and without quotes."""
_QUOTED: Final = tuple(
    re.compile(rf"[$@]?(?P<sign>{sign})(?P<text>{text}{{0,{_LONGEST}}}+)(?P=sign)", re.DOTALL)
    for sign, text in (
        ("'{3}|\"{3}", "(?:(?!(?P=sign)).)"),
        ("[\"']", r"(?:\\.|(?P=sign){2}|(?!(?P=sign))[^\\])"),
        ("[\"'`]", "(?:(?!(?P=sign)).)"),
    )
)
"""A quote within has a backslash or is doubled, or there is none."""
_ITEM: Final = re.compile(r"""(?:[\[(,|]|\?:?|\bor)\s*+(["'])((?:\\.|(?!\1).)*+)\1(?!\s*[:=])""")
"""A text in a list, or one that code gives: ``env("X", "VALUE")``, ``env.X || "VALUE"``."""
_COMPUTED: Final = re.compile(r"""\"?(?:\$[\w{(]|`|\{\{)|[A-Za-z_][\w.]*+[(\[]["')]""")
"""What a program computes: only texts in it are values."""
_REFERENCE: Final = re.compile(r"(?:(?:\w+\.)*env\.)?(?:[A-Z0-9_]+|[a-z0-9_]+|[a-z]+(?:[A-Z][a-z]+)+)")
"""A plain name, perhaps of a variable: ``import.meta.env.API_KEY``. Of other words the last may say secret by chance:
``Acme.Password2024``."""
_BEHIND_VALUE: Final = re.compile(r"(?:[ \t]+(?:#|//|;[ \t])|</).*\Z")
_WORD: Final = re.compile(rf"\S{{0,{_LONGEST}}}")
_WORD_END: Final = re.compile(r"""[;,|&<>(){}\[\]"'`]""")
_QUOTE: Final = re.compile("[\"'`]")
_GOES_ON: Final = re.compile(r"[^\s;,)}\]<&|>]|[ \t]+\w(?![\w.-]*=)")
"""Behind a quote that some programs take for a sign of the value."""
_AROUND: Final = ";,)}]>\"'“”‘’"
_SHELL_SIGNS: Final = re.compile(r"""[\s;"'`|]|&&|\A<<""")
_LAST_WORD: Final = re.compile(r"[^\s;|&)}\]\"']*+[ \t]*(?:\Z|[\n;#&|)}\]])")
"""Of a command."""
_ENTRY: Final = re.compile(r"([\"']?)[A-Za-z_][\w.-]*+\1\s*[:=]")
_OPENED: Final = re.compile(r"[\[({'\"]{1,3}|[|>][+-]?[0-9]?")
"""A value begins that is in the lines below."""
_MOST_READ: Final = 100_000
"""Characters of values that are read of a text, more than three times its own."""


class SecretSetting(NamedTuple):
    """A value in a text that is known to hold secrets.

    Args:
        name: of the value; empty for a whole line.
        value: in one of its readings; empty if the reader cannot take it.
        line: its number.
        is_comment: it is commented out.
    """

    name: str
    value: str
    line: int
    is_comment: bool = False


class SecretText(NamedTuple):
    """What is in a text that is known to hold secrets.

    Args:
        settings: each value of a line, with each way to read it.
        trees: what the text is in JSON, TOML or YAML, of which each scalar is a text.
    """

    settings: Sequence[SecretSetting]
    trees: Sequence[Any]


def read_secret_text(text: str, says_secret: Callable[[str], bool], *, is_script: bool = False) -> SecretText:
    """What a text holds.

    Args:
        says_secret: whether a name says that its value is a secret. Behind such a name, a blank is enough.
        is_script: the first word of a line is a command, so no blank is behind a name.
    """
    found = _read(text, _LineReader(text, says_secret, is_script=is_script))
    if "\\\n" in text:
        # Shells and Java join such lines; other programs do not.
        joined = re.sub(r"\\\n[ \t]*", "", text)
        more = _read(joined, _LineReader(joined, says_secret, is_script=is_script)).settings
        found = found._replace(settings=[*found.settings, *(each for each in more if each.value)])
    return found


def _read(text: str, reader: _LineReader) -> SecretText:
    exact: list[SecretSetting] = []
    scanned: list[SecretSetting] = []
    at, line = 0, 1
    while at < len(text):
        start, end = at, _line_end(text, at)
        whole = SecretSetting("", text[start:end].strip(), line, is_comment=bool(_COMMENT.match(text, at)))
        entry = entry_at(text, at)
        if whole.is_comment or not whole.value:
            exact += [whole] if whole.value else []
            at = end + 1
        elif entry and not _OPENED.fullmatch(entry[1]):
            name, value, at = entry
            exact += [SecretSetting(name, value, line)] if value else []
            # A shell ends a value without quotes earlier than Docker does, and `<<END` begins one in the lines below.
            if _SHELL_SIGNS.search(value) and text[start:at].rstrip().endswith(value):
                scanned += reader.settings(start, at, line)[0]
        else:
            settings, last = reader.settings(start, end, line)
            scanned += [*settings, whole]
            at = max(end + 1, last)
        line += text.count("\n", start, at)
    trees, is_whole = trees_of(text) if scanned else ((), False)
    return SecretText(exact if is_whole else [*exact, *scanned], trees)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


class _LineReader:
    """Finds names and what is behind them, in lines of any form."""

    def __init__(self, text: str, says_secret: Callable[[str], bool], *, is_script: bool) -> None:
        self._text = _COMMAND.sub(lambda each: re.sub(r"[^\n]", " ", each[0]), text)
        self._says_secret, self._is_script = says_secret, is_script
        self._left = 3 * len(text) + _MOST_READ

    def settings(self, start: int, end: int, line: int) -> tuple[list[SecretSetting], int]:
        """The values in a line, and where the last one in quotes ends: perhaps below."""
        found: list[SecretSetting] = []
        last = start
        for count, named in enumerate(_NAME.finditer(self._text, start, end)):
            is_first = not count and not self._text[start : named.start()].strip(_MARGIN)
            behind = _BEHIND_NAME.match(self._text, named.end())
            if named.start() < last and not (behind and behind["sign"] == "="):
                continue
            if self._left < 0:
                # Each name in a long line is before all that follows, which would take quadratic time.
                return [*found, SecretSetting(named[0], "", line)], end
            values, at = self._behind(named, behind, end, is_first=is_first)
            found += [SecretSetting(named[0], each, line) for each in dict.fromkeys(values)]
            self._left -= sum(map(len, values))
            last = max(last, at)
        return found, last

    def _behind(
        self, named: re.Match[str], behind: re.Match[str] | None, end: int, *, is_first: bool
    ) -> tuple[Sequence[str], int]:
        """The candidates for the value of a name, an empty one if it cannot be read, and where a quoted one ends."""
        is_secret = self._says_secret(named[0])
        if behind and behind["sign"]:
            return self._assigned(behind["sign"], behind.end(), is_secret=is_secret)
        if behind is None:
            is_other = is_first and re.match(r"[^(>\n].*\w", self._text[named.end() : end])
            return [""] if is_secret and is_other else (), 0
        before = self._text[max(0, named.start() - 1) : named.start()]
        is_within = before in tuple("$={\"'`") and before != behind["close"][:1]
        is_command = self._is_script and is_first and not named[0].isupper()
        if not is_secret or is_within or is_command:
            return (), 0
        return self._argument(behind.end(), is_first=is_first)

    def _assigned(self, sign: str, at: int, *, is_secret: bool) -> tuple[Sequence[str], int]:
        """The values behind a sign."""
        rest = self._rest(at)
        if is_secret and sign != "<<<" and "<<" in f"{sign}{rest}":
            # A private key is found anywhere.
            return [] if self._text.startswith("-----BEGIN", _line_end(self._text, at) + 1) else [""], 0
        values, last = self._values(at, rest)
        if is_secret and not last and not values and (not rest or _OPENED.fullmatch(rest)):
            return self._below(at, is_opened=bool(rest)), 0
        return [each for each in values if sign != "," or not self._is_reference(each)], last

    def _argument(self, at: int, *, is_first: bool) -> tuple[Sequence[str], int]:
        """The values behind a blank: ``--password VALUE``, ``set DB_PASSWORD VALUE``."""
        rest = self._rest(at)
        if rest.startswith(tuple("-$=!<>|&")):
            return (), 0
        values, last = self._values(at, rest)
        if self._is_script and not _LAST_WORD.match(self._text, last or at):
            return (), 0
        if not last and not is_first:
            values = [each for each in values if " " not in each]
        return [each for each in values if not self._is_reference(each)], last

    def _is_reference(self, value: str) -> bool:
        """Whether a value is the name of another one that is a secret: ``process.env.API_KEY``."""
        return _REFERENCE.fullmatch(value) is not None and self._says_secret(value)

    def _rest(self, at: int) -> str:
        """The rest of a line without a comment; the blank before it may make it one."""
        end = min(_line_end(self._text, at), at + _LONGEST_REST)
        return _BEHIND_VALUE.sub("", self._text[at - 1 : end])[1:].strip()

    def _values(self, at: int, rest: str) -> tuple[Sequence[str], int]:
        """The candidates for a value that begins at a place, and where it ends if it is in quotes."""
        quoted = [each for pattern in _QUOTED if (each := pattern.match(self._text, at))]
        last = max((each.end() for each in quoted), default=0)
        values = [form for each in quoted for form in _forms(each["text"], each["sign"])]
        is_whole = last and not _GOES_ON.match(self._text, last)
        if not is_whole and (not rest or _OPENED.fullmatch(rest)):
            return (), last
        word = _WORD.match(self._text, at)[0]  # type: ignore[index]
        cut = _WORD_END.split(word.lstrip("\"'[({"))[0]
        is_computed = _COMPUTED.match(rest) or (not set(word).isdisjoint(".[{") and self._is_reference(cut))
        if not is_computed:
            values.append(_shell_word(rest).rstrip(_AROUND))
        if not is_whole:
            values += [each[2] for each in _ITEM.finditer(rest) if not self._is_reference(each[2])]
        if not is_whole and not is_computed:
            # A quote that does not begin here ends a text around the name, such as a header.
            text = _QUOTE.split(rest)[0].rstrip(_AROUND)
            values += [word.strip(_AROUND), cut, text, *_forms(rest, '"')]
        return [each for each in values if each], last

    def _below(self, at: int, *, is_opened: bool) -> Sequence[str]:
        """The text of the lines below that are further in, and each of them."""
        self._left -= 1000
        line = self._text[self._text.rfind("\n", 0, at) + 1 : at]
        depth = len(line) - len(line.lstrip(" \t"))
        further = rf"(?:\n(?:[ \t]{{{depth + 1}}}[^\n]*|[ \t]*(?=\n))){{0,200}}"
        block = re.compile(further).match(self._text, _line_end(self._text, at))
        lines = [each.strip() for each in block[0].strip().split("\n")]  # type: ignore[index]
        if not lines[0]:
            return [""] if is_opened else ()
        if _ENTRY.match(lines[0]):
            # Each has a name of its own; in a text of such lines what looks random counts all the same.
            return ["\n".join(lines)] if is_opened else ()
        return ["\n".join(lines), " ".join(lines), *filter(None, (each.strip("\"',;") for each in lines))]


def _forms(text: str, sign: str) -> Iterator[str]:
    """A text in quotes as it is written, and as programs mean it."""
    yield text
    yield text.replace(sign * 2, sign)
    if "\\" in text:
        letters = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
        yield re.sub(
            r"\\(?:u([0-9A-Fa-f]{4})|(.))",
            lambda each: chr(int(each[1], 16)) if each[1] else letters.get(each[2], each[2]),
            text,
            flags=re.DOTALL,
        )


def _shell_word(text: str) -> str:
    """The first word of a text as a shell joins it: ``'it'\\''s'``."""
    from shlex import shlex

    lexer = shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    with suppress(ValueError):
        return lexer.get_token() or ""
    return ""
