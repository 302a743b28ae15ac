"""Things that a person has once at a time, such as a home: another name is a change, also if a model finds it far."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from zeus_runtime.memory.admission.wording import DETERMINERS, SIMPLIFIED, SUBJECTS

Held: TypeAlias = tuple[str, str]
"""Who has it, empty for the user, and what."""


@lru_cache(64)
def held_once(text: str) -> Held | None:
    """Return the thing in a statement that a person has only one of at a time, such as an employer; else None.

    The statement must hold at all times, and after a verb a name must follow: "works at Google", not "works at night".
    """
    if not text.isascii() and (chinese := _ZH.fullmatch(text.translate(SIMPLIFIED))):
        return _ZH_NOBODY.sub("", chinese["who"]).removesuffix("的"), chinese["what"] or str(
            chinese.lastgroup
        )
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
    r"|deadline|budget|profession|occupation) +is\b",
    re.IGNORECASE,
)
_AT_TIMES: Final = re.compile(
    r"\b(?:during|sometimes|often|every|half|part|week\w*|days?|nights?|months?|years?|[a-z]+days|summers?|winters?)\b",
    re.IGNORECASE,
)
_ZH: Final = re.compile(
    r"(?P<who>[^,。;:!?，；：！？]{0,20}?)(?:现在|目前|如今|已经)?(?:"
    # Where a Chinese name ends no capital tells: what is short and holds no word of a house or of what is near is one.
    r"(?P<home>居住|定居|住)在[^,。;!?，；！？一两个间套栋层楼里外旁边附近房屋家租校店舍离得很和与的]{2,8}"
    r"|(?P<what>老板|上司|经理|领导|主管|导师|名字|邮箱|电话|手机号码?|微信号|生日|职业|职位|工资|月薪|年薪"
    r"|时区|家乡|母语|国籍|用户名|昵称|截止日期|预算|(?:老婆|妻子|太太|老公|丈夫|女朋友|男朋友)(?=叫))"
    r"(?:现在|目前)?(?:是|叫|为)(?![个一很最非太挺不])[^,。;!?，；！？]{1,24}(?<![人的])"
    r")[。.!！]?"
)
_ZH_NOBODY: Final = re.compile(r"^(?:用户|使用者|我们|咱们|本人|我)?的?")
_WORD: Final = re.compile(r"[\w'-]+")
_NOBODY: Final = SUBJECTS | DETERMINERS | {"user's"}
