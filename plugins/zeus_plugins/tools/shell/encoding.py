"""The variables that decide how a shell reads the bytes of a line. Pure.

Rules judge a line as UTF-8. In GBK, Big5 or Shift JIS, a backslash or a backquote may be the second half of a
character: in `ls "中\\"; rm a #"`, bash would then see the end of a string, and run `rm a`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_DECIDING: Final = ("LC_ALL", "LC_CTYPE", "LANG")
"""The first one that is set decides about characters."""


def other_encoding(environ: Mapping[str, str]) -> str | None:
    """Return the variable for which a shell reads bytes otherwise than as UTF-8 or ASCII; None if it does not."""
    name = next((each for each in _DECIDING if environ.get(each)), None)
    if name is None or environ[name] in ("C", "POSIX"):
        return None
    charset = environ[name].partition("@")[0].partition(".")[2]
    return None if charset.lower().replace("-", "") == "utf8" else name


def in_utf8(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, with ``LC_CTYPE`` for UTF-8 if ``LANG`` is for another encoding."""
    return {**environ, "LC_CTYPE": "C.UTF-8"} if other_encoding(environ) == "LANG" else dict(environ)
