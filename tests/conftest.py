"""The databases that tests of what is stored run on: ``tests.support.databases`` says how."""

from tests.support.databases import database_url, postgres_server, postgres_url

__all__ = ["database_url", "postgres_server", "postgres_url"]
