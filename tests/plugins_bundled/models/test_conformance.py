"""The bundled models do what every model must."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage
from zeus_plugins.models.litellm import model as litellm_model
from zeus_plugins.models.litellm.options import Options as LitellmOptions
from zeus_plugins.models.replay import model as replay_model
from zeus_plugins.models.replay.options import Options as ReplayOptions

from tests.support.provider import Call, Provider, Reply
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plugin import PlanContext, Redactor, Secret
from zeus_runtime.plugin.model import Model, ModelProfile, Recorder, Tape
from zeus_runtime.testing import ModelConformance, ScriptedModel


def context(**values: Any) -> PlanContext:
    return cast(
        PlanContext,
        SimpleNamespace(
            profile_of=lookup,
            environ={},
            process_environ={},
            profile=ModelProfile("m"),
            **values,
        ),
    )


def reply(answer: AIMessage | Exception | None) -> Reply:
    if answer is None:
        return Reply(hang_after=0)
    if isinstance(answer, Exception):
        return Reply(str(answer), status=500)
    calls = [Call(call["name"], json.dumps(call["args"]), call["id"]) for call in answer.tool_calls]
    return Reply(str(answer.content), calls=calls)


class LitellmConformance(ModelConformance):
    kind = ""
    name = ""
    stream = True

    @contextmanager
    def answering(self, answer: AIMessage | Exception | None) -> Iterator[Model]:
        with Provider(answer=lambda _: reply(answer)) as provider:
            options = LitellmOptions(
                self.name, api_key=Secret("k"), api_base=getattr(provider, self.kind), stream=self.stream
            )
            yield litellm_model.create(options, context())


@pytest.mark.xdist_group("litellm")
class TestOpenAI(LitellmConformance):
    kind, name = "openai", "openai/gpt-4o"


@pytest.mark.xdist_group("litellm")
class TestAnthropic(LitellmConformance):
    kind, name = "anthropic", "anthropic/claude-sonnet-4-5"


@pytest.mark.xdist_group("litellm")
class TestWithoutStreaming(LitellmConformance):
    kind, name, stream = "openai", "openai/gpt-4o", False


class TestReplay(ModelConformance):
    can_hang = False
    can_fail = False

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "run.jsonl"

    @contextmanager
    def answering(self, answer: AIMessage | Exception | None) -> Iterator[Model]:
        assert isinstance(answer, AIMessage)
        self.path.unlink(missing_ok=True)
        recorder = Recorder(ScriptedModel([answer]), Tape(self.path, Redactor()))
        self._drain(recorder)
        yield replay_model.create(ReplayOptions("run.jsonl"), context(directory=self.path.parent))

    def _drain(self, model: Model) -> None:
        import asyncio

        async def drain() -> None:
            async for _ in model.stream(self.request()):
                pass

        asyncio.run(drain())
