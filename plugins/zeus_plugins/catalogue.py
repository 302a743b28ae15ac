"""The components that come with Zeus, by kind. Each is a plugin: an entry point of ``zeus.plugins`` names it.

Only this module is imported to find them. A component's code and options are imported where they are used.
"""

from __future__ import annotations

from types import SimpleNamespace

from zeus_runtime.plugin import Component, hookimpl


class _Plugin:
    """A plugin that registers one component.

    Args:
        hook: the hook for components of this kind.
    """

    def __init__(self, hook: str, component: Component) -> None:
        setattr(self, hook, hookimpl(lambda: [component]))


def _plugins(hook: str, *components: Component) -> SimpleNamespace:
    return SimpleNamespace(**{each.name: _Plugin(hook, each) for each in components})


models = _plugins(
    "register_models",
    Component(
        "litellm",
        create="zeus_plugins.models.litellm.model:create",
        options="zeus_plugins.models.litellm.options:Options",
        summary="Any model that litellm supports, by its name.",
    ),
    Component(
        "replay",
        create="zeus_plugins.models.replay.model:create",
        options="zeus_plugins.models.replay.options:Options",
        summary="Replays a recorded run, without a network.",
    ),
)

tools = _plugins(
    "register_tools",
    Component(
        "filesystem",
        create="zeus_plugins.tools.filesystem.tools:create",
        options="zeus_plugins.tools.filesystem.options:Options",
        summary="Read and change the workspace: ls read_file write_file edit_file glob grep.",
        gives={"filesystem": ""},
    ),
    Component(
        "todos",
        create="zeus_plugins.tools.todos.tools:create",
        options="zeus_plugins.tools.todos.options:Options",
        summary="The agent's task list: write_todos read_todos.",
        gives={"todos": ""},
    ),
    Component(
        "subagents",
        create="zeus_plugins.tools.subagents.tools:create",
        options="zeus_plugins.tools.subagents.options:Options",
        summary="task: give work to a general agent or to one of the config's, in a separate session.",
        gives={"builtin": "agents under `agents:`, or `general: true`"},
    ),
    Component(
        "memory",
        create="zeus_plugins.tools.memory.tools:create",
        options="zeus_plugins.tools.memory.options:Options",
        summary="Long-term memory: memory_save memory_search memory_delete memory_stats.",
        gives={"memory": "the key `memory:`"},
    ),
    Component(
        "mcp",
        create="zeus_plugins.tools.mcp.toolset:create",
        options="zeus_plugins.tools.mcp.options:Options",
        summary="The tools of MCP servers (mcpServers, connectors).",
        gives={
            "mcp": "a server under `mcpServers`",
            "oauth": "a server under `mcpServers` that uses OAuth, and `zeus auth login NAME`",
            "browser": "`browser` under `connectors`",
            "desktop": "`desktop` under `connectors`",
        },
    ),
    Component(
        "knowledge",
        create="zeus_plugins.tools.knowledge.tools:create",
        options="zeus_plugins.tools.knowledge.options:Options",
        summary="Search the knowledge bases linked by the config, and read documents of the workspace.",
        gives={"rag": "bases under `knowledge:`"},
    ),
    Component(
        "sandbox",
        create="zeus_plugins.tools.sandbox.tools:create",
        options="zeus_plugins.tools.sandbox.options:Options",
        summary="Run code in a sandbox, as in a shell: create_sandbox execute_code copy_from_sandbox.",
        gives={"sandbox": "bubblewrap, or another backend"},
    ),
    Component(
        "shell",
        create="zeus_plugins.tools.shell.tools:create",
        options="zeus_plugins.tools.shell.options:Options",
        summary="Run commands on the workspace: run_command read_output stop_command.",
        gives={"shell": "bubblewrap, or `contain: none`"},
    ),
    Component(
        "web",
        create="zeus_plugins.tools.web.tools:create",
        options="zeus_plugins.tools.web.options:Options",
        summary="Search the public web and fetch its pages: web_search web_fetch.",
        gives={"web": ""},
    ),
)

middlewares = _plugins(
    "register_middlewares",
    Component(
        "history",
        create="zeus_plugins.middlewares.history.middleware:History",
        options="zeus_plugins.middlewares.history.options:Options",
        summary="Sends only the last messages of earlier turns; the whole history stays stored.",
    ),
    Component(
        "eviction",
        create="zeus_plugins.middlewares.eviction.middleware:Eviction",
        options="zeus_plugins.middlewares.eviction.options:Options",
        summary="Moves large tool results to a file; the model sees a preview and the path.",
    ),
    Component(
        "truncation",
        create="zeus_plugins.middlewares.truncation.middleware:Truncation",
        options="zeus_plugins.middlewares.truncation.options:Options",
        summary="Cuts long arguments of old tool calls; the model sees their beginning and the path of the rest.",
    ),
    Component(
        "dedupe",
        create="zeus_plugins.middlewares.dedupe.middleware:Dedupe",
        options="zeus_plugins.middlewares.dedupe.options:Options",
        summary="When something is read again, the older copy becomes a pointer to the newer one.",
    ),
    Component(
        "pins",
        create="zeus_plugins.middlewares.pins.middleware:Pins",
        options="zeus_plugins.middlewares.pins.options:Options",
        summary="Keeps messages in the model's view for ever, whatever other policies do.",
    ),
    Component(
        "summarization",
        create="zeus_plugins.middlewares.summarization.middleware:Summarization",
        options="zeus_plugins.middlewares.summarization.options:Options",
        summary="Compaction: a summary replaces old messages when the window fills; the originals stay stored.",
    ),
    Component(
        "caching",
        create="zeus_plugins.middlewares.caching.middleware:Caching",
        options="zeus_plugins.middlewares.caching.options:Options",
        summary="Asks providers that cache only on request (Anthropic) to cache the stable prefix.",
    ),
    Component(
        "local_context",
        create="zeus_plugins.middlewares.local_context.middleware:LocalContext",
        options="zeus_plugins.middlewares.local_context.options:Options",
        summary="Tells the model the git state and a short tree of the workspace.",
    ),
    Component(
        "recall",
        create="zeus_plugins.middlewares.recall.middleware:Recall",
        options="zeus_plugins.middlewares.recall.options:Options",
        summary="A tool that searches and reads messages that left the model's view.",
        gives={"builtin": ""},
    ),
    Component(
        "memory",
        create="zeus_plugins.middlewares.memory.middleware:RememberedContext",
        options="zeus_plugins.middlewares.memory.options:Options",
        summary="Puts the profile and memories relevant to the user's message into the prompt.",
    ),
    Component(
        "approve",
        create="zeus_plugins.middlewares.approve.middleware:Approve",
        options="zeus_plugins.middlewares.approve.options:Options",
        summary="Approvals (permissions): asks the user before tools run, by rules and the user's allowlist.",
    ),
    Component(
        "hooks",
        create="zeus_plugins.middlewares.hooks.middleware:Hooks",
        options="zeus_plugins.middlewares.hooks.options:Options",
        summary="Your own programs around runs, model calls and tool calls: they may deny or change them.",
    ),
    Component(
        "skills",
        create="zeus_plugins.middlewares.skills.middleware:SkillLibrary",
        options="zeus_plugins.middlewares.skills.options:Options",
        summary="Lists skills in the prompt and loads them when a task needs them.",
        gives={"skills": "a folder of skills, trusted if it is the project's"},
    ),
    Component(
        "resources",
        create="zeus_plugins.middlewares.resources.middleware:ReferencedFiles",
        options="zeus_plugins.middlewares.resources.options:Options",
        summary="Puts files that the user names with @ or attaches into the prompt.",
    ),
    Component(
        "sandbox_files",
        create="zeus_plugins.middlewares.sandbox_files.middleware:SandboxFilesSection",
        options="zeus_plugins.middlewares.sandbox_files.middleware:Options",
        summary="Lists the files in the sandbox for the model.",
    ),
)

checkpointers = _plugins(
    "register_checkpointers",
    Component(
        "sqlite",
        create="zeus_plugins.checkpointers.sqlite.saver:create",
        options="zeus_plugins.checkpointers.sqlite.options:Options",
        summary="Checkpoints in the threads' SQLite database.",
    ),
    Component(
        "postgres",
        create="zeus_plugins.checkpointers.postgres.opening:create",
        options="zeus_plugins.checkpointers.postgres.options:Options",
        summary="Checkpoints in a PostgreSQL database.",
    ),
    Component(
        "memory",
        create="zeus_plugins.checkpointers.memory:create",
        summary="Checkpoints in memory; they are lost when the process ends.",
    ),
)

counters = _plugins(
    "register_counters",
    Component(
        "tokenizer_file",
        create="zeus_plugins.counters.tokenizer_file:create",
        options="zeus_plugins.counters.tokenizer_file:Options",
        summary="Counts with the model's tokenizer.json, for models that you host.",
    ),
)

memories = _plugins(
    "register_memories",
    Component(
        "database",
        create="zeus_plugins.memories.database:create",
        summary="Memories in the agent's own database.",
    ),
)

vector_stores = _plugins(
    "register_vector_stores",
    Component(
        "sqlite",
        create="zeus_plugins.vector_stores.sqlite.store:create",
        summary="Vectors in the memories' SQLite database; exact.",
    ),
    Component(
        "pgvector",
        create="zeus_plugins.vector_stores.pgvector.store:create",
        options="zeus_plugins.vector_stores.pgvector.options:Options",
        summary="Vectors in the memories' PostgreSQL database; exact, or with HNSW if there are many.",
    ),
    Component(
        "chroma",
        create="zeus_plugins.vector_stores.chroma.store:create",
        options="zeus_plugins.vector_stores.chroma.options:Options",
        summary="Vectors in a ChromaDB folder, for one process at a time; can be rebuilt from the memories.",
    ),
)

embeddings = _plugins(
    "register_embeddings",
    Component(
        "static",
        create="zeus_plugins.embeddings.static.embedder:create",
        options="zeus_plugins.embeddings.static.options:Options",
        summary="A table of word vectors included in Zeus: offline, a tenth of a millisecond for a text, English.",
    ),
    Component(
        "litellm",
        create="zeus_plugins.embeddings.litellm_embeddings.embedder:create",
        options="zeus_plugins.embeddings.litellm_embeddings.options:Options",
        summary="Any embedding model that litellm supports, by its name.",
    ),
    Component(
        "multilingual",
        create="zeus_plugins.embeddings.multilingual.embedder:create",
        summary="A sentence encoder for 16 languages on this machine, with its weights in a package.",
    ),
    Component(
        "onnx",
        create="zeus_plugins.embeddings.onnx.embedder:create",
        options="zeus_plugins.embeddings.onnx.options:Options",
        summary="A sentence encoder on this machine, as an ONNX file (MiniLM, E5, BGE, ...).",
    ),
)

sandboxes = _plugins(
    "register_sandboxes",
    Component(
        "bubblewrap",
        create="zeus_plugins.sandboxes.bubblewrap.backend:create",
        options="zeus_plugins.sandboxes.bubblewrap.options:Options",
        summary="Runs programs in new Linux namespaces: no network, no host files, a system call filter.",
    ),
    Component(
        "docker",
        create="zeus_plugins.sandboxes.docker.backend:create",
        options="zeus_plugins.sandboxes.docker.options:Options",
        summary="Runs each program in a container, with the docker or podman command.",
    ),
    Component(
        "ssh",
        create="zeus_plugins.sandboxes.ssh.backend:create",
        options="zeus_plugins.sandboxes.ssh.options:Options",
        summary="Runs programs on another machine over SSH, isolated there with bubblewrap.",
    ),
)

searches = _plugins(
    "register_searches",
    Component(
        "tavily",
        create="zeus_plugins.searches.tavily.search:create",
        options="zeus_plugins.searches.tavily.search:Options",
        summary="Searches with Tavily; needs TAVILY_API_KEY.",
    ),
    Component(
        "duckduckgo",
        create="zeus_plugins.searches.duckduckgo.search:create",
        options="zeus_plugins.searches.duckduckgo.search:Options",
        summary="Searches DuckDuckGo; needs no key.",
    ),
)

protocols = _plugins(
    "register_protocols",
    Component(
        "openai",
        create="zeus_plugins.protocols.openai.protocol:create",
        options="zeus_plugins.protocols.openai.options:Options",
        summary="OpenAI's chat completions and responses; each agent is a model.",
    ),
    Component(
        "mcp",
        create="zeus_plugins.protocols.mcp.protocol:create",
        options="zeus_plugins.protocols.mcp.options:Options",
        summary="MCP over streamable HTTP; each agent is a tool.",
    ),
)
