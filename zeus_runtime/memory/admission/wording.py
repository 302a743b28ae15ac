"""The grammar of short statements in English and Chinese: closed classes of words, and how a change is told.

No list here names topics of statements. Open classes of words are recognised by their place in the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from zeus_runtime.memory.admission.values import ZH_MEASURES


class Telling(NamedTuple):
    """A pattern of words with a meaning.

    Args:
        signs: texts in lower case; a text (``lowered``) that contains none of them cannot match the pattern.
        pattern: the pattern.
    """

    signs: tuple[str, ...]
    pattern: re.Pattern[str]

    def matches(self, text: str, low: str) -> Iterator[re.Match[str]]:
        """Where ``text``, which is ``low`` in lower case, tells it."""
        return self.pattern.finditer(text) if any(map(low.__contains__, self.signs)) else iter(())


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COPULAS: Final = _words(
    "is are was were am be been being will would shall should must can may might could has have had does do did :"
)
"""English auxiliary verbs: the words before the first one are the subject of the statement."""

PREPOSITIONS: Final = _words(
    "in on at of to for by with from into via within per about during as over under through against between than"
)
DETERMINERS: Final = _words(
    "a an the this that these those my our your his her its their any each every both"
)
PASSED_OVER: Final = DETERMINERS | _words("now currently presently still already")
"""English words that are skipped between a word and the word that it belongs to: "is now a nurse"."""
SUBJECTS: Final = _words("i we you he she they it user users")

EMPTY: Final = (
    (COPULAS - {"can", "may", "might", "could"})
    | (PREPOSITIONS - {"under", "against", "over"})
    | DETERMINERS
    | SUBJECTS
    | _words(
        "and or then also too just very really quite much so me us them there here who which what when while if "
        "own owns owned possess mine ours yours user's i'm i've i'd i'll we're we've we'd it's that's "
        "because let's please remember note kindly keep correction update actually now "
        "nowadays currently presently today anymore "
        "still already always usually typically generally normally instead rather such s t use using "
        "make making get take"
    )
)
"""English words that contribute no value to a statement."""

LIMITS: Final = _words("if when unless only except until before after while since for most some few least")
"""English words that limit what is said: without them more is said, though in fewer words."""

MODALS: Final = _words("can may might could 能")
QUANTIFIERS: Final = LIMITS | MODALS | _words("all many none more less fewer 前 后 每 全 部")
"""Words that say how much of something, which is not what a statement is about."""

ZH_NOW: Final = re.compile("[现現]在|目前|[当當]前|如今|改|[换換]|搬")
"""Chinese words that say, or let expect, that it was otherwise before."""

ZH_LIMITS: Final = re.compile(r"只|仅|除|如果|若|当|时|之前|之后|以前|以后")

NEGATORS: Final = _words("not no never none neither nor without cannot nothing off")
"""Also every word that ends in n't. They negate the rest of the clause."""

DENYING: Final = {
    "dislike": "prefer",
    "hate": "prefer",
    "detest": "prefer",
    "avoid": "",
    "refuse": "",
    "stop": "",
    "quit": "",
    "disable": "enable",
    "forbid": "allow",
    "prohibit": "allow",
    "forbidden": "allow",
}
"""English verbs that deny another: "dislikes" is "does not like"."""

SAME: Final = {
    word: group.split()[0]
    for group in (
        "prefer like love enjoy want favourite favorite favour favor preference choice fond wish",
        "live reside residing home based",
        "work job employ employed employment",
        "concise brief short terse succinct briefly concisely",
        "detailed thorough verbose detail elaborate",
        "answer reply response respond",
        "database db",
        "repository repo",
        "application app",
        "documentation doc",
        "configuration config",
        "javascript js",
        "typescript ts",
        "kubernetes k8s",
        "postgresql postgres",
    )
    for word in group.split()
}
"""The few words of most memories that mean the same: what is liked, where one lives and works, how answers should be,
and the common short forms."""

MANY: Final = _words(
    "like love enjoy know speak understand own play collect learn visit watch read eat "
    "allergic interested familiar certified fluent fan"
)
"""English words with which one thing does not exclude another: who speaks German may speak French."""

UNITS: Final = {
    unit: kind
    for kind, units in (
        ("time", "second sec s ms minute min hour hr h day week month year decade"),
        ("data", "b kb mb gb tb kib mib gib tib"),
        ("length", "mm cm m km inch foot feet mile"),
        ("mass", "mg g kg pound lb ton"),
        ("money", "cent euro eur dollar usd pound gbp yuan rmb yen"),
        ("share", "percent"),
    )
    for unit in units.split()
}
"""English units, by what they measure: "6 weeks" and "2 months" are values of one thing."""

SUFFIXES: Final = _words(
    "s es d ed ing e er ers or ion ions ation ly y i ic al ment ence ance able ive ql n en"
) | {""}
"""What may follow a stem that two words share, for them to be one word in two forms."""

OPPOSITES: Final = _words("un in im ir il dis non non- de")
"""Prefixes that turn a word into its opposite."""

IRREGULAR: Final = {
    form: base
    for base, forms in (
        entry.split(":")
        for entry in (
            "meet:met go:went,gone buy:bought sell:sold run:ran write:wrote,written see:saw,seen give:gave,given "
            "take:took,taken come:came win:won lose:lost eat:ate,eaten drink:drank drive:drove,driven fly:flew,flown "
            "break:broke,broken build:built lead:led leave:left hold:held begin:began,begun get:got,gotten send:sent "
            "spend:spent teach:taught tell:told find:found keep:kept catch:caught choose:chose,chosen fall:fell,fallen "
            "feel:felt fight:fought sing:sang,sung shoot:shot sleep:slept speak:spoke,spoken stand:stood swim:swam "
            "throw:threw,thrown wear:wore,worn know:knew,known grow:grew,grown make:made pay:paid say:said"
            " think:thought"
        ).split()
    )
    for form in forms.split(",")
}
"""English past tenses and participles that do not end in -ed, with their verbs."""

TITLES: Final = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St)\.(?=\s)")
"""English titles, whose full stop ends no sentence."""

NAMING: Final = _words("called named titled dr mr mrs ms prof st")
"""Words and titles before a name, in lower case."""

TURNING: Final = re.compile(
    r"(?:(?:switch|chang|mov|migrat|upgrad|downgrad|renam|convert|transition|increas|decreas|reduc|rais|lower|postpon|"
    r"delay|reschedul|shift|relocat|replac|adopt|updat|extend|swap|drop|abandon|bump|push|becom|slash|shorten)(?:e|es|ed|s|ing|d|ped|ping)?|became|rewrote|rewritten|rebuilt)"
)
"""English verbs that tell a change and not an event beside others."""

POINT: Final = re.compile(r"(?<=\d)\.(?=\d)")
"""The point of "2.5", which ends nothing."""
_NP: Final = r"(?P<gone>[^,.;!]{1,60}?)"
_STOP: Final = r"(?=\s*(?:[,.;!]|$|\b(?:but|and now|for|in|on|when|as|because|since|now|by)\b))"
GONE: Final = tuple(
    Telling(tuple(signs.split("|")), re.compile(pattern, re.IGNORECASE))
    for signs, pattern in (
        (
            "from",
            rf"\b(?:{TURNING.pattern}|went|gone)\b[^,.;]{{0,40}}?\bfrom\s+{_NP}\s+to\b",
        ),
        (
            "from",
            rf"\b{TURNING.pattern}\s+(?:away\s+)?from\s+(?![^,.;!]{{1,60}}?\bto\b){_NP}{_STOP}",
        ),
        (
            "instead of|rather than|in place of|as opposed to|and not|but not",
            rf"\b(?:instead of|rather than|in place of|as opposed to|and not|but not)\s+{_NP}{_STOP}",
        ),
        (
            "not",
            rf",\s*not\s+{_NP}(?=\s*(?:[,.;!]|$))",
        ),
        (
            "prefer|cho|picked|favo",
            rf"\b(?:prefer\w*|chose|choose\w*|picked|favou?r\w*)\b[^,.;]{{1,60}}?\b(?:over|to)\s+{_NP}{_STOP}",
        ),
        (
            "replac",
            rf"\breplac\w+\s+{_NP}\s+(?:with|by)\b",
        ),
        (
            "replac|supersed|supplant",
            rf"\b(?:replac\w+|supersed\w+|supplant\w+)\s+{_NP}{_STOP}",
        ),
        (
            "swapped|dropped|abandoned|ditched|gave up|left",
            rf"\b(?:swapped|dropped|abandoned|ditched|gave up|left)\s+{_NP}\s+(?:for|in favou?r of)\b",
        ),
        (
            "sold|left|quit|cancel|gave up|got rid of",
            rf"(?<!\bthe )(?<!\bmy )(?<!'s )\b(?:sold|left|quit|cancell?ed|gave up|got rid of)\s+{_NP}"
            r"\s*(?:[,;.]|\band\b|\bbut\b)(?=\s*\S)",
        ),
        (
            "no longer|stopped|used to|not|n't",
            rf"\b(?:no longer|stopped|used to|not|don't|doesn't|isn't|aren't)\s+{_NP}(?:\s+any ?more)?"
            r"(?:\s*[,;.]\s*(?:but|and|it's|it is)?|\s+but)(?=\s+\S)",
        ),
        (
            "previously|formerly|was|were",
            rf"\b(?:previously|formerly|was|were)\s+{_NP}\s*[,;]?\s+(?:but\s+)?(?=(?:and\s+)?(?:is |are )?now\b)",
        ),
        (
            "previously|formerly",
            rf"\b(?:previously|formerly)\s+{_NP}{_STOP}",
        ),
        (
            "now",
            rf"\b\w+\s+{_NP},?\s+(?:and|but)\s+(?:is\s+|are\s+|has\s+)?now\b(?!\s+also)",
        ),
        (
            "从|由|把|将",
            r"(?:从|由|把|将)(?P<gone>[^,。;从由把将]{1,20}?)(?=(?:改|换|切|迁|升|降|转|搬|调|变|延|推|提前|替换))",
        ),
        (
            "而不是|而非|代替|取代|替代",
            r"(?:而不是|而非|代替|取代|替代)(?P<gone>[^,。;]{1,20}?)(?=[,。;]|$)",
        ),
        (
            "不|没再",
            r"(?:不再|没再|不)(?P<gone>[^,。;]{1,20}?)了?(?=[,;。]\s*(?:而是|改|现在|换|如今|转|已))",
        ),
        (
            "以前|原来|曾经|之前|过去",
            r"(?:以前|原来|曾经|之前|过去)(?P<gone>[^,。;]{1,20}?)(?=[,;。])",
        ),
        (
            "比起|相比",
            r"(?:比起|相比)(?P<gone>[^,。;]{1,20}?)(?=[,更])",
        ),
        (
            "比|胜过",
            r"(?:比|胜过)(?P<gone>[^,。;]{1,20}?)(?=更)",
        ),
    )
)
"""How a statement tells what is not so any more, or not chosen."""

FORMER: Final = Telling(
    ("used to", "no longer", "以前", "曾经", "原来", "从前"),
    re.compile(
        r"(?<!\bis )(?<!\bare )(?<!\bget )\bused to\b|\bno longer\b|以前|曾经|原来|从前", re.IGNORECASE
    ),
)
"""Patterns that say that something is no longer true."""

TOLD: Final = tuple(sorted({sign for telling in (*GONE, FORMER) for sign in telling.signs}))
"""A text in lower case that contains none of these says nothing about something being no longer true."""

ZH_SAME: Final = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"使用者", "用户"),
        (r"请?(?:记住|注意|记得)[:,]?", ""),
        (r"(?:比较|更|最|非常|很|特别)(?=喜欢|爱|偏好)", ""),
        (r"偏好|偏爱|喜爱|热爱|希望|想要|想(?![法象念起到])|倾向于?|爱(?=[吃喝看听玩用])", "喜欢"),
        (r"讨厌|厌恶|反感", "不喜欢"),
        (r"采用|使用", "用"),
        (r"位于|处于", "在"),
        (r"居住在|定居在", "住在"),
        (r"上班|任职|就职", "工作"),
        (r"简短|简练|精简|扼要", "简洁"),
        (r"详尽", "详细"),
        (r"回复|答复", "回答"),
        (r"今年", ""),
        (
            r"从来不|从不|绝不|不再|不要|不能|不可以|不会(?=用)|禁止|避免|请勿|切勿|没有|不得(?!不)|别(?=[用再写说去在把给让])",
            "不",
        ),
        (r"可以|能够", "能"),
        (r"现在|目前|当前|如今|已经|正在|尽量|总是|一直|通常|以后|今后|应该|必须|需要|请|作为", ""),
    )
)
"""Chinese phrases that mean the same, brought to one form."""

ZH_COMPOUND: Final = re.compile(
    r"不错|不断|不仅|不过|不同|不少|不久|不管|不论|不得不|差不多|不只|不光|特别|分别|区别|级别|性别|类别"
)
"""Chinese words that hold a denying character and deny nothing."""

ZH_EMPTY: Final = frozenset("的了是我你他她它们就也都很吗呢吧啊着得地之个为这那和与及要在用")
ZH_NEGATORS: Final = frozenset("不没别勿未无非")
ZH_SUBJECTS: Final = re.compile(r"用户|我们|咱们|本人|我|你|他|她")
ZH_PREDICATE: Final = re.compile(
    r"是|在|有|用|叫|为|住|喜欢|(?<![社机大工协开年学周例晨早聚都])会(?![议员计场所谈晤面话])|不|没|:|定于|位于|处于|需|要"
)
ZH_PLACED: Final = re.compile(r"(?:[住放存设定坐建停位排约落藏挂][在于]|叫)$")
"""Before what a Chinese statement says where something is, or how it is called."""
ZH_MANY: Final = re.compile(
    r"喜欢|(?<![社机大工协开年学周例晨早聚都])会(?![议员计场所谈晤面话])|懂|去过|了解|熟悉|学|养|看过|读过|过敏|认识|收藏|"
    rf"有一[{ZH_MEASURES}]"
)
ZH_EVENT: Final = re.compile(
    r"(?<![改换搬升降调推变转移成为到])(?:了(?=[^,。;!])|(?<![通超经])过(?![敏程期去年来渡]))"
)
"""Words for an event that is not a change."""

ZH_LABEL: Final = re.compile(
    r"[\u4e00-\u9fff](?<![是有为到于在要约共达超过每用花至成第])\d+(?=[\u4e00-\u9fff])"
    rf"(?![{ZH_MEASURES}月日点时万千百公厘毫平立])|第\d+"
)
"""A number that names one thing among others, as in "order 12 is closed"."""

ZH_NUMBERED: Final = re.compile(
    r"第?[\d零〇一二三四五六七八九十百]+(?:号|路|栋|幢|座|排|楼|层|班|组|车|线|桌|柜|题|章|课)"
)
"""A numeral that says which one, as in "10路" and "3号": not how many."""
