"""Files whose path holds a known secret, in a run."""

from __future__ import annotations

from pathlib import Path

from tests.support.agents import call, calling, script, write_agent
from zeus_runtime import Agent

PATH = "/services/<secret:DB_PASSWORD>/main.py"
ENVIRON = {"DB_PASSWORD": "acme_shop"}


async def test_a_file_in_a_folder_whose_name_is_a_password_is_read_and_changed(tmp_path: Path) -> None:
    file = tmp_path / "services/acme_shop/main.py"
    file.parent.mkdir(parents=True)
    file.write_text("hi\n")
    edit = {"path": PATH, "old": "hi", "new": "ho"}
    model = script(
        calling(call("glob", "a", pattern="services/**/*.py")),
        calling(call("read_file", "b", path="services/acme_shop/main.py")),
        "Read.",
        calling(call("edit_file", "c", **edit)),
        calling(call("read_file", "d", path=PATH)),
        calling(call("edit_file", "e", **edit)),
        "Done.",
    )
    config = write_agent(tmp_path, tools="[filesystem]")
    async with Agent.from_config(config, directory=tmp_path, environ=ENVIRON, model=model) as agent:
        read = await agent.run("go")
        file.write_text("hi, the user wrote\n")
        await agent.run("on", session=read.session)
        history = await agent.history(read.session)
    results = [each.content for each in history if each.type == "tool"]
    assert results[:2] == [f"{PATH}", "1\thi"]
    assert "was changed after you last read" in results[2], "also known by its masked name"
    assert file.read_text() == "ho, the user wrote\n"
    assert "acme_shop" not in str(results)
