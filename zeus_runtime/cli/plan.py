"""``zeus plan``: exactly what will run, and where each value comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from zeus_runtime.cli.completion import complete_session
from zeus_runtime.cli.options import (
    ConfigArgs,
    bare_config_argument,
    env_option,
    gather_config,
    mode_option,
    read_config,
    set_option,
)
from zeus_runtime.cli.output import TextTable, as_json, folded_lines, rendered
from zeus_runtime.cli.streams import answer, complain, terminal_columns
from zeus_runtime.config.model import ExtractEvery, Memory
from zeus_runtime.config.ref import Ref
from zeus_runtime.config.yaml.tree import show_path
from zeus_runtime.escaping import terminal_line
from zeus_runtime.models.reasoning import budget_of
from zeus_runtime.plan.shown import (
    embeddings_shown,
    instructions_source,
    lacks,
    parts_object,
    plan_object,
    planned_servers,
    project_files_shown,
)
from zeus_runtime.trust.decision import UntrustedError

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.config_values import ConfigValue
    from zeus_runtime.plan.models import PlannedModel
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.registry import Plugin
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.approval import AskMode


@click.command("plan")
@bare_config_argument
@click.option("--explain", metavar="PATH", help="Only where one value comes from, such as limits.max_steps.")
@click.option(
    "--session",
    metavar="ID",
    shell_complete=complete_session,
    help="Of that session, which may have its own policies.",
)
@click.option("--prompt", is_flag=True, help="Only the system prompt, without what middlewares add in a run.")
@click.option(
    "--all", "whole", is_flag=True, help="Every tool, every option, and every value with where it comes from."
)
@mode_option
@env_option
@set_option
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text for people, json for programs.",
)
@gather_config
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    which: ConfigArgs,
    explain: str | None,
    session: str | None,
    prompt: bool,
    whole: bool,
    mode: Any,
    output: str,
) -> None:
    """Show exactly what will run and where each value comes from.

    CONFIG is a file, a preset's name, or - for standard input; zeus.yaml in the working directory by default. Nothing
    is run. Secrets are masked. Of the options only those that are written are shown, unless --all is given; JSON always
    has all.
    """
    if sum([explain is not None, prompt, output == "json"]) > 1:
        raise click.UsageError("--explain, --prompt and --format json exclude each other", ctx)
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.workspace_secrets import WorkspaceSecrets, family_of

    checked = _read(process, which, output)
    if session is not None:
        checked = _of_session(process, checked, session)
    redact = checked.document.redactor
    if explain is not None:
        answer(rendered(_explained(ctx, checked, explain), mask=redact))
        return
    try:
        plan = make_plan(checked, mode=mode)
    except UntrustedError:  # a sub-agent's part
        _tell_needed(checked, output)
        raise
    WorkspaceSecrets(family_of(checked, plan)).look()
    if prompt:
        answer(rendered(_prompt(plan), mask=redact))
    elif output == "json":
        answer(as_json(plan_object(checked, plan), mask=redact.json))
    else:
        answer(rendered([*_parts_of(checked, plan, whole=whole)], mask=redact))
    for notice in plan.notices:
        complain(redact(f"note: {notice.message}"), "yellow")
    if output == "text" and not prompt:
        _count_needed(checked)


def _of_session(process: Process, checked: Checked, session: str) -> Checked:
    """The config as it is for a session: with its own middlewares and workspace, if it has them.

    Raises:
        UsageError: the session does not exist, or is another agent's.
    """
    from zeus_runtime.cli.log import thread_of, with_log
    from zeus_runtime.errors import UsageError
    from zeus_runtime.store.forks import policies_in

    async def read(log: ThreadLog) -> tuple[str | None]:
        thread = await thread_of(log, session, checked)
        return (await log.database.run(lambda connection: policies_in(connection, thread)),)

    found = with_log(process, checked, read)
    if found is None:
        raise UsageError(
            "there is no session yet", remedy=f"There is no database {checked.config.storage.url}."
        )
    (policies,) = found
    from zeus_runtime.plan.parts_with_subagents import all_parts

    own = checked if policies is None else checked.with_middlewares(policies, all_parts(checked))
    return replace(own, session=session)


def _read(process: Process, which: ConfigArgs, output: str) -> Checked:
    """The config; if it needs permission first, the parts that need it are shown before the error."""
    try:
        return read_config(process, which)
    except UntrustedError:
        from zeus_runtime.cli.trusting import examined

        _tell_needed(examined(process, which), output)
        raise


def _tell_needed(checked: Checked, output: str) -> None:
    """Show the parts that need permission, also those of sub-agents."""
    from zeus_runtime.cli.trusting import shown
    from zeus_runtime.plan.parts_with_subagents import all_parts

    if output == "json":
        answer(as_json({"config": checked.document.source, "executes": parts_object(checked)}))
    else:
        missing = [part for part in all_parts(checked) if not checked.trust.allows(part)]
        answer("\n".join(("needs your permission", *folded_lines(shown(missing), terminal_columns()))))


def _count_needed(checked: Checked) -> None:
    """Say how many of the shown parts a run would refuse, and what allows them."""
    from zeus_runtime.plan.parts_with_subagents import all_parts

    needed = sum(not checked.trust.allows(part) for part in all_parts(checked))
    if needed:
        parts = "1 part needs" if needed == 1 else f"{needed} parts need"
        told = f"{parts} your permission before a run: {checked.trust.command}"
        complain(checked.document.redactor(told), "yellow")


def _explained(ctx: click.Context, checked: Checked, path: str) -> str:
    try:
        return checked.document.explain(path)
    except ValueError as error:
        raise click.UsageError(f"--explain {path}: {error}", ctx) from None


def _prompt(plan: Plan) -> str:
    from datetime import datetime

    from zeus_runtime.prompt import Section, assemble, time_section

    now = datetime.now().astimezone()
    return assemble({**plan.stable, Section.TIME: time_section(now, plan.config.prompt.time)}).text


def _model_rows(plan: Plan, written: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """The model, or the models of a chain, each with its limits and prices; then those for parts of the work."""
    for number, each in enumerate(plan.models):
        path = "model" if plan.config.chain is None else f"model.chain.{number}"
        yield from _rows_of(each, "model" if number == 0 else f"model {number + 1}", path, written)
        if plan.config.reasoning is not None:
            yield "", f"asked to reason: {_reasoning(each.reasoning)}"
    if (chain := plan.config.chain) is not None:
        yield "moves on", f"after {', '.join(chain.move_on) or 'no error'}"
    for role, models in plan.roles.items():
        is_single = isinstance(getattr(plan.config.models, role), Ref)
        for number, each in enumerate(models):
            path = f"models.{role}" if is_single else f"models.{role}.chain.{number}"
            yield from _rows_of(each, role if number == 0 else f"{role} {number + 1}", path, written)


def _rows_of(
    model: PlannedModel, label: str, path: str, written: Sequence[str] | None
) -> Iterator[tuple[str, str]]:
    from zeus_runtime.cli.profiles import profile_rows

    yield label, " · ".join([_component(model.component, written, path), *model.notes])
    for name, value, source in profile_rows(model.profile):
        if name != "reasoning" and (name, value) != ("kind", "chat"):
            yield "", f"{name} {value}  ({source})"


def _reasoning(settings: Mapping[str, Any]) -> str:
    if budget := budget_of(settings):
        return f"a budget of {budget:,} tokens"
    return f"effort {settings.get('reasoning_effort', 'none')}"


def _parts_of(checked: Checked, plan: Plan, *, whole: bool) -> Iterator[str | TextTable]:
    values = _values(checked, plan)
    written = None if whole else _written(values)
    yield TextTable(
        [
            ("agent", f"{plan.config.name}, mode {plan.mode}"),
            *([("", plan.config.description)] if plan.config.description else []),
            ("config", checked.document.source),
            ("digest", plan.digest[:16]),
            *_model_rows(plan, written),
            *([("counter", _component(plan.counter))] if plan.counter else []),
            *_memory_rows(checked, plan),
            ("checkpointer", _component(plan.checkpointer, written, "checkpointer")),
            *([] if whole else [("limits", _limits(plan))]),
            *_instructions_rows(checked, plan),
            *_project_rows(plan),
            *([] if plan.output is None else [("output", plan.output.shown)]),
            ("approvals", _approvals(plan)),
        ]
    )
    for heading, lines in _blocks(checked, plan, written):
        yield f"\n{heading}"
        yield from lines
    if plan.agents:
        yield "\nagents it may give work to"
        yield from _agent_lines(checked, plan, "  ", whole=whole)
    yield from _executed(checked)
    yield f"\n{_SECTIONS}"
    yield TextTable(_section_rows(checked, plan), indent="  ")
    if not whole:
        yield "\n`zeus plan --all` shows every value and where it comes from, --explain PATH one of them"
        return
    yield "\nvalues"
    yield _value_table(values)


_SECTIONS: Final = "system prompt, sections 1 to 6"


def _values(checked: Checked, plan: Plan) -> tuple[ConfigValue, ...]:
    from zeus_runtime.plan.config_values import effective_values

    return effective_values(checked, plan)


def _written(values: Sequence[ConfigValue]) -> list[str]:
    return [each.path for each in values if each.marks]


def _value_table(values: Sequence[ConfigValue]) -> TextTable:
    return TextTable(
        [(each.path, each.source, as_json(each.value, indent=None)) for each in values], indent="  "
    )


def _blocks(
    checked: Checked, plan: Plan, written: Sequence[str] | None
) -> Iterator[tuple[str, list[str | TextTable]]]:
    """What an agent runs and reaches, in the same form for the outermost agent and those below it: heading, lines."""
    yield (
        "middlewares, outermost first" if plan.middlewares else "no middlewares",
        [*_middleware_lines(checked, plan, written)],
    )
    rows: Sequence[Sequence[str]] = (
        _tool_rows(plan, written)
        if written is not None
        else [
            (each.tool.name, each.tool.category, each.tool.access, each.showing, _plugin(each.plugin))
            for each in plan.tools
        ]
    )
    yield (
        _tools_heading(plan),
        [TextTable(rows, indent="  ")] if rows else [],
    )
    from zeus_runtime.cli.file_access import reach_rows

    yield "files that tools may reach", [TextTable(list(reach_rows(checked, plan)), indent="  ")]
    servers = planned_servers(plan)
    if servers:
        yield (
            "servers, started when the agent runs; `zeus tools list --connect` lists their tools",
            [TextTable([(each.name, each.category, each.why) for each in servers], indent="  ")],
        )


def _tools_heading(plan: Plan) -> str:
    return f"tools in {plan.mode} mode" if plan.tools else "no tools"


def _middleware_lines(checked: Checked, plan: Plan, written: Sequence[str] | None) -> Iterator[str]:
    for place, each in enumerate(plan.middlewares):
        described = getattr(each.value, "described", None)
        if described is None or written is None:
            yield f"  {place + 1}. {_component(each, written, f'middlewares.{place}')}"
            continue
        yield f"  {place + 1}. {_component(each, [])}"
        for line in described():
            yield f"       {terminal_line(checked.document.redactor.text(line))}"


def _limits(plan: Plan) -> str:
    """``max_steps 200, timeout_seconds 600``: what is limited."""
    limits = vars(plan.config.limits).items()
    return ", ".join(f"{name} {value:g}" for name, value in limits if value is not None)


def _tool_rows(plan: Plan, written: Sequence[str]) -> list[tuple[str, str]]:
    """The tools of each component in a cell, with what the mode does to them and its written options."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in plan.tools:
        found.setdefault((each.component, each.showing), []).append(each.tool.name)
    rows = [
        (name, ", ".join(tools) + ("" if showing == "callable" else f"  ({showing})"))
        for (name, showing), tools in found.items()
    ]
    for component in plan.toolsets:
        described = getattr(component.value, "described", None)
        options = _options(component, written, show_path(component.path)).strip()
        places = [place for place, (name, _) in enumerate(rows) if name == component.name]
        if places:
            last = places[-1]
            if options:
                rows[last] = (component.name, f"{rows[last][1]}  ({options})")
            rows[last + 1 : last + 1] = [
                ("", line) for line in (described() if described is not None else ())
            ]
        elif options and component in plan.opens:
            rows.append((component.name, f"({options})"))
    return rows


def _section_rows(checked: Checked, plan: Plan) -> list[tuple[str, str, str]]:
    from zeus_runtime.plan.prompt_sources import prompt_sources

    sources = prompt_sources(checked, plan)
    return [
        (name, f"{len(text):,} characters", sources[name].shown if name in sources else "")
        for name, text in plan.stable.items()
    ]


def _executed(checked: Checked) -> Iterator[str | TextTable]:
    from zeus_runtime.plan.parts_with_subagents import all_parts

    parts = all_parts(checked)
    if parts:
        from zeus_runtime.trust.parts import READS_ON, one_line

        said = {True: "trusted", False: "not trusted: zeus trust"}
        yield "\nexecutes, with its sub-agents; `zeus trust --print` shows each part in full"
        rows = [
            (each.kind, one_line(each.name), each.digest[:19], said[checked.trust.allows(each)])
            for each in parts
        ]
        yield TextTable(rows, indent="  ")
        yield from (f"  {each}: {READS_ON}" for each in parts if each.reads_on)


def _agent_lines(checked: Checked, plan: Plan, indent: str, *, whole: bool) -> Iterator[str | TextTable]:
    """Each agent below ``plan``, without what is as above; with ``whole``, one that has its own config in full."""
    values = _values(checked, plan)
    blocks_above = dict(_blocks(checked, plan, None if whole else _written(values)))
    for name, each in plan.agents.items():
        own = each.plan
        is_full = whole and each.spec.config is not None
        above = {} if is_full else blocks_above
        source = each.spec.config or "this config"
        changed = f", changed: {', '.join(each.spec.overrides)}" if each.spec.overrides else ""
        # No line end of a config's text, which could look like a line of this plan.
        yield f"{indent}{name}: {terminal_line(each.spec.description.strip())}"
        models = " → ".join(model.profile.name for model in own.models)
        what = f"{source}{changed} · {models} · mode {own.mode} · context {each.spec.context}"
        yield f"{indent}  {terminal_line(what)}"
        instructions = instructions_source(each.checked, own)
        if instructions is not None:
            yield f"{indent}  instructions: {terminal_line(instructions)}"
        if not whole and _limits(own) != _limits(plan):
            yield f"{indent}  limits: {_limits(own)}"
        own_values = _values(each.checked, own)
        blocks = [*_blocks(each.checked, own, None if whole else _written(own_values))]
        same = [heading for heading, lines in blocks if lines and above.get(heading) == lines]
        if not is_full and _approvals(own) == _approvals(plan):
            same.insert(0, "approvals")
        else:
            yield f"{indent}  approvals: {_approvals(own)}"
        if same:
            yield f"{indent}  as above: {', '.join(heading.partition(',')[0] for heading in same)}"
        for heading, lines in blocks:
            if heading in same:
                continue
            if own.tools and heading == _tools_heading(own) and _rows(lines) <= _rows(above.get(heading, [])):
                yield f"{indent}  {heading}, as above: {', '.join(tool.tool.name for tool in own.tools)}"
                continue
            yield f"{indent}  {heading}"
            yield from (_within(line, f"{indent}  ") for line in lines)
        if whole:
            sections = TextTable(_section_rows(each.checked, own), indent="  ")
            yield f"{indent}  {_SECTIONS}"
            yield _within(sections, f"{indent}  ")
            # An agent that shares the config has every other value of it.
            shown = own_values if is_full else [one for one in own_values if one not in values]
            yield f"{indent}  values{'' if is_full else ', as above' if not shown else ' that differ'}"
            if shown:
                yield _within(_value_table(shown), f"{indent}  ")
        if own.agents:
            yield f"{indent}  agents it may give work to"
            yield from _agent_lines(each.checked, own, f"{indent}    ", whole=whole)


def _rows(lines: Sequence[str | TextTable]) -> set[tuple[str, ...]]:
    return {tuple(row) for line in lines if isinstance(line, TextTable) for row in line.rows}


def _within(line: str | TextTable, indent: str) -> str | TextTable:
    return f"{indent}{line}" if isinstance(line, str) else replace(line, indent=f"{indent}{line.indent}")


def _instructions_rows(checked: Checked, plan: Plan) -> list[tuple[str, str]]:
    source = instructions_source(checked, plan)
    return [] if source is None else [("instructions", f"{source}, at the end of section core")]


def _project_rows(plan: Plan) -> list[tuple[str, str]]:
    from zeus_runtime.prompt.project import names_and_budget

    setting, files = names_and_budget(plan.config.project_instructions), project_files_shown(plan)
    if setting is None or files is None:
        return []
    none = f"no instructions: there is no {' or '.join(setting.files)}"
    return [("project", f"instructions of {', '.join(files)}, in section profile" if files else none)]


_ASKING: Final[Mapping[AskMode, str]] = {
    "run_everything": "never asked",
    "allowlist": "asked before a tool that writes, unless it is on your allowlist",
    "ask": "asked before every tool that writes",
}
"""Mode to what it means where no rule of the middleware fits."""


def _approvals(plan: Plan) -> str:
    from zeus_runtime.plan.checks.asking_order import ask_modes, asks_user

    modes = ask_modes(plan.middlewares)
    if modes is not None:
        return f"{modes.configured}: {_ASKING[modes.configured]}"
    asks = asks_user(plan.middlewares)
    return "a middleware decides when you are asked" if asks else "no middleware asks you"


def _memory_rows(checked: Checked, plan: Plan) -> list[tuple[str, str]]:
    memory = plan.config.memory
    if memory is None or plan.memory is None:
        return []
    whose = f"of {memory.user}" + (f", {memory.role} of {memory.project}" if memory.project else "")
    used = embeddings_shown(checked, plan)
    if used is None:
        unless = f"unless {memory.user} chose another model: zeus memory embeddings show"
        embeddings = f"{_component(plan.memory.embeddings)}, {unless}"
    elif used.problem is not None or used.component is None:
        embeddings = f"cannot be used: {used.problem and used.problem.message}"
    else:
        embeddings = _component(used.component) + (
            f", {memory.user}'s own choice" if used.by == "user" else ""
        )
    return [
        ("memory", whose),
        ("", f"backend {_component(plan.memory.backend)}"),
        *(("", f"without {what}: {instead}") for what, instead in lacks(plan).items()),
        ("", f"embeddings {embeddings}"),
        ("", f"vector store {_component(plan.memory.vector_store)}"),
        *_background_rows(memory),
    ]


def _background_rows(memory: Memory) -> Iterator[tuple[str, str]]:
    """When a model extracts and consolidates memories, if it does."""
    if memory.extract == "off":
        return
    when = "at the end of a session"
    if isinstance(memory.extract, ExtractEvery):
        when = f"after every {memory.extract.every} prompts"
    yield "", f"facts are extracted {when}, by calls of the model (purpose memory)"
    if memory.consolidate_after is not None:
        yield "", f"memories are consolidated after {memory.consolidate_after} new ones, likewise"


def _component(planned: PlannedComponent, written: Sequence[str] | None = None, path: str = "") -> str:
    """Its name, options and plugin.

    Args:
        written: the paths of the values that a config writes; with it only such options, and no bundled plugin.
        path: where the component stands.
    """
    options = _options(planned, written, path)
    if written is not None and planned.plugin.distribution == "zeus-runtime":
        return f"{planned.name}{options}"
    return f"{planned.name}{options}  [{_plugin(planned.plugin)}]"


def _options(planned: PlannedComponent, written: Sequence[str] | None, path: str) -> str:
    return "".join(
        f" {name}={as_json(value, indent=None)}"
        for name, value in planned.options.items()
        if written is None or _is_written(f"{path}.{planned.name}.{name}", written)
    )


def _is_written(path: str, written: Sequence[str]) -> bool:
    return any(each == path or each.startswith(f"{path}.") for each in written)


def _plugin(plugin: Plugin) -> str:
    return f"{plugin.distribution} {plugin.version}" if plugin.distribution else plugin.source
