"""Read a text that is known to hold secrets, in whatever form: to names and values, about which other rules decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from zeus_runtime.config.layers.dotenv_lines import entry_at

_BYTE_ORDERS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_NAME: Final = re.compile(r"(?<![\w.])(?<!\w-)[A-Za-z_][\w.-]*+")
_BEHIND_NAME: Final = re.compile(
    r"""(?P<close>["'`”’\]}]*+)
    (?: (?:,?\s*+["']?value["']?)?+ [ \t]*+
        (?P<sign>:[ \t]*+\w++[ \t]*+=(?=[ \t]*+["'])
          |<<<?|=>|->|<-|[:?+]{0,2}=(?!=)|:-|:(?!//|[:?])|,(?=\s*["'])) [ \t]*+
      | (?P<blank>[ \t]++)
      | (?P<next></[\w:.-]++>\s*+<[\w:.-]++)?+[^<>\n]{0,300}+>\s*+(?P<tagged>[^<]{1,4000}+)</ )""",
    re.VERBOSE,
)
"""A sign, a blank, or XML: ``<password>VALUE</password>``, ``<entry key="password">VALUE</entry>``. Also
``name: NAME, value: VALUE``."""
_LONGEST: Final = 20_000
_LONGEST_WITHIN: Final = 300
"""Of a value with blanks and without quotes behind other text in its line."""
_MOST: Final = f"{{0,{_LONGEST}}}"
_QUOTED: Final = tuple(
    re.compile(rf"[$@]?{each}(?=\s|\Z|/>|[;,)}}\]<&|>])", re.DOTALL)
    for each in (
        rf"('''|\"\"\")(.{_MOST}?)\1",
        rf"(\"|')((?:(?!\1)[^\\]|\\.){_MOST}+)\1",
        rf"(\"|')((?:(?!\1).|\1\1){_MOST}+)\1",
        rf"(\"|')((?:(?!\1).){_MOST}+)\1",
        r"(`)([^`\s$]*+)`",
    )
)
"""A quote within may have a backslash, or it is doubled, or there is none."""
_COMMAND: Final = re.compile(r"\$\((?:[^()<]|<(?!<)|\([^()]*+\))*+\)|`[^`\n]*+\s[^`\n]*+`")
"""What a program writes; its words are no values, unless a text for it begins there (``<<``)."""
_FILLED_IN: Final = re.compile(r"\"?(?:\$[\w{(]|`|\{\{)")
_OF_CODE: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*(?:\.(\w+)|[(\[][\"']?(\w+)[\"']?[)\],])")
_ELSE: Final = re.compile(r"[^\w\"']*(?:or\s+)?([\"'])((?:(?!\1).)*+)\1")
"""What code fills in: ``process.env.API_KEY``, ``os.environ["API_KEY"]``, ``getenv("API_KEY")``."""
_COMMENT: Final = re.compile(r"[ \t]*+(?:\#|//|;|<!--)[#!/\s]*+")
_BEHIND_VALUE: Final = re.compile(r"[ \t]+(?:#|//|;[ \t]).*\Z")
_ENDS: Final = re.compile(r"""[;,|&<>(){}\[\]"'`]""")
_ITEMS: Final = re.compile(r"[\[(](?:[^\[\]()\"']|\"[^\"]*+\"|'[^']*+')*+[\])]")
_ITEM: Final = re.compile(r"""(["'])((?:(?!\1).)*+)\1(?!\s*(?:=>|[:=]))""")
_SHELL_SIGNS: Final = re.compile(r"""[\s;"'`|]|&&""")
_GIVEN: Final = re.compile(
    rf"[^\n]*<<-?\s*[\"']?(\w+)[^\n]*\n(.{_MOST}?)\n[ \t]*\1[ \t]*(?:\n|\Z)", re.DOTALL
)
"""A text for a command, below it: ``<<END``."""
_ENTRY: Final = re.compile(r"[\"']?[A-Za-z_][\w.-]*+[\"']?\s*[:=]")
_OPENED: Final = re.compile(r"[\[({'\"]{1,3}|[|>][+-]?[0-9]?")
"""A value begins that is in the lines below."""
_BARE: Final = re.compile(rf"\S{_MOST}")
_AROUND: Final = ";,)}]>\"'“”‘’"
_SHELL_WORD: Final = re.compile(r"[^\s;|&)}\]]+")
_WORD: Final = re.compile(r"\w")
_COMMAND_END: Final = re.compile(r"[ \t]*(?:\Z|[\n;#&|)}\]])")
_OF_OTHERS: Final = re.compile(r"[\"'`]|[,;]\Z")
"""In a text without quotes, they say that other programs read the file too."""
_KEY_OF_TREE: Final = re.compile(r"[\w./-]+")
_MOST_READ: Final = 100_000
"""Characters of values that are read of a text, more than three times its own."""
_NO_SIGN: Final = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f\ue000-\uf8ff\ufffe\uffff]")
"""Control characters but those of line ends, margins and colours, and characters that no standard assigns."""
_MOST_LEVELS: Final = 50
_MOST_VALUES: Final = 100_000


PRIVATE_KEY: Final = r"-----BEGIN {0}(?:(?!-----)[\s\S])+-----END {0}".format(
    r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
)
"""Also an encrypted one, whose header has dashes (``DEK-Info: AES-128-CBC``), and one of PGP."""


class Setting(NamedTuple):
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


class SecretText:
    """What is in a text that is known to hold secrets.

    Attributes:
        settings: each value of a line, with each way to read it.
        trees: what the text is in JSON, TOML or YAML, of which each scalar is a text.
    """

    def __init__(self) -> None:
        self.settings: list[Setting] = []
        self.trees: Sequence[Any] = ()


def decoded(data: bytes) -> tuple[str, bool]:
    """The text of a file, and whether it is sure that this is its text: by its byte-order mark, or in UTF-8.

    Of another one, as much as can be told.
    """
    for mark, encoding in _BYTE_ORDERS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            return _with_line_ends(text), "\ufffd" not in text
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    is_sure = "\0" not in text and len(data) == len(text.encode())
    # Of each two bytes, UTF-16 without a mark has one zero; in a binary file, they end texts.
    gap = "\n" if "\0" in text and is_binary(data) else ""
    return _with_line_ends(text.replace("\0", gap)), is_sure


def is_binary(data: bytes) -> bool:
    """Whether bytes are no text in any encoding: each reading of them has signs that no text has."""
    if data.startswith(tuple(mark for mark, _ in _BYTE_ORDERS)):
        return False
    return not any(map(_may_be_text, _readings(data)))


def _readings(data: bytes) -> Iterator[str]:
    # In it each byte is a sign; of a text in another such encoding or in UTF-8, control characters stay what they are.
    yield data.decode("latin-1")
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        with suppress(UnicodeDecodeError):
            yield data[: len(data) // 4 * 4].decode(encoding)


def _may_be_text(text: str) -> bool:
    return bool(text) and _NO_SIGN.search(text) is None


def _with_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_secret_text(text: str, says_secret: Callable[[str], bool], *, is_script: bool = False) -> SecretText:
    """What a text holds: the lines of a ``.env`` as they are, others as JSON, YAML or TOML if the text is that, else
    with each way to read them.

    Args:
        says_secret: whether a name says that its value is a secret. Behind such a name, a blank is enough.
        is_script: the first word of a line is a command, so no blank is behind a name.
    """
    found = _read(text, says_secret, is_script)
    if "\\\n" in text:
        # Shells and Java join such lines; other programs do not.
        joined = _read(re.sub(r"\\\n[ \t]*", "", text), says_secret, is_script)
        found.settings += [each for each in joined.settings if each.value]
    return found


def _read(text: str, says_secret: Callable[[str], bool], is_script: bool) -> SecretText:
    found = SecretText()
    scanned: list[Setting] = []
    is_other = False
    reader = _Lines(_COMMAND.sub(lambda each: re.sub(r"[^\n]", " ", each[0]), text), says_secret, is_script)
    at = 0
    while at < len(text):
        line_end = _line_end(text, at)
        comment = _COMMENT.match(text, at, line_end)
        entry = None if comment else entry_at(text, at)
        if entry and _OPENED.fullmatch(entry[1]):
            entry = None
        if entry is not None:
            name, value, end = entry
            line = reader.number(at)
            found.settings += [Setting(name, each, line) for each in (value, *_defaults([value])) if each]
            at, start = end, at
            # A shell ends a value without quotes earlier than Docker does.
            if value and _SHELL_SIGNS.search(value) and text[start:end].rstrip().endswith(value):
                scanned += reader.settings(start, start + len(text[start:end].rstrip("\n")))[0]
                is_other = True
        else:
            settings, end = reader.settings(comment.end() if comment else at, line_end)
            settings += (
                [Setting("", text[at:line_end].strip(), reader.number(at))]
                if text[at:line_end].strip()
                else []
            )
            scanned += [each._replace(is_comment=True) for each in settings] if comment else settings
            is_other = is_other or not comment
            at = line_end + 1 if comment else max(line_end + 1, end)
    if is_other:
        found.trees, is_whole = _trees(text)
        scanned = [each for each in scanned if each.is_comment or not is_whole]
    found.settings += scanned
    return found


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


class _Lines:
    """Finds names and what is behind them, in lines of any form."""

    def __init__(self, text: str, says_secret: Callable[[str], bool], is_script: bool) -> None:
        self.text = text
        self.says_secret = says_secret
        self.is_script = is_script
        self._counted = (0, 1)
        self._left = 3 * len(text) + _MOST_READ

    def number(self, at: int) -> int:
        start, line = self._counted
        self._counted = (at, line + self.text.count("\n", start, at))
        return self._counted[1]

    def settings(self, start: int, end: int) -> tuple[list[Setting], int]:
        """The values in a line, and where the last of them ends: perhaps below."""
        found: list[Setting] = []
        line, done, inner = self.number(start), start, start
        margin = re.compile(r"""[\s"'|-]*+""").match(self.text, start)
        first = margin.end() if margin else start
        for named in _NAME.finditer(self.text, start, end):
            name, is_secret = named[0], self.says_secret(named[0])
            behind = _BEHIND_NAME.match(self.text, named.end())
            if self._left < 0:
                # Each name in a long line is before all that follows, which would take quadratic time.
                return [*found, Setting(name, "", line)], end
            if (
                behind is None
                and is_secret
                and named.start() == first
                and not self.text.startswith("(", named.end())
            ):
                found += [Setting(name, "", line)] if _WORD.search(self.text, named.end(), end) else []
            if behind is None or named.start() < done or (named.start() < inner and behind["sign"] != "="):
                continue
            if behind["tagged"]:
                if behind["next"] and not is_secret:
                    continue
                values, last = _of_xml(behind["tagged"]), behind.start("tagged")
            elif behind["sign"] and (behind["sign"] != "," or (is_secret and behind["close"])):
                if behind.end() > end and not is_secret:
                    continue
                values, last = self._values(behind.end(), is_secret, is_first=named.start() == first)
                if behind["sign"] == ",":
                    values = [each for each in values if not self.says_secret(each)]
                elif is_secret and (not values or behind["sign"] == "<<"):
                    values = self._below(start, end)
                    rest = self.text[behind.end() : end].strip()
                    is_open = behind["sign"] == "<<" or "<<" in rest or _OPENED.fullmatch(rest)
                    found += [Setting(name, "", line)] if is_open and not values else []
            elif is_secret and behind["blank"]:
                values, last = self._behind_blank(named, behind, named.start() == first), behind.end()
            else:
                continue
            found += [Setting(name, each, line) for each in dict.fromkeys(values) if each]
            self._left -= sum(map(len, values))
            inner = max(inner, last)
            done = last if is_secret else max(done, last if last > end else done)
        return found, max(done, inner)

    def _values(self, at: int, is_secret: bool, *, is_first: bool) -> tuple[list[str], int]:
        """The readings of what begins at a place, and where it ends: none if there is nothing that can be read."""
        end = min(_line_end(self.text, at), at + (_LONGEST if is_first else _LONGEST_WITHIN))
        readings = [each for pattern in _QUOTED if (each := pattern.match(self.text, at))]
        if readings:
            quoted = {each[2]: each[1] for each in readings}
            values = [form for text, sign in quoted.items() for form in _forms(text, sign)]
            if is_secret and any(sign * 2 in text for text, sign in quoted.items()):
                values.append(_shell_word(self.text[at:end]))
            ends = min(each.end() for each in readings)
            rest = self.text[ends:end].strip() if ends <= end else ""
            # Docker takes quotes as signs of a value that does not end there.
            if rest[:1].isalnum() and is_secret and not re.match(r"[\w.-]+=", rest):
                values.append(self.text[at:end].strip())
            return [*values, *_defaults(values)], max(each.end() for each in readings)
        rest = self.text[at:end].strip()
        is_comment = self.text[at - 1] in " \t" and rest.startswith(("#", "//"))
        if not rest or is_comment or "<<" in rest or _OPENED.fullmatch(rest):
            return [], at
        if is_secret and (items := _ITEMS.match(self.text, at)):
            return [each[2] for each in _ITEM.finditer(items[0])] or [""], items.end()
        if _FILLED_IN.match(rest):
            return [*_defaults([rest]), ""], at
        code = _OF_CODE.match(rest)
        instead = _ELSE.match(rest, code.end()) if code else None
        if code and self.says_secret(code[1] or code[2]):
            return [instead[2] if instead else ""], at
        whole = _BEHIND_VALUE.sub("", rest)
        word = _BARE.match(self.text, at)[0]  # type: ignore[index]
        cut = _ENDS.split(word.lstrip("\"'"))[0]
        values = [word.strip(_AROUND), cut, *(_forms(whole, '"') if is_secret else [whole])]
        # A quote that does not begin here ends a text around the name, such as a header.
        values += [re.split("[\"'`]", whole)[0].rstrip(_AROUND)] if whole[0] not in "\"'" else []
        shell = _shell_word(rest) if re.search("[\"']", word) else ""
        return [*values, shell, *([instead[2]] if instead else [])], at

    def _below(self, start: int, end: int) -> list[str]:
        """The text of the lines below that are further in: a block of YAML, a value in a line of its own."""
        self._left -= 1000
        if self.text.find("<<", start, end) >= 0:
            given = _GIVEN.match(self.text, start)
            return [given[2], given[2].strip()] if given else []
        margin = re.compile(r"[ \t]*").match(self.text, start)
        depth = len(margin[0]) if margin else 0
        block = re.compile(rf"(?:\n(?:[ \t]{{{depth + 1}}}[^\n]*|[ \t]*(?=\n))){{1,200}}").match(
            self.text, end
        )
        lines = [each.strip() for each in block[0].strip("\n").split("\n")] if block else []
        opener = self.text[end - 1]
        if lines and opener in "[({":
            # What is in braces has names; a piece of it that looks random is a secret all the same.
            return ["\n".join(lines)] if opener == "{" else [each.strip("\"',;") for each in lines]
        if not lines or _ENTRY.match(lines[0]):
            return []
        joined = ["\n".join(lines), " ".join(lines), *lines[:1]]
        return [*joined, *(each.strip("\"',;") for each in joined)]

    def _behind_blank(self, named: re.Match[str], behind: re.Match[str], is_first: bool) -> list[str]:
        at, sign = behind.end(), self.text[named.start() - 1 : named.start()].strip()
        is_apart = sign not in "$={" and (sign not in "\"'" or sign == behind["close"][:1])
        if (
            (sign and not is_apart)
            or self.text[at : at + 1] in "-$=!<>|&"
            or (self.is_script and is_first and not named[0].isupper())
        ):
            return []
        values, last = self._values(at, is_secret=True, is_first=is_first)
        is_word = last == at
        if is_word and (word := _SHELL_WORD.match(self.text, at)):
            if self.is_script and re.search("[\"']", word[0]):
                return []
            last = word.end()
        if self.is_script and not _COMMAND_END.match(self.text, last):
            return []
        if not is_first and is_word:
            values = [each for each in values if not re.search(r"\s", each)]
        return [each for each in values if not self.says_secret(each)]


def _of_xml(text: str) -> list[str]:
    from html import unescape

    return [text.strip(), unescape(text.strip())]


def _forms(text: str, sign: str) -> Iterator[str]:
    """A text in quotes as it is written, and as programs mean it."""
    yield text
    yield text.replace(sign * 2, sign)
    if "\\" in text:
        letters = {"n": "\n", "t": "\t", "r": "\r"}
        joined = re.sub(r"\\\n[ \t]*", "", text)
        yield re.sub(
            r"\\(?:u([0-9A-Fa-f]{4})|(.))",
            lambda each: chr(int(each[1], 16)) if each[1] else letters.get(each[2], each[2]),
            joined,
            flags=re.DOTALL,
        )


def _defaults(values: Sequence[str]) -> list[str]:
    """What a shell takes if a variable is not set: ``${PASSWORD:-VALUE}``."""
    return [found[1] for each in values for found in re.finditer(r"\$\{\w+:?[-=]([^{}]+)\}", each)]


def _shell_word(text: str) -> str:
    """The first word of a text as a shell joins it: ``'it'\\''s'``."""
    from shlex import shlex

    lexer = shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return lexer.get_token() or ""
    except ValueError:
        return ""


def _trees(text: str) -> tuple[Sequence[Any], bool]:
    """What a text is in JSON, TOML or YAML, and whether all of it is that; of YAML with an error, what is before it."""
    import tomllib

    from zeus_runtime.strict_json import read_json

    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError):
            return [read_json(text)], True
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError):
        documents, is_whole = _yaml(text)
        return documents, is_whole and bool(documents) and all(map(_has_plain_keys, documents))
    return [tree], True


def _has_plain_keys(tree: Any) -> bool:
    """Whether a tree is no text that is YAML by chance: ``see the docs: here``."""
    if isinstance(tree, Mapping):
        return all(map(_KEY_OF_TREE.fullmatch, tree)) and all(map(_has_plain_keys, tree.values()))
    return not isinstance(tree, list) or all(map(_has_plain_keys, tree))


def _yaml(text: str) -> tuple[list[Any], bool]:
    """The maps and lists of YAML by its events, so without regard to tags, keys that are written twice, and the kinds
    of scalars."""
    import yaml

    loader: Any = yaml.SafeLoader
    if yaml.__with_libyaml__:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]

        loader = CParser
    documents: list[Any] = []
    open_ones: list[Any] = [documents]
    keys: list[str | None] = [None]
    anchors: dict[str, Any] = {}
    is_text = True
    try:
        events: Any = yaml.parse(text, Loader=loader)
        for count, event in enumerate(events):
            if len(open_ones) > _MOST_LEVELS or count > _MOST_VALUES:
                return documents, False
            kind = type(event).__name__
            if kind in ("MappingEndEvent", "SequenceEndEvent"):
                open_ones.pop()
                keys.pop()
                continue
            if kind == "AliasEvent":
                value = anchors.get(event.anchor, "")
            elif kind == "ScalarEvent":
                value = event.value
                is_text = is_text and not (event.implicit[0] and _OF_OTHERS.search(value))
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                value = {} if kind == "MappingStartEvent" else []
            else:
                continue
            if kind != "AliasEvent" and event.anchor and isinstance(value, str):
                # What an alias stands for that is no text is found where it is written.
                anchors[event.anchor] = value
            into = open_ones[-1]
            if isinstance(into, list):
                into.append(value)
            elif keys[-1] is None:
                keys[-1] = value if isinstance(value, str) else ""
                value = value if not isinstance(value, str) else None
            else:
                key = keys[-1]
                # Of a key that is written twice, each value counts; a number changes no name.
                key = f"{key}{count}" if key in into else key
                into[key], keys[-1] = value, None
            if isinstance(value, dict | list):
                open_ones.append(value)
                keys.append(None)
    except yaml.YAMLError:
        return [each for each in documents if not isinstance(each, str)], False
    is_whole = is_text and all(not isinstance(each, str) for each in documents)
    return [each for each in documents if not isinstance(each, str)], is_whole
