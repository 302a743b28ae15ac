"""Arguments that a person changed: what the person saw masked becomes again what it stands for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from zeus_runtime.strict_json import texts_of, with_texts

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.tools.tool import JSON


def as_meant(
    given: Mapping[str, JSON],
    call: Mapping[str, JSON],
    shown: Mapping[str, JSON],
    secrets: Redactor,
    *,
    schema: JSON = None,
    held: str = "",
) -> dict[str, JSON]:
    """The changed arguments, with masked values replaced by the real ones.

    A value that is still as it was shown becomes the hidden value, and a placeholder in a changed one the secret that
    the question showed in its place. A text of the schema that was shown masked, such as a choice, becomes that text
    again.

    Args:
        given: the changed arguments.
        call: the real ones.
        shown: those that the person saw.
        secrets: masked them.
        schema: of the question, unmasked.
        held: the text whose secrets a placeholder may stand for.
    """
    choices = {masked: each for each in texts_of(schema) if (masked := secrets.text(each)) != each}

    def meant(text: str) -> str:
        try:
            return choices[text] if text in choices else secrets.restored(text, held)
        except ValueError:
            # The call has the placeholder as a text too: nobody can say which of both is meant.
            return text

    kept = {
        name
        for name, value in given.items()
        # Unchanged as it was shown: then the real value runs, also where the shown one was masked.
        if name in call and is_same(value, shown.get(name))
    }
    return {
        choices.get(name, name): call[name] if name in kept else with_texts(value, meant)
        for name, value in given.items()
    }


def is_same(one: JSON, other: JSON) -> bool:
    """Whether two values are the same JSON; for Python 1 equals true and 1.0."""
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)
