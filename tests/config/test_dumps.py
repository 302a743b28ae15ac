"""A secret in what `xxd`, `od` and `hexdump` show of a file is masked in every column."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.config import Redactor
from zeus_runtime.config.secrets.placeholders import PLACEHOLDER

_ESCAPES = dict(zip(b"\0\a\b\t\n\v\f\r", (rf"\{each}" for each in "0abtnvfr"), strict=True))
_NAMES = (
    "nul soh stx etx eot enq ack bel bs ht nl vt ff cr so si "
    "dle dc1 dc2 dc3 dc4 nak syn etb can em sub esc fs gs rs us sp"
).split()
# No digit: the offset of the next line would go on as a text column does. No sign that may be doubled.
LETTERS = "ghijkmnopqrstuvwxyzGHJKLMNPQRSTUVWXYZ@_"


def shown(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def lines(data: bytes, line: Callable[[int, bytes], str], width: int = 16) -> str:
    return "".join(line(at, data[at : at + width]).rstrip("\n") + "\n" for at in range(0, len(data), width))


def words(part: bytes, size: int, *, swapped: bool = False) -> list[str]:
    padded = part + bytes(-len(part) % size) if swapped else part
    return [padded[at : at + size][:: -1 if swapped else 1].hex() for at in range(0, len(part), size)]


def xxd(data: bytes, size: int = 2, *, upper: bool = False) -> str:
    def line(at: int, part: bytes) -> str:
        digits = " ".join(words(part, size))
        return f"{at:08x}: {digits.upper() if upper else digits:{16 * 2 + 16 // size - 1}}  {shown(part)}"

    return lines(data, line)


def hexdump(data: bytes) -> str:
    text = lines(data, lambda at, part: f"{at:07x} {' '.join(words(part, 2, swapped=True)):39}")
    return f"{text}{len(data):07x}\n"


def hexdump_c(data: bytes) -> str:
    def line(at: int, part: bytes) -> str:
        halves = (" ".join(words(each, 1)) for each in (part[:8], part[8:]))
        return f"{at:08x}  {'  '.join(halves):48}  |{shown(part)}|"

    return f"{lines(data, line)}{len(data):08x}\n"


def od(
    data: bytes, cells: Callable[[bytes], Sequence[str]], *, offsets: bool = True, text: bool = False
) -> str:
    def line(at: int, part: bytes) -> str:
        groups = "".join(cells(part))
        room = len("".join(cells(bytes(16)))) - len(groups)
        return (f"{at:07o}" if offsets else "") + groups + (" " * room + f"  >{shown(part)}<" if text else "")

    return lines(data, line) + (f"{len(data):07o}\n" if offsets else "")


def hexadecimal(part: bytes, size: int = 1) -> list[str]:
    return [f" {each}" for each in words(part, size, swapped=True)]


def characters(part: bytes) -> list[str]:
    return [f"{_ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f'{byte:03o}'):>4}" for byte in part]


def named(part: bytes) -> list[str]:
    signs = [byte & 127 for byte in part]
    return [f"{_NAMES[each] if each < 33 else 'del' if each == 127 else chr(each):>4}" for each in signs]


def numbers(part: bytes, form: str) -> list[str]:
    return [f" {byte:{form}}" for byte in part]


DUMPS: dict[str, Callable[[bytes], str]] = {
    "xxd": xxd,
    "xxd -g1": partial(xxd, size=1),
    "xxd -g4": partial(xxd, size=4),
    "xxd -u": partial(xxd, upper=True),
    "hexdump": hexdump,
    "hexdump -C": hexdump_c,
    "od -c": lambda data: od(data, characters),
    "od -An -c": lambda data: od(data, characters, offsets=False),
    "od -a": lambda data: od(data, named),
    "od -tx1": lambda data: od(data, hexadecimal),
    "od -An -tx1": lambda data: od(data, hexadecimal, offsets=False),
    "od -tx1z": lambda data: od(data, hexadecimal, text=True),
    "od -An -tx1z": lambda data: od(data, hexadecimal, offsets=False, text=True),
    "od -tx2": lambda data: od(data, partial(hexadecimal, size=2)),
    "od -An -tx2z": lambda data: od(data, partial(hexadecimal, size=2), offsets=False, text=True),
    "od -tx4": lambda data: od(data, partial(hexadecimal, size=4)),
    "od -An -tx4": lambda data: od(data, partial(hexadecimal, size=4), offsets=False),
    "od -b": lambda data: od(data, partial(numbers, form="03o")),
    "od -tu1": lambda data: od(data, partial(numbers, form="3d")),
}


def masked(dump: Callable[[bytes], str], around: tuple[bytes, bytes], secret: str) -> str:
    text = dump(around[0] + secret.encode() + around[1])
    return PLACEHOLDER.sub("#", Redactor().adding({secret: "KEY"}).text(text))


# Random text, so that a text column looks like groups of digits at times, and random bytes.
FILES = st.binary(max_size=40) | st.text("abcdef0123456789 .\n|<>", max_size=40).map(str.encode)


SECRETS = st.permutations(LETTERS).map(lambda letters: "Q!z" + "".join(letters))


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
@given(st.tuples(FILES, FILES), SECRETS, SECRETS, st.integers(8, 40))
def test_a_masked_dump_is_the_same_whatever_the_secret_is(
    dump: Callable[[bytes], str], around: tuple[bytes, bytes], one: str, other: str, length: int
) -> None:
    assert masked(dump, around, one[:length]) == masked(dump, around, other[:length])


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
@given(st.binary(max_size=100))
def test_a_dump_without_a_secret_stays_as_it_is(dump: Callable[[bytes], str], data: bytes) -> None:
    text = dump(data)
    assert Redactor().adding({"Kx9mPq2vLw7t": "KEY"}).text(text) == text


SECRET = "Kx9mPq2vLw7tZr4bHc3nJd8f"
KNOWN = Redactor().adding({SECRET: "KEY"})
FILE = f"user = shop\npassword = {SECRET}\r\nhost = db\n".encode()


@pytest.mark.parametrize("command", DUMPS)
def test_the_programs_show_what_these_tests_mask(command: str, tmp_path: Path) -> None:
    if shutil.which(command.split()[0]) is None:
        pytest.skip("the program is not installed")
    (tmp_path / "file").write_bytes(FILE)
    text = subprocess.run(
        [*command.split(), str(tmp_path / "file")], capture_output=True, check=True, text=True
    ).stdout
    ours = DUMPS[command](FILE)
    assert [each.rstrip() for each in text.splitlines()] == [each.rstrip() for each in ours.splitlines()]


@pytest.mark.parametrize("lead", ["", "+", "< ", "    12\t", "12:"])
@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_an_edit_beside_a_dumped_secret_keeps_it(dump: Callable[[bytes], str], lead: str) -> None:
    text = "first\n" + "".join(f"{lead}{line}\n" for line in dump(FILE).splitlines())
    shown = KNOWN.text(text)
    assert "<secret:KEY" in shown
    assert shown.count("\n") == text.count("\n")
    assert KNOWN.text(shown) == shown
    assert KNOWN.restored(shown.replace("first", "changed"), text) == text.replace("first", "changed")


def test_bytes_that_a_dump_shows_twice_are_masked_twice() -> None:
    pairs = zip(
        od(FILE, hexadecimal, offsets=False).splitlines(), DUMPS["od -An -c"](FILE).splitlines(), strict=True
    )
    shown = KNOWN.text("".join(f"{line.replace(' ', '  ')}\n{other}\n" for line, other in pairs))
    assert "K   x   9" not in shown
    assert "4b  78  39" not in shown


@pytest.mark.parametrize("separator", [" ", ":"])
def test_bytes_in_one_line_are_a_dump(separator: str) -> None:
    text = FILE.hex(separator)
    start, end = (3 * at for at in (FILE.index(SECRET.encode()), FILE.index(b"\r")))
    assert PLACEHOLDER.sub("#", KNOWN.text(text)) == f"{text[:start]}#{text[end - 1 :]}"


def test_the_bytes_of_a_c_array_are_a_dump() -> None:
    text = lines(FILE, lambda _, part: "  " + ", ".join(f"0x{byte:02x}" for byte in part) + ",", 12)
    assert re.findall("0x4b|0x78|0x39", KNOWN.text(text)) == []


WITH_OFFSETS = {name: dump for name, dump in DUMPS.items() if "-An" not in name}


@pytest.mark.parametrize("dump", WITH_OFFSETS.values(), ids=WITH_OFFSETS)
@given(st.lists(st.integers(1, 40), min_size=1), st.integers(0, 20))
def test_a_secret_in_a_dump_that_streams_is_masked(
    dump: Callable[[bytes], str], lengths: list[int], lead: int
) -> None:
    text = "first\n" + dump(bytes(lead) + FILE) + "a last line\n"
    told = rest = ""
    at = 0
    for length in [*lengths, *[7] * (len(text) // 7 + 1)]:
        piece, rest = KNOWN.settled(rest + text[at : at + length])
        told, at = told + piece, at + length
    assert told + KNOWN.text(rest) == KNOWN.text(text)


def test_a_list_of_numbers_does_not_wait() -> None:
    text = " ".join(map(str, range(1_000)))
    assert KNOWN.settled(text) == (text.removesuffix("999"), "999")
