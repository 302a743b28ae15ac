"""Damaged configs: seeded changes of YAML text, as a hurried or hostile hand makes them. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

Mutation = Callable[[random.Random, list[str], Sequence[str]], list[str] | bytes]

SCALARS: Final = (
    *("null", "true", "off", "yes", "0", "-1", "1e999", "-.inf", ".nan", "9" * 400, "0x" + "f" * 90, "1_000"),
    *(
        "3.0",
        "12:30:45",
        "2026-11-22",
        "''",
        '""',
        "[]",
        "{}",
        "[[]]",
        "{a: {}}",
        "[1, two, null]",
        "~",
        "?",
        "-",
    ),
    *(
        "${HOME}",
        "${NOT_SET}",
        "${A:-${B:-c}}",
        "${",
        "$$",
        "${HOME",
        "${OPENAI_API_KEY}",
        "*nowhere",
        "&a [*a]",
    ),
    *("!!python/object/apply:os.system ['true']", "!!binary aGk=", "!!set {a, b}", "!custom x", "!!int many"),
    *(
        "|\n    a\n   b",
        ">-\n",
        '"\\x00"',
        '"\\ud800"',
        '"\\u202e"',
        "'it''s",
        '"open',
        "%TAG ! x",
        "@x",
        "`x`",
    ),
    *(
        "x" * 70_000,
        "../../../../etc/passwd",
        "/dev/zero",
        "~root/x",
        "https://[::1",
        "sqlite:////",
        "\U0001f600",
    ),
    *("openai/gpt-5-2", "default", "zeus.yaml", "plugin:nobody", "{litellm: {model: [x]}}", "{a: 1, b: 2}"),
)
LINES: Final = (
    *(
        "<<: *nowhere",
        "<<: {model: x}",
        "<<: [1]",
        "? [a, b]\n: c",
        "? \n",
        "---",
        "...",
        "%YAML 1.2",
        "\tx: y",
    ),
    *(
        "1: one",
        "null: x",
        "true: x",
        "'': x",
        "extends: [a, b]",
        "extends: {}",
        "version: [1]",
        "model: {a: b}",
    ),
    *("x: &x [*x, *x]", "a: &a [x]\nb: &b [*a, *a]\nc: &c [*b, *b, *b]", "tools: {web: {}}", "agents: []"),
    *(
        "agents: {a: {config: zeus.yaml}}",
        "memory: {embeddings: {none: {}}}",
        "middlewares: [a, {b: c}, [d]]",
    ),
    *(
        "mcpServers: {x: {command: '', url: ''}}",
        "workspace: {routes: {'': '', /: ., x: s3://y}}",
        "homes: [.]",
    ),
    *(
        "limits: {max_steps: -1, max_cost_usd: .nan}",
        "profiles: {models: {x: {price: {}}}}",
        "plugins: {only: []}",
    ),
    *(
        "x: " + "[" * 3_000,
        "x: " + "{a: " * 400 + "}" * 400,
        "- x",
        "x",
        ": x",
        "\x07",
        "\ufeff",
        "\u2028: x",
        "#" * 9_000,
    ),
)


def mutants(seed: int, count: int, sources: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """``count`` damaged texts, each with the index of the source that it was made of."""
    dice = random.Random(seed)
    for _ in range(count):
        index = dice.randrange(len(sources))
        yield index, mutant(dice, sources[index], sources)


def mutant(dice: random.Random, source: str, others: Sequence[str]) -> bytes:
    """``source`` after one to four changes; a change that gives bytes is the last."""
    lines = source.splitlines()
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 4))):
        changed = dice.choice(MUTATIONS)(dice, lines or [""], others)
        if isinstance(changed, bytes):
            return changed
        lines = changed
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def _delete(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    start = dice.randrange(len(lines))
    return lines[:start] + lines[start + dice.choice((1, 1, 1, 3)) :]


def _duplicate(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    start = dice.randrange(len(lines))
    return lines[: start + 1] + lines[start : start + dice.choice((1, 1, 4))] + lines[start + 1 :]


def _swap(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    one, two = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines = list(lines)
    lines[one], lines[two] = lines[two], lines[one]
    return lines


def _shift(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    return _with(dice, lines, lambda line: dice.choice((" ", "  ", "\t", "      ")) + line)


def _unindent(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    return _with(
        dice, lines, lambda line: line[min(dice.choice((1, 2, 4)), len(line) - len(line.lstrip())) :]
    )


def _retype(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    """Another value behind a key or a dash."""

    def other(line: str) -> str:
        found = re.match(r"(\s*(?:- )?[\w./-]+:|\s*-)\s", line + " ")
        return f"{found[1]} {dice.choice(SCALARS)}" if found else f"{line} {dice.choice(SCALARS)}"

    return _with(dice, lines, other)


def _flow(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    """Another value inside braces or brackets, or behind a colon, anywhere in a line."""

    def other(line: str) -> str:
        words = list(re.finditer(r"[\w./-]+", line))
        if not words:
            return line
        word = dice.choice(words)
        return line[: word.start()] + dice.choice(SCALARS) + line[word.end() :]

    return _with(dice, lines, other)


def _misspell(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    def other(line: str) -> str:
        if not line:
            return line
        at = dice.randrange(len(line))
        return (
            line[:at]
            + dice.choice(("", "x", line[at] * 2, ":", "'", '"', "[", "}", "#", "&", "*"))
            + line[at + 1 :]
        )

    return _with(dice, lines, other)


def _insert(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    at = dice.randrange(len(lines) + 1)
    around = re.match(r"\s*", lines[min(at, len(lines) - 1)])
    indent = around[0] if around and dice.random() < 0.5 else ""
    return [*lines[:at], indent + dice.choice(LINES), *lines[at:]]


def _splice(dice: random.Random, lines: list[str], others: Sequence[str]) -> list[str]:
    """A few lines of another config."""
    other = dice.choice(others).splitlines() or [""]
    start, at = dice.randrange(len(other)), dice.randrange(len(lines) + 1)
    return [*lines[:at], *other[start : start + dice.choice((1, 2, 8))], *lines[at:]]


def _control(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    def other(line: str) -> str:
        at = dice.randrange(len(line) + 1)
        return line[:at] + dice.choice("\x00\x07\x0b\x1b\x7f\x85\u200b\u202e\u2028\ufeff\ufffe\r") + line[at:]

    return _with(dice, lines, other)


def _nest(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    """A value that stands in very many brackets, closed or not."""
    deep = dice.choice((30, 300, 3_000))
    opening, closing = dice.choice((("[", "]"), ("{a: ", "}"), ("[{x: ", "}]"), ("- ", "")))
    return [*lines, "deep: " + opening * deep + closing * dice.choice((deep, 0))]


def _aliases(dice: random.Random, lines: list[str], _others: Sequence[str]) -> list[str]:
    """Aliases that double at each step."""
    key = dice.choice(("metadata", "limits", "x"))
    bomb = [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, dice.choice((4, 9, 30)))]
    return [*lines, f"{key}:", "  a0: &a0 [x, x]", *bomb]


def _encoding(dice: random.Random, lines: list[str], _others: Sequence[str]) -> bytes:
    text = "\n".join(lines) + "\n# ä\n"
    encoding = dice.choice(("utf-16", "utf-16-be", "utf-32", "utf-8-sig", "latin-1", "cp037"))
    return text.encode(encoding, "replace")


def _cut(dice: random.Random, lines: list[str], _others: Sequence[str]) -> bytes:
    """Bytes that are lost, repeated or changed, wherever they are."""
    raw = bytearray("\n".join(lines).encode("utf-8", "surrogatepass") or b"x")
    at = dice.randrange(len(raw))
    change = dice.choice(("end", "flip", "lose", "repeat"))
    if change == "end":
        return bytes(raw[:at])
    if change == "flip":
        raw[at] = dice.randrange(256)
    elif change == "lose":
        del raw[at : at + dice.choice((1, 5, 40))]
    else:
        raw[at:at] = raw[at : at + 40] * dice.choice((1, 50))
    return bytes(raw)


def _with(dice: random.Random, lines: list[str], change: Callable[[str], str]) -> list[str]:
    """The lines with one of those changed that say something."""
    telling = [
        index for index, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")
    ]
    if not telling:
        return lines
    at = dice.choice(telling)
    return [*lines[:at], change(lines[at]), *lines[at + 1 :]]


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(_delete, _duplicate, _swap, _shift, _unindent, _misspell, _insert, _splice, _control, _nest, _aliases),
    *(_retype, _retype, _retype, _flow, _flow, _flow, _encoding, _cut),
)
