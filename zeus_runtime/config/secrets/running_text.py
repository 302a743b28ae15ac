"""The keys in running text, found by the names before them, and the words of a command."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

FLAG: Final = r"--?([A-Za-z][\w-]*)"
LOGIN_FLAG: Final = r"-(?<![\w-]-)(?:[uU]|-?(?:[\w-]+-)?user)"
"""Behind it is ``user:password``."""
_SCHEMES: Final = ("bearer", "basic", "token")
_GAP: Final = r"""[ \t"'`\\]*+(?:(?<=\\)\n[ \t"'`\\]*+)?"""
"""Also quotes within quotes, and the end of a line that a shell joins with the next."""
# With a limit, so that one word with many names takes linear time.
_VALUE: Final = r"""(?P<value>(?<=["'`])[^\s"'`\\]{1,4096}|[^\s"'`\\;,&|<>]{1,4096})"""
# The names are in no pattern: to search for each of them in a long text would be slow.
_BEHIND_NAME: Final = (
    rf"""(?:["'`\\]*+[ \t]*+(?:={_GAP}|:{_GAP}(?:[A-Za-z]+[ \t]+)?)|(?P<blank>[ \t"'`\\]){_GAP}){_VALUE}"""
)
_LOGIN: Final = rf"""{LOGIN_FLAG}=?{_GAP}[^\s:"'`\\]{{1,100}}:{_VALUE}"""
_NAME: Final = r"(?<![\w.-])(?P<flag>--?)?(?P<name>[A-Za-z_][\w.-]*)\Z"
_LONGEST_NAME: Final = 100
_ENDS: Final = ".,:;!?)]}"
"""Those of a sentence or a bracket."""
_WORD: Final = r"[0-9]{0,4}+[A-Za-z]++[0-9]{0,4}+[A-Za-z]*+|[0-9]{1,19}+"
_KEY: Final = rf"(?<![A-Za-z0-9])(?!(?:{_WORD})(?![A-Za-z0-9]))[A-Za-z0-9]{{8,}}"
_PART_OF_KEY: Final = re.compile(r"[0-9](?:[A-Za-z]+[0-9]|[0-9]{4})")
"""Each run of letters and digits has it that is not such a word."""
_NO_KEY: Final = r"[(\[{<]|://|\A(?:[$@%]|(?:~|\.{0,2})/(?:[\w.-]+/|\Z)|[~.]+/|[A-Za-z]:[\\/])"
"""Code, an address, a variable or a path."""
_EXPANDED: Final = r"(?s:(?:\A|(?<=[=:\s]))(?:\$[A-Za-z_]\w*|\$\{[^}]*\}?|(?:\$\(|`).*))"


def may_hold_keys(text: str) -> bool:
    """Whether ``keys_in_text`` may find any; quick, as most texts hold none."""
    return (" " in text or "=" in text or ":" in text) and _PART_OF_KEY.search(text) is not None


def keys_in_text(text: str, words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The values in running text that look like keys, each with the name before it: ``--name VALUE``, ``NAME=VALUE``,
    ``Name: VALUE``.

    Of ``Bearer VALUE`` the name is ``authorization``, of ``-u user:VALUE`` it is ``password``.

    Args:
        words: in small letters, ``token`` among them; a name that contains none of them is not looked for.
    """
    runs = [each.start() for each in re.finditer(_KEY, text)]
    if not runs:
        return
    lowered = text.replace("İ", "I").lower()  # of all letters, only this one becomes longer
    name_after, value_after, name_before = map(re.compile, (r"[\w.-]*+", _BEHIND_NAME, _NAME))
    for word in (*words, "bearer", "basic"):
        end = 0
        while (at := lowered.find(word, end)) >= 0:
            rest = name_after.match(text, at + len(word))
            end = rest.end() if rest else len(text)
            if not (found := value_after.match(text, end)) or not (value := _key(found, runs)):
                continue
            name = name_before.search(text, max(0, at - _LONGEST_NAME), end)
            if name and name["name"].lower() in _SCHEMES:
                yield "authorization", value
            elif name and (name["flag"] or found["blank"] is None):
                is_setting = name["flag"] or "=" in text[end : found.start("value")]
                if not is_lone_key(name["name"]) or is_setting:  # prose has a key with a colon
                    yield name["name"], value
    if "-u" in lowered or "user" in lowered:
        found_keys = (_key(each, runs) for each in re.finditer(_LOGIN, text))
        yield from (("password", value) for value in found_keys if value)


def is_lone_key(name: str) -> bool:
    """Whether a name is ``key`` alone, perhaps with a number, which often names something else than a secret."""
    return name.lower().rstrip("0123456789") == "key"


def is_key_like(value: str) -> bool:
    """Whether a whole value would be taken for a key behind a name in running text: ``customer_id``, ``us-east-1`` and
    ``value1234`` are none."""
    return not re.search(rf"\s|{_NO_KEY}", value) and re.search(_KEY, value) is not None


def shell_words(text: str) -> list[str]:
    """The words that a shell makes of a text; if a quotation mark is missing, its pieces between blanks.

    What the shell replaces (``$TOKEN``) is left out.
    """
    from shlex import shlex

    lexer = shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        words = [each.strip("\"'`;()") for each in text.split()]
    return [re.sub(_EXPANDED, "", each) for each in words]


def _key(found: re.Match[str], runs: Sequence[int]) -> str:
    """The value, if it has a random run and is nothing that prose and code name too; otherwise empty.

    Args:
        runs: where those of the text start.
    """
    at = bisect_left(runs, found.start("value"))
    if at == len(runs) or runs[at] >= found.end("value"):
        return ""
    value = found["value"].rstrip(_ENDS)
    return "" if re.search(_NO_KEY, value) else value
