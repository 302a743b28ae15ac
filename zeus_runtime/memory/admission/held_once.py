"""What somebody has one of at a time, such as a home: another name there is a change, however far a model finds it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from zeus_runtime.memory.admission.wording import DETERMINERS, SUBJECTS

Held: TypeAlias = tuple[str, str]
"""Who has it, empty for the user, and what."""


@lru_cache(64)
def held_once(text: str) -> Held | None:
    """What an English statement names of which somebody has one at a time; None where it names nothing of the kind.

    Only for all of the time, and after a verb only where a name follows: "works at Google", not "works at night".
    """
    match = _PROPERTY.match(text) or _HELD.match(text)
    if match is None or _AT_TIMES.search(text, match.end()):
        return None
    words = _WORD.findall(match["who"].lower())
    what = match["what"].lower() if match.re is _PROPERTY else str(match.lastgroup)
    return " ".join([word for word in words if word not in _NOBODY]), what


_NOW: Final = "(?:(?:now|currently|presently|still) +)?"
_HELD: Final = re.compile(
    rf"(?P<who>[^.,;:!?]{{0,60}}?)\b(?i:(?:is|are|am) +)?(?i:{_NOW}(?:"
    r"(?P<home>(?:liv(?:e|es|ing)|resid(?:e|es|ing)) +in)|"
    r"(?P<seat>(?:based|located|headquartered) +in)|"
    r"(?P<employer>work(?:s|ing)? +(?:at|for)|employed +(?:at|by))|"
    r"(?P<school>(?:study|studies|studying) +at)|"
    r"(?P<head>report(?:s|ing)? +to)|"
    r"(?P<partner>(?:married|engaged) +to)"
    r")) +(?=[A-Z])"
)
_PROPERTY: Final = re.compile(
    r"(?P<who>[^.,;:!?]{0,40}(?:'s|\b(?:my|our|his|her|their|the))) +(?P<what>"
    r"(?:(?:favou?rite|preferred|main|primary|current|default|native)(?: +[a-z-]+){1,3}?)|e-?mail(?: +address)?"
    r"|(?:phone|mobile|telephone)(?: +number)|(?:home +)?address|age|birthday|employer|boss|manager|wife|husband|spouse"
    r"|partner|girlfriend|boyfriend|job(?: +title)?|salary|user ?name|handle|nickname|pronouns|time ?zone|hometown"
    r"|deadline|budget) +is\b",
    re.IGNORECASE,
)
_AT_TIMES: Final = re.compile(
    r"\b(?:during|sometimes|often|every|half|part|week\w*|days?|nights?|months?|years?|[a-z]+days|summers?|winters?)\b",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[\w'-]+")
_NOBODY: Final = SUBJECTS | DETERMINERS | {"user's"}
