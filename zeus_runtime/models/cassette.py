"""Cassettes: a run's model calls in a file, one JSON line per call. The format is in docs/how-to/cassettes.md.

Pure except for reading the file. Requests are compared by the parts that a provider acts on; Zeus's own ids and the
model's reasoning are left out. Text that is masked in the recording matches any text in the live request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from zeus_runtime.config.secrets.masking import MASK
from zeus_runtime.config.secrets.placeholders import PLACEHOLDER
from zeus_runtime.errors import ZeusError
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import (
    ModelPiece,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from zeus_runtime.models.messages import from_payload, to_chat, to_payload

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

VERSION: Final = 1
Match: TypeAlias = Literal["messages", "strict", "order", "turn"]
JSON: TypeAlias = Any

# It takes `session_0123456789ab`, and not the first digits of a longer number.
_SESSION_ID: Final = re.compile(r"session_[0-9a-f]{12}(?![0-9a-f])")

_COMPARED: Final = ("role", "content", "name", "tool_calls", "tool_call_id", "is_error")


class CassetteError(ZeusError):
    """A file is not a cassette, or is damaged (exit 3)."""

    exit_code = 3
    code = "cassette"


@dataclass(frozen=True)
class RecordedCall:
    """One call of a cassette.

    Args:
        line: its line in the file, from 1.
        request: what was asked, as ``normalised`` gives it.
        pieces: what streamed, without the response.
        response: the answer as JSON.
    """

    line: int
    request: Mapping[str, JSON]
    pieces: Sequence[Sequence[JSON]]
    response: Mapping[str, JSON]


@dataclass(frozen=True)
class Cassette:
    """A whole file: the recorded model's name, and its calls in the order they finished."""

    path: Path
    model: str
    calls: tuple[RecordedCall, ...]


def normalised(request: ModelRequest) -> dict[str, JSON]:
    """A request as cassettes hold and compare it."""
    return {
        "purpose": request.purpose,
        "messages": [_compared(to_chat(message)) for message in request.messages],
        "tools": [tool.name for tool in request.tools],
        "tools_digest": _digest([asdict(tool) for tool in request.tools]),
        "system_digest": _digest(request.system),
        "settings": dict(request.settings),
    }


def _compared(chat: Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: chat[key] for key in _COMPARED if chat.get(key) is not None}


def _digest(value: JSON) -> str:
    from hashlib import sha256

    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)
    # A lone surrogate, as of an emoji cut in half, must not end the recording.
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def header(model: str) -> str:
    """The first line of a cassette."""
    return json.dumps({"zeus_cassette": VERSION, "model": model}, ensure_ascii=False) + "\n"


def call_line(
    request: Mapping[str, JSON],
    previous: Sequence[JSON],
    pieces: Iterable[ModelPiece],
    response: ModelResponse,
    redact: Callable[[JSON], JSON],
) -> str:
    """Return the line of one finished call.

    Args:
        request: the result of ``normalised``.
        previous: the messages of the previous line, as they were sent. If this request begins with the same messages,
            only their number is written (``same``), so a cassette grows with the conversation and not with its square.
        pieces: the pieces that streamed before the response.
        response: the answer.
        redact: masks secrets in a JSON value.
    """
    messages = request["messages"]
    same = _common(messages, previous)
    value = {
        "request": {**request, "same": same, "messages": messages[same:]},
        "pieces": [_piece(piece) for piece in pieces],
        "response": {
            "message": to_payload(response.message),
            "usage": None if response.usage is None else asdict(response.usage),
            "finish_reason": response.finish_reason,
            "model": response.model,
            "cost_usd": response.cost_usd,
        },
    }
    return json.dumps(redact(value), ensure_ascii=False) + "\n"


def _common(one: Sequence[JSON], other: Sequence[JSON]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _piece(piece: ModelPiece) -> list[JSON]:
    if isinstance(piece, TextDelta):
        return ["text", piece.text]
    if isinstance(piece, ReasoningDelta):
        return ["reasoning", piece.text]
    if isinstance(piece, ToolCallDelta):
        return ["call", piece.index, piece.id, piece.name, piece.arguments]
    raise TypeError(f"a cassette cannot hold a {type(piece).__name__}")


def played(call: RecordedCall) -> Iterable[ModelPiece]:
    """The pieces of a recorded call, the response last."""
    for kind, *values in call.pieces:
        if kind == "text":
            yield TextDelta(*values)
        elif kind == "reasoning":
            yield ReasoningDelta(*values)
        else:
            yield ToolCallDelta(*values)
    response = call.response
    message: AIMessage = from_payload(response["message"])  # type: ignore[assignment]
    yield ModelResponse(
        message=message,
        usage=None if response.get("usage") is None else Usage(**response["usage"]),
        finish_reason=response.get("finish_reason", "stop"),
        model=response.get("model", ""),
        cost_usd=response.get("cost_usd"),
    )


def cassette_model(path: Path) -> str:
    """The recorded model's name.

    Raises:
        CassetteError: no such file, no cassette, or of another version.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return _model(path, file.readline())
    except (OSError, UnicodeDecodeError) as problem:
        raise CassetteError(
            f"the cassette {path} cannot be read: {getattr(problem, 'strerror', None) or problem}",
            remedy="Record one with `zeus run --record FILE`, or correct the path",
        ) from None


def _model(path: Path, line: str) -> str:
    try:
        value = json.loads(line)
        version, model = value["zeus_cassette"], value["model"]
    except (ValueError, KeyError, TypeError):
        raise CassetteError(
            "the file is not a cassette: its first line is not a header", where=f"{path}:1"
        ) from None
    if version != VERSION:
        raise CassetteError(
            f"the cassette has version {version!r}, and this Zeus reads version {VERSION}",
            where=f"{path}:1",
            remedy="Record it again",
        )
    return str(model)


def read_cassette(path: Path) -> Cassette:
    """The cassette in ``path``. A last line without its end, as a killed recording leaves it, is not counted.

    Raises:
        CassetteError: see ``cassette_model``; or a damaged line, which is named.
    """
    model = cassette_model(path)
    calls: list[RecordedCall] = []
    previous = _Messages([], 0, [])
    # As bytes: a killed recording may end within a character.
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1 or not line.strip() or not line.endswith(b"\n"):
                continue
            try:
                value = json.loads(line)
                request = {**value["request"]}
                # Of the line before, whichever model's call that was.
                previous = previous.continued(request.pop("same"), _mappings(request["messages"]))
                request["messages"] = previous
                calls.append(RecordedCall(number, request, _checked(value["pieces"]), {**value["response"]}))
            except (ValueError, KeyError, TypeError, RecursionError) as problem:
                raise CassetteError(
                    f"the line is not a recorded call: {problem!r}",
                    where=f"{path}:{number}",
                    remedy="Record it again",
                ) from None
    return Cassette(path, model, tuple(calls))


def _checked(value: JSON) -> list[JSON]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} where a list belongs")
    return value


def _mappings(value: JSON) -> list[JSON]:
    return [{**each} for each in _checked(value)]


class _Messages(Sequence[JSON]):
    """A request's messages: the first ones of a list that it shares with requests before it, and its own.

    Complete lists would take the square of a conversation's length.
    """

    def __init__(self, shared: list[JSON], count: int, own: list[JSON]) -> None:
        self._shared, self._count, self._own = shared, count, own

    def continued(self, same: int, messages: list[JSON]) -> _Messages:
        """The first ``same`` of these messages, and more."""
        if not 0 <= same <= len(self):
            raise ValueError(f"the request before has {len(self)} messages, not {same}")
        if same <= self._count:
            return _Messages(self._shared, same, messages)
        more = self._own[: same - self._count]
        # Others see their own part of the list alone, so it may grow at its end; within it, it may not change.
        shared = self._shared if len(self._shared) == self._count else self._shared[: self._count]
        shared += more
        return _Messages(shared, same, messages)

    def __iter__(self) -> Iterator[JSON]:
        return chain(islice(self._shared, self._count), self._own)

    def __len__(self) -> int:
        return self._count + len(self._own)

    @overload
    def __getitem__(self, index: int) -> JSON: ...
    @overload
    def __getitem__(self, index: slice) -> list[JSON]: ...
    def __getitem__(self, index: int | slice) -> JSON:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        place = range(len(self))[index]
        return self._shared[place] if place < self._count else self._own[place - self._count]


def recorded_answer(
    cassette: Cassette, request: ModelRequest, match: Match = "messages"
) -> Iterable[ModelPiece]:
    """The pieces recorded for ``request``, the response last.

    Raises:
        ModelError: (divergence) no recorded call fits; it names the nearest one and the first difference.
    """
    asked = normalised(request)
    call = find(cassette, asked, match)
    if call is not None:
        return played(call)
    why, where = divergence(cassette, asked, match)
    error = ModelError(
        f"the request differs from the recording: {why}",
        kind="divergence",
        remedy="Record the run again (`zeus run --record FILE`), or loosen model.replay.match",
    )
    error.where = where or str(cassette.path)
    raise error


def find(cassette: Cassette, asked: Mapping[str, JSON], match: Match) -> RecordedCall | None:
    """The call recorded for a request: the first that fits. No counter is kept, so a resumed run finds its place.

    Args:
        cassette: where to look.
        asked: the live request, as ``normalised`` gives it.
        match: ``messages`` compares the conversation, the tools' names and the purpose; ``strict`` the system prompt,
            the tools' schemas and the settings too; ``order`` only how many answers came before, and the purpose;
            ``turn`` the newest prompt, the answers since, and the purpose. A prompt that was never recorded gets the
            answers to the first one.
    """
    if match == "turn":
        prompt, answers = _turn(asked["messages"])
        recorded = [call for call in cassette.calls if call.request["purpose"] == asked["purpose"]]
        if not any(same(_turn(call.request["messages"])[0], prompt) for call in recorded):
            prompt = _turn(recorded[0].request["messages"])[0] if recorded else prompt
        for call in recorded:
            known, came = _turn(call.request["messages"])
            if came == answers and same(known, prompt):
                return call
        return None
    return next((call for call in cassette.calls if _fits(call.request, asked, match)), None)


def _turn(messages: Sequence[Mapping[str, JSON]]) -> tuple[JSON, int]:
    """The newest prompt, and how many answers came since."""
    place = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=-1)
    return (messages[place]["content"] if place >= 0 else None), _answers(messages[place + 1 :])


def _fits(recorded: Mapping[str, JSON], asked: Mapping[str, JSON], match: Match) -> bool:
    if recorded["purpose"] != asked["purpose"]:
        return False
    if match == "order":
        return _answers(recorded["messages"]) == _answers(asked["messages"])
    keys = ["messages", "tools"]
    if match == "strict":
        keys += ["tools_digest", "system_digest", "settings"]
    return all(same(recorded[key], asked[key]) for key in keys)


def _answers(messages: Sequence[Mapping[str, JSON]]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


_SEQUENCES: Final = (list, tuple, _Messages)


def same(recorded: JSON, live: JSON) -> bool:
    """Whether two JSON values are equal. A masked part of the recording fits any text, a session's id any other id."""
    if isinstance(recorded, str) and isinstance(live, str):
        if recorded == live:
            return True
        left, right = (_SESSION_ID.sub("session_", each) for each in (recorded, live))
        first, *parts = re.split(f"{re.escape(MASK)}|{PLACEHOLDER.pattern}", left)
        return _fills(right, first, parts) if parts else left == right
    if isinstance(recorded, Mapping) and isinstance(live, Mapping):
        if recorded.keys() != live.keys():
            # A key may be masked too; a recording keeps the order of keys.
            return same(list(recorded.items()), list(live.items()))
        return all(same(recorded[key], live[key]) for key in recorded)
    if isinstance(recorded, _SEQUENCES) and isinstance(live, _SEQUENCES):
        return len(recorded) == len(live) and all(map(same, recorded, live))
    return bool(recorded == live)


def _fills(text: str, first: str, parts: Sequence[str]) -> bool:
    """Whether ``text`` is ``first`` and ``parts`` in order, with any text before each of the parts.

    The first place of each part is as good as any other. A pattern with ``.*`` would try all places of all parts.
    """
    *between, last = parts
    at = len(first)
    for part in between:
        place = text.find(part, at)
        if place < 0:
            return False
        at = place + len(part)
    return text.startswith(first) and text.endswith(last) and at + len(last) <= len(text)


def divergence(cassette: Cassette, asked: Mapping[str, JSON], match: Match) -> tuple[str, str | None]:
    """Why no call fits: a sentence with the first difference to the nearest call, and that call's ``file:line``."""
    if match in ("order", "turn"):
        messages = asked["messages"]
        count = _answers(messages) if match == "order" else _turn(messages)[1]
        since = "" if match == "order" else " to this prompt"
        return (
            f"the cassette holds no {asked['purpose']!r} call after {count} answers{since} "
            f"(it holds {len(cassette.calls)} calls)",
            None,
        )
    candidates = [call for call in cassette.calls if call.request["purpose"] == asked["purpose"]]
    if not candidates:
        return f"the cassette holds no call with the purpose {asked['purpose']!r}", None
    nearest = max(candidates, key=lambda call: _agreeing(call.request["messages"], asked["messages"]))
    where = f"{cassette.path}:{nearest.line}"
    return _difference(nearest.request, asked, match), where


def _agreeing(recorded: Sequence[JSON], asked: Sequence[JSON]) -> tuple[int, int]:
    agreed = 0
    for left, right in zip(recorded, asked, strict=False):
        if not same(left, right):
            break
        agreed += 1
    return agreed, -abs(len(recorded) - len(asked))


def _difference(recorded: Mapping[str, JSON], asked: Mapping[str, JSON], match: Match) -> str:
    place = _agreeing(recorded["messages"], asked["messages"])[0]
    expected, came = (_at(side["messages"], place) for side in (recorded, asked))
    if expected is not None or came is not None:
        return f"message {place + 1} differs: {_contrast(expected, came)}"
    if not same(recorded["tools"], asked["tools"]):
        return f"the tools differ: recorded {', '.join(recorded['tools'])}; now {', '.join(asked['tools'])}"
    for key, name in (
        ("system_digest", "the system prompt differs"),
        ("tools_digest", "the tools' descriptions or parameters differ"),
    ):
        if match == "strict" and recorded[key] != asked[key]:
            return f"{name} (recorded {recorded[key]}, now {asked[key]})"
    return f"the settings differ: recorded {recorded['settings']}, now {asked['settings']}"


def _at(messages: Sequence[JSON], place: int) -> Mapping[str, JSON] | None:
    return messages[place] if place < len(messages) else None


def _contrast(expected: Mapping[str, JSON] | None, came: Mapping[str, JSON] | None) -> str:
    if expected is None or came is None:
        return f"recorded {_brief(expected)}; now {_brief(came)}"
    key = next(key for key in _COMPARED if not same(expected.get(key), came.get(key)))
    left, right = (_text(side.get(key)) for side in (expected, came))
    start = max(0, _common(left, right) - 20)
    return f"its {key}: recorded {_cut(left, start)}; now {_cut(right, start)}"


def _brief(message: Mapping[str, JSON] | None) -> str:
    if message is None:
        return "nothing more"
    return f"a message of the {message['role']}: {_cut(_text(message.get('content', message.get('tool_calls'))), 0)}"


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, start: int, length: int = 80) -> str:
    part = text[start : start + length]
    return repr(("…" if start else "") + part + ("…" if start + length < len(text) else ""))
