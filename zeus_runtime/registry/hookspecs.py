"""Every hook of Zeus, in the order in which a command calls them.

A plugin is a module (or an object) with functions marked ``@hookimpl``; an entry point in the group
``zeus.plugins`` names it. A hook *returns* its registrations, and Zeus registers them. So a hook is a plain
function that a test can call without Zeus, and nothing depends on the order in which plugins load.

These rules hold for every hook:

- **A hook registers or observes. It never changes a run.** Only a middleware changes a run, and its place is its line
  in the YAML. Therefore ``tryfirst``, ``trylast``, ``wrapper`` and ``hookwrapper`` are refused: plugins have no order.
- **A plugin is loaded completely or not at all.** If its module cannot be imported, a hook raises, or a hook returns
  something else than is written here, the plugin contributes nothing. It is reported by name, distribution and version,
  and every other plugin still loads. A run that needs it ends with exit code 4 and that report.
- **Keep the plugin module light.** Every command that reads a config imports it. Give ``create`` and ``options`` as
  ``"package.module:attribute"`` strings; the objects that they name are imported when the component runs.
- Take only the parameters that you use: a hook that is given ``cli`` or ``event`` may leave it out.
- A hook that this version of Zeus does not know is an error in the plugin. Mark it ``@hookimpl(optionalhook=True)`` if
  the plugin also serves versions that know it.

The chapters: 1 where things are found, 2 what a YAML can name, 3 what the service and the command
line can do, 4 what a run reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pluggy import HookimplMarker, HookspecMarker

from zeus_runtime.registry.component import Component

if TYPE_CHECKING:
    import click

    from zeus_runtime.events import Event

PROJECT = "zeus"

hookspec = HookspecMarker(PROJECT)
hookimpl = HookimplMarker(PROJECT)


# Chapter 1: where things are found


@hookspec
def register_homes() -> Iterable[Path]:
    """Return the Home folders of the plugin, each with any of ``configs/ prompts/ plugins/ skills/``.

    When: while a config is read, after the plugin's module was imported. How often: once per command.
    Returns: absolute paths of existing folders. A Home is searched only for configs that name it in their ``homes``
    (``plugin:NAME``), in that place. ``configs/profiles.yaml`` has model profiles; ``prompts/`` replaces bundled
    prompt files by file name. Its presets are found by ``extends`` even without that, after those of every other Home.
    An exception, or a path that is not a folder: the plugin contributes nothing and is reported.

    Example::

        from pathlib import Path

        from zeus_runtime.plugin import hookimpl


        @hookimpl
        def register_homes():
            return [Path(__file__).parent / "home"]
    """
    raise NotImplementedError


# Chapter 2: what a YAML can name


@hookspec
def register_models() -> Iterable[Component]:
    """Return the model components, which the YAML names under ``model:``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns a ``Model``.
    An exception, or anything that is not a Component: the plugin contributes nothing and is reported. If two
    plugins register one name, the bundled component keeps it; every other one is named ``DISTRIBUTION/NAME``.

    Example::

        from zeus_runtime.plugin import Component, hookimpl


        @hookimpl
        def register_models():
            return [Component("echo", create="echo_plugin.model:create", summary="Says it again.")]
    """
    raise NotImplementedError


@hookspec
def register_tools() -> Iterable[Component]:
    """Return the tool components, which the YAML lists under ``tools:``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns a sequence of ``Tool`` (one component may provide
    several), or a ``Toolset``, whose tools exist only while a connection is open.
    An exception or a collision: as for ``register_models``.

    Example::

        from dataclasses import dataclass

        from zeus_runtime.plugin import Component, hookimpl
        from zeus_runtime.plugin.tool import tool


        @dataclass(frozen=True)
        class Options:
            sides: int = 6


        def create(options, context):
            @tool(name="roll_die", access="read")
            async def roll_die(seed: int) -> str:
                \"\"\"Roll the die.

                Args:
                    seed: Any number; the same number rolls the same side.
                \"\"\"
                return str(seed % options.sides + 1)

            return [roll_die]


        @hookimpl
        def register_tools():
            return [Component("dice", create=create, options=Options, summary="Rolls a die.")]
    """
    raise NotImplementedError


@hookspec
def register_middlewares() -> Iterable[Component]:
    """Return the middleware components, which the YAML lists under ``middlewares:``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create`` is a subclass of ``Middleware``; each run calls it with the options and its
    ``RunContext``. Registering one changes no run: it takes effect where a YAML lists it, in the place where it is
    listed.
    An exception or a collision: as for ``register_models``.

    Example::

        from dataclasses import replace

        from zeus_runtime.plugin import Component, hookimpl
        from zeus_runtime.plugin.middleware import Middleware


        class Shout(Middleware):
            async def wrap_tool_call(self, call, call_next):
                result = await call_next(call)
                return replace(result, content=result.content.upper())


        @hookimpl
        def register_middlewares():
            return [Component("shout", create=Shout, summary="Tool results in capital letters.")]
    """
    raise NotImplementedError


@hookspec
def register_counters() -> Iterable[Component]:
    """Return the token counters, which the YAML names under ``counter:``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns a ``Counter``: pure, additive, fast. If you only have
    a tokenizer, use ``counter_with(count, context.profile)``, which adds the provider's overhead around texts.
    An exception or a collision: as for ``register_models``.

    Example::

        from zeus_runtime.plugin import Component, hookimpl
        from zeus_runtime.plugin.counter import counter_with


        def create(options, context):
            return counter_with(lambda text: len(text.split()), context.profile)


        @hookimpl
        def register_counters():
            return [Component("words", create=create, summary="A token is a word.")]
    """
    raise NotImplementedError


@hookspec
def register_embeddings() -> Iterable[Component]:
    """Return the embedding models, which the YAML names under ``memory.embeddings:``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns an ``Embedder``.
    An exception or a collision: as for ``register_models``.

    Example::

        from zeus_runtime.plugin import Component, hookimpl
        from zeus_runtime.plugin.embedding import Calibration, Embedder


        class Letters(Embedder):
            model, dimension, quick = "letters-1", 26, True
            calibration = Calibration(cosine_zero=0.5, cosine_one=0.99, trust=0.3)

            async def embed(self, texts, *, purpose):
                import numpy as np

                counts = np.array(
                    [[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32
                )
                return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


        def create(options, context):
            return Letters()


        @hookimpl
        def register_embeddings():
            return [Component("letters", create=create, summary="Counts letters.")]
    """
    raise NotImplementedError


@hookspec
def register_vector_stores() -> Iterable[Component]:
    """Return the vector stores, which the YAML names under ``memory.vector_store:``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns a ``VectorStore`` of memories and knowledge bases;
    ``zeus_runtime.testing.VectorStoreConformance`` tests whether it is one.
    An exception or a collision: as for ``register_models``.

    Example::

        from zeus_runtime.plugin import Component, hookimpl


        @hookimpl
        def register_vector_stores():
            return [Component("milvus", create="milvus_plugin.store:create", summary="Vectors in Milvus.")]
    """
    raise NotImplementedError


@hookspec
def register_memories() -> Iterable[Component]:
    """Return the memory backends, which the YAML names under ``memory.backend:``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns a ``MemoryBackend``;
    ``zeus_runtime.testing.MemoryConformance`` tests whether it is one.
    An exception or a collision: as for ``register_models``.

    Example::

        from zeus_runtime.plugin import Component, hookimpl


        @hookimpl
        def register_memories():
            return [Component("graph", create="graph_plugin.memory:create", options="graph_plugin.memory:Options")]
    """
    raise NotImplementedError


@hookspec
def register_sandboxes() -> Iterable[Component]:
    """Return the sandboxes, which the YAML names under ``backend:`` of the tools ``sandbox``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns a ``SandboxBackend``;
    ``zeus_runtime.testing.SandboxConformance`` tests whether it is one.
    An exception or a collision: as for ``register_models``.

    Example::

        from zeus_runtime.plugin import Component, hookimpl


        @hookimpl
        def register_sandboxes():
            return [Component("firecracker", create="fire_plugin.machine:create", options="fire_plugin:Options")]
    """
    raise NotImplementedError


@hookspec
def register_searches() -> Iterable[Component]:
    """Return the web searches, which the YAML names under ``search:`` of the tools ``web``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns a ``WebSearch``.
    An exception or a collision: as for ``register_models``.

    Example::

        from zeus_runtime.plugin import Component, hookimpl
        from zeus_runtime.plugin.search import SearchHit


        class Handbook:
            async def search(self, query, *, max_results):
                return [SearchHit("Handbook", f"https://handbook.example/?q={query}")]


        def create(options, context):
            return Handbook()


        @hookimpl
        def register_searches():
            return [Component("handbook", create=create, summary="Searches the handbook.")]
    """
    raise NotImplementedError


@hookspec
def register_checkpointers() -> Iterable[Component]:
    """Return the checkpointer components, which the YAML names under ``checkpointer:``.

    When: while a config is read. How often: once per command.
    Returns: Components whose ``create(options, context)`` returns an async context manager that yields a LangGraph
    saver.
    An exception or a collision: as for ``register_models``.

    Example::

        from zeus_runtime.plugin import Component, hookimpl


        @hookimpl
        def register_checkpointers():
            return [Component("redis", create="redis_plugin.saver:create", options="redis_plugin:Options")]
    """
    raise NotImplementedError


# Chapter 3: what the service and the command line can do


@hookspec
def register_protocols() -> Iterable[Component]:
    """Return the protocols, which ``zeus serve --protocol NAME`` names.

    When: while a config is read, or the service starts. How often: once per command.
    Returns: Components whose ``create(options, service)`` returns a ``ServedProtocol``; ``service`` is a
    ``ProtocolService``, the protocol's only way to agents, sessions, turns, events and approvals.
    ``zeus_runtime.testing.ProtocolConformance`` tests whether it is one. No YAML names a protocol.
    An exception or a collision: as for ``register_models``.

    Example::

        from starlette.responses import JSONResponse
        from starlette.routing import Route

        from zeus_runtime.plugin import Component, hookimpl
        from zeus_runtime.plugin.protocol import ServedProtocol


        class Names(ServedProtocol):
            def __init__(self, service):
                self._service = service

            def routes(self):
                return [Route("/names", self._names)]

            async def _names(self, request):
                caller = await self._service.caller(request, "read")
                return JSONResponse([each.name for each in caller.agents()])


        def create(options, service):
            return Names(service)


        @hookimpl
        def register_protocols():
            return [Component("names", create=create, summary="Lists the agents' names.")]
    """
    raise NotImplementedError


@hookspec
def register_commands(cli: click.Group) -> Iterable[click.Command]:
    """Return further commands of ``zeus``.

    When: only if the first word on the command line is not one of Zeus's own commands, and for ``zeus plugins``;
    never for ``zeus --help``, which imports no plugin. How often: once per command line.
    Given: ``cli``, the command group, to read (its name, its other commands); the returned commands are added to it.
    Returns: ``click.Command`` objects. A name that belongs to Zeus or another plugin is reported and left out.
    An exception: the plugin's commands are left out and it is reported; its components stay.

    Example::

        import click

        from zeus_runtime.plugin import hookimpl


        @hookimpl
        def register_commands(cli):
            @click.command("hello")
            def hello():
                click.echo(f"hello from {cli.name}")

            return [hello]
    """
    raise NotImplementedError


# Chapter 4: what a run reports


@hookspec
def on_event(event: Event) -> None:
    """Observe one event of a run.

    When: for every event of every run of this process, in the order of the stream, before the reader sees it.
    How often: once per event; a streamed answer has hundreds, so return at once and hand slow work to a thread.
    Given: the frozen event; ``event.type`` is its name on the wire, ``event.to_wire()`` its JSON object.
    Returns: nothing; a result is ignored. Write a plain function, not ``async def``.
    An exception: the run continues; the first one of a run is reported as a ``notice`` that names the plugin.

    Example::

        from zeus_runtime.plugin import hookimpl

        seen = []


        @hookimpl
        def on_event(event):
            if event.type == "tool_call":
                seen.append(event.tool_name)
    """
    raise NotImplementedError
