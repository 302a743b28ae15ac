"""Skills for tests, in the layout of the public Agent Skills."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

BODY = "# Tables\n\nRead references/format.md first. Then run scripts/fill.py.\n"


def write_skill(
    root: Path,
    name: str,
    description: str = "Fills tables. Use when the user wants a table filled.",
    body: str = BODY,
    *,
    extra: str = "",
    files: Mapping[str, str | bytes] | None = None,
) -> Path:
    """A skill's folder under ``root``."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{extra}---\n\n{body}")
    for path, content in (files or {}).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content)
    return folder


OFFICE = {
    "LICENSE.txt": "All rights reserved.\n",
    "forms.md": "# Forms\n",
    "scripts/__init__.py": "",
    "scripts/office/unpack.py": "print('unpack')\n",
    "scripts/office/schemas/ecma/main.xsd": "<schema/>\n",
    "references/format.md": "# Format\n\nColumns are tabs.\n",
    "assets/theme.bin": b"\x00\x01\x02",
    "templates/starter/SKILL.md": "---\nname: starter\ndescription: a template, no skill\n---\n",
}
"""Files as the public document skills have them: nested scripts, schemas, references, assets, template folders."""

PUBLIC = (
    "algorithmic-art brand-guidelines canvas-design claude-api doc-coauthoring docx frontend-design internal-comms"
    " mcp-builder pdf pptx skill-creator slack-gif-creator theme-factory web-artifacts-builder webapp-testing xlsx"
).split()
"""The names of the seventeen public ones; what stands in the fixtures is our own."""
