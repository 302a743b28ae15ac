"""Requests to remember something, recognised in a user's English or Chinese message.

Only the user's own words decide, never the model's. Quoted text, code and quoted mail in the message do not count.
Neither does a question about remembering, or a request not to remember.
"""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|^[ \t]*>.*$"
    r"|\"[^\"\n]*\"|“[^”]*”|「[^」]*」|『[^』]*』|《[^》]*》|«[^»]*»",
    re.DOTALL | re.MULTILINE,
)
_CLAUSES: Final = re.compile(r"[.!;\n。！；]+|(?<=[?？])")

_ENGLISH: Final = re.compile(
    r"(?:^|[,:(–—-]\s*|\b(?:please|and|also|so|then|but|kindly|just|always|ok(?:ay)?|hey|hi|zeus|"
    r"(?:can|could|would|will|should|must) you(?: please)?|you (?:should|must|can|could)|"
    r"(?:want|need|like|ask(?:ing|ed)?|tell(?:ing)?) you to|let'?s)\s+,?\s*)"
    r"(?:"
    r"remember\b(?!\s+(?:when|how we|what|where|who|why|if|whether|last|the (?:time|day)|me\b))"
    r"|memori[sz]e\b"
    r"|(?:keep|bear|have) (?:(?:this|that|it|these|those|the following)\s+)?in mind\b"
    r"|do(?:n'?t| not) (?:ever )?forget\b|never forget\b"
    r"|(?:make|take) (?:a |an? extra )?(?:mental )?note\b"
    r"|note (?:that|down|this)\b"
    r"|(?:save|store|add|put|write|keep|record)\b[^?]{0,200}?\b(?:to|in|into) your (?:long-term )?memor(?:y|ies)\b"
    r"|(?:save|store|add|commit)\b[^?]{0,40}?\b(?:to|into|as a) (?:long-term )?memory\b"
    r"|(?:save|store|keep) (?:in memory (?:that|this)|(?:this|that|it) in memory)\b"
    r"|(?:save|store|record|keep) (?:this|that|it|these|the following) (?:for (?:later|next time|the future)|down)\b"
    r")"
    r"|\b(?:from now on|for future reference|for next time)\b",
    re.IGNORECASE,
)
_ENGLISH_NOT: Final = re.compile(
    r"\b(?:do(?:n'?t| not)|no need to|never|stop|without|needn'?t|shouldn'?t|must not|mustn'?t|not to)\s+"
    r"(?:\w+\s+){0,2}?"
    r"(?:remember|memori[sz]|sav|stor|record|not[ei]|keep|add|put)"
    r"|\bforget (?:it|that|this|about|what|everything|all)\b",
    re.IGNORECASE,
)
_NOT_FORGET: Final = re.compile(r"\b(?:do(?:n'?t| not)|never)\s+(?:ever\s+)?forget\b", re.IGNORECASE)
_QUESTION_EN: Final = re.compile(
    r"\b(?:do|did|does|are|were|have|had|how|what|why|who|where|when|which)\b[^,]*?\b"
    r"(?:remember|memori[sz]e|memor(?:y|ies)|keep in mind|forget)\b",
    re.IGNORECASE,
)

_CHINESE: Final = re.compile(
    r"(?:(?<![我他她它们没])|(?<=[帮幫给請请]我))(?:记住|記住|牢记|牢記|记下|記下|记一下|記一下|记好|記好|记录下来|記錄下來|记到|記到|谨记)"
    r"|(?:^|[，,：:、\s]|请|請|要|你|帮我|幫我|务必|務必|一定|都|给我)(?:记得|記得)(?!吗|嗎|么|当时|上次)"
    r"|(?:别|別|不要|勿|不能|不许)(?:再)?(?:忘了?|忘记|忘記|忘掉)"
    r"|(?:保存|存|写|寫|加|添加|记|記|放|录)(?:到|入|进|進|在)(?:你的|您的|长期|長期)*(?:记忆|記憶)"
    r"|(?:从现在起|從現在起|从今以后|從今以後|从现在开始|從現在開始|今后|今後)"
    r"|(?:^|[，,：:、\s])以后(?:都|请|就|一律|回答|回复|不要|要|用)"
)
_CHINESE_NOT: Final = re.compile(
    r"(?:不要|别|別|不用|不必|不需要|无需|無需|请勿|勿|不许)(?:再|去|把[^，,。]{0,30}?|帮我|将[^，,。]{0,30}?)?"
    r"(?:记住|記住|记下|記下|记一下|记得|記得|保存|存入|存到|记录|記錄|记到|记忆)"
    r"|(?:记|記)不(?:住|得|起|清)|(?:没|沒)(?:有)?(?:记|記)"
)
_ASKING_ZH: Final = re.compile(r"什么|甚麼|谁|誰|哪|为何|为什么|怎么|怎样|多少|几个")
_QUESTION_ZH: Final = re.compile(r"(?:吗|嗎|么|呢)\s*[?？]?\s*$")
_REQUEST_ZH: Final = re.compile(r"能|可以|可否|好吗|好嗎|行吗|请|請|帮|幫")


def asks_to_remember(text: str) -> bool:
    """Whether the user's message asks to remember something.

    Args:
        text: the message as the user wrote it.
    """
    return any(_asks(clause.strip()) for clause in _CLAUSES.split(_QUOTED.sub(" ", text)))


def _asks(clause: str) -> bool:
    if not clause:
        return False
    return _asks_in_english(clause) or _asks_in_chinese(clause)


def _asks_in_english(clause: str) -> bool:
    found = _ENGLISH.search(clause)
    if found is None:
        return False
    if _ENGLISH_NOT.search(_NOT_FORGET.sub("", clause)):
        return False
    return not (clause.endswith("?") and _QUESTION_EN.search(clause))


def _asks_in_chinese(clause: str) -> bool:
    if _CHINESE.search(clause) is None or _CHINESE_NOT.search(clause):
        return False
    if _ASKING_ZH.search(clause) and clause.endswith(("?", "？")):
        return False
    return not (_QUESTION_ZH.search(clause) and not _REQUEST_ZH.search(clause))
