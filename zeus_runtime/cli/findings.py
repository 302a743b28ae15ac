"""One line of ``zeus doctor``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

Status: TypeAlias = Literal["ok", "warn", "fail"]


class DoctorFinding(NamedTuple):
    """The result of one check.

    Args:
        status: ``fail`` only for something that a run needs.
        subject: the checked item.
        detail: the finding.
        remedy: the remedy for the user.
        exit_code: the exit code that the command gets from it.
    """

    status: Status
    subject: str
    detail: str
    remedy: str = ""
    exit_code: int = 0

    def redacted(self, redact: Callable[[str], str]) -> DoctorFinding:
        """The finding without secrets."""
        return self._replace(detail=redact(self.detail), remedy=redact(self.remedy))

    def as_object(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return {name: value for name, value in self._asdict().items() if name != "exit_code"}


def missing(subject: str, detail: str, remedy: str) -> DoctorFinding:
    """Something a run needs is not there."""
    return DoctorFinding("fail", subject, detail, remedy, exit_code=4)
