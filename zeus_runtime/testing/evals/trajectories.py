"""Goal drift in a trajectory: asking again, declaring done what is not, doing again what was done. Pure.

Every finding needs evidence in the messages themselves; where a repetition may have a reason (an error in between, a
change that asks for another look), nothing is said. Reads English and Chinese (``phrases``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.testing.evals.laws import paths_in, short
from zeus_runtime.testing.evals.phrases import LANGUAGES
from zeus_runtime.testing.evals.report import EvaluationFinding

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_SENTENCE: Final = re.compile(r"[^.!?。！？\n]*[^.!?。！？\n\s][^.!?。！？\n]*[.!?。！？\n]?")
_CJK: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_WORD: Final = re.compile(r"[^\W_]+")
_READING: Final = frozenset(
    _WORD.findall(
        "get find search list ls read open view show cat look fetch query grep glob head tail stat "
        "lookup check describe inspect load think calculate ",
    )
)
_WAY_BACK: Final = frozenset({"recall", "read_todos"})
_ARCHIVES: Final = ("/large_tool_results/", "/conversation_history/")
_ALIKE: Final = 0.8


def drift(
    messages: Sequence[BaseMessage],
    *,
    compacted_at: Collection[int] = (),
    artefacts: Collection[str] = (),
    reads: Collection[str] | None = None,
) -> tuple[EvaluationFinding, ...]:
    """What shows that an agent lost its thread; ``step`` is the message's place, from 1.

    ``asked-again``: it asks the user for what was asked and answered before, and no error came since.
    ``false-done``: it says that all is done while its todo list is open or an artefact was not made, or it says that it
    wrote a file which no call and no result names.
    ``repeated``: after a compaction it makes a call that it had made before it, with the same arguments and the same
    result, while nothing was changed in between.

    Args:
        messages: a whole conversation, as it is stored (``Agent.history``).
        compacted_at: how many messages there were at each compaction (a ledger step's ``cursor``).
        artefacts: paths that must have been written before all is done.
        reads: the tools that change nothing; None judges by their names.
    """
    found = [
        *_asked_again(messages),
        *_false_done(messages, artefacts),
        *_repeated(messages, compacted_at, reads),
    ]
    return tuple(sorted(found, key=lambda finding: finding.step))


def _asked_again(messages: Sequence[BaseMessage]) -> Iterator[EvaluationFinding]:
    answered: list[tuple[frozenset[str], str, int]] = []
    pending: list[tuple[frozenset[str], str]] = []
    for place, message in enumerate(messages, start=1):
        if message.type == "tool" and _failed(message):
            # Something that was said may have been wrong: asking again is right.
            answered.clear()
        elif message.type == "human":
            if not _evades(message.text):
                answered += [(words, question, place) for words, question in pending]
            pending = []
        elif message.type == "ai" and not _calls(message):
            pending = list(_questions(message.text))
            for words, question in pending:
                former = next((each for each in answered if _alike(words, each[0])), None)
                if former is not None:
                    told = f"it asks what message {former[2]} answered"
                    yield EvaluationFinding("asked-again", place, told, short(f"{former[1]} / {question}"))
                    break


def _questions(text: str) -> Iterator[tuple[frozenset[str], str]]:
    """The sentences that ask the user for something they know: their telling words, and the sentence."""
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip()
        if not _says("asks", sentence) or _says("open_ended", sentence):
            continue
        if not sentence.endswith(("?", "？")) and not _says("polite", sentence):
            continue
        words = _telling(sentence)
        if len(words) >= 2 or (words and _CJK.search(sentence)):
            yield words, sentence


def _telling(sentence: str) -> frozenset[str]:
    """The words that say what is asked for; Chinese, which has no spaces, gives its pairs of characters."""
    for language in LANGUAGES:
        sentence = language.stop.sub(" ", sentence)
    pairs = {
        run[place : place + 2] for run in _CJK.findall(sentence) for place in range(max(1, len(run) - 1))
    }
    return frozenset(word.casefold() for word in _WORD.findall(_CJK.sub(" ", sentence))) | pairs


def _says(what: str, text: str) -> bool:
    """Whether a text has one of the phrases, in any language."""
    return any(getattr(language, what).search(text) for language in LANGUAGES)


def _evades(text: str) -> bool:
    """Whether a user's message may be no answer: a question back, a refusal, not knowing."""
    return "?" in text or "？" in text or not text.strip() or (len(text) < 200 and _says("no_answer", text))


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _ALIKE * len(one | other)


def _false_done(messages: Sequence[BaseMessage], artefacts: Collection[str]) -> Iterator[EvaluationFinding]:
    todos: Sequence[Mapping[str, Any]] = ()
    written: set[str] = set()
    named: list[str] = []
    calls: dict[str, Mapping[str, Any]] = {}
    for place, message in enumerate(messages, start=1):
        calls |= {str(call["id"]): call for call in _calls(message)}
        if message.type == "tool":
            call = calls.get(str(getattr(message, "tool_call_id", "")))
            named.append(message.text)
            if call is not None and not _failed(message):
                todos = _todos(call, todos)
                written |= {_path(path) for path in _strings(call["args"]) if not _is_read(call, None)}
            continue
        if message.type == "human":
            named.append(message.text)
            continue
        named += [json.dumps(call["args"], ensure_ascii=False) for call in _calls(message)]
        if message.type != "ai" or _calls(message):
            continue
        yield from _unmade(message.text, named, place)
        if not _says("done", message.text) or _says("not_done", message.text):
            continue
        still = [
            str(todo.get("content", "")) for todo in todos if todo.get("status") in ("pending", "in_progress")
        ]
        if still:
            yield EvaluationFinding(
                "false-done", place, f"it says done with {len(still)} open todo(s)", short("; ".join(still))
            )
        missing = [path for path in artefacts if _path(path) not in written]
        if missing:
            yield EvaluationFinding(
                "false-done", place, "it says done, and an artefact was not made", short(", ".join(missing))
            )


def _unmade(text: str, named: Sequence[str], place: int) -> Iterator[EvaluationFinding]:
    """Files that a text says were written and that nothing in the conversation names."""
    for claim, language in ((claim, each) for each in LANGUAGES for claim in each.claim.finditer(text)):
        absolute = [path for path in paths_in(claim[0]) if "." in path.rpartition("/")[2]]
        paths = [*absolute, *language.file.findall(claim[0])]
        unknown = [path for path in paths if not any(path.rpartition("/")[2] in each for each in named)]
        if unknown:
            told = f"it says that it wrote {unknown[0]}, which no call and no result names"
            yield EvaluationFinding("false-done", place, told, short(claim[0]))
            return


def _todos(call: Mapping[str, Any], former: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    given = (
        call["args"].get("todos")
        if call["name"] == "write_todos" and isinstance(call["args"], Mapping)
        else None
    )
    if not isinstance(given, list):
        return former
    return [todo for todo in given if isinstance(todo, Mapping)]


def _repeated(
    messages: Sequence[BaseMessage], compacted_at: Collection[int], reads: Collection[str] | None
) -> Iterator[EvaluationFinding]:
    made: dict[str, tuple[int, str]] = {}
    calls: dict[str, tuple[Mapping[str, Any], int]] = {}
    for place, message in enumerate(messages, start=1):
        calls |= {str(call["id"]): (call, place) for call in _calls(message)}
        if message.type == "human":
            # What the user says may be a reason to look again.
            made.clear()
        if message.type != "tool":
            continue
        known = calls.get(str(getattr(message, "tool_call_id", "")))
        if known is None:
            continue
        call, asked = known
        key = _key(call)
        if call["name"] in _WAY_BACK or any(route in key for route in _ARCHIVES):
            continue
        former = made.get(key)
        again = former is not None and former[1] == message.text
        if again and former is not None and _between(former[0], asked, compacted_at):
            yield _again(call, asked, former[0])
        if not again and not _is_read(call, reads):
            made.clear()
        if message.text.strip() and not _failed(message):
            made[key] = (asked, message.text)


def _again(call: Mapping[str, Any], asked: int, former: int) -> EvaluationFinding:
    told = f"it calls {call['name']} as in message {former}, before the compaction, with the same result"
    return EvaluationFinding("repeated", asked, told, short(_key(call)))


def _between(former: int, now: int, compacted_at: Collection[int]) -> bool:
    return any(former <= at < now for at in compacted_at)


def _is_read(call: Mapping[str, Any], reads: Collection[str] | None) -> bool:
    name = str(call["name"])
    if reads is not None:
        return name in reads
    if name in _WAY_BACK:
        return True
    words = re.split(r"[_\-.]|(?<=[a-z])(?=[A-Z])", name)
    return any(word.casefold() in _READING for word in words[:2]) and words[0].casefold() not in (
        "write",
        "edit",
        "set",
    )


def _key(call: Mapping[str, Any]) -> str:
    arguments = call["args"]
    text = (
        arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    )
    return f"{call['name']} {text}"


def _calls(message: BaseMessage) -> Sequence[Mapping[str, Any]]:
    return [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]


def _failed(message: BaseMessage) -> bool:
    return getattr(message, "status", "") == "error" or any(
        language.failed.match(message.text) for language in LANGUAGES
    )


def _path(path: str) -> str:
    return "/" + path.strip().lstrip("./")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) < 400:
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
