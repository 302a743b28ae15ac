"""No text is cut so that a part of a secret is left, which masking does not find any more."""

from __future__ import annotations

import ast
import json
import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zeus_plugins
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

import zeus_runtime
from zeus_runtime.config.secrets.masking import Learned
from zeus_runtime.cutting import cut_words, first_line, mask_before_cutting
from zeus_runtime.models.error_classification import classify
from zeus_runtime.plugin import Redactor, cut_address, cut_place, cut_text, last_words, spare, unwrapped
from zeus_runtime.store.database import Database
from zeus_runtime.store.database_url import bare_url, without_password
from zeus_runtime.store.masked_log import MaskedLog
from zeus_runtime.store.session_tree import open_child
from zeus_runtime.store.tables import THREAD
from zeus_runtime.store.thread_log import TITLE_CHARACTERS

SECRET = "sk-Zq7-own/key+0123456789.abcdef"
KNOWN = Redactor().adding({SECRET: "API_KEY"})
WORDS = "some words, 漢字 "


def failed(text: str) -> str:
    import asyncio

    from zeus_runtime.plugin.tool import tool
    from zeus_runtime.tools.dispatch import invoke

    @tool(category="utility", access="read")
    async def fails() -> str:
        """Fail."""
        raise RuntimeError(text)

    run: Any = SimpleNamespace(secrets=Redactor())
    return asyncio.run(invoke(fails, {}, run)).content


def misfit(text: str) -> str:
    from zeus_runtime.plugin.tool import tool
    from zeus_runtime.tools.dispatch import validate_arguments

    @tool(category="utility", access="read")
    async def counts(number: int) -> str:
        """Count."""
        return str(number)

    return str(validate_arguments(counts, {"number": text}))


def of_server(text: str) -> str:
    from zeus_plugins.tools.mcp.failures import explained

    return explained(RuntimeError(text)).message


def of_server_process(text: str) -> str:
    from zeus_plugins.tools.mcp.stderr import ErrorLog

    log = object.__new__(ErrorLog)
    log._last = text.encode()[-2_000 - spare() :]
    return log.last_words


def offered(text: str) -> str:
    from zeus_plugins.tools.mcp.capabilities import _cut

    return _cut(text, "its prompt", [])


def of_schema(text: str) -> str:
    from zeus_plugins.tools.mcp.schemas import schema_problem

    return str(schema_problem({"type": "object", "properties": {"a": {"type": text}}}))


def found_on_the_web(text: str) -> str:
    from zeus_plugins.tools.web.tools import _said

    from zeus_runtime.plugin.search import SearchHit

    return _said(SearchHit("title", "https://a.example", text))


def refused_by_tavily(text: str) -> str:
    from zeus_plugins.searches.tavily.search import _why

    return _why({"detail": {"error": text}})


def unread(text: str) -> str:
    from zeus_plugins.models.litellm.reading import unreadable

    return str(unreadable(ValueError(text)))


def damaged(text: str) -> str:
    from zeus_runtime.knowledge import convert

    def parse(data: bytes) -> Any:
        raise ValueError(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(convert._FORMATS, ".x", parse)  # type: ignore[arg-type]
        return str(convert.parsed(b"", ".x"))


def described(text: str) -> str:
    from zeus_runtime.skills.front_matter import read_skill_text

    return read_skill_text(f"---\nname: a\ndescription: {json.dumps(text)}\n---\nx\n".encode()).description


def remembered(text: str) -> str:
    from zeus_runtime.memory.retrieval.ranking import _cut as cut

    return cut("", text, 300) or ""


def drawn(text: str) -> str:
    from zeus_runtime.memory.profile.fields import short_value

    return short_value(text)


def instructed(text: str) -> str:
    from zeus_runtime.memory.profile.fields import ProfileField
    from zeus_runtime.memory.profile.text import INSTRUCTIONS, profile_section

    field = ProfileField("content", text)
    return str(profile_section([field], [], max_characters=300 + len(INSTRUCTIONS)))


def repeated(text: str) -> str:
    from langchain_core.messages import AIMessage

    from zeus_runtime.run.repeated_calls import named

    return named(AIMessage("", tool_calls=[{"name": "f", "args": {"a": text}, "id": "1"}]))


CUTTERS: dict[Callable[[str], str], int] = {
    (lambda text: cut_text(text, 100)): 100,
    (lambda text: last_words(text.encode(), 100)): 100,
    (lambda text: str(classify(text))): 2_000,
    (lambda text: str(classify(json.dumps({"error": {"message": text}})))): 2_000,
    failed: 2_000,
    misfit: 200,
    of_server: 500,
    of_server_process: 400,
    offered: 20_000,
    of_schema: 200,
    found_on_the_web: 1_000,
    refused_by_tavily: 300,
    unread: 200,
    damaged: 200,
    described: 1_024,
    remembered: 300,
    drawn: 300,
    instructed: 300,
    repeated: 120,
}
"""What cuts text that is not yet masked, and about where."""


def parts_of(text: str) -> list[str]:
    """What of the secret shows, four characters or more."""
    return [
        SECRET[start : start + 4] for start in range(len(SECRET) - 3) if SECRET[start : start + 4] in text
    ]


@pytest.mark.parametrize("cut", CUTTERS, ids=lambda cut: f"{cut.__name__}-{CUTTERS[cut]}")
def test_wherever_a_text_is_cut_no_part_of_a_secret_shows(cut: Callable[[str], str]) -> None:
    most, was_cut = CUTTERS[cut], False
    for place in range(0, 3 * len(SECRET), 3):
        before = (WORDS * most)[: max(0, most - place)] + " "
        for text in (before + SECRET + " " + WORDS * 20, WORDS * 200 + SECRET + " " + WORDS[:place]):
            shown = cut(text)
            assert not parts_of(KNOWN(shown)), (place, shown)
            was_cut |= "some words" in shown and len(shown) < len(text)
    assert was_cut


def in_lines(text: str, width: int) -> str:
    return "\n  ".join(text[start : start + width] for start in range(0, len(text), width))


PHRASE = "correct horse 漢字battery staple-4417"
FORMS = {
    "wrapped": (SECRET, in_lines(SECRET, 13)),
    "base64 in lines": (SECRET, in_lines(b64encode(SECRET.encode()).decode(), 20)),
    "several words": (PHRASE, PHRASE),
    "several words in lines": (PHRASE, PHRASE.replace(" ", "\r\n\t")),
    "letters that are words": ("Passwort漢字鍵盤倉庫2024xyz", "Passwort漢字鍵盤倉庫2024xyz"),
}
"""Secrets that are more than one word, to what cuts between words."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", CUTTERS, ids=lambda cut: f"{cut.__name__}-{CUTTERS[cut]}")
def test_a_known_secret_is_masked_before_its_text_is_cut_or_its_lines_are_joined(
    cut: Callable[[str], str], form: str
) -> None:
    secret, written = FORMS[form]
    known = Redactor().adding({secret: "API_KEY"})
    mask_before_cutting(known)
    most, was_shown = CUTTERS[cut], False
    halves = {piece for word in written.split() for piece in (word[:6], word[-6:])}
    for place in range(0, most, max(3, most // 16 | 1)):
        text = (WORDS * most)[: max(0, most - place)] + f" {written} " + WORDS * (2 if place % 2 else 200)
        shown = known(cut(text))
        assert not [each for each in halves if each in shown], (place, shown[-100:])
        was_shown |= "<secret:API_KEY" in shown
    assert was_shown
    assert len(cut("word " * most)) > 30, "and nothing else is dropped"


def test_a_reader_that_is_full_keeps_enough_to_recognise_a_secret_at_the_cut() -> None:
    known = Redactor().adding({SECRET: "API_KEY"})
    mask_before_cutting(known)
    for place in range(0, 60, 4):
        output = f"{WORDS * 900}{in_lines(SECRET, 13)} {'x ' * place}".encode()[-60 - spare() :]
        assert not parts_of(last_words(output, 60))


def random_text(length: int, seed: str) -> str:
    digits = "".join(sha256(f"{seed}{number}".encode()).hexdigest() for number in range(length // 64 + 1))
    return digits[:length]


def key_lines(length: int) -> str:
    lines = in_lines(random_text(length, "key"), 64).replace(" ", "")
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"


LONG: dict[str, Callable[[int], str]] = {
    "one word": lambda length: random_text(length, "word"),
    "a private key": key_lines,
    "JSON": lambda length: json.dumps({"type": "account", "key": key_lines(length)}, indent=2),
}
WRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "in lines": lambda secret: in_lines(secret, 70),
    "indented": lambda secret: secret.replace("\n", "\n        "),
    "base64 in lines": lambda secret: in_lines(b64encode(secret.encode()).decode(), 76),
}
OTHER = random_text(2_000, "other")


def has_run_of(text: str, shown: str) -> bool:
    """Whether twelve characters of ``text`` show, without blanks."""
    bare, of = "".join(shown.split()), "".join(text.replace("PRIVATE KEY", "").split())
    return any(
        of[start : start + 12] in bare for start in range(len(of) - 11) if "-----" not in of[start:][:12]
    )


@given(
    kind=st.sampled_from(list(LONG)),
    form=st.sampled_from(list(WRITTEN)),
    length=st.sampled_from([800, 2_500]),
    most=st.integers(60, 2_000),
    at=st.floats(0, 1),
    others=st.integers(1, 4),
    by_reader=st.booleans(),
    apart=st.booleans(),
)
@settings(max_examples=8, deadline=None)
def test_no_half_of_a_long_secret_shows_whichever_cut_tears_it_and_whatever_masking_shortens(
    kind: str, form: str, length: int, most: int, at: float, others: int, by_reader: bool, apart: bool
) -> None:
    secret = LONG[kind](length)
    written = WRITTEN[form](secret)
    maskers = [Redactor().adding({secret: "KEY"}), Redactor().adding({OTHER: "OTHER"})]
    maskers = maskers if apart else [maskers[0].adding({OTHER: "OTHER"})]
    for each in maskers:
        mask_before_cutting(each)
    assume(not has_run_of(secret, Redactor().adding({secret: "KEY"}).text(f"word {written} word")))
    kept, half = most + spare(), int(at * len(written))
    # So that `half` characters of the secret are beyond the border, and the rest of the text masks others.
    room = max(0, (kept if by_reader else most) - half)
    between = (f" {OTHER}" * min(others, room // len(f" {OTHER}")) + " word" * kept)[:room]
    around = f" word {OTHER} word" * 9
    end = f"{around}{' word' * kept} {written}{between}".encode()[-kept:]
    start = f"{between[::-1].replace(OTHER[::-1], OTHER)} {written}{' word' * kept}{around}"[:kept]
    for shown in (last_words(end, most), cut_text(start, most), cut_words(start, most)):
        assert not has_run_of(secret, shown)
        assert not has_run_of(written, shown)
        assert not has_run_of(OTHER, shown)


def test_nothing_that_a_reader_keeps_for_masking_alone_is_shown_when_masking_shortens_the_rest() -> None:
    key = key_lines(1_600)
    known = Redactor().adding({key: "KEY", OTHER: "OTHER"})
    mask_before_cutting(known)
    kept = 2_000 + spare()
    words = "word " * 20_000
    torn = in_lines(key, 900)
    end = f"{torn} {words[: kept - 3 * 2_001 - 800]}{OTHER} {OTHER} {OTHER} ".encode()[-kept:]
    assert last_words(end, 2_000) == "<secret:OTHER>"
    start = f"{OTHER} {OTHER} {OTHER} {words[: kept - 3 * 2_001 - 800]}{torn}"[:kept]
    assert cut_text(start, 2_000) == f"<secret:OTHER>… ({kept:,} characters)"
    assert cut_words(start, 2_000) == "<secret:OTHER>…"


async def test_what_a_python_on_another_machine_wrote_is_read_to_its_end() -> None:
    from zeus_plugins.sandboxes.ssh.asking import Far

    class Process:
        exit_status, exit_signal = 1, None

        def __init__(self, errors: bytes) -> None:
            self.stderr, self._errors = self, errors

        async def wait_closed(self) -> None:
            pass

        async def read(self, most: int) -> bytes:
            data, self._errors = self._errors[:most], self._errors[most:]
            return data

    key = random_text(400, "key")
    known = Redactor().adding({key: "KEY"})
    mask_before_cutting(known)
    far = object.__new__(Far)
    far._options, far._line = SimpleNamespace(python="python3"), SimpleNamespace(name="box")  # type: ignore[assignment]
    for before in (9_900, 10_100, 70_000):
        process = Process(f"{'word ' * (before // 5)}{key} no such module".encode())
        told = str(await far._broken(SimpleNamespace(process=process), "lost"))  # type: ignore[arg-type]
        assert not has_run_of(key, told)
        assert "<secret:KEY> no such module" in told


def test_a_reader_keeps_more_for_a_secret_that_is_longer_than_the_usual_spare() -> None:
    assert spare() == 8_192
    key = random_text(12_000, "key")
    known = Redactor({}, (Learned(),))
    mask_before_cutting(known)
    known.learn(key, "KEY")
    written = in_lines(b64encode(key.encode()).decode(), 76)
    end = f"{written} {'word ' * 600}".encode()
    assert spare() > len(written)
    assert has_run_of(written, last_words(end[-4_000 - 8_192 :], 4_000)), "what is kept is what counts"
    assert not has_run_of(written, last_words(end[-4_000 - spare() :], 4_000))


@given(st.text(st.sampled_from("ab 漢ä😀\n"), max_size=60), st.integers(1, 60))
@settings(max_examples=100)
def test_a_text_without_secrets_is_cut_at_the_same_places_whatever_is_known(text: str, most: int) -> None:
    known = Redactor().adding({SECRET: "KEY"})
    mask_before_cutting(known)
    data, end = text.encode(), min(most, len(text))
    last = data[-most:].decode(errors="replace")
    if len(data) > most and not data[-most - 1 : -most].isspace():
        last = re.sub("^[^\\s漢]*", "", last)
    assert last_words(data, most) == last.strip()
    if len(text) > most and text[end] not in " \n漢":
        end = max(text.rfind(each, 0, end) for each in " \n漢") + 1
    assert cut_text(text, most) == (
        text if len(text) <= most else f"{text[:end].rstrip()}… ({len(text)} characters)"
    )


def test_secrets_that_are_learned_later_count_and_nothing_is_kept_alive() -> None:
    known = Redactor({}, (Learned(),))
    mask_before_cutting(known)
    assert unwrapped("a\nlate-secret-1") == "a late-secret-1"
    known.learn("late-secret-1", "LATE")
    for masked in (
        unwrapped("a\nlate-secret-1"),
        first_line("a late-secret-1\nb"),
        cut_text("a late-secret-1", 99),
        cut_words("a late-secret-1", 99),
        last_words(b"a late-secret-1", 99),
    ):
        assert masked == "a <secret:LATE>"
    del known
    assert first_line("late-secret-1") == "late-secret-1"


def test_a_text_that_masking_made_longer_or_shorter_is_cut_as_any_other() -> None:
    known = Redactor().adding({"s3cr3t-77": "A_LONG_NAME_OF_A_SECRET", SECRET * 3: "K"})
    mask_before_cutting(known)
    assert cut_text("one s3cr3t-77", 13).startswith("one…")
    assert last_words(b"one s3cr3t-77 two", 17) == "two"
    # Of what a reader cut, the rest may be half of another secret.
    assert cut_words(f"{SECRET * 3} one tw", 60) == "<secret:K>…"
    assert cut_text(f"one {SECRET * 3}", 60) == "one <secret:K>… (100 characters)"
    assert last_words(f"lf {SECRET * 3}".encode(), 60) == "<secret:K>"
    assert last_words(f"half {SECRET * 3} two".encode(), 60) == "<secret:K> two"


def test_what_is_left_are_whole_words_and_the_length() -> None:
    assert cut_text("one two three", 13) == "one two three"
    assert cut_text("one two three", 12) == "one two… (13 characters)"
    assert cut_text("one two three", 7) == "one two… (13 characters)"
    assert cut_text("漢字漢字漢字", 4) == "漢字漢字… (6 characters)"
    assert cut_text("x" * 1_000, 100) == "… (1,000 characters)"
    assert last_words(b"one two three", 13) == "one two three"
    assert last_words(b"one two three", 8) == "three"
    assert last_words(b"one two three", 9) == "two three"
    assert last_words("漢字漢字".encode(), 6) == "漢字"


@pytest.mark.parametrize("at", range(0, len(SECRET), 5))
async def test_what_a_program_prints_in_two_pieces_is_masked_while_it_runs(at: int) -> None:
    from zeus_plugins.tools.sandbox.progress import MOST_CHARACTERS, told

    heard: list[str] = []
    with told(heard.append, KNOWN) as hear:
        hear(b"first ")
        hear(f"key {SECRET[:at]}".encode())
        hear(f"{SECRET[at:]} ".encode() + b"x" * (MOST_CHARACTERS - at) + b"\n.")
        telling: Any = hear.__self__  # type: ignore[attr-defined]
        telling._say()
    assert heard[0].startswith("fir"), "the end of the word may begin an encoded secret"
    assert "x\n" in heard[1]
    assert not parts_of("".join(heard))


AFTER_MASKING = {
    "zeus_plugins/middlewares/eviction/preview.py": "a message, masked when it was stored",
    "zeus_plugins/middlewares/summarization/extract.py": "a message",
    "zeus_plugins/tools/filesystem/pages.py": "a line, masked a few lines above",
    "zeus_runtime/cli/trusting.py": "a part to be trusted, masked",
    "zeus_runtime/config/messages/diagnostics.py": "a source line, masked",
    "zeus_runtime/config/yaml/sources.py": "a source line, masked one line above",
    "zeus_runtime/context/inspection/excerpts.py": "a message, masked when it was read",
}
"""Files that cut by characters, and why no secret is in what they cut."""


def cuts_by_characters(tree: ast.AST) -> bool:
    """Whether ``f"{text[:n]}..."`` or ``text[:n].rstrip() + "..."`` stands in the code."""
    return any(
        is_slice(cut) and isinstance(mark, ast.Constant) and str(mark.value).startswith(("…", "..."))
        for text in ast.walk(tree)
        for cut, mark in pairwise(joined(text))
    )


def joined(text: ast.AST) -> list[ast.AST]:
    if isinstance(text, ast.JoinedStr):
        return [each.value if isinstance(each, ast.FormattedValue) else each for each in text.values]
    if isinstance(text, ast.BinOp):
        return [*joined(text.left), *joined(text.right)]
    return [text]


def is_slice(node: ast.AST) -> bool:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)


def test_code_that_cuts_by_characters_says_why_it_may() -> None:
    packages = [Path(package.__path__[0]) for package in (zeus_runtime, zeus_plugins)]
    found = {
        file.relative_to(package.parent).as_posix()
        for package in packages
        for file in package.rglob("*.py")
        if "testing" not in file.parts and cuts_by_characters(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert found == set(AFTER_MASKING), "use cut_text, which leaves no part of a secret"


@pytest.mark.parametrize("place", range(45, 85, 3))
async def test_a_title_is_cut_between_words(tmp_path: Path, place: int) -> None:
    """Of a session and of a sub-agent's, and one that was stored when titles were cut anywhere."""
    text = f"{WORDS * 9}"[:place] + f" {SECRET} and more {WORDS * 9}"
    database = Database(f"sqlite:///{tmp_path / 'a.db'}", directory=tmp_path)
    try:
        log = MaskedLog(database, KNOWN)
        await log.create_tables()
        parent = await log.open("session_p", agent="a", title=text)
        await open_child(log, parent, "run_1", 1, {}, agent="b", title=text, at_most=9)
        children = await log.children("session_p")
        cut = (await log.info(parent)).title
        assert [each.title for each in children] == [cut]
        old = update(THREAD).values(title=text[:TITLE_CHARACTERS])
        await database.run(lambda connection: connection.execute(old))
        for title in (cut, (await log.info(parent)).title):
            assert title.startswith(text[:30])
            assert not any(SECRET[start : start + 4] in title for start in range(len(SECRET) - 3))
    finally:
        await database.close()


@given(st.text(st.sampled_from("ab \t\n\r\x0b\x1c\x85\u2028\u3000"), max_size=12))
def test_a_text_in_one_line_loses_spaces_tabs_and_line_ends_only(text: str) -> None:
    line = unwrapped(text)
    assert not set(line) & {"\n", "\t"}
    assert "  " not in line
    assert line == line.strip(" ")
    plain = text.replace("\r\n", "\n").translate(dict.fromkeys(map(ord, " \t\n")))
    assert line.replace(" ", "") == plain


def test_last_words_keep_control_characters_at_their_ends() -> None:
    assert last_words(b" \x1cone\x0c \n", 100) == "\x1cone\x0c"


def test_an_address_that_is_a_secret_as_a_whole_is_masked_before_it_is_cut() -> None:
    hook, database = "https://ann@hooks.example/T0/B0?x=1#y", "postgresql://ann:pw@db/shop?sslmode=require"
    known = Redactor().adding({hook: "HOOK", database: "DB"})
    mask_before_cutting(known)
    assert cut_address(hook) == "<secret:HOOK>"
    assert cut_address(f"{hook}&more=1") == "<secret:HOOK>&more=1"
    assert without_password(database) == without_password(f"{database}&x=1") == "<secret:DB>"
    assert bare_url(database) == "postgresql://ann:***@db/shop?sslmode=require"


def test_an_address_is_shown_without_its_login_and_query() -> None:
    assert cut_address("https://ann:pw@h:1/a/@b?q=c@d#e") == "https://h:1/a/@b"
    assert cut_address("https://h#x@y") == "https://h"
    assert cut_address("http://[not-one/?q") == "http://[not-one/"


def test_a_masked_text_is_cut_before_a_placeholder_and_never_within_it() -> None:
    shown = "<secret:API_KEY:base64-1>"
    text = f"ab{shown}cd"
    within = range(3, 2 + len(shown))
    assert [cut_place(text, at) for at in range(len(text) + 1) if at not in within] == [
        at for at in range(len(text) + 1) if at not in within
    ]
    assert {cut_place(text, at) for at in within} == {2}
    assert cut_place("a <secret: of ours", 9) == 9
