"""Short questions on the terminal, with escapes for what cannot be seen; no other module asks through click."""

from __future__ import annotations

from collections.abc import Sequence

import click

from zeus_runtime.escaping import terminal_line


def ask(text: str, default: str, choices: Sequence[str] = ()) -> str:
    """What the user types, or ``default``, which is shown unless it is empty.

    Args:
        choices: the only answers; those that show otherwise than they are cannot be typed and are left out.
    """
    typed = [each for each in choices if terminal_line(each) == each]
    parts = [text, f"({', '.join(typed)})" if typed else "", f"[{default}]" if default else ""]
    answer: str = click.prompt(
        terminal_line(" ".join(filter(None, parts))),
        default=default,
        type=click.Choice(typed) if choices else None,
        show_default=False,
        show_choices=False,
        err=True,
    )
    return answer


def ask_secret(text: str) -> str:
    """What the user types, which is not shown."""
    answer: str = click.prompt(terminal_line(text), hide_input=True, err=True)
    return answer


def agreed(question: str, *, default: bool = False) -> bool:
    """Whether the user says yes."""
    return click.confirm(terminal_line(question), default=default, err=True)


def agree(question: str) -> None:
    """Return only if the user says yes.

    Raises:
        click.Abort: the user does not.
    """
    if not agreed(question):
        raise click.Abort
