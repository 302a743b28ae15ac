"""The logins in addresses, and the settings of connection strings: what is a password there by its form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

URL_PASSWORD: Final = re.compile(
    r"(?P<scheme>(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]+://[^\s/?#:@'\"<]*:)(?P<password>(?!\$\{|<secret:)[^\s/?#@'\"]+)(?=@)"
)
"""In running text, where a URL ends at the first character that must be encoded in one."""
# The others are not compiled at import: most configs never need them.
SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]*://"
URL_START: Final = rf"(?:[\w.-]+[=:]){{0,2}}{SCHEME}"
"""Also ``DB_URL=`` and ``jdbc:`` before the scheme."""
_ONLY_PORT: Final = (
    r"(?:(?:(?<=http://)|(?<=https://)|(?<=ws://)|(?<=wss://)|[^/:@]*@)[^/:]*:[0-9]{0,5}(?:[/?#\s]|\Z)"
    r"|[^/:]*:[0-9]+(?:\s|\Z))"
)
"""A port where a password would be. Only a database's password may begin like a port."""
_LOGIN: Final = rf"{URL_START}(?!{_ONLY_PORT})(?P<user>[^\s/:<]*):(?!//|\s|\$\{{[^}}]*\}}@|<secret:[^<>]*>@)"
_HOST: Final = r"(?:[\w.-]+|\[[^\]\s@]*\])"
_BEFORE_HOST: Final = rf"@(?={_HOST}(?:[:/?#,;|\s]|\Z))"
_BEFORE_QUERY: Final = rf"@(?:{_HOST}(?::[0-9]+)?(?:/[^\s?#@]*)?|/[^\s?#@]*)\?[\w.-]+="
"""An ``@`` behind this belongs to the query."""
_WITH_PATHS: Final = ("http", "https", "ws", "wss", "ssh")
"""Schemes of addresses that may have an ``@`` in their path."""
_BROKEN_LOGIN: Final = re.compile(
    r"(?P<before>(?:[A-Za-z][\w+.-]*\s?[:;]*\s?)?[/\\]{1,4}|[A-Za-z][\w+.-]*[:;])?[^\s/\\:@]*:(?!\$\{[^}]*\}@|<secret:)"
    r".+@(?:[\w.-]+|\[[^\]\s@]*\])(?P<after>(?::[0-9]{1,5})?(?:[/?#].*)?)"
)
"""An address with a slip in its scheme. Without a slash before the user, one or a port has to follow the host: in
``npm:name@1.0`` nothing is a password."""
_BARE_LOGIN: Final = (
    r"(?:[\w.-]+=)?(?!jdbc:)[\w.+-]+(?::|/(?=[^/]*@))(?P<password>[^\s/]\S*)@"
    r"(?:\w*\([^\s()]*\)|(?s:\(\s*(?i:DESCRIPTION|ADDRESS)\b.*\))|(?:tcps?:)?(?://[\w.-]+|[\w.-]+(?=:[0-9]))|(?=/))"
    r"(?::[0-9]{1,5}(?::\w+)?)?(?:[/?]\S*)?"
)
"""A login without a scheme, as Go and Oracle write it: ``user:password@tcp(db:3306)/name``, ``user/password@//db``.
A port, ``//``, a protocol or no host at all follows, or ``image:tag@sha256:…`` would have a password."""
_ADDRESS: Final = rf"(?:{SCHEME}\S+|[\w.-]+:[0-9]{{1,5}})"
_ORACLE_LOGIN: Final = (
    r"""(?i:jdbc:oracle):\w+:(?:"[^"]{1,100}"|[^\s/:@"']{1,100})/(?!<[\w :-]*>@)"""
    r"""(?:"([^"]{1,200})"|(([^\s"'@]{1,200})(?:@[^\s"']{0,200})?))@(?=[\w/(])"""
)
"""In Oracle's addresses for Java. A password without quotes may end at the first ``@`` or at the last."""
_BEHIND_ADDRESS: Final = rf"(?:{URL_START}[^\s=]*[/:?])?"
"""``jdbc:db2://db:50000/shop:user=app`` has a setting there."""
_NO_SETTING: Final = r"jdbc:[^={0}]*|[^\s=(){{}}\"'`{0}]+\s*"
"""The settings may be behind addresses: ``redis:6380,password=x``, ``jdbc:sqlserver://db;user=app;password=x``."""
QUERY: Final = r"[?&#;]([A-Za-z][\w.-]*)=([^\s?&#;'\"<>]+)"
BRACKET_SETTING: Final = r"[(,]([A-Za-z]\w*)=([^(),\s]+)(?=[,)])"
"""In MySQL's addresses for Java: ``jdbc:mysql://(host=db,user=app,password=VALUE)/shop``."""
_NAMES: Final = frozenset(
    "user username userid uid db dbname database databasename initialcatalog host server datasource".split()
)
"""The settings whose values are the user, the database or the host, without blanks and signs."""
_CALL: Final = r"[A-Za-z_]+(?:\.[A-Za-z_]+)*(?:\(.*\)|\[.*\])"
_MOST: Final = "{0,1000}"
_DOUBLED: Final = rf"""\"(?:[^"]|""){_MOST}"|'(?:[^']|''){_MOST}'|\{{(?:[^}}]|\}}\}}){_MOST}\}}"""
_ESCAPED: Final = rf"""'(?:[^'\\]|\\.){_MOST}'|"(?:[^"\\]|\\.){_MOST}\""""
_QUOTED: Final = (_DOUBLED, _ESCAPED, r"(?!)")
"""A quote within a value is doubled (ADO.NET, ODBC) or has a backslash (libpq), or it quotes nothing."""


class _Form(NamedTuple):
    """How the settings of a connection string are written.

    Args:
        sign: between two settings; empty for blanks.
        name: the name of one.
        plain: a value without quotes.
    """

    sign: str
    name: str
    plain: str


_FORMS: Final = (
    _Form(";", r"[A-Za-z](?:[\w ]*\w)?", r"[^;\n]*+"),
    _Form(",", r"[A-Za-z]\w*", r"[^\s,]++"),
    _Form("", r"[A-Za-z]\w*", r"(?:\\.|\S)++"),
)
"""Between commas only a value in quotes has blanks, and no name has: prose has such commas."""


def url_passwords(text: str) -> tuple[str, ...]:
    """The passwords in the login part of the URLs in ``text``; of a password that is not encoded, each reading."""
    if "://" not in text:
        return ()
    found = [match["password"] for match in URL_PASSWORD.finditer(text)]
    found += [text[start:end] for _, places in logins(text) for start, end in places]
    return tuple(dict.fromkeys(found))


def is_misread(url: str) -> bool:
    """Whether programs end the host of a URL within its password, at a ``/``, ``?`` or ``#`` that is not encoded."""
    return any(re.search("[/?#]", url[slice(*places[0])]) for _, places in logins(url))


def quoted_parts(text: str) -> Iterator[str]:
    """What libraries quote of a password that is not encoded, as the port, the path or the query that they take it for.

    In ``https://user:password@host/@scope`` an ``@`` ends no password.
    """
    for _, places in logins(text):
        start = places[0][0]
        at = text.rfind("://", 0, start)
        has_paths = text[max(0, at - 5) : at].lower().endswith(_WITH_PATHS)
        for password in [text[start:end] for _, end in places[: 1 if has_paths else None]]:
            if re.search("[/?#@]", password):
                for signs in ("[/?#@:&=]", "[/?#]", "[?#]"):
                    yield from re.split(signs, password)
                yield from (password.partition(sign)[2] for sign in "/?#")


def is_broken_login(value: str) -> bool:
    """Whether a whole value would be an address with a password, but for a slip: ``postgresql//user:pw@host``."""
    value = value.strip()
    # With a sound scheme, `password_places` has judged it.
    if "@" not in value or "\n" in value or re.search(SCHEME, value):
        return False
    found = _BROKEN_LOGIN.fullmatch(value)
    return found is not None and (bool(re.search(r"[/\\]", found["before"] or "")) or bool(found["after"]))


def password_places(text: str) -> list[tuple[int, int]]:
    """Where the passwords in the login part of the URLs in ``text`` start and end, in order and apart."""
    if "://" not in text:
        return []
    places = [match.span("password") for match in URL_PASSWORD.finditer(text)]
    places += [longest for _, (*_, longest) in logins(text)]
    apart: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def logins(text: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """If all of ``text`` is URLs, the user of each and where the password may start and end, the shortest first.

    Programs disagree about a password that is not encoded: it ends at the first ``@`` (SQLAlchemy), or at the last that
    a host follows.
    """
    at = len(text) - len(text.lstrip())
    if not re.compile(URL_START).match(text, at):
        return
    more = re.finditer(rf"(?<=[\s,;|])(?={SCHEME})", text)
    for first, after in pairwise(dict.fromkeys([at, *(each.start() for each in more), len(text)])):
        login = re.compile(_LOGIN).match(text, first, after)
        if not login or (at_sign := text.find("@", login.end(), after)) <= login.end():
            continue
        start, end = login.end(), after
        if query := re.compile(_BEFORE_QUERY).search(text, start, end):
            end = query.end()
        if (host := re.compile(_BEFORE_HOST).search(text, start, end)) and (
            blank := re.compile(r"\s").search(text, host.end(), end)
        ):
            end = blank.start()  # behind it is other text
        hosts = [each.start() for each in re.compile(_BEFORE_HOST).finditer(text, start, end)]
        yield login["user"], [(start, each) for each in sorted({at_sign, *hosts[-1:]})]


def bare_passwords(text: str) -> Iterator[str]:
    """The passwords of logins without a scheme before them, also of several; Oracle's addresses for Java have one of
    their own.
    """
    # Both readings: a password may have a comma.
    if login := _bare_login(text):
        yield login["password"]
    pieces = [each for each in re.split(r"[\s,;|]+", text) if each]
    found = [_bare_login(each) for each in pieces]
    # Prose has blanks, and words that are no address.
    if not re.search(r"\s", text) or all(
        login or re.fullmatch(_ADDRESS, each) for login, each in zip(found, pieces, strict=True)
    ):
        yield from (login["password"] for login in found if login)
    if "oracle:" in text:
        for login in re.finditer(_ORACLE_LOGIN, text):
            yield from filter(None, login.groups())


def _bare_login(text: str) -> re.Match[str] | None:
    at = text.rfind("@")
    return re.fullmatch(_BARE_LOGIN, text) if at > 0 and "://" not in text[:at] else None


def settings_in(text: str) -> Iterator[tuple[str, str]]:
    """The settings of a text that is a connection string: ``host=db password=x``, ``Server=db;Pwd=x``,
    ``redis:6380,password=x``; of each reading that fits the whole text.

    Drivers disagree about separators and quotes, and a password may have the signs of each. Nothing else may be in the
    text: in prose and code, words stand between.
    """
    found: dict[tuple[str, str], None] = {}
    for form in (each for each in _FORMS if each.sign in text):
        are_known = bool(found)
        for quoted in _QUOTED:
            settings = _settings(text, form, quoted)
            # Without a blank between them, or with that form's sign before each blank, they are those of another form.
            is_other = (are_known and not form.sign) and any(
                all(value.endswith(sign) for _, value in settings[:-1]) for sign in (";", ",")
            )
            if not is_other:
                found |= dict.fromkeys((key, each) for key, value in settings for each in _meant(value))
    yield from found


def names_in(text: str) -> Set[str]:
    """The users, hosts and databases in a whole value that is an address, a login or a connection string."""
    pairs = (*settings_in(text), *re.findall(QUERY, text), *re.findall(BRACKET_SETTING, text))
    found = {value for key, value in pairs if re.sub(r"[\W_]", "", key).lower() in _NAMES}
    rest = ""
    if re.fullmatch(rf"{URL_START}\S+", text):
        done = 0
        for start, end in password_places(text):
            rest, done = f"{rest}{text[done:start]}", end
        rest += text[done:]
    elif login := _bare_login(text):
        rest = text[: login.start("password")] + text[login.end("password") :]
    return found.union(re.split("[/:@,()]+", re.split("[?#;]", rest, maxsplit=1)[0]))


def _settings(text: str, form: _Form, quoted: str) -> Sequence[tuple[str, str]]:
    """The keys and values as they are written, if all of a text is settings."""
    start, setting = _patterns(form, quoted)
    before = start.match(text)
    at = before.end() if before else 0
    found = []
    while at < len(text):
        if (match := setting.match(text, at)) is None:
            return ()
        found.append((match[1], match[2].strip()))
        at = match.end()
    return found


@cache
def _patterns(form: _Form, quoted: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """For what is before the settings, and for one of them."""
    sign = form.sign
    before = rf"(?:[\s{sign}]*(?:{_NO_SETTING.format(sign)}){sign})*+[\s{sign}]*" if sign else r"\s*"
    end = rf"(?=\s*(?:{sign}|\Z))" if sign else r"(?=\s|\Z)"
    value = rf"(?:{quoted}){end}|{form.plain}"
    return (
        re.compile(before),
        re.compile(rf"{_BEHIND_ADDRESS}({form.name})\s*=\s*+({value}){end}[\s{sign}]*"),
    )


def _meant(value: str) -> Iterator[str]:
    """A value as it is written, without quotes, and as drivers mean it; none for a call, which is code."""
    if len(value) > 2 and any(re.fullmatch(each, value) for each in _QUOTED if each):
        written, end = value[1:-1], value[-1]
        yield from (written, written.replace(end * 2, end))
    elif re.fullmatch(_CALL, value.rstrip(";,")):
        return
    else:
        written = value.strip("'")
        yield from (written, value)
    if "\\" in written and value[-1] != "}":
        yield re.sub(r"\\(.)", r"\1", written)
