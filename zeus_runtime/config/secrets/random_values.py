"""Whether a value or a word looks like a random secret, whatever its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from zeus_runtime.config.secrets.connection_strings import URL_START
from zeus_runtime.config.secrets.placeholders import looks_random
from zeus_runtime.config.secrets.running_text import is_key_like

_ROOT: Final = r"[~.]{0,2}/|[A-Za-z]:[\\/]"
_PLAIN_NAME: Final = r"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*|[A-Z]+)[0-9]{0,4}|[0-9]+"
"""A word or a number. A random text of letters and digits has other parts."""
_HOST: Final = r"(?:[\w-]+\.)+[a-z]{2,}"
_HOST_OR_MAIL: Final = rf"(?:[\w.+-]+@)?{_HOST}(?::[0-9]+)?"
_LONG_WORD: Final = r"[\w.+=~-]{16,}"
"""Of a program's variable whose name says nothing, a whole value of such signs is not an ordinary word."""
_LEAST_WORD: Final = 12
"""Shorter ones are often ids that a model needs for its calls: ``C05KQ1E1F2``."""
_SHORT_LIST: Final = r"[\w.-]+(?:[,;][\w.-]+)+"
_LONG_RUN: Final = 20
_NUMBERED: Final = r"[A-Za-z]*[0-9]*|[0-9]+[A-Za-z]*"
"""A word with a number or a date: ``report20240131``."""
_NO_WORD: Final = r"""(?<![\w+.-])[\w+.-]++://[^\s"'<>,;]+|\bsha(?:256|384|512)[:-][A-Za-z0-9+/]{43,}=*"""
"""An address, in which other rules find the secret parts, or a digest."""
_BETWEEN_WORDS: Final = r"""[\s;,=&"'()\[\]{}<>]+"""


def is_random_value(text: str) -> bool:
    """Whether a whole value looks random, whatever its name; of an address, what is behind its host."""
    if address := re.fullmatch(rf"{URL_START}[^\s/?#]+(\S*)", text):
        return any(random_runs(address[1]))
    is_word = len(text) >= _LEAST_WORD and not re.search(rf"\s|://|\A{_SHORT_LIST}\Z", text)
    return is_word and (any(random_words(text, least=1)) or _is_long_random(text))


def random_words(text: str, *, least: int = _LEAST_WORD) -> Iterator[str]:
    """The words that look random in a text about which no name says anything, and their parts (``user:VALUE``).

    A word with a number, a place on the disk and an address do not look so.

    Args:
        least: characters of a word.
    """
    for each in re.split(_BETWEEN_WORDS, re.sub(_NO_WORD, " ", text)):
        word = each.rstrip(".!?")
        if not is_place(word):
            # The names of folders, hosts and people may be random too, but they seldom have capitals within.
            of_place = re.search(r"[/\\]", word) or is_host_or_mail(word)
            for part in (word, *marked_parts(word)):
                runs = random_runs(part)
                is_random = any(map(is_mixed, runs)) if of_place else any(runs)
                if is_random and len(part) >= least:
                    yield part


def marked_parts(word: str) -> Iterator[str]:
    """The random parts behind a user, a number or an encoding: ``admin:VALUE``, ``42|VALUE``, ``base64:VALUE``.

    In front, as in ``VALUE:x-oauth-basic``, only a token is one: ``deploy2024`` is a user.
    """
    first, *parts = re.split("[:|]", word)
    if parts and not re.search(r"\s|://", word) and not is_place(word):
        found = (*filter(is_token_of_user, [first]), word[len(first) + 1 :], *parts)
        yield from (each for each in found if looks_random(each) and not re.fullmatch(_HOST, each))


def is_random_name(name: str) -> bool:
    """Whether a text in the place of a name is not a name: it has random letters and digits that are not words with a
    number, as ``enableOAuth2Login`` is."""
    return any(map(is_key_like, random_runs(name)))


def random_runs(text: str) -> Iterator[str]:
    """The runs of letters and digits in a text that look random."""
    return filter(_is_random_run, re.findall("[A-Za-z0-9]{8,}", text))


def _is_random_run(run: str) -> bool:
    if run.isalpha() or not looks_random(run):
        return False
    return len(run) >= _LONG_RUN or (is_key_like(run) and not re.fullmatch(_NUMBERED, run))


def _is_long_random(text: str) -> bool:
    is_word = re.fullmatch(_LONG_WORD, text) and not is_host_or_mail(text)
    return bool(is_word) and looks_random(text)


def is_token_of_user(user: str) -> bool:
    """Whether a text in the place of a user is a token."""
    from urllib.parse import unquote

    return len(user) >= 16 and "@" not in unquote(user) and looks_random(user)


def is_mixed(value: str) -> bool:
    """Whether a text has digits, small and capital letters."""
    return all(any(map(kind, value)) for kind in (str.isdigit, str.islower, str.isupper))


def is_host_or_mail(word: str) -> bool:
    """Whether a word is the name of a host, perhaps with a port, or an address of mail."""
    return re.fullmatch(_HOST_OR_MAIL, word) is not None


def is_place(value: str) -> bool:
    """Whether a word is a path or a pattern, not a password: ``~/.ssh/x``, ``src/*.py``; a password has signs too."""
    if not re.match(rf"[/~.]|{_ROOT}", value) and "*" not in value:
        return False
    # Below its first folder a path may have any names: `/tmp/Kr4ft9werk`.
    names = re.split(r"[\\/]+", value)[1] if re.match(_ROOT, value) else value
    if re.search(r"[#%^&]|(?<!\A)!", names):
        return False
    return all(re.fullmatch(_PLAIN_NAME, each) for each in re.findall("[A-Za-z0-9]+", names))
