"""Whether a name says that its value is a secret, or names a file with one; where it is unclear, the value decides."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from zeus_runtime.config.secrets.connection_strings import URL_START
from zeus_runtime.config.secrets.placeholders import is_key
from zeus_runtime.config.secrets.random_values import is_place, is_random_value
from zeus_runtime.config.secrets.running_text import is_key_like, is_lone_key

_SECRET_WORDS: Final = frozenset({"KEY", "SECRETS", "CREDENTIALS"})
_SECRET_ENDS: Final = (
    "APIKEY",
    "ACCESSKEY",
    "SECRETKEY",
    "PRIVATEKEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTHORIZATION",
)
"""No other word ends so, and many names join them to a first word: ``PGPASSWORD``."""
_ENDINGS: Final = frozenset({"PASS", "PWD", "PAT"})
"""Ordinary words too, so the whole name and the value decide with them."""
_PLACE_WORDS: Final = frozenset({"FILE", "PATH", "DIR", "STDIN", "FD"})
"""As the last word they say from where a secret comes: ``TOKEN_FILE``, ``--password-stdin``."""
_IDS: Final = frozenset({"ID", "IDS", "UUID", "GUID"})
_OF_LOGIN: Final = frozenset({"SECRET", "SESSION"})
"""Before ``ID`` they say that who has it is logged in: ``VAULT_SECRET_ID``, ``SESSION_ID``."""
_ABOUT: Final = frozenset(
    "ADDR ADDRESS ALG ALGORITHM AUDIENCE DATE ENDPOINT EXPIRATION EXPIRES EXPIRY FORMAT HASHER HEADER HOST HOSTNAME"
    " ISSUER LENGTH NAME NAMESPACE PORT REGION SIZE TIME TTL TYPE URI URL VERSION".split()
)
"""As the last word they say something about a secret: ``TOKEN_URL``, ``AWS_SECRET_NAME``, ``TOKEN_EXPIRY_DATE``."""
_OF_POSTGRES: Final = frozenset({"SSLKEY", "PGSSLKEY", "SERVICEFILE", "PGSERVICEFILE"})
"""Those of its library's names for files with secrets of which no word says so; ``PASSFILE`` is the other one."""
_OF_VARIABLES: Final = r"(?:\A|_)(?:DOT_?ENV|ENV_?FILE)(?:_|\Z)"
"""In a name, it says that a file holds variables, as a ``.env``: ``--env-file-if-exists``, ``DOTENV_CONFIG_PATH``."""
HINTS: Final = ("key", "token", "secret", "credential", "authorization", "pass", "pwd", "pat")
"""Each name that says secret contains one of them."""
_COMMAND_HINTS: Final = (*HINTS, "-u", "user", "://", "env")
_COMMANDS: Final = frozenset({"COMMAND", "CMD", "ARGS", "OPTS", "OPTIONS", "FLAGS"})
"""The last word of a name whose text is words of a command: ``command``, ``JAVA_OPTS``."""
_WORD: Final = r"(?:[A-Z]?[a-z]{1,15}(?:[A-Z][a-z]{2,15})*|[A-Z]{1,15})"
_WORDS: Final = rf"(?:{_WORD}(?:[._-]{_WORD})*|[0-9]{{1,4}})"
_PLAIN: Final = rf"/?{_WORDS}(?:/{_WORDS})*/?"
"""Words as code and paths have them: ``client_secret``, ``restApi.Token``, ``emails/reset.html``."""
_SHORT: Final = r"(?![A-Za-z0-9]{8})[A-Za-z]{1,5}[0-9]{1,5}"
_ITEM: Final = rf"(?:{_WORD}|{_SHORT}|[0-9]{{1,12}}[A-Za-z]{{0,2}})"
"""A word, a number, a duration (``86400s``), or letters with a number that are too short for a token: ``sha256``."""
_ITEMS: Final = rf"[._:/-]?{_ITEM}(?:(?:[._:/-]|[,;][ ]?|[ ]){_ITEM})*[._:/-]?"
"""A program makes no such token: ``read:org``, ``ec2-user``, ``localStorage``, ``openid profile``."""
_PRICE: Final = r"0?\.00[0-9]+|[0-9](?:\.[0-9]+)?[eE]-[0-9]{1,2}"
# A config's few hundred names are asked about several times each, and the environment's.
_cached: Final = lru_cache(maxsize=4096)


@_cached
def looks_secret(name: str) -> bool:
    """Whether a variable's or key's name says that its value is a secret: ``OPENAI_API_KEY``, ``dbPassword``.

    ``MAX_TOKENS``, ``KEYBOARD`` and ``KEY_FILE`` do not: only whole words count, a plural TOKENS is an amount, and the
    place, the id or the address of a secret is not a secret. ``API_KEY2`` and ``API_KEY_2`` are as ``API_KEY``.
    """
    is_other = _words(name)[-1] in _PLACE_WORDS or is_id(name) or is_about_secret(name)
    return not is_other and any(map(_is_secret_word, _words(name)))


@_cached
def is_id(name: str) -> bool:
    """Whether a name says that its value is an id, which programs and models pass on: ``NOTION_DATABASE_ID``."""
    words = _words(name)
    return words[-1] in _IDS and _OF_LOGIN.isdisjoint(words[-2:-1])


@_cached
def is_about_secret(name: str) -> bool:
    """Whether the value of a secret-looking name is something else, or only perhaps a secret: ``TOKEN_URL``."""
    words = _words(name)
    is_about = words[-1] in _ABOUT or (words[-1] in _IDS and not is_id(name))
    return is_about and any(map(_is_secret_word, words))


@_cached
def is_plural_of_secret(name: str) -> bool:
    """Whether a name is the plural of one that says secret; ``MAX_TOKENS`` is one too, so the items decide."""
    return any(word.endswith("S") and _is_secret_word(word.removesuffix("S")) for word in _words(name))


def holds_secret(name: str, value: str) -> bool:
    """Whether the name of a variable says that its value is a secret: ``looks_secret``, or ``DB_PASS``, ``GITHUB_PAT``.

    A lone ``PWD`` is the shell's folder, and a path, a pattern or a sentence is not a password. Neither is a number
    below a hundredth: under ``COST_PER_TOKEN`` it is a price. Under ``TOKEN_NAME``, only what looks random is one.
    ``CLIENT_SECRET=client_secret``, ``TOKEN_STORAGE=localStorage`` and ``S3_KEY_PREFIX=uploads/images`` are none.
    """
    if looks_secret(name):
        return not (re.fullmatch(_PRICE, value) or _is_ordinary(name, value))
    if is_about_secret(name):
        return is_random_value(value)
    words = _words(name)
    if len(words) < 2 or words[-1] not in _ENDINGS:
        return False
    return re.fullmatch(r"\S+", value) is not None and not is_place(value)


def may_hold_secret(name: str) -> bool:
    """Whether some value of a variable with this name is a secret, as ``holds_secret`` says."""
    return holds_secret(name, "no!item")


def _is_ordinary(name: str, value: str) -> bool:
    """Whether a value under a name that says secret is a name itself, of several words: the end of that name, in any
    spelling, or where the name does not say that a person chose the value, a path or an id (``PARTITION_KEY``).

    If the name ends in another word, so are an address, a path and, where no person chose the value, ``_ITEMS``.
    """
    is_chosen, is_last = _claim(name)
    if not is_last and re.fullmatch(rf"{URL_START}\S+", value):
        return not is_random_value(value)
    if not (is_last or is_chosen) and _is_list(value):
        return True
    if not re.fullmatch(_PLAIN, value) or len(words := _words(value)) < 2:
        return False
    if words == _words(name)[-len(words) :] or ("/" in value and not (is_chosen and is_last)):
        return True
    # People join the words of a passphrase with a `-`, programs those of a name with a `_` or a `.`.
    return not is_chosen and "-" not in value and re.search("[_.]", value) is not None and is_id(value)


def _is_list(value: str) -> bool:
    """Whether a value is ``_ITEMS``. One of them may have digits; of a key in groups, more have.

    Twelve words or more with blanks between them are a recovery phrase.
    """
    if re.fullmatch("[A-Za-z]+(?: [A-Za-z]+){11,}", value):
        return False
    numbered = [each for each in re.findall("[A-Za-z0-9]+", value) if not each.isalpha()]
    return len(numbered) < 2 and re.fullmatch(_ITEMS, value) is not None


@_cached
def _claim(name: str) -> tuple[bool, bool]:
    """Whether a name that says secret may have a value that a person chose, and whether its last word says so.

    Programs make a token, and a key that is not one of ``API_KEY``, ``ACCESS_KEY``, ``SECRET_KEY``, ``PRIVATE_KEY``.
    """
    words = _words(name)
    said = [before + word if word == "KEY" else word for before, word in pairwise(["_", *words])]
    is_chosen = any(_is_secret_word(each) and not each.endswith("TOKEN") for each in said)
    return is_chosen, _is_secret_word(words[-1])


def secret_entry(key: str, value: str) -> bool:
    """Whether the name of an entry, a flag or a parameter says that its value is a secret.

    A lone ``key`` or ``key2`` often names something else (``key: customer_id``), so the value decides with it.
    """
    if is_lone_key(key):
        return is_key(value) or is_key_like(value.strip())
    return holds_secret(key, value)


@_cached
def places_secret(name: str) -> bool:
    """Whether the name of a variable that names a file says that the file holds a secret: ``PGPASSFILE``.

    ``looks_secret`` and ``DB_PASS``, also before a word for a place: ``TOKEN_FILE``, ``SSH_KEYPATH``; and
    ``places_variables``.
    """
    places = "|".join(sorted(_PLACE_WORDS))
    stem = re.sub(rf"_?(?:{places})\Z", "", "_".join(_words(name)))
    if name.upper() in _OF_POSTGRES or places_variables(name):
        return True
    return any(map(_is_secret_word, stem.split("_"))) or stem.endswith(tuple(_ENDINGS))


@_cached
def places_variables(name: str) -> bool:
    """Whether a name says that the file that it names holds variables as a ``.env`` does: ``ENV_FILE``."""
    return re.search(_OF_VARIABLES, "_".join(_words(name))) is not None


def within_login(name: str) -> str:
    """The name of a setting of a login, as an entry has it: ``its_pwd`` for a lone ``pwd``, elsewhere a folder."""
    return f"its_{name}" if name.upper() in _ENDINGS else name


def holds_headers(key: object) -> bool:
    """Whether a key's name says that it holds HTTP headers: ``headers``, ``extra_headers``, ``defaultHeaders``."""
    return isinstance(key, str) and key.lower().endswith("headers")


def names_command(name: str) -> bool:
    """Whether a name says that its value is words of a command: ``command``, ``MCP_ARGS``, ``JAVA_OPTS``."""
    return _words(name)[-1] in _COMMANDS


def is_command(name: str, text: str) -> bool:
    """Whether a text is a command that may hold a secret: ``command``, ``MCP_ARGS``; of prose, no word is one."""
    if not names_command(name) or not ("=" in text or "://" in text or re.search(r"(?:\A|\s)-\S+\s", text)):
        return False
    return any(map(text.lower().__contains__, _COMMAND_HINTS))


@_cached
def _words(name: str) -> tuple[str, ...]:
    # A number at the end says which of several it is. `KEY2VALUE` does not end there.
    one = re.sub(r"(?<=[A-Za-z])(?:[0-9]+(?![A-Za-z0-9])|[_-][vV]?[0-9]+\Z)", "", name)
    # `dbPassword` is DB and PASSWORD, `SSHKey` is SSH and KEY; `KEYBOARD` is one word, and so is `APIKEYs`.
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", "_", one)
    return tuple(re.split(r"[^A-Za-z0-9]+", apart.upper()))


def _is_secret_word(word: str) -> bool:
    return word in _SECRET_WORDS or word.endswith(_SECRET_ENDS)
