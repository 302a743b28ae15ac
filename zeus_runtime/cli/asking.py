"""Short questions on the terminal, with escapes for what cannot be seen."""

from __future__ import annotations

from collections.abc import Sequence

import click

from zeus_runtime.cli.streams import can_ask, complain
from zeus_runtime.cli.typed_lines import typed_line
from zeus_runtime.errors import UsageError
from zeus_runtime.escaping import terminal_line


def ask(text: str, default: str, choices: Sequence[str] = ()) -> str:
    """What the user types, or ``default``, which is shown unless it is empty.

    Args:
        choices: the only answers; those that show otherwise than they are cannot be typed and are left out.

    Raises:
        click.Abort: the input ends.
    """
    typed = [each for each in choices if terminal_line(each) == each]
    parts = [text, f"({', '.join(typed)})" if typed else "", f"[{default}]" if default else ""]
    while True:
        answer = _typed(" ".join(filter(None, parts))) or default
        if not choices or answer in typed:
            return answer
        complain(f"error: {terminal_line(answer)} is none of {', '.join(typed)}")


def ask_secret(text: str) -> str:
    """What the user types, which is not shown.

    Raises:
        click.Abort: the input ends.
    """
    while not (answer := _typed(text, hidden=True)):
        pass
    return answer


def agreed(question: str, *, default: bool = False) -> bool:
    """Whether the user says yes.

    Raises:
        click.Abort: the input ends.
    """
    answers = {"y": True, "yes": True, "n": False, "no": False, "": default}
    while True:
        said = answers.get(_typed(f"{question} [{'Y/n' if default else 'y/N'}]").strip().lower())
        if said is not None:
            return said
        complain("error: the answer is y or n")


def agree(question: str, *, unasked: str) -> None:
    """Return only if the user says yes to a question that they see.

    Args:
        unasked: what does not happen where nobody can be asked.

    Raises:
        click.Abort: the user does not.
        UsageError: nobody can be asked.
    """
    if not can_ask():
        raise UsageError(unasked, remedy="Say --yes.")
    if not agreed(question):
        raise click.Abort


def _typed(text: str, *, hidden: bool = False) -> str:
    line = typed_line(f"{terminal_line(text)}: ", hidden=hidden, one_line=True)
    if line is None:
        raise click.Abort
    return line
