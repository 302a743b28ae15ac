"""A remedy that is printed is accepted when it is followed: each named replacement makes that problem go away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeus_runtime import Agent, ConfigError
from zeus_runtime.config import Diagnostic

HEAD = "version: 1\n"
MODEL = "model: openai/gpt-5.2\n"
_MEANT = re.compile(r"did you mean '([^']+)'\?$")
_PLACE = re.compile(r"did you mean ([a-z_.]+)(?: or .*)?\?$")
_WRITE = re.compile(r"^write `(\w+: [^`…]+)`$")
_NAME = re.compile(r"^write `(\w+)`$")


def problems(folder: Path, text: str) -> list[Diagnostic]:
    file = folder / "zeus.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        plan = Agent.from_config(file, directory=folder).plan
    except ConfigError as error:
        return list(error.diagnostics)
    return [*plan.warnings]


def followed(text: str, problem: Diagnostic) -> str | None:
    """The text with what the problem's remedy says; None if that names no replacement."""
    assert problem.position is not None
    lines = text.splitlines()
    row, column = problem.position.line - 1, problem.position.column - 1
    line = lines[row]
    hint = problem.hint or ""
    if meant := _MEANT.search(problem.message):
        wrong = re.match(r"[\w./-]+", line[column:])
        assert wrong is not None
        lines[row] = line[:column] + meant[1] + line[column + len(wrong[0]) :]
    elif write := _WRITE.match(hint):
        lines[row] = write[1]
    elif name := _NAME.match(hint):
        lines[row] = re.sub(r"\{[^}]*\}", name[1], line)
    elif place := _PLACE.search(hint):
        value = line.partition(":")[2].strip()
        *sections, key = place[1].split(".")
        if sections == ["model", "litellm"]:
            rest = [each for each in lines if not each.startswith("model:")]
            rest.remove(line)
            own = f"{key}: {value}" if key == "model" else f"model: openai/gpt-5.2, {key}: {value}"
            lines = [*rest, f"model: {{litellm: {{{own}}}}}"]
        else:
            lines[row] = f"{sections[0]}: {{{key}: {value}}}"
            lines = [each for each in lines if each == lines[row] or not each.startswith(f"{sections[0]}:")]
    else:
        return None
    return "\n".join(lines) + "\n"


CASES = {
    "base_url of litellm": HEAD + "model: {litellm: {model: openai/gpt-5.2, base_url: http://localhost}}\n",
    "base_url beside a name": HEAD + "model: {name: openai/gpt-5.2, base_url: http://localhost}\n",
    "base_url at the top": HEAD + MODEL + "base_url: http://localhost\n",
    "provider and model": HEAD + "model: {provider: openai, model: gpt-5.2}\n",
    "provider and name": HEAD + "model: {provider: openai, name: gpt-5.2}\n",
    "provider, name and temperature": HEAD + "model: {provider: openai, name: gpt-5.2, temperature: 0.2}\n",
    "model without its component": HEAD + "model: {model: gpt-5.2, temperature: 0.2}\n",
    "model as a mapping": HEAD + "model: {model: gpt-5.2}\n",
    "temperature at the top": HEAD + MODEL + "temperature: 0.2\n",
    "max_tokens at the top": HEAD + MODEL + "max_tokens: 300\n",
    "timeout at the top": HEAD + MODEL + "timeout: 30\n",
    "max_step": HEAD + MODEL + "limits: {max_step: 3}\n",
    "max_steps at the top": HEAD + MODEL + "max_steps: 3\n",
    "max_iterations": HEAD + MODEL + "max_iterations: 3\n",
    "system_prompt": HEAD + MODEL + "system_prompt: You review Go code.\n",
    "system": HEAD + MODEL + "system: You review Go code.\n",
    "system_message": HEAD + MODEL + "system_message: You review Go code.\n",
    "system_prompt of a sub-agent": HEAD
    + MODEL
    + "tools: [subagents]\nagents: {a: {description: d, system_prompt: You review Go code.}}\n",
    "max_turns": HEAD + MODEL + "limits: {max_turns: 3}\n",
    "toolsets": HEAD + MODEL + "toolsets: [web]\n",
    "working_dir": HEAD + MODEL + "working_dir: .\n",
    "max_iter": HEAD + MODEL + "max_iter: 3\n",
    "mcp": HEAD + MODEL + "mcp: {a: {command: x}}\n",
    "mcp_servers": HEAD + MODEL + "mcp_servers: {a: {command: x}}\n",
    "middleware": HEAD + MODEL + "middleware: [caching]\n",
    "web_search": HEAD + MODEL + "tools: [web_search]\n",
    "read_file": HEAD + MODEL + "tools: [read_file]\n",
    "a tool by its key name": HEAD + MODEL + "tools: [{name: filesystem}]\n",
    "a tool by its key type": HEAD + MODEL + "tools: [{type: filesystem}]\n",
    "summarisation": HEAD + MODEL + "middlewares: [summarisation]\n",
    "compaction": HEAD + MODEL + "middlewares: [compaction]\n",
    "modle": HEAD + "modle: openai/gpt-5.2\n",
    "mode": HEAD + MODEL + "mode: agnet\n",
    "llm": HEAD + "llm: openai/gpt-5.2\n",
    "llm as a mapping": HEAD + "llm: {litellm: {model: openai/gpt-5.2}}\n",
}


@pytest.mark.parametrize("case", CASES)
def test_a_remedy_that_names_a_replacement_works_when_followed(tmp_path: Path, case: str) -> None:
    text = CASES[case]
    found = [
        each for each in problems(tmp_path, text) if each.severity == "error" and each.code != "missing-key"
    ]
    assert found
    for problem in found:
        better = followed(text, problem)
        assert better is not None, (problem.message, problem.hint)
        left = [(each.code, each.message, each.hint) for each in problems(tmp_path, better)]
        assert problem.code not in {code for code, _, _ in left}, (better, left)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + MODEL + "provider: openai\n", "model.litellm.model"),
        (HEAD + MODEL + "api_key: sk-1234567890\n", "model.litellm.api_key"),
        (HEAD + MODEL + "permissions: ask\n", "the middleware 'approve'"),
        (HEAD + MODEL + "approval: ask\n", "did you mean 'approvals'?"),
        (HEAD + MODEL + "tools: [run_command]\n", "did you mean 'shell'?"),
        (HEAD + MODEL + "tools: {filesystem: {}, web: {search: duckduckgo}}\n", "`- filesystem`, `- web: …`"),
        (HEAD + MODEL + "memory: true\n", "write `{}` for the defaults"),
        (HEAD + "model: {temperature: 0.2}\n", "write `model: {litellm: {model: …, temperature: 0.2}}`"),
    ],
)
def test_the_words_of_other_products_lead_to_ours(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = [each for each in problems(tmp_path, text) if each.severity == "error"]
    assert said in f"{problem.message} {problem.hint}"


KEYS = [
    "middlewares",
    "checkpointer",
    "description",
    "retention",
    "knowledge",
    "workspace",
    "connectors",
    "profiles",
]


@given(st.sampled_from(KEYS), st.integers(0, 20), st.sampled_from(["", "x", "_"]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_slip_in_a_key_is_told_and_mended(tmp_path: Path, key: str, place: int, slip: str) -> None:
    place %= len(key)
    wrong = key[:place] + slip + key[place + 1 :]
    if wrong == key:
        return
    text = HEAD + MODEL + f"{wrong}: null\n"
    (problem,) = [each for each in problems(tmp_path, text) if each.code == "unknown-key"]
    better = followed(text, problem)
    assert better is not None
    assert f"{key}: null" in better
