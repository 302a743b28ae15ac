"""Common words of English and Chinese by what they do in a statement: nothing, deny, change, prefer, tell apart."""

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EMPTY: Final = _words(
    """a an the this that these those there here it its it's i i'm i've i'd i'll me my mine we our ours us you your he him his
    she her they them their user user's users be is am are was were been being do does did doing done has'nt have has had
    having will would shall should could may might must can please remember note that's kindly also too just still
    really very quite rather much more most so as of to and or than then always usually typically generally normally
    often mostly mainly currently presently now nowadays today anymore any anyway longer going forward some such
    whole own same both either each every all keep make made take get choice by with for in on at from into via within
    inside per about against between through during if when while because since which who whom whose what where why how
    s t re d ll ve instead over actually correction turns out name named call called know known place plan planned set value"""
)
"""English words that carry no value of their own."""

COPULAS: Final = _words("is are was were am be been 's isn't aren't wasn't weren't will must should shall can cannot can't may has have had")

VERBS: Final = _words(
    """prefer like love enjoy hate dislike want need use utilise utilize employ work live reside stay move switch change
    run go get put write read speak talk know learn study teach play ride drive walk eat drink cook buy sell own keep
    make build create deploy release ship publish launch host store save load send receive call name rename rely depend
    require allow forbid avoid stop start begin end finish close open fix merge commit push pull review test indent
    report lead manage maintain support handle serve return listen commute travel visit attend meet join leave plan
    schedule postpone set configure enable disable replace migrate upgrade downgrade update adopt choose pick select
    decide agree expect return take give sleep wake reply respond answer format sign log track bill pay cost last"""
)

SYNONYMS: Final = {
    word: group.split()[0]
    for group in (
        "prefer like want favourite favorite preferred favour favor enjoy love wish preference",
        "use utilise utilize employ rely adopt using usage",
        "work employed job",
        "live reside based located",
        "concise concisely brief briefly short terse succinct",
        "detailed detail thorough verbose elaborate",
        "reply response respond answer",
        "dark night-mode",
        "database db databases",
        "repository repo",
        "configuration config",
        "application app",
        "documentation docs doc",
        "javascript js",
        "typescript ts",
        "kubernetes k8s",
        "postgres postgresql pg",
        "python py",
        "golang go",
        "begin start",
        "end finish",
        "buy purchase",
        "big large",
        "small little",
        "fast quick quickly rapid",
        "bike bicycle cycle",
        "commute ride travel",
        "car automobile",
        "child children kid",
        "photo picture image",
        "colleague coworker teammate",
        "holiday vacation",
        "allergic allergy",
        "vegetarian meatless",
        "lead led leader",
        "write written wrote",
        "hike hiking",
        "mode theme",
        "member people person engineer developer colleague-count",
        "deadline due",
        "meeting sync",
        "second s sec",
        "minute min",
        "hour h hr",
    )
    for word in group.split()
}

ANTONYMS: Final = frozenset(
    frozenset(pair.split("/"))
    for pair in (
        "dark/light on/off yes/no true/false hot/cold early/late long/short concise/detailed fast/slow big/small "
        "formal/informal public/private left/right up/down metric/imperial remote/office single/double "
        "morning/evening first/last high/low quiet/loud casual/formal simple/complex tabs/spaces tab/space "
        "深/浅 明/暗 开/关 早/晚 长/短 快/慢 大/小 简/繁 高/低 冷/热 左/右 上/下 公/私 多/少 单/双"
    ).split()
)

DENIERS: Final = _words(
    "not no never none neither nor without cannot nothing n't don't doesn't didn't isn't aren't wasn't weren't won't "
    "can't couldn't shouldn't wouldn't haven't hasn't hadn't mustn't"
)
DENYING: Final = {
    "dislike": "prefer",
    "hate": "prefer",
    "detest": "prefer",
    "loathe": "prefer",
    "avoid": "use",
    "refuse": "",
    "stop": "",
    "quit": "",
    "cease": "",
    "disable": "enable",
    "forbid": "allow",
    "prohibit": "allow",
    "forbidden": "allow",
    "prohibited": "allow",
    "disallow": "allow",
    "uninstall": "install",
}
"""English verbs that deny another: "dislikes" is "does not like"."""

MANY: Final = _words("like love enjoy know speak have has own visit read learn study play collect allergic watch understand support")
"""English words with which one thing does not exclude another: who likes tea may like coffee."""

HAPPENED: Final = _words(
    """met fixed closed released shipped attended visited read ran finished completed merged reported wrote gave published
    deployed bought sold saw watched joined hired interviewed presented submitted resolved discussed celebrated travelled
    traveled flew went won lost broke crashed failed passed played ate drank ended"""
)
"""English past tenses of what happens and is over: two such events may both be true."""

CHANGE_EN: Final = re.compile(
    r"\b(?:now|no longer|any ?more|instead|switch(?:ed|ing)?|chang(?:ed|ing)|mov(?:ed|ing)|migrat(?:ed|ing)|"
    r"replac(?:ed|es|ing)|renamed|rescheduled|postponed|updated|upgraded|downgraded|adopted|going forward|from now on|"
    r"as of|used to|turns out|correction|actually|dropped|abandoned|brought forward|delayed|extended|raised|lowered)\b",
    re.IGNORECASE,
)
CHANGE_ZH: Final = re.compile(
    r"不再|改用|改为|改成|改到|改在|换成|换到|换为|换了|转用|调整(?:为|到)|更新(?:为|到)|升级(?:为|到)|降级(?:为|到)|迁移到|"
    r"搬(?:到|去)|变成|变为|推迟|提前到|延期|延后|现在|如今|已经不|而是|以后|今后|更正|替换|取代|代替|而不是|而非"
)

_END_EN: Final = r"(?=\s*(?:[,.;!]|$|\b(?:but|and now|for|in|on|when|as|at|because|since|now|by)\b))"
_NP: Final = r"(?P<gone>[^,.;!]{1,40}?)"
_TURN: Final = (
    r"(?:switch|chang|mov|migrat|went|go(?:es|ne)?|upgrad|downgrad|renam|convert|transition|bump|increas|decreas|reduc|"
    r"rais|lower|postpon|push|delay|reschedul|shift|relocat)\w*"
)

GONE: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_TURN}\b[^,.;]{{0,30}}?\bfrom\s+{_NP}\s+to\b",
        rf"\b(?:migrated|moved|switched|away)\s+(?:away\s+)?from\s+{_NP}(?=\s+to\b)",
        rf"\b(?:instead of|rather than|in place of|as opposed to|and not|but not)\s+(?:using\s+)?{_NP}{_END_EN}",
        rf"\bprefer\w*\b[^,.;]{{1,40}}?\b(?:over|to)\s+{_NP}{_END_EN}",
        rf"\b(?:chose|picked|favou?rs?)\b[^,.;]{{1,40}}?\bover\s+{_NP}{_END_EN}",
        rf"\breplac\w+\s+{_NP}\s+(?:with|by)\b",
        rf"\b(?:swapped|dropped|abandoned|ditched|gave up)\s+{_NP}\s+(?:for|in favou?r of)\b",
        r"\b(?:no longer|stopped|used to|not)\s+(?P<gone>[^,.;!]{1,40}?)(?:\s+any ?more)?(?:\s*[,;]\s*(?:but|and)?|\s+but)(?=\s+\S)",
        rf"\b(?:previously|formerly|earlier)\s+{_NP}{_END_EN}",
        r"(?:从|由)(?P<gone>[^,。;从由]{1,20}?)(?=(?:改|换|切换|迁移|升级|降级|转|搬|调整|变|调|延))",
        r"(?:而不是|而非|代替|取代|替代)(?P<gone>[^,。;]{1,20}?)(?=[,。;]|$)",
        r"(?:不再|不|没再)(?:使用|喜欢|用|在|喝|吃|住在|去)?(?P<gone>[^,。;]{1,20}?)了?(?=[,;]\s*(?:而是|改|现在|换|如今|转)|[,;])",
        r"[,;]\s*(?:不再|不)(?:使用|喜欢|用|喝|吃)?(?P<gone>[^,。;]{1,20}?)了?$",
        r"(?:以前|原来|曾经|之前)(?:使用|喜欢|用|是|住在|在)?(?P<gone>[^,。;]{1,20}?)(?=[,;])",
        r"(?:比起|相比)(?P<gone>[^,。;]{1,20}?)(?=[,更])",
        r"(?:比|胜过)(?P<gone>[^,。;]{1,20}?)(?=更)",
    )
)
"""What a statement says is not so any more, or not chosen."""

ZH_SAME: Final = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"请?(?:记住|注意|记得)[:,]?", ""),
        (r"(?:比较|更|最|非常|很|特别|尤其)(?=喜欢|爱|偏好)", ""),
        (r"偏好|偏爱|喜爱|热爱|钟爱|希望|想要|倾向于?|爱(?=[吃喝看听玩用])", "喜欢"),
        (r"讨厌|厌恶|反感", "不喜欢"),
        (r"采用|使用|运用", "用"),
        (r"(?:居住|定居)在", "住在"),
        (r"上班|任职|就职", "工作"),
        (r"简短|简练|精简|扼要|精炼", "简洁"),
        (r"详尽", "详细"),
        (r"回复|答复", "回答"),
        (r"暗色|黑暗模式|夜间模式", "深色"),
        (r"亮色", "浅色"),
        (r"最后期限|截止时间|截止日", "截止日期"),
        (r"截止日期期", "截止日期"),
        (r"从不|从来不|绝不|永远不|不再|不要|不能|不可以|不会(?=用)|禁止|避免|请勿|切勿|别(?=[用再写说去在把给让])|没有|不得(?!不)", "不"),
        (r"现在|目前|当前|如今|已经|正在|今年|尽量|总是|一直|通常|以后|今后|应该|必须|可以|需要|请|要|作为|我们|本人|咱们", ""),
    )
)
"""Chinese phrases that mean the same, brought to one form."""

ZH_EMPTY: Final = frozenset("的了是我你他她它们就也都很吗呢吧啊着得地之个为这那和与及")
ZH_COMPOUND: Final = re.compile(r"不错|不断|不仅|不过|不同|不少|不久|不管|不论|不得不|差不多|不只|不光")
ZH_MANY: Final = re.compile(r"喜欢|会说|会用|会|有|去过|了解|熟悉|知道|养|学|看过|读过|过敏|懂")
ZH_HAPPENED: Final = re.compile(r"修复了|参加了|去过|见了|完成了|发布了|关闭了|解决了|合并了|访问了|看了|读了|买了|卖了|结束了|举行了")
ZH_VERB: Final = re.compile(
    r"是|叫|用|喜欢|住在|位于|来自|等于|:|有|会|处于|运行|定在|负责|部署|学|去过|说|工作|养|吃|喝|不|没|过敏|"
    r"在(?=周|星期|\d|上午|下午|早|晚|[一二三四五六七八九十]|[A-Z])|开|写|做|由|从|改|换|推迟|已关闭|已完成"
)
ZH_QUALIFIER: Final = re.compile(
    r"在(?P<where>[^,。在]{1,14}?)(?:项目|里面|里|中|时候|时|下|方面|期间)|(?P<when>白天|晚上|夜里|早上|早晨|上午|下午|中午|傍晚|周末|工作日|夏天|冬天)(?=\D)"
    r"|对于?(?P<whom>[^,。]{1,8}?)(?:来说|而言)"
)
