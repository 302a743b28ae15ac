"""Makes the preview of a text: its first lines, each cut to a maximum length."""

from __future__ import annotations

_LEAST_CHARS = 20


def preview(text: str, lines: int, line_chars: int, *, max_bytes: int) -> tuple[str, int, int]:
    """Return the beginning of ``text``. Pure: the result depends only on the arguments.

    Args:
        text: the whole text.
        lines: the maximum number of lines.
        line_chars: the maximum number of characters per line; for a cut line its length is shown.
        max_bytes: about the maximum number of UTF-8 bytes; at least one line, shortened, is returned in any case.

    Returns:
        the preview, the number of lines in it, and the number of lines in ``text``.
    """
    all_lines = text.split("\n")
    # A line end at the end of the text begins no further line.
    if all_lines[-1] == "" and len(all_lines) > 1:
        all_lines.pop()
    shown: list[str] = []
    left = max_bytes
    for line in all_lines[:lines]:
        if shown and left <= 0:
            break
        # Cut before it is encoded: a line may have millions of characters.
        cut = _cut(line, min(line_chars, max(_fitting(line[:line_chars], left), _LEAST_CHARS)))
        shown.append(cut)
        left -= len(cut.encode(errors="surrogatepass")) + 1
    return "\n".join(shown), len(shown), len(all_lines)


def _fitting(text: str, size: int) -> int:
    """Return how many characters of ``text`` fit in ``size`` UTF-8 bytes."""
    # A character that the cut parts is ignored.
    return len(text.encode(errors="surrogatepass")[: max(size, 0)].decode(errors="ignore"))


def _cut(line: str, chars: int) -> str:
    return line if len(line) <= chars else f"{line[:chars]}... [the line has {len(line):,} characters]"
