"""What a model reads of a program that printed a secret where its output is cut."""

from __future__ import annotations

import pytest
from zeus_plugins.tools.sandbox.report import report

from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.sandbox import Outcome, SandboxLimits

KEY = "Qk7-token-0123456789"
SECRETS = Redactor().adding({KEY: "MY_TOKEN"})


@pytest.mark.parametrize("before", range(90, 110))
def test_output_whose_middle_is_left_out_shows_no_part_of_a_secret(before: int) -> None:
    output = ("x" * before + KEY + "y" * 200 + KEY + "z" * (before - 60)).encode()
    shown = report(Outcome(0, None, output, 1.0), SandboxLimits(), max_characters=150, secrets=SECRETS)
    assert "left out" in shown
    assert "Qk7" not in shown
    assert "6789" not in shown
    rest = shown.replace("<secret:MY_TOKEN>", "")
    assert not any(each in rest for each in ("secret", "MY_", "TOKEN", "<", ">")), "a placeholder is not cut"


@pytest.mark.parametrize("kept", range(3, len(KEY)))
def test_output_that_was_cut_ends_before_the_beginning_of_a_secret(kept: int) -> None:
    output = b"x" * 50 + KEY[:kept].encode()
    limits = SandboxLimits(output_bytes=len(output))
    shown = report(Outcome(1, "output", output, 1.0), limits, max_characters=1_000, secrets=SECRETS)
    assert "Qk7" not in shown
