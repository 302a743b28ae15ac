"""``/compact`` in ``zeus chat``: the policies shed at once, and say what they did."""

from __future__ import annotations

from tests.cli.conftest import Project, Zeus
from tests.support.planning import RULES


def test_compact_sheds_and_says_what_it_did(zeus: Zeus, project: Project) -> None:
    project.write("policies.py", RULES)
    config = project.agent(
        *["answer " * 50] * 4, more="middlewares: [shed: {trigger: {messages: 900}, keep: 1}]\n"
    )
    config.write_text(config.read_text().replace("[scripted.py]", "[scripted.py, policies.py]"))
    result = zeus("chat", "zeus.yaml", stdin="/compact\none\ntwo\nthree\n/compact\nfour\n")
    assert result.exit_code == 0
    assert "no session yet: there is nothing to compact" in result.err
    assert "tokens in messages became" in result.err
    assert "shed: " in result.err
    assert result.out.count("answer") == 4 * 50


def test_compact_without_a_policy_says_so(zeus: Zeus, project: Project) -> None:
    project.agent("one")
    result = zeus("chat", "zeus.yaml", stdin="hi\n/compact\n")
    assert result.exit_code == 0
    assert "no context policy had anything to shed" in result.err
