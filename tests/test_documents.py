"""The documents point at things that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*/*.md", "plugins/zeus_plugins/*/*/README.md")
    for path in CHECKOUT.glob(pattern)
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    missing = [
        target for target in targets if "://" not in target and not (document.parent / target).exists()
    ]
    assert missing == []


def test_the_architecture_can_be_read_in_a_quarter_of_an_hour() -> None:
    """At most 150 lines, the diagram first, and at most 25 terms, none of them twice."""
    text = (CHECKOUT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    before_glossary, _, glossary = text.partition("\n## Glossary\n")
    assert len(text.splitlines()) <= 150
    assert before_glossary.index("```") < before_glossary.index("\n## ")
    terms = re.findall(r"\*\*([A-Za-z ]+)\*\*", glossary)
    assert 6 < len(terms) <= 25
    assert len(set(terms)) == len(terms)
    more = (
        (CHECKOUT / "docs/explanation/design.md")
        .read_text(encoding="utf-8")
        .partition("\n## More terms\n")[2]
    )
    assert set(terms).isdisjoint(re.findall(r"^- \*\*([A-Za-z ]+)\*\*", more, re.MULTILINE))
