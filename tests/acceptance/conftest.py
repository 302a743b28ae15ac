"""The command line's fixtures: a project folder, and ``zeus`` in this process."""

from tests.cli.conftest import _clean_environment, project, zeus

__all__ = ["_clean_environment", "project", "zeus"]
