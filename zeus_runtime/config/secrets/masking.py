"""Secrets: a type that never prints, and masking known secret values in any text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import chain, count, cycle
from threading import Lock
from typing import Any, Final, NamedTuple

from zeus_runtime.config.secrets.connection_strings import SCHEME, URL_START, is_broken_login, password_places
from zeus_runtime.config.secrets.dumps import dumps, open_dump
from zeus_runtime.config.secrets.encoded import LEAST_BYTES, Runs, decoded_pieces, long_runs
from zeus_runtime.config.secrets.matching import (
    Folded,
    Meaning,
    folded,
    folded_with_places,
    meanings,
    open_words,
    skeleton,
    without_blanks,
    wraps,
)
from zeus_runtime.config.secrets.placeholders import (
    PLACEHOLDER,
    START,
    WAY_DIGITS,
    WRITTEN,
    form_placeholder,
    is_searched,
    left_out,
    placeholder,
    placeholder_name,
    rest_placeholder,
    way_digits,
    way_placeholder,
)
from zeus_runtime.config.secrets.searches import Search, Searches, TokenForm, searches_of
from zeus_runtime.config.secrets.secret_names import secret_entry
from zeus_runtime.config.secrets.secret_trees import number_text
from zeus_runtime.config.secrets.secrets_in_values import secrets_in
from zeus_runtime.frozen import dataclass

MASK: Final = "**********"
_DEPTH: Final = 3
"""How many encodings may be within each other."""
_MARK_DIGITS: Final = 4
# A name starts where a word starts: tried at each of its characters, a long word would take quadratic time.
_KEY = r"""(?P<name>(?<![\w.-])(?=[\w.-]*?[A-Za-z_])[\w.-]+)["']?\s*[:=]\s*"""
_LINE_VALUE = re.compile(rf"""(?P<head>(?:--set\s)?[\s-]*["']?{_KEY})(?P<value>[^\s\[{{|>#].*|[\[{{][^:]*)""")
_FLOW_VALUE = re.compile(
    rf"""(?P<head>{_KEY})(?P<value>"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s\[{{|>#,\]}}"'][^,\]}}#]*)"""
)
_URL_IN_LINE = re.compile(
    rf"""(?<=")(?={URL_START})(?:[^"\\]|\\.)*|(?<=')(?={URL_START})(?:[^']|'')*"""
    rf"""|(?<![A-Za-z0-9+.-]){SCHEME}.*?(?=\s\#|\Z)"""
)
_TEXT_IN_LINE = re.compile(
    r"""(?P<name>(?:(?<![\w.-])[\w.-]+=)?)(?P<value>(?<=")(?:[^"\\]|\\.)+|(?<=')(?:[^']|'')+|[^\s"',\[\]{}]+)"""
)
_HARMLESS = re.compile(
    r"""(null|true|false|~|-?\d{1,7}|"""
    rf"""["']?(\$\{{\w+(:-({PLACEHOLDER.pattern})?)?(:\?[^}}]*)?\}}|{PLACEHOLDER.pattern})["']?)\s*(#.*)?"""
)
_DEFAULT = re.compile(r"""["']?\$\{\w+:-""")
"""The beginning of a variable whose default is the value."""


class Secret:
    """A string that never prints: ``repr``, ``str``, ``format``, ``pickle`` and JSON (``default=str``) give the mask.

    Args:
        value: the secret text; ``reveal()`` gives it back.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        # Not an object of a subclass, whose `repr` or `str` may be another text.
        self.__value = str.__str__(value)

    def reveal(self) -> str:
        """The secret text itself, for the one call that needs it."""
        return self.__value

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.reveal() == other.reveal()

    def __hash__(self) -> int:
        return hash(self.__value)

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __len__(self) -> int:
        return len(self.__value)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (MASK,)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self


class HiddenStr(str):
    """An ordinary string that holds a secret (a URL with a password): usable as text, masked in ``repr``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)


class HeaderValue(HiddenStr):
    """The value of an HTTP header in a config: masked as a whole wherever the config is shown."""

    __slots__ = ()


def mask_line(line: str) -> str:
    """A source line with URL passwords and the values of secret-looking keys masked; ``${...}`` stays readable.

    Of an address with a slip nobody can say where its password is, so it is masked whole.
    """
    masked = mask_passwords(line)
    if "@" in line:
        masked = _TEXT_IN_LINE.sub(
            lambda text: text["name"] + MASK if is_broken_login(text["value"]) else text[0], masked
        )
    if "://" in line:
        # A URL that is a whole value, so that its password needs no encoding.
        masked = _URL_IN_LINE.sub(lambda url: mask_passwords(url[0]), masked)
    whole = _LINE_VALUE.fullmatch(masked)
    return _masked_value(whole) if whole and _is_secret(whole) else _FLOW_VALUE.sub(_masked_value, masked)


def mask_passwords(text: str, mask: str = MASK) -> str:
    """``text`` with the passwords in URLs masked."""
    places = password_places(text)
    if not places:
        return text
    parts: list[str] = []
    done = 0
    for start, end in places:
        parts += [text[done:start], mask]
        done = end
    return "".join([*parts, text[done:]])


def _masked_value(match: re.Match[str]) -> str:
    if not _is_secret(match) or _HARMLESS.fullmatch(match["value"]):
        return match[0]
    default = _DEFAULT.match(match["value"])
    return match["head"] + (default[0] + MASK + "}" if default else MASK)


def _is_secret(match: re.Match[str]) -> bool:
    return secret_entry(match["name"], re.sub(r"\s+#.*", "", match["value"]).strip().strip("\"'"))


class Learned:
    """Secrets that a process gets while it runs, such as an account's tokens; each goes with the last of its owners.

    Args:
        most: so many are kept, the newest, and ``Redactor.learn`` adds none; None for all.
        form: tokens of this form need not be learned.

    Attributes:
        names: secret text to name.
    """

    def __init__(self, most: int | None = None, form: TokenForm | None = None) -> None:
        self.most = most
        self.form = form
        self.names: dict[str, str] = {}
        self._owners: dict[str, set[object]] = {}
        self._dropped = 0
        # One thread may add an owner of a secret while another one takes the last one away.
        self._lock = Lock()

    @property
    def count(self) -> int:
        """How often secrets came or were forgotten; it only grows."""
        # No counter of all: of two threads, one would overwrite the other's.
        return self._dropped + len(self.names)

    def add(self, secret: str, name: str, owner: object = None) -> None:
        """Know ``secret`` from now on.

        Args:
            owner: has it until ``forget``; None for one that always has it.
        """
        with self._lock:
            self._owners.setdefault(secret, set()).add(owner)
            if secret in self.names:
                return
            # A copy, since another thread may read these meanwhile.
            names = dict(self.names)
            if self.most is not None and len(names) >= self.most:
                oldest = next(iter(names))
                del names[oldest], self._owners[oldest]
                self._dropped += 1
                self.names = names
            self.names[secret] = _free(name, secret, set(map(placeholder, names.values())))

    def keeps(self, secret: str, owner: object) -> bool:
        """Whether ``secret`` is known at least until this owner forgets it."""
        return self.most is None and owner in self._owners.get(secret, ())

    def forget(self, owner: object) -> None:
        """Know no longer what this owner alone has."""
        with self._lock:
            for secret, owners in list(self._owners.items()):
                owners.discard(owner)
                if not owners:
                    del self._owners[secret], self.names[secret]
                    # Twice: `names` has fewer, and the count must say that it changed.
                    self._dropped += 2


@dataclass(frozen=True)
class Redactor:
    """Replaces every known secret in text or JSON by a placeholder that is the same in every run; a value.

    ``masked`` is for text that a model reads, the log keeps or a person approves. It replaces only known secrets, so
    that ``restored`` can put them back and a person reads the arguments that the model wrote. A call and ``json`` are
    for all other text that a person reads: short secrets that are a whole value, and passwords in URLs, are masked too.

    Args:
        names: secret text to the name in its placeholder, the first known first.
        learned: secrets that become known later, shared by every redactor that has the same ``Learned``.
        form: every token of this form is a secret too.
        changed: names in placeholders that stood for other values earlier in the conversation.
        unmasked: the secrets that a model may see, if it may; their placeholders mean them still.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    learned: tuple[Learned, ...] = ()
    form: TokenForm | None = None
    changed: Set[str] = frozenset()
    unmasked: Redactor | None = None

    def __repr__(self) -> str:
        return f"Redactor({len(self.names)} secrets)"

    @property
    def meant(self) -> Redactor:
        """The secrets that a placeholder stands for, also where this one masks none."""
        return self if self.unmasked is None else self.unmasked

    def with_changed(self, names: Set[str]) -> Redactor:
        """This one with other ``changed`` names of the secrets that a placeholder stands for."""
        if self.unmasked is None:
            return replace(self, changed=names)
        return replace(self, unmasked=replace(self.unmasked, changed=names))

    @property
    def secrets(self) -> frozenset[str]:
        """The known secret texts."""
        return frozenset(self._now.names)

    def __call__(self, text: str) -> str:
        """``text`` with every known secret, and every password in a URL, masked."""
        return mask_passwords(self._known(text))

    def json(self, value: Any) -> Any:
        """A JSON value with every string in it, keys too, masked by the same rule."""
        return _each(value, self._now)

    def _known(self, text: str) -> str:
        known = self._now
        name = known.names.get(text)
        return known._searched(text) if name is None else placeholder(name)

    def text(self, text: str) -> str:
        """``text`` with every known secret that is searched for in running text replaced by its placeholder."""
        return self._now._searched(text)

    def _searched(self, text: str) -> str:
        return "".join(self._parts(text)) if self._own_searches.may_find(text) else text

    def told(self, value: Any) -> Any:
        """As ``masked``, but two different values never become the same: what looks like a placeholder is changed."""
        return _each(value, self._told)

    def _told(self, text: str) -> str:
        return "".join(
            part if masks else WRITTEN.sub(r"<not the \1", part)
            for masks, part in zip(cycle((False, True)), self._parts(text))
        )

    def _parts(self, text: str) -> Iterator[str]:
        """Text without a known secret and the placeholder of one, in turn; the first and the last are text."""
        done = 0
        for group in self._found(text):
            for start, end, shown, *_ in group:
                yield text[done:start]
                yield shown
                done = end
        yield text[done:]

    def masked(self, value: Any) -> Any:
        """A text or JSON value with known secrets replaced, as ``text`` does."""
        return _each(value, self.text) if self.forms else value

    def settled(self, text: str, *, by_lines: bool = False) -> tuple[str, str]:
        """The part of a growing text that nothing after it can change, masked, and the rest as it is.

        The rest is the last word, whether it agrees with a secret or not, or a secret that another one may overlap. A
        word may be wrapped over lines, and so many words wait as a secret has.

        Args:
            by_lines: nothing before a line end waits: for output that somebody waits for. A secret that comes in two
                pieces, with a line end between them, is not masked.
        """
        if not self.forms:
            return text, ""
        searches = self._searches
        end = open_words(
            text,
            words=searches.words,
            most=searches.most_open,
            breaks=searches.breaks,
            quotes=searches.quotes,
        )
        end = min(end, open_dump(text, searches.most_open))
        if by_lines:
            end = max(end, text.rfind("\n") + 1)
        groups = list(self._found(text))
        # More text may lengthen a secret that reaches the open end, or overlap it: its whole group waits.
        while groups and groups[-1][-1].end > end:
            end = min(end, *(place.context for place in groups.pop()))
        return _between(text, groups, 0, end), text[end:]

    def parted(self, text: str, start: int, end: int) -> tuple[str, str, str]:
        """``text``, as in the method ``text``, before, within and after a part, which is widened to whole secrets."""
        groups = list(self._found(text))
        start, end = _widened(groups, start, end)
        return (
            _between(text, groups, 0, start),
            _between(text, groups, start, end),
            _between(text, groups, end, len(text)),
        )

    def restored(self, text: str, held: str) -> str:
        """``text`` with those placeholders replaced that stand for a secret, written in that way, in ``held``.

        Raises:
            ValueError: ``held`` has both a placeholder as text and its secret, so the meaning is ambiguous.
        """
        if START not in text:
            return text
        meant: dict[str, set[str]] = {}
        for start, end, shown, *_ in (each for group in self._found(held) for each in group):
            meant.setdefault(shown, set()).add(held[start:end])

        def real(match: re.Match[str]) -> str:
            written = meant.get(match[0])
            if not written:
                return match[0]
            # Two notations, or the placeholder as a text: a guess would write another text than the file has.
            if len(written) > 1 or match[0] in held:
                raise ValueError(match[0])
            return next(iter(written))

        return PLACEHOLDER.sub(real, text)

    def real(self, value: Any) -> Any:
        """A text or JSON value with the placeholders of known secrets replaced by the secrets."""
        texts = {shown: text for text, shown in self._forms.items()}

        def meant(match: re.Match[str]) -> str:
            shown, length = (match[0], 0) if match[0] in texts else left_out(match[0])
            return texts.get(shown, "")[length:] or match[0]

        return _each(value, lambda text: PLACEHOLDER.sub(meant, text))

    def masks(self, text: str) -> Sequence[str]:
        """The placeholders that ``text`` puts in the place of secrets, each once."""
        return list(dict.fromkeys(each.shown for group in self._found(text) for each in group))

    def named_values(self) -> Mapping[str, str]:
        """The name in each placeholder, and the secret that it stands for now.

        Without secrets that no running text is searched for, and those whose name has the beginning of their digest.
        """
        return {
            placeholder_name(placeholder(name)): secret
            for secret, name in self._now.names.items()
            if is_searched(secret) and not name.endswith(f"-{_mark(secret)}")
        }

    def has_changed(self, shown: str) -> bool:
        """Whether a placeholder stood for another value earlier in the conversation."""
        return placeholder_name(shown) in self.changed

    def placeholders_in(self, text: str) -> Sequence[str]:
        """The placeholders of known secrets that ``text`` holds, each once."""
        return list(dict.fromkeys(each for each in PLACEHOLDER.findall(text) if self._stands(each)))

    def adding(self, values: Iterable[str] | Mapping[str, str]) -> Redactor:
        """A redactor that knows ``values`` too; empty ones are ignored.

        Args:
            values: secret texts, or secret text to name; without a name a secret is numbered.
        """
        # A set has another order in every process, and the numbers must not.
        listed = sorted(values) if isinstance(values, Set) else values
        named = values if isinstance(values, Mapping) else dict.fromkeys(listed, "")
        names = dict(self.names)
        taken = set(map(placeholder, names.values()))
        for value, name in named.items():
            text = str.__str__(value)
            if not text.strip() or text in names or PLACEHOLDER.fullmatch(text):
                continue
            free = _free(name, text, taken)
            names[text] = free
            taken.add(placeholder(free))
        return self if len(names) == len(self.names) else replace(self, names=names)

    def joined(self, other: Redactor) -> Redactor:
        """A redactor that knows the secrets of both, now and later."""
        known = self.adding(other.names)
        learned = tuple(dict.fromkeys((*self.learned, *other.learned)))
        return Redactor(known.names, learned, self.form or other.form, self.changed | other.changed)

    def learn(self, secret: str, name: str) -> None:
        """Mask a secret that was got just now, here and in every redactor that shares what this one learns."""
        for each in self.learned:
            if each.most is None:
                each.add(secret, name)

    def learn_all(self, other: Redactor, into: Learned | None = None) -> None:
        """Also mask what ``other`` knows now, here and in every redactor made from this one.

        Args:
            into: keeps it for those that have this one.
        """
        taken = set(self._now.names.values())
        for secret, name in other._now.names.items():
            if not self._keeps(secret):
                # Not a number: it would depend on the order in which the others are known.
                for own in self.learned[:1] if into is None else (into,):
                    own.add(secret, f"{name}-{_mark(secret)}" if name in taken else name)

    def keep(self, former: Redactor, kept: Learned, owner: object = None) -> None:
        """Put into ``kept`` what ``former`` knows now and this one does not, or may forget before the owner does."""
        # What a limited one drops meanwhile does not come back: the newest stay.
        has = frozenset() if kept.most is None else frozenset(kept.names)
        for secret, name in former._now.names.items():
            if secret not in has and not self._keeps(secret, owner):
                # Always marked: another value may have the name now, or get it later.
                mark = f"-{_mark(secret)}"
                kept.add(secret, name.removesuffix(mark) + mark, owner)

    def _keeps(self, secret: str, owner: object = None) -> bool:
        return secret in self.names or any(each.keeps(secret, owner) for each in self.learned)

    @property
    def learned_count(self) -> int:
        """How often it changed which secrets are learned; text masked at another count may hold one that is known
        now."""
        count = 0
        for each in self.learned:
            count += each.count
        return count

    def holds(self, text: str) -> bool:
        """Whether ``text`` holds a known secret that is searched for in running text."""
        return next(self._matches(text), None) is not None

    def hides(self, text: str) -> bool:
        """Whether ``text`` holds something that would be masked."""
        return self(text) != text

    def start(self, text: str, at: int) -> int:
        """Where the secret starts that ``at`` is within; ``at`` if there is none."""
        return _widened(self._found(text), at, at)[0]

    @property
    def most_open(self) -> int:
        """More bytes than one of the secrets takes, however it is written."""
        return self._searches.most_open

    @property
    def forms(self) -> Sequence[str]:
        """Every text and pattern that is searched for."""
        return self._searches.texts

    def _found(self, text: str) -> Iterator[list[_Place]]:
        """The places of known secrets, and their replacements; secrets that overlap are one group."""
        group: list[_Place] = []
        # Of those that begin at one place, the longest first: it is shown, and the others add only their rest.
        for match in sorted(self._matches(text), key=lambda each: (each.start, -each.end)):
            places = self._places(text[match.start : match.end], match)
            if group and match.start < group[-1].end:
                done = group[-1].end
                for place in places:
                    if place.end > done:
                        skipped = max(0, done - place.start)
                        rest = rest_placeholder(place.shown, skipped) if skipped else place.shown
                        group.append(_Place(place.start + skipped, place.end, rest, place.context))
            else:
                if group:
                    yield group
                group = places
        if group:
            yield group

    def _matches(self, text: str, depth: int = _DEPTH) -> Iterator[_Match]:
        """Every known secret in ``text``: first as written, then with escapes decoded, then in other encodings.

        Args:
            depth: how many encodings may be within each other.
        """
        searches = self._searches
        if not searches.may_find(text):
            return
        runs = long_runs(text)
        yield from self._scanned(text, searches.plain, runs)
        for meaning, meant in meanings(text, quotes=searches.quotes):
            yield from self._meant(text, meaning, meant, runs if meant == text else long_runs(meant), depth)
        for dump in dumps(text) if depth else ():
            for start, end, context, shown, notation in self._matches(dump.text, depth - 1):
                way = f"{notation} {skeleton(dump.text[start:end])}"
                for piece in dump.pieces(start, end):
                    begins = dump.begins(context)
                    yield _Match(piece.start, piece.end, begins, shown, f"{way} {piece.notation}")

    def _meant(self, text: str, meaning: Meaning, meant: str, runs: Runs, depth: int) -> Iterator[_Match]:
        """Every known secret in one meaning of a text, ``meant``, and in what it holds in other encodings."""
        searches = self._searches
        matches = [
            *self._scanned(meant, searches.folded, runs),
            *(
                _Match(start, end, start, shown, piece)
                for start, end, shown, piece in searches.scattered.found(meant, runs)
            ),
            *(self._encoded(meant, runs, depth - 1) if depth else ()),
        ]
        if matches:
            found = folded_with_places(text, quotes=searches.quotes, meaning=meaning)
            yield from _at_places(matches, found, searches)
        if searches.gaps and (
            matches := list(self._scanned(bare := without_blanks(meant), searches.bare, [(0, len(bare))]))
        ):
            found = folded_with_places(text, quotes=searches.quotes, blanks=False, meaning=meaning)
            places = [place for place, char in enumerate(meant) if not char.isspace()]
            for match in matches:
                gaps = {match.start + gap for gap in searches.gaps[bare[match.start : match.end]]}
                # Blanks where the secret has some, and nowhere else.
                if all(
                    found.end(each - 1) < found.start(each)
                    if each in gaps
                    else places[each] - places[each - 1] == 1
                    for each in range(match.start + 1, match.end)
                ):
                    yield from _at_places([match], found, searches)

    def _encoded(self, text: str, runs: Runs, depth: int) -> Iterator[_Match]:
        """Every known secret in what ``text`` holds in base64 or hexadecimal."""
        for piece in decoded_pieces(text, runs):
            for start, end, context, shown, notation in self._matches(piece.text, depth):
                if end - start >= LEAST_BYTES:
                    first, after = piece.covered(start, end)
                    way = f"{notation} {skeleton(piece.text[start:end])}"
                    way = f"{way} {piece.notation(text[first:after], start)}"
                    yield _Match(first, after, piece.begins(context), shown, way)

    def _scanned(self, text: str, search: Search, runs: Runs) -> Iterator[_Match]:
        if self.form is not None:
            yield from (_Match(start, end, start, shown) for start, end, shown in self.form.places(text))
        forms = search.held_by(text, runs)
        if not forms:
            return
        pattern, at = _pattern(forms), 0
        while match := pattern.search(text, at):
            # Not behind the match: another secret may begin within this one.
            at = match.start() + 1
            form = match[0]
            if form in search.forms:
                yield _Match(match.start(), match.end(), match.start(), search.forms[form])
            else:
                # The placeholder is another config's, or forged: the text after its start may be the secret itself.
                at = match.end() if self._stands(form) else match.start() + len(START)

    def _places(self, written: str, match: _Match) -> list[_Place]:
        """A found secret, each of its lines by itself, so that masked text has the same lines."""
        forms, (start, end, context, shown, notation) = self._forms, match
        breaks = wraps(written) if "\n" in written else []
        if not breaks:
            known = None if notation else forms.get(written) or self._plain_token(written)
            return [_Place(start, end, known or _way(shown, "escaped", written, notation), context)]
        starts, ends = [0, *(end for _, end in breaks)], [*(at for at, _ in breaks), len(written)]
        places: list[_Place] = []
        for number, (first, after) in enumerate(zip(starts, ends, strict=True)):
            if piece := written[first:after]:
                # Two pieces may begin at the same character where an escaped backslash means nothing.
                place = f"{notation}{number}-{len(folded(written[:first]))}"
                named = forms.get(piece) or _way(shown, "part", piece, place)
                places.append(_Place(start + first, start + after, named, context))
        return places

    def _stands(self, shown: str) -> bool:
        """Whether a placeholder represents a known secret, and its digits hold none."""
        searches, digits = self._searches, way_digits(shown)
        # The notation is not known here, so any digits could be its digest; but no digest holds a secret.
        is_secret = searches.folded.held_by(digits, long_runs(digits))
        plain = form_placeholder(shown)
        is_token = self.form is not None and self.form.is_shown_by(plain)
        return (plain in searches.shown or is_token) and not is_secret

    def _plain_token(self, text: str) -> str | None:
        """The placeholder of a text that is a token as it is."""
        found = () if self.form is None else self.form.places(text)
        return next((shown for start, end, shown in found if end - start == len(text)), None)

    @property
    def _now(self) -> Redactor:
        """A redactor of all that is known now."""
        count = self.learned_count if self.learned else 0
        if not count:
            return self
        # The count changes with each of `learned`, so it says whether the kept redactor is stale.
        kept: tuple[int, Redactor] | None = self.__dict__.get("_kept")
        if kept is None or kept[0] != count:
            known = Redactor(self.names, form=self.form)
            for each in self.learned:
                # A copy, since another thread may learn a secret meanwhile; the next question finds another count then.
                known = known.adding(dict(each.names))
            # Into the `__dict__`, because the class is frozen.
            kept = self.__dict__["_kept"] = count, known
        return kept[1]

    @property
    def _forms(self) -> Mapping[str, str]:
        """Text that is searched for to its placeholder."""
        return self._searches.plain.forms

    @property
    def _searches(self) -> Searches:
        return self._now._own_searches

    @cached_property
    def _own_searches(self) -> Searches:
        return searches_of(self.names, self.form)


class _Match(NamedTuple):
    """A secret that was found in a text.

    Args:
        context: where the text starts without which the secret is not found: that of an encoding's group.
        notation: how it is encoded, if no form says so.
    """

    start: int
    end: int
    context: int
    shown: str
    notation: str = ""


class _Place(NamedTuple):
    """The position of a secret in a text, and its replacement; ``context`` as of its match."""

    start: int
    end: int
    shown: str
    context: int


def _widened(groups: Iterable[Sequence[_Place]], start: int, end: int) -> tuple[int, int]:
    """The borders of a part of a text, each moved outwards if it is within a secret."""
    for group in groups:
        first, after = group[0].start, group[-1].end
        start = first if first < start < after else start
        end = after if first < end < after else end
    return start, end


def _between(text: str, groups: Iterable[Sequence[_Place]], start: int, end: int) -> str:
    """A part of ``text`` with its secrets replaced; it begins and ends within none."""
    parts: list[str] = []
    done = start
    for first, after, shown, *_ in (each for group in groups for each in group):
        if start <= first < end:
            parts += [text[done:first], shown]
            done = after
    return "".join([*parts, text[done:end]])


def _at_places(matches: Iterable[_Match], found: Folded, searches: Searches) -> Iterator[_Match]:
    """Matches in a folded text, by their places in the text as it is written; none that is too short there."""
    for start, end, context, shown, notation in matches:
        first, after = found.start(start), found.end(end - 1)
        if after - first >= searches.lengths.get(found.text[start:end], 0):
            yield _Match(first, after, found.start(context), shown, notation)


def _way(shown: str, kind: str, written: str, place: str = "") -> str:
    """The placeholder of a form with an unlisted notation; it depends on the notation and not on the secret."""
    # Long: nobody may find two notations with one placeholder, since an approval is bound to the masked text.
    digest = sha256(f"{place} {skeleton(written)}".encode("utf-8", "surrogatepass")).hexdigest()
    return way_placeholder(shown, f"{kind}-{digest[:WAY_DIGITS]}")


def _each(value: Any, masked: Callable[[str], str]) -> Any:
    # Most values are plain texts; the checks of classes below are slow.
    if type(value) is str:
        return masked(value)
    # Before the texts, as a `HeaderValue` is one.
    if isinstance(value, HeaderValue | Secret):
        return MASK
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        shown: dict[Any, Any] = {}
        for key, item in value.items():
            name = masked(key) if isinstance(key, str) else _number(key, masked)
            # Two keys with secrets may get the same placeholder, and an object must keep both entries.
            if name != key and name in (taken := {*shown, *value}):
                name = next(free for number in count(2) if (free := f"{name} ({number})") not in taken)
            shown[name] = _each(item, masked)
        return shown
    if isinstance(value, list | tuple):
        return [_each(item, masked) for item in value]
    return _number(value, masked)


def _number(value: Any, masked: Callable[[str], str]) -> Any:
    """Any value but a text: a number whose digits are a secret becomes its placeholder."""
    if (text := number_text(value)) is not None and (shown := masked(text)) != text:
        return shown
    return value


def _free(name: str, value: str, taken: Collection[str]) -> str:
    """``name``, with the beginning of the value's digest where another secret has it; a number for no name.

    A number would depend on the order in which the others are known, as the lines of a file with keys.
    """
    names = (
        (f"{name}-{_mark(value, digits)}" for digits in range(_MARK_DIGITS, 65))
        if name
        else map(str, count(1))
    )
    return next(free for free in chain([name] if name else (), names) if placeholder(free) not in taken)


@lru_cache(maxsize=256)
def _pattern(forms: tuple[str, ...]) -> re.Pattern[str]:
    """The placeholders that are there already, then the longest form first."""
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join([PLACEHOLDER.pattern, *map(re.escape, ordered)]))


def secrets_of_environment(
    environ: Mapping[str, str], overridden: Iterable[tuple[str, str]] = ()
) -> Redactor:
    """A redactor for every variable that holds a secret, even if the YAML does not use it (a provider's key is read
    from the environment).

    Args:
        overridden: names and values that a file also has, but that do not count: they are secrets too.
    """
    pairs = [*sorted(environ.items(), reverse=True), *overridden]
    shown = told_apart((value, name) for name, value in pairs)
    redactor = Redactor(learned=(Learned(),))
    for name, value in pairs:
        redactor = redactor.adding(dict.fromkeys(secrets_in(name, value), shown[value, name]))
    return redactor


def learn_each_other(redactors: Sequence[Redactor]) -> None:
    """Let each of these also mask what the others know now."""
    known = Redactor()
    for each in redactors:
        known = known.adding(each._now.names)
    for each in redactors:
        each.learn_all(known)


def told_apart(values: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The name in the placeholder of each value with a name: of several values with one name, all get a mark.

    The mark is the beginning of the value's digest. Another run may know only some of the values, or another one may
    count there; a number would name another value then.
    """
    pairs = dict.fromkeys(values)
    often = Counter(name for _, name in pairs)
    return {(value, name): f"{name}-{_mark(value)}" if often[name] > 1 else name for value, name in pairs}


def _mark(value: str, digits: int = _MARK_DIGITS) -> str:
    return sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
