"""The lines of a profile that rules find in memories: what a phrase says by its form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from zeus_runtime.memory.admission.statement import affirmed, without_others
from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.normalise import duplicate_key
from zeus_runtime.memory.profile.fields import ProfileKind, ProfileValue, drawable, short_value


def lines_by_rule(items: Iterable[MemoryItem], kind: ProfileKind) -> list[ProfileValue]:
    """What the rules find in memories; equal values become one line with several sources.

    Args:
        items: oldest first: the newest says what a field with one value holds.
    """
    rules = _user_lines if kind == "user" else _project_lines
    found: dict[tuple[str, str], ProfileValue] = {}
    for item in items:
        if not drawable(item, kind):
            continue
        for name, value, extra in rules(item):
            value = short_value(value)
            key = (name, duplicate_key(value))
            # Taken out and put in again, so that the line stands at the place of its newest source.
            former = found.pop(key, None)
            sources = {**(former.sources if former else {}), item.id: item.version}
            if value:
                found[key] = ProfileValue(name, value, sources, "rule", extra)
    return list(found.values())


_Found: TypeAlias = tuple[str, str, Mapping[str, str]]

_STOP: Final = r"[^,.;:!?，。；：！？\n]*"
_UNUSED: Final = re.compile(
    rf"{_STOP}(?:\b(?:instead of|rather than|wants? to learn)\b|讨厌|討厌|停止|放弃|想学){_STOP}",
    re.IGNORECASE,
)
"""Clauses that name something that is not used, beside those that deny it."""
_LANGUAGES: Final = (
    "Python JavaScript TypeScript Java Kotlin Swift Rust C C++ C# Go Ruby PHP Scala Haskell OCaml Erlang Elixir "
    "Clojure Julia R MATLAB Lua Perl Dart Zig Nim Fortran COBOL Ada Lisp Scheme Prolog F# Groovy Bash PowerShell SQL "
    "Objective-C Assembly Solidity"
).split()
# Found only with their capitals: "go", "swift" and "rust" are words.
_AMBIGUOUS: Final = frozenset("C R Go Swift Ada Dart Scheme Julia Rust Ruby Java Assembly Lisp".split())
_CODING: Final = r"writes?|knows?|uses?|learned|fluent in|proficient in|expert in|experienced (?:in|with)"
_CODES: Final = re.compile(
    r"\b(?:codes?|coding|programs?|programming|programmer|developer|develops?|scripts?|compiles?|software|language)\b"
    rf"|\b(?:{_CODING})\b"
    r"|编程|编写|程序|代码|开发|语言|使用|精通|擅长|会用|会写|熟悉|熟练",
    re.IGNORECASE,
)
_PLAIN: Final = r"([^,.;:!?。，；：！？]{2,60})"


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_USER_RULES: Final = (
    ("username", _rule(r"\b(?:user'?s?|my|his|her|their) (?:full |first )?name is " + _PLAIN)),
    (
        "username",
        _rule(
            r"\b(?:user|i) (?:is|am|wants? to be|likes? to be|prefers? to be|would like to be) (?:called|addressed as) "
            + _PLAIN
        ),
    ),
    ("username", _rule(r"(?:用户|我)?(?:的)?(?:名字|姓名)(?:是|叫|为)\s*([^，。；,.\s]{1,20})")),
    ("username", _rule(r"(?:用户|我)叫(?:做)?\s*([^，。；,.\s]{1,20})")),
    ("profession", _rule(r"\b(?:works?|working) as (?:an?|the) " + _PLAIN)),
    ("profession", _rule(r"\b(?:profession|job|occupation|job title) is (?:an? |the )?" + _PLAIN)),
    (
        "profession",
        _rule(
            r"\b(?:user|i) (?:is|am) an? ((?:[\w-]+ ){0,3}(?:developer|engineer|designer|teacher|doctor|nurse|lawyer"
            r"|analyst|scientist|researcher|student|manager|consultant|architect|writer|editor|accountant|physicist|professor"
            r"|programmer|administrator|translator|journalist))\b"
        ),
    ),
    ("profession", _rule(r"(?:职业|工作|职位)(?:是|为)(?:一[名位个])?\s*([^，。；,.\s]{2,30})")),
    (
        "profession",
        _rule(r"(?:用户|我)是一[名位个]([^，。；,.\s]{2,20}?(?:师|员|生|家|教授|医生|律师|经理|者))"),
    ),
    (
        "background",
        _rule(
            r"\b((?:studied|has a background in|holds an? [\w.' ]*degree|graduated|has \d+ years)\b[^.;!?]{2,120})"
        ),
    ),
    ("background", _rule(r"((?:毕业于|毕业自|曾在|有\s*\d+\s*年)[^。；！？]{2,60})")),
    (
        "language_preference",
        _rule(
            r"\b(?:answers?|repl(?:y|ies)|responses?|respond|written|speaks?|communicat\w+)\b[^.;]{0,30}?\bin "
            r"(English|Chinese|Mandarin|Cantonese|German|French|"
            r"Spanish|Italian|Portuguese|Japanese|Korean|Russian|Arabic|Hindi|Dutch|Polish|Turkish)\b"
        ),
    ),
    ("language_preference", _rule(r"\b(?:preferred language|language preference) is (\w+)")),
    (
        "language_preference",
        _rule(
            r"(?:用|使用|以|说|讲)(中文|英文|英语|汉语|普通话|粤语|日语|日文|法语|德语|韩语|西班牙语)(?:来)?(?:回答|回复|交流|沟通|说明|写)"
        ),
    ),
    (
        "expertise_areas",
        _rule(
            r"\b(?:expert|specialist|specialises?|specializes?|expertise|experienced|proficient) (?:in|on|with|at) "
            + _PLAIN
        ),
    ),
    ("expertise_areas", _rule(r"(?:擅长|精通|专长是|专攻)\s*([^，。；,.]{2,30})")),
    (
        "frequently_used_tools",
        _rule(r"\b(?:often|usually|always|mostly|regularly|frequently|daily) uses? " + _PLAIN),
    ),
    (
        "frequently_used_tools",
        _rule(
            r"\buses? ([^,.;:!?]{2,40}?) (?:every day|daily|all the time|for everything|most of the time)\b"
        ),
    ),
    (
        "frequently_used_tools",
        _rule(r"(?:常用|经常使用|每天使用|一直用|总是用)(?:的工具是|的是)?\s*([^，。；,.]{1,30})"),
    ),
)
_VERBS: Final = _rule(rf"\b(?:{_CODING})\b")
_STYLES: Final = (
    ("concise", _rule(r"\b(?:concise|brief|short|terse)\b|简洁|简短|简明|精简")),
    ("detailed", _rule(r"\b(?:detailed|thorough|in[- ]depth|step[- ]by[- ]step)\b|详细|详尽")),
    ("technical", _rule(r"\btechnical\b|技术性|技术化")),
)
_FORMATS: Final = (
    ("code", _rule(r"\b(?:only code|code only|just (?:the )?code)\b|只(?:要|给|写)代码|仅代码")),
    ("plain", _rule(r"\bplain[- ]text\b|\b(?:no|without) markdown\b|纯文本")),
    ("markdown", _rule(r"\bmarkdown\b")),
)
_ANSWERS: Final = _rule(
    r"\b(?:answers?|repl(?:y|ies)|responses?|explanations?|explained|communicat\w*)\b|回答|回复|解释|沟通|交流"
)


def _user_lines(item: MemoryItem) -> Iterator[_Found]:
    text = _own(_affirmed(item.content))
    for name, pattern in _USER_RULES:
        if (match := pattern.search(text)) is not None:
            yield name, match[1], {}
    if _CODES.search(text):
        yield from (("programming_languages", each, {}) for each in _languages(text))
    if _ANSWERS.search(item.content):
        style = [name for name, pattern in _STYLES if pattern.search(text)]
        if len(style) == 1:
            yield "communication_style", style[0], {}
        # "Without markdown" denies something, and says plain.
        form = next((name for name, pattern in _FORMATS if pattern.search(item.content)), None)
        if form is not None and (form == "plain" or dict(_FORMATS)[form].search(text)):
            yield "response_format", form, {}
    if item.memory_type == "habit":
        yield "characteristics", item.content, {}


def _own(text: str) -> str:
    """The text without the clauses that tell of another person what a rule looks for."""
    patterns = (*(pattern for _, pattern in _USER_RULES), _VERBS)
    return without_others(text, {start for each in patterns for start in _starts(each, text)})


def _starts(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    """Where a pattern is found, also inside what it finds before: a value may reach into the next clause."""
    match = pattern.search(text)
    while match is not None:
        yield match.start()
        match = pattern.search(text, match.start() + 1)


def _affirmed(text: str) -> str:
    return _UNUSED.sub(".", affirmed(text))


def _languages(text: str) -> Iterator[str]:
    for name in _LANGUAGES:
        flags = 0 if name in _AMBIGUOUS else re.IGNORECASE
        # "C" is found in "C and Lua", not in "C++", "C#", or "Objective-C".
        if re.search(rf"(?<![A-Za-z0-9_+#.-]){re.escape(name)}(?![A-Za-z0-9_+#-])", text, flags):
            yield name


_PROJECT_RULES: Final = (
    (
        "project_goal",
        _rule(r"\b(?:goal|aim|purpose|objective)(?: of (?:the|this) project)? is (?:to )?([^.;!?]{3,200})"),
    ),
    ("project_goal", _rule(r"(?:目标|目的)(?:是|为)\s*([^。；！？]{2,100})")),
    ("current_phase", _rule(r"\b(?:in|entered|reached|at) (?:the|its) ([\w -]{3,40}?) (?:phase|stage)\b")),
    ("current_phase", _rule(r"\b(?:current )?(?:phase|stage) is (?:the )?" + _PLAIN)),
    ("current_phase", _rule(r"(?:处于|进入|到了)(?:了)?\s*([^，。；,.]{2,20}?)(?:阶段|期)")),
)
_STACK: Final = (
    _rule(r"\b(?:tech(?:nology)? stack|stack) (?:is|includes|consists of|uses)[: ]+([^.;!?]{2,200})"),
    _rule(
        r"\b(?:project|service|app(?:lication)?|backend|frontend|api|we) "
        r"(?:is built (?:with|on)|is written in|runs on|uses?)\s+([^.;!?]{2,120})"
    ),
    _rule(
        r"(?:技术栈(?:是|为|包括)?|(?:项目|后端|前端|服务|我们)(?:使用|采用|基于|用))[：: ]*([^。；！？]{1,80})"
    ),
)
_REASON: Final = _rule(
    r"^(.{5,}?)[,，;；]?\s*(?:\bbecause(?: of)?\b|\bsince\b|\bdue to\b|\bas\b(?= (?:it|they|we|the)\b)"
    r"|因为|由于)\s*(.{3,})$"
)
_CONVENTION: Final = _rule(
    r"\b(?:convention|always|must be|style guide|code review|naming|commit messages?|branches?)\b"
    r"|约定|规范|统一|一律|必须"
)


def _project_lines(item: MemoryItem) -> Iterator[_Found]:
    text = item.content
    if item.memory_type == "constraint":
        yield "constraints", text, {}
        return
    if item.memory_type == "decision":
        match = _REASON.match(text.rstrip(".。"))
        reason = {"reason": short_value(match[2])} if match else {}
        yield "key_decisions", match[1] if match else text, {**reason, "time": f"{item.created_at:%Y-%m-%d}"}
    said = _affirmed(text)
    for name, pattern in _PROJECT_RULES:
        if (match := pattern.search(said)) is not None:
            yield name, match[1], {}
    stack = next((match for pattern in _STACK if (match := pattern.search(said))), None)
    if stack is not None:
        parts = re.split(r"[,，、]|\band\b|\bwith\b|和|与|以及", stack[1])
        yield from (("tech_stack", each.strip(), {}) for each in parts if 1 < len(each.strip()) <= 40)
    if item.memory_type in ("habit", "preference") or (
        item.memory_type == "fact" and _CONVENTION.search(text)
    ):
        yield "team_conventions", text, {}
