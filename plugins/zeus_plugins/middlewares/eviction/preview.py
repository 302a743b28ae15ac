"""The preview of a text: its first lines, each cut, and how much is left."""

from __future__ import annotations

_LEAST_CHARS = 20


def preview(text: str, lines: int, line_chars: int, *, max_bytes: int) -> tuple[str, int, int]:
    """The start of ``text``; nothing depends on anything but the arguments.

    Args:
        text: all of it.
        lines: how many lines, at most.
        line_chars: how many characters of each; a cut line says how long it is.
        max_bytes: how many UTF-8 bytes in all, about; at least one line comes nevertheless, shortened.

    Returns:
        the preview, how many lines it shows, and how many ``text`` has.
    """
    all_lines = text.split("\n")
    if all_lines[-1] == "" and len(all_lines) > 1:
        all_lines.pop()
    shown: list[str] = []
    left = max_bytes
    for line in all_lines[:lines]:
        if shown and left <= 0:
            break
        cut = _cut(line, min(line_chars, max(_fitting(line[:line_chars], left), _LEAST_CHARS)))
        shown.append(cut)
        left -= len(cut.encode(errors="surrogatepass")) + 1
    return "\n".join(shown), len(shown), len(all_lines)


def _fitting(text: str, size: int) -> int:
    """How many characters of ``text`` take at most ``size`` UTF-8 bytes."""
    return len(text.encode(errors="surrogatepass")[: max(size, 0)].decode(errors="ignore"))


def _cut(line: str, chars: int) -> str:
    return line if len(line) <= chars else f"{line[:chars]}... [the line has {len(line):,} characters]"
