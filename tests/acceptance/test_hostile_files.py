"""Hostile config files, checked in-process: each is refused at a place, and soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime.config import ConfigError
from zeus_runtime.errors import ZeusError
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.validated import check

HEAD = "version: 1\nmodel: gpt-5.2\n"
WHOLE: dict[str, tuple[str | bytes, str]] = {
    "an alias to nothing": (HEAD + "name: *nobody\n", "3:7: yaml-syntax"),
    "an alias to what is around it": (HEAD + "metadata: &a {b: *a}\n", "3:18: yaml-syntax"),
    "aliases that double twelve times": (
        HEAD
        + "metadata:\n  a0: &a0 [x, x]\n"
        + "".join(f"  a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 13)),
        "12:12: too-large",
    ),
    "a merge key of a scalar": (HEAD + "limits: {<<: 3}\n", "3:14: yaml-syntax"),
    "a merge key of a list of aliases": (
        HEAD + "metadata: {a: &a {b: 1}, c: {<<: [*a, 2]}}\n",
        "3:39: yaml-syntax",
    ),
    "a tag that runs Python": (HEAD + "name: !!python/object/apply:os.system [id]\n", "3:7: unknown-tag"),
    "a tag of its own": (HEAD + "name: !include other.yaml\n", "3:7: unknown-tag"),
    "a binary value": (HEAD + "name: !!binary aGk=\n", "3:7: unknown-tag"),
    "a set": (HEAD + "metadata: !!set {a, b}\n", "3:11: unknown-tag"),
    "a text tagged as a number": (HEAD + "limits: {max_steps: !!int many}\n", "3:21: wrong-type"),
    "a key that is a list": (HEAD + "? [a, b]\n: c\n", "3:3: non-string-key"),
    "a key that is a map": (HEAD + "{a: b}: c\n", "3:1: non-string-key"),
    "a key that is a number": (HEAD + "1: one\n", "3:1: non-string-key"),
    "a key that is null": (HEAD + "~: x\n", "3:1: non-string-key"),
    "an empty key": (HEAD + "'': x\n", "3:1: unknown-key"),
    "a key twice": (HEAD + "model: gpt-5.2\n", "3:1: duplicate-key"),
    "a key twice in braces": (HEAD + "limits: {max_steps: 1, max_steps: 2}\n", "3:24: duplicate-key"),
    "two documents": (HEAD + "---\nversion: 1\n", "3:1: multiple-documents"),
    "a directive": ("%YAML 3.0\n---\n" + HEAD, "1:1: yaml-syntax"),
    "a tag directive": ("%TAG ! tag:x,2026:\n---\nversion: !y 1\n", "3:10: unknown-tag"),
    "a list": ("- version: 1\n", "1:1: not-a-mapping"),
    "a text": ("version\n", "1:1: not-a-mapping"),
    "a number": ("1\n", "1:1: not-a-mapping"),
    "nothing": ("", "1:1: empty-file"),
    "a comment alone": ("# nothing\n", "1:1: empty-file"),
    "an end alone": ("...\n", "1:1: yaml-syntax"),
    "a tab before a key": ("version: 1\n\tmodel: gpt-5.2\n", "2:1: yaml-syntax"),
    "an open quote": (HEAD + "name: 'open\n", "3:7: yaml-syntax"),
    "an open bracket": (HEAD + "tools: [web\n", "4:1: yaml-syntax"),
    "an open brace": (HEAD + "limits: {max_steps: 3\n", "4:1: yaml-syntax"),
    "3,000 open brackets": (HEAD + "metadata: " + "[" * 3_000 + "\n", "3:75: too-large"),
    "3,000 nested brackets": (HEAD + "metadata: " + "[" * 3_000 + "]" * 3_000 + "\n", "3:75: too-large"),
    "500 nested blocks": (
        HEAD + "metadata:\n" + "".join(" " * n + "a:\n" for n in range(1, 500)),
        "68:66: too-large",
    ),
    "20,000 dashes in a line": (HEAD + "tools:\n" + "- " * 20_000 + "\n", "4:129: too-large"),
    "a colon in a plain value": (HEAD + "name: a: b\n", "3:8: yaml-syntax"),
    "a value behind a block": (HEAD + "name: |\n  a\n b\n", "5:2: yaml-syntax"),
    "a lone surrogate as an escape": (HEAD + 'name: "\\ud800"\n', "3:10: yaml-syntax"),
    "an unknown escape": (HEAD + 'name: "\\q"\n', "3:8: yaml-syntax"),
    "a byte order mark within": (HEAD + "na\ufeffme: x\n", "3:1: unknown-key"),
    "a next line character": (HEAD + "name: a\x85tools: b\n", "4:8: wrong-type"),
    "a deletion character": (HEAD + "name: a\x7fb\n", "3:8: yaml-syntax"),
    "UTF-16": (("\ufeff" + HEAD).encode("utf-16-le"), "1:1: not-utf8"),
    "UTF-32": (HEAD.encode("utf-32"), "1:1: not-utf8"),
    "Latin-1": ((HEAD + "name: ä\n").encode("latin-1"), "3:7: not-utf8"),
    "half a character": ((HEAD + "name: ä").encode()[:-1], "3:7: not-utf8"),
    "not a number": (HEAD + "limits: {max_cost_usd: .nan}\n", "3:24: not-json"),
    "endless": (HEAD + "limits: {max_cost_usd: .inf}\n", "3:24: not-json"),
    "a number that is too large for a float": (HEAD + "limits: {max_cost_usd: 1e999}\n", "3:24: not-json"),
    "minus one step": (HEAD + "limits: {max_steps: -1}\n", "3:21: out-of-range"),
    "yes": (HEAD + "limits: {max_steps: yes}\n", "3:21: wrong-type"),
    "a time": (HEAD + "limits: {max_steps: 12:30}\n", "3:21: wrong-type"),
    "a variable within a variable": (HEAD + "name: ${A${B}}\n", "3:7: bad-interpolation"),
    "an open variable": (HEAD + "name: ${A\n", "3:7: bad-interpolation"),
    "a variable as a key": (HEAD + "${KEY}: x\n", "3:1: unknown-key"),
    "a variable in extends": (HEAD + "extends: ${BASE}\n", "3:10: wrong-type"),
    "a file that extends itself": (HEAD + "extends: ./hostile.yaml\n", "3:10: extends-cycle"),
    "extends a folder": (HEAD + "extends: ./\n", "3:10: file-not-found"),
    "extends a device": (HEAD + "extends: /dev/null\n", "3:10: file-not-found"),
    "extends a map": (HEAD + "extends: {a: b}\n", "3:10: wrong-type"),
    "null for a section": (HEAD + "limits: null\nworkspace: 3\n", "3:9: wrong-type"),
    "a list for a section": (HEAD + "limits: [max_steps]\n", "3:9: wrong-type"),
    "a model without a name": ("version: 1\nmodel: {}\n", "2:8: ref-shape"),
    "a model of two components": ("version: 1\nmodel: {litellm: {model: x}, replay: {}}\n", "2:8: ref-shape"),
    "a tool of a tool": (HEAD + "tools: [[web]]\n", "3:9: wrong-type"),
    "an agent that works for itself": (
        HEAD + "tools: [subagents]\nagents: {a: {config: hostile.yaml, description: x}}\n",
        "4:22: agents-circle",
    ),
    "a server without a command": (HEAD + "mcpServers: {x: {}}\n", "3:17: mcp-server"),
    "a server with a command and a URL": (
        HEAD + "mcpServers: {x: {command: a, url: 'http://b'}}\n",
        "3:35: mcp-server",
    ),
    "a route without a slash": (HEAD + "workspace: {routes: {x: .}}\n", "3:25: workspace"),
    "a route to the cloud": (HEAD + "workspace: {routes: {/x/: 's3://bucket'}}\n", "3:27: workspace"),
    "a price that is a text": (
        HEAD + "profiles: {models: {x: {max_input_tokens: many}}}\n",
        "3:43: wrong-type",
    ),
    "a plugin of nobody": (HEAD + "plugins: {only: [nobody]}\n", "3:18: missing"),
    "a Home of nobody": (HEAD + "homes: [plugin:nobody]\n", "3:9: missing"),
    "a right that is none": (HEAD + "workspace: {access: {'*': maybe}}\n", "3:27: wrong-value"),
}


@pytest.mark.timeout(60)  # a file that grows when it is read takes minutes
@pytest.mark.parametrize("hostile", WHOLE)
def test_a_hostile_file_is_refused_at_a_place(tmp_path: Path, hostile: str) -> None:
    content, said = WHOLE[hostile]
    (tmp_path / "hostile.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ZeusError) as raised:
        make_plan(check("hostile.yaml", directory=tmp_path, environ={}))
    error = raised.value
    first = error.diagnostics[0] if isinstance(error, ConfigError) else error
    where = first.position if not isinstance(first, ZeusError) else first.where
    assert f"{where}: {first.code}" == f"hostile.yaml:{said}"
