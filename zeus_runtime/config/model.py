"""The typed Config: what a YAML file can say. The dataclasses are the source of the core's JSON Schema.

A field's ``Annotated`` text is its description in the schema and the docs; the constraints follow it.
Annotations are not postponed here, since every command needs them all: reading them back from text takes 6 ms.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Final, Literal, TypeAlias

from zeus_runtime.config.layers.plugin_home import PREFIX
from zeus_runtime.config.mcp import Connectors, McpServer
from zeus_runtime.config.ref import Ref as Ref
from zeus_runtime.config.schema.markers import (
    Alias,
    AlsoCalled,
    Destination,
    Doc,
    Executes,
    FileRelative,
    Maximum,
    Minimum,
    MinLength,
    Pattern,
    RefTo,
    WorkRelative,
)
from zeus_runtime.frozen import dataclass

_SQLITE = Ref("sqlite")

Mode: TypeAlias = Literal["agent", "ask", "plan"]


@dataclass(frozen=True)
class Limits:
    """When a run stops by itself (exit code 6)."""

    max_steps: Annotated[
        int,
        AlsoCalled(("max_iterations", "max_iter", "max_turns", "recursion_limit")),
        Doc("Model calls in one run."),
        Minimum(1),
    ] = 200
    timeout_seconds: Annotated[
        float | None, AlsoCalled(("timeout",)), Doc("Wall time of one run; null for none."), Minimum(0.001)
    ] = 3600.0
    max_cost_usd: Annotated[
        float | None,
        AlsoCalled(("max_cost", "budget", "max_budget")),
        Doc(
            "Money that one turn may cost, from a prompt until its answer and over every --continue, by the model's "
            "price; null for none."
        ),
        Minimum(0),
    ] = None
    repeated_calls: Annotated[
        int | None,
        Doc(
            "How often the same tool calls may give the same results, in a row or in a cycle of up to four answers; "
            "the model gets a notice from the third on. null: any number."
        ),
        Minimum(2),
    ] = 8
    max_parallel_tools: Annotated[
        int, Doc("Tool calls of one answer that run at the same time."), Minimum(1)
    ] = 16
    max_subagents: Annotated[int, Doc("Sub-agents that one run may start."), Minimum(0)] = 20
    max_subagent_depth: Annotated[
        int, Doc("How many levels of sub-agents may be nested below this agent."), Minimum(0)
    ] = 3


@dataclass(frozen=True)
class Retry:
    """How a failed model call is repeated (never for 401, 403 or a cancel)."""

    attempts: Annotated[int, Doc("Tries in all."), Minimum(1), Maximum(20)] = 3
    initial_seconds: Annotated[float, Doc("Wait before the second try."), Minimum(0)] = 1.0
    factor: Annotated[float, Doc("The factor by which each further wait is longer."), Minimum(1)] = 2.0
    max_seconds: Annotated[
        float, Doc("The longest wait; a longer Retry-After ends the tries."), Minimum(0)
    ] = 8.0
    jitter: Annotated[float, Doc("Random share of each wait, 0 to 1."), Minimum(0), Maximum(1)] = 0.25


@dataclass(frozen=True)
class Secrets:
    """What becomes of known secrets: values of the environment, of `.env` and of this config."""

    to_model: Annotated[
        Literal["mask", "allow"],
        Executes(by_name=True),
        Doc(
            "`mask` replaces them by placeholders such as `<secret:API_KEY>` in what the model is sent and in what the"
            " database keeps; `allow` sends and keeps them as they are."
        ),
    ] = "mask"


@dataclass(frozen=True)
class TimeSection:
    """Section 7 of the prompt."""

    precision: Annotated[
        Literal["date", "minute", "none"],
        Doc("`date` keeps the provider's prompt cache for a day; `minute` breaks it every minute."),
    ] = "date"
    timezone: Annotated[str, Doc("IANA name, `UTC` or `local`.")] = "local"


@dataclass(frozen=True)
class Prompt:
    """The parts of the system prompt."""

    files: Annotated[
        Mapping[Literal["core", "soul", "tools", "workflow", "memory", "mode"], str],
        FileRelative(),
        Doc("Section name to a file that replaces the Home's, relative to this YAML file."),
    ] = field(default_factory=dict)
    variables: Annotated[Mapping[str, str], Doc("Values for `{{name}}` in prompt files.")] = field(
        default_factory=dict
    )
    tools_description: Annotated[
        Literal["full", "brief"],
        Doc("Section 3 lists every tool with its parameters, or its name and first line."),
    ] = "full"
    time: Annotated[TimeSection, Doc("Section 7.")] = field(default_factory=TimeSection)


@dataclass(frozen=True)
class InstructionsFile:
    """Instructions in a separate file."""

    file: Annotated[str, FileRelative(), Doc("A UTF-8 text file, relative to this YAML file.")]


@dataclass(frozen=True)
class ProjectInstructions:
    """Which files of the workspace's repository tell the agent about the project, and how much of them it reads."""

    files: Annotated[
        tuple[Annotated[str, Pattern(r"^(?!\.{1,2}$)[^/\\\x00-\x1f]+$")], ...],
        MinLength(1),
        Doc("File names; of each folder, the first that is there is read."),
    ] = ("AGENTS.md", "CLAUDE.md")
    max_tokens: Annotated[
        int, Doc("What all of them may take; the outermost folder's file is cut first."), Minimum(200)
    ] = 4_000


@dataclass(frozen=True)
class ProfileOverride:
    """What the user says of a model; wins over every table."""

    max_input_tokens: Annotated[
        int | None, Doc("Input limit in tokens (not the input + output window)."), Minimum(1)
    ] = None
    max_output_tokens: Annotated[
        int | None,
        Doc(
            "Output limit in tokens; each request asks for at most so many, unless the model's options say otherwise."
        ),
        Minimum(1),
    ] = None
    tokenizer: Annotated[
        Literal["o200k_base", "cl100k_base", "estimate"] | None, Doc("What counts the model's tokens.")
    ] = None
    input_cost_per_token: Annotated[float | None, Doc("US dollars."), Minimum(0)] = None
    output_cost_per_token: Annotated[float | None, Doc("US dollars."), Minimum(0)] = None
    cache_read_cost_per_token: Annotated[float | None, Doc("US dollars."), Minimum(0)] = None
    cache_write_cost_per_token: Annotated[float | None, Doc("US dollars."), Minimum(0)] = None
    cache_write_1h_cost_per_token: Annotated[
        float | None, Doc("US dollars, where the prompt is kept for an hour."), Minimum(0)
    ] = None
    vision: Annotated[bool | None, Doc("Whether it takes pictures.")] = None
    reasoning: Annotated[
        Literal["none", "effort", "budget", "both"] | None,
        Doc("Whether it reasons, and is told how much by an effort, a budget of tokens, or either."),
    ] = None
    response_schema: Annotated[
        bool | None, Doc("Whether its provider holds answers to a JSON Schema, also beside tools.")
    ] = None


@dataclass(frozen=True)
class Profiles:
    """Where a model's limits and prices come from."""

    strict: Annotated[bool, Doc("An unknown model name is an error instead of a 64,000-token fallback.")] = (
        False
    )
    models: Annotated[Mapping[str, ProfileOverride], Doc("Exact model name to its values.")] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class WorkspaceQuota:
    """How much a workspace may hold; its routes do not count."""

    bytes: Annotated[
        int | None,
        Doc(
            "The sizes of its files together; null for any. A tool's write that would exceed it is refused. After a"
            " command of the shell the files are counted, and further writes are refused until there is room."
        ),
        Minimum(1),
    ] = None
    files: Annotated[int | None, Doc("How many files it may have; null for any number."), Minimum(1)] = None


@dataclass(frozen=True)
class Workspace:
    """The files the agent works on; paths in tools are rooted here."""

    root: Annotated[
        str,
        AlsoCalled(("root_path", "working_dir", "working_directory", "cwd")),
        WorkRelative(),
        Doc("The folder that `/` means; relative to the working directory."),
    ] = "."
    routes: Annotated[
        Mapping[str, str],
        WorkRelative(),
        Doc("Path prefix (`/memory/`) to another folder; relative to the working directory."),
    ] = field(default_factory=dict)
    access: Annotated[
        Mapping[str, Literal["deny", "read", "ask", "write"]],
        Doc(
            "What tools may do with files: pattern (`secrets/**`, `*.pem`) to `deny` (they do not see the file),"
            " `read`, `ask` (reading is free, each change needs an approval) or `write`. `deny` always wins; else the"
            " pattern with the most parts without a wildcard holds, and of two with equally many the stricter."
            " A pattern without wildcards also lifts the built-in protection of what it names: `.env.example: read`."
        ),
    ] = field(default_factory=dict)
    hard_links: Annotated[
        tuple[str, ...],
        Doc(
            "Names of folders in which tools may read files that have several names (hard links), as package managers"
            " make them. Elsewhere such a file is refused: its other name may be outside of the workspace."
        ),
    ] = ("node_modules", ".venv", "venv")
    per: Annotated[
        Literal["session", "user"] | None,
        Doc(
            "A folder of its own below `root` for each session or each user, made at first use; null: all share"
            " `root`. Sub-agents share that of their parent. A session's folder is deleted with the session."
        ),
    ] = None
    quota: Annotated[WorkspaceQuota, Doc("How much the workspace, or each such folder, may hold.")] = field(
        default_factory=WorkspaceQuota
    )


@dataclass(frozen=True)
class ArchiveLimits:
    """How long what left the window stays in files; the database keeps the messages themselves."""

    max_age_days: Annotated[
        float | None,
        Doc("Archived files that were not written to for longer are removed; null keeps any age."),
        Minimum(0),
    ] = 30
    max_megabytes: Annotated[
        float | None,
        Doc("What all archived files may take; the oldest go first, the newest stays. null for any size."),
        Minimum(0),
    ] = 1_000


@dataclass(frozen=True)
class Storage:
    """Where threads live."""

    url: Annotated[
        str,
        Destination(),
        Pattern(r"^(sqlite(\+\w+)?://($|/)|postgres(ql(\+psycopg)?)?://)"),
        Doc(
            "SQLAlchemy URL of a SQLite or PostgreSQL database: sqlite:///.zeus/zeus.db, postgresql://user@host/name. "
            "A relative SQLite path is relative to the working directory."
        ),
    ] = "sqlite:///.zeus/zeus.db"
    connections: Annotated[
        int,
        Doc(
            "Of a PostgreSQL database: the most connections for threads that an agent has open. They are opened when "
            "sessions write at the same time. SQLite has one writer."
        ),
        Minimum(1),
    ] = 4


@dataclass(frozen=True)
class Retention:
    """How long this agent's sessions are kept; expired ones are removed at the end of a run, at most once a day."""

    max_age_days: Annotated[
        float | None,
        Doc("Sessions that were not used for longer are archived or deleted; null keeps any age."),
        Minimum(0),
    ] = None
    max_sessions: Annotated[
        int | None,
        Doc("Beyond so many sessions the longest unused go; null for any number."),
        Minimum(1),
    ] = None
    archive: Annotated[
        bool,
        Doc("They are packed and can be restored (`zeus sessions restore`); false deletes them."),
    ] = True
    archived_max_age_days: Annotated[
        float | None,
        Doc("Sessions that were archived longer ago are deleted for good; null keeps them."),
        Minimum(0),
    ] = None

    events_max_age_days: Annotated[
        float | None,
        Doc("Stored events that are older are deleted; a session's messages stay. Null keeps them."),
        Minimum(0),
    ] = None

    @property
    def keeps_all(self) -> bool:
        """Whether no session ever goes."""
        return self.max_age_days is None and self.max_sessions is None and self.archived_max_age_days is None


@dataclass(frozen=True)
class MemoryThresholds:
    """What a text must pass to be kept, and how much of what is kept a prompt gets."""

    min_confidence: Annotated[
        float,
        Doc("Memories with a lower confidence are not stored (MEMORY_MIN_CONFIDENCE)."),
        Minimum(0),
        Maximum(1),
    ] = 0.7
    duplicate_threshold: Annotated[
        float | None,
        Doc(
            "Cosine from which on two texts say the same, unless their values differ (MEMORY_DUPLICATE_THRESHOLD); "
            "null: the embedding model's own."
        ),
        Minimum(0.01),
        Maximum(1),
    ] = None
    related_threshold: Annotated[
        float | None,
        Doc(
            "Cosine from which on a text may replace another; null: it follows from the duplicate threshold."
        ),
        Minimum(0),
        Maximum(1),
    ] = None
    related_words: Annotated[
        float,
        Doc("Share of a text's words, weighed by rarity, from which on it may replace another."),
        Minimum(0),
        Maximum(1),
    ] = 0.45
    max_extractions: Annotated[
        int,
        Doc(
            "Memories that the agent may save without a request in a session's window (MEMORY_MAX_EXTRACTIONS); "
            "memories that the user asks for do not count."
        ),
        Minimum(0),
    ] = 3
    extraction_window_hours: Annotated[float, Doc("The window of max_extractions."), Minimum(0.001)] = 24
    min_length: Annotated[int, Doc("Characters (MEMORY_MIN_LENGTH)."), Minimum(1)] = 5
    max_length: Annotated[int, Doc("Characters (MEMORY_MAX_LENGTH)."), Minimum(1)] = 2_000
    top_k: Annotated[int, Doc("Memories in a prompt, and what a search finds by default."), Minimum(0)] = 5
    max_prompt_characters: Annotated[
        int, Doc("Characters of all memories in a prompt together."), Minimum(0)
    ] = 2_000


_ME = "local"
USER_NAME: Final = r"^(?!\s)[^\x00-\x1f\x7f]+(?<!\s)(?!\n)$"
"""On one line, without white space around it: otherwise "ann" and "ann " would be two users that look the same."""


@dataclass(frozen=True)
class ExtractEvery:
    """Facts are extracted during a session."""

    every: Annotated[int, Doc("After this many new prompts of a session."), Minimum(1)]


@dataclass(frozen=True)
class Memory:
    """What the agent remembers from session to session, on whose behalf, and how it is found again."""

    user: Annotated[str, Pattern(USER_NAME), Doc("Whose memories they are.")] = _ME
    project: Annotated[str | None, Pattern(USER_NAME), Doc("Whose project they are; null for none.")] = None
    role: Annotated[
        Literal["owner", "admin", "editor", "viewer"],
        Doc("The user's role in the project, as long as the project has no members (`zeus memory members`)."),
    ] = "owner"
    backend: Annotated[
        Ref | None,
        RefTo("memory"),
        Doc("Where memories are stored and found; null: `database`, the agent's own database (storage.url)."),
    ] = None
    embeddings: Annotated[
        Ref | None,
        RefTo("embedding"),
        Doc(
            "The embedding model; null: the bundled static table, which runs offline. `litellm` asks "
            "text-embedding-3-small, or the model it names."
        ),
    ] = None
    vector_store: Annotated[
        Ref | None,
        RefTo("vector_store"),
        Doc(
            "Where vectors of memories and knowledge bases are kept and compared; null: pgvector where storage.url is "
            "PostgreSQL's, else sqlite."
        ),
    ] = None
    extract: Annotated[
        Literal["off", "end_of_session"] | ExtractEvery,
        Doc(
            "When a model extracts facts from the new part of a session, in the background: `end_of_session`, when the "
            "agent closes; `{every: N}`, after N new prompts; `off`: never. One call of the model of `models.summary`, "
            "else of the agent's own model."
        ),
    ] = "off"
    consolidate_after: Annotated[
        int | None,
        Doc(
            "After an extraction, a model merges, dates and retires memories once this many are new; null: only "
            "`zeus memory consolidate` does."
        ),
        Minimum(1),
    ] = None
    thresholds: Annotated[MemoryThresholds, Doc("Limits for storing and showing memories.")] = field(
        default_factory=MemoryThresholds
    )


INSTRUCTIONS_ELSEWHERE: Final = (
    "system_prompt",
    "system",
    "system_message",
    "instruction",
    "goal",
    "backstory",
)
"""The names that other products give to ``instructions``."""


@dataclass(frozen=True)
class SchemaFile:
    """A JSON Schema in a separate file."""

    file: Annotated[str, FileRelative(), Doc("A JSON or YAML file, relative to this YAML file.")]


@dataclass(frozen=True)
class Output:
    """The form of the answer: a JSON value that fits a schema."""

    schema: Annotated[
        SchemaFile
        | Annotated[str, Executes(by_name=True), Pattern(r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
        | Mapping[str, Any],
        Doc(
            "The JSON Schema of the answer; {file: PATH} for one in a file; or `module:Model`, a pydantic model of an"
            " installed distribution or of a file under plugins.files, whose module has the file's name."
        ),
    ]
    strategy: Annotated[
        Literal["auto", "response_format", "tool", "prompt"],
        Doc(
            "How the model gives it: with the provider's own response format, with a final tool call, or as text that"
            " the prompt describes. `auto`: the first of these that the model and the schema allow."
        ),
    ] = "auto"
    repairs: Annotated[
        int,
        Doc("How often one turn asks again, with the errors, for an answer that does not fit."),
        Minimum(0),
        Maximum(20),
    ] = 2


@dataclass(frozen=True)
class SubAgent:
    """An agent to which this one may give tasks; each task runs in a separate session."""

    description: Annotated[str, MinLength(1), Doc("The purpose of the agent; the model uses it to choose.")]
    config: Annotated[
        str | None,
        Doc(
            "Its config: a preset's name, or a file relative to this YAML file; null: this one, without its agents. It "
            "works with this agent's `storage` and `checkpointer` in any case."
        ),
    ] = None
    instructions: Annotated[
        str | InstructionsFile | None,
        AlsoCalled(("prompt", *INSTRUCTIONS_ELSEWHERE)),
        Doc(
            "Its own instructions, a text or {file: PATH}, instead of those in its config; null: those of its config."
        ),
    ] = None
    output: Annotated[
        Output | None,
        AlsoCalled(("response_format", "output_schema", "output_type")),
        Doc(
            "The form of its answers, instead of that in its config; null: that of its config, or none if it shares"
            " this one."
        ),
    ] = None
    overrides: Annotated[Mapping[str, Any], Doc("Keys laid over that config, as a further layer.")] = field(
        default_factory=dict
    )
    context: Annotated[
        Literal["isolated", "fork", "slice"],
        Doc(
            "What it knows besides its prompt: nothing; all that this agent's model was last sent, word for word; the "
            "newest messages of that."
        ),
    ] = "isolated"
    last_messages: Annotated[int, Doc("How many messages a slice has at most."), Minimum(1)] = 10
    budget_tokens: Annotated[
        int | None,
        Doc("What a fork or slice may take; the oldest messages go first. null: whatever it takes."),
        Minimum(1),
    ] = None


@dataclass(frozen=True)
class Breaker:
    """When a model of a chain is passed over for a while."""

    failures: Annotated[
        int, Doc("After so many failed calls in a row, in all sessions of the agent."), Minimum(1)
    ] = 3
    seconds: Annotated[
        float, Doc("How long it is passed over; then one call tries it again."), Minimum(0.001)
    ] = 60.0


MoveOn: TypeAlias = Literal["rate_limit", "billing", "server", "network", "timeout", "context_overflow"]


@dataclass(frozen=True)
class ModelChain:
    """Models in a chain: if one fails, the next one answers."""

    chain: Annotated[
        tuple[Ref, ...],
        RefTo("model", plain=("litellm", "model")),
        MinLength(1),
        Doc("The models, the preferred one first; each is a name or a Ref."),
    ]
    move_on: Annotated[
        tuple[MoveOn, ...],
        Doc(
            "The errors after which the next model answers. `context_overflow` moves only to a model with a larger"
            " window, after the context policies have removed all they can. Other errors end the run."
        ),
    ] = ("rate_limit", "billing", "server", "network", "timeout", "context_overflow")
    tries: Annotated[
        int,
        Doc("Tries of a model while another one is left, at most `retry.attempts`, which the last one has."),
        Minimum(1),
        Maximum(20),
    ] = 2
    first_token_seconds: Annotated[
        float | None,
        Doc(
            "How long a model may take until the first piece of its answer, tries included, while another one is left;"
            " null: as long as the model's own options allow."
        ),
        Minimum(0.001),
    ] = None
    breaker: Annotated[Breaker, Doc("When a model is passed over.")] = field(default_factory=Breaker)


@dataclass(frozen=True)
class ModelRoles:
    """Other models for parts of the work; each is a name, a Ref or `{chain: […]}`."""

    summary: Annotated[
        Annotated[Ref, RefTo("model", plain=("litellm", "model"))] | ModelChain | None,
        AlsoCalled(("summarizer", "summarization", "compaction")),
        Doc("The model of policies' own calls, such as a summary; null: the running model."),
    ] = None
    subagents: Annotated[
        Annotated[Ref, RefTo("model", plain=("litellm", "model"))] | ModelChain | None,
        AlsoCalled(("agents", "sub_agents")),
        Doc(
            "The model of sub-agents that share this config and set no model of their own, except forks; null: this"
            " agent's model."
        ),
    ] = None
    vision: Annotated[
        Annotated[Ref, RefTo("model", plain=("litellm", "model"))] | ModelChain | None,
        AlsoCalled(("pictures", "images", "image")),
        Doc(
            "The model that describes pictures where the agent's model, or one of its chain, takes none; the"
            " description is part of the conversation. null: such a model is told that there is a picture."
        ),
    ] = None


@dataclass(frozen=True)
class ReasoningAmount:
    """How much the models of the agent reason before they answer."""

    effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None,
        AlsoCalled(("level", "reasoning_effort")),
        Doc("The provider's level; for a model that takes only budgets, a budget of 1,024 to 4,096 tokens."),
    ] = None
    budget_tokens: Annotated[
        int | None,
        AlsoCalled(("budget", "max_tokens", "thinking_budget")),
        Doc("Tokens that the model may reason with, instead of the effort, where the model takes a budget."),
        Minimum(1),
    ] = None


@dataclass(frozen=True)
class Plugins:
    """Which plugins may load."""

    disable: Annotated[tuple[str, ...], Doc("Plugins that are never imported.")] = ()
    only: Annotated[tuple[str, ...] | None, Doc("Only these plugins load; null for all.")] = None
    files: Annotated[
        tuple[str, ...], FileRelative(), Doc("Local plugin files (.py), relative to this YAML file.")
    ] = ()


@dataclass(frozen=True)
class Config:
    """One agent, as its YAML says."""

    version: Annotated[Literal[1], Doc("The format's version.")]
    model: Annotated[
        Annotated[Ref, RefTo("model", plain=("litellm", "model"))] | ModelChain,
        AlsoCalled(("llm", "model_name", "language_model")),
        Doc("A model name (run by litellm), a Ref to a model component, or `{chain: […]}` of several."),
    ]
    models: Annotated[
        ModelRoles, Doc("Other models for parts of the work: summaries, sub-agents, pictures.")
    ] = field(default_factory=ModelRoles)
    reasoning: Annotated[
        ReasoningAmount | None,
        AlsoCalled(("thinking", "reasoning_effort", "effort")),
        Doc("How much the model reasons, by its profile; null: as the provider does by default."),
    ] = None
    name: Annotated[str, Doc("The agent's name; `{{agent_name}}` in prompts.")] = "zeus"
    description: Annotated[str, Doc("The purpose of the agent; `zeus plan` shows it.")] = ""
    mode: Annotated[Mode, Doc("agent does, ask only reads, plan reads and plans.")] = "agent"
    instructions: Annotated[
        str | InstructionsFile | None,
        AlsoCalled(INSTRUCTIONS_ELSEWHERE),
        Doc(
            "The agent's task and rules, a text or {file: PATH}; they end section 1 of the prompt as they are written."
        ),
    ] = None
    output: Annotated[
        Output | None,
        AlsoCalled(("response_format", "output_schema", "output_type", "output_pydantic", "output_json")),
        Doc("The form of the answer, as a JSON Schema; null: a text."),
    ] = None
    project_instructions: Annotated[
        bool | ProjectInstructions,
        Doc(
            "Show AGENTS.md (or CLAUDE.md) of the workspace and of the folders above it in its repository in section 11"
            " of the prompt."
        ),
    ] = False
    prompt: Annotated[Prompt, Doc("The system prompt.")] = field(default_factory=Prompt)
    tools: Annotated[
        tuple[Ref, ...],
        RefTo("tool"),
        AlsoCalled(("toolsets", "toolkits")),
        Doc("Tool components, in the order the model sees them."),
    ] = ()
    agents: Annotated[
        Mapping[str, SubAgent],
        AlsoCalled(("subagents", "sub_agents", "handoffs")),
        Doc("Name to an agent that the tool `subagents` gives work to."),
    ] = field(default_factory=dict)
    mcp_servers: Annotated[
        Mapping[str, McpServer],
        AlsoCalled(("mcp",)),
        Alias("mcpServers"),
        Doc(
            "MCP servers by name, as other clients write them; they bring the tool component `mcp` along, first in the"
            " list unless `tools` places it."
        ),
    ] = field(default_factory=dict)
    connectors: Annotated[Connectors, Doc("A browser or desktop, driven through an MCP server.")] = field(
        default_factory=Connectors
    )
    middlewares: Annotated[
        tuple[Ref, ...], RefTo("middleware"), Doc("Middlewares; the first line is outermost.")
    ] = ()
    approvals: Annotated[
        Literal["run_everything", "allowlist", "ask"] | None,
        Doc(
            "How often the user is asked before a tool that writes runs, instead of the `mode` of the middleware"
            " `approve`, whose rules stay; null: that mode."
        ),
    ] = None
    workspace: Annotated[Workspace, Doc("The agent's files.")] = field(default_factory=Workspace)
    storage: Annotated[Storage, AlsoCalled(("database", "persistence")), Doc("The threads' database.")] = (
        field(default_factory=Storage)
    )
    archive: Annotated[ArchiveLimits, Doc("The files of what left the model's window.")] = field(
        default_factory=ArchiveLimits
    )
    retention: Annotated[Retention, Doc("How long sessions stay in the threads' database.")] = field(
        default_factory=Retention
    )
    memory: Annotated[Memory | None, Doc("Long-term memory, in the threads' database; null for none.")] = None
    knowledge: Annotated[
        tuple[str, ...],
        Doc("Knowledge bases that the tools of `knowledge` search; `zeus kb add NAME PATH` makes one."),
    ] = ()
    checkpointer: Annotated[Ref, RefTo("checkpointer"), Doc("A Ref to a checkpointer component.")] = _SQLITE
    counter: Annotated[
        Ref | None,
        RefTo("counter"),
        Doc("What counts the model's tokens; null: what its profile says (tokenizer)."),
    ] = None
    limits: Annotated[Limits, Doc("When a run stops by itself.")] = field(default_factory=Limits)
    secrets: Annotated[Secrets, Doc("How known secrets are shown to the model.")] = field(
        default_factory=Secrets
    )
    retry: Annotated[Retry, Doc("How a failed model call is repeated.")] = field(default_factory=Retry)
    profiles: Annotated[Profiles, Doc("Model limits and prices.")] = field(default_factory=Profiles)
    plugins: Annotated[Plugins, Doc("Which plugins may load.")] = field(default_factory=Plugins)
    homes: Annotated[
        tuple[str, ...],
        FileRelative(unless=PREFIX),
        Doc(
            "Further Home folders (configs, prompts, plugins, skills), relative to this YAML file; `plugin:NAME` for "
            "the Home that a plugin brings."
        ),
    ] = ()
    metadata: Annotated[Mapping[str, Any], Doc("The user's own; Zeus does not read it.")] = field(
        default_factory=dict
    )

    @property
    def chain(self) -> ModelChain | None:
        """The chain of models; None for a single model."""
        return self.model if isinstance(self.model, ModelChain) else None

    @property
    def user(self) -> str:
        """On whose behalf the agent works: whose memories it has, whose allowlist holds."""
        return self.memory.user if self.memory is not None else _ME
