"""Roles of a PostgreSQL database: an agent's, with the grants of docs/how-to/deployment.md, and an owner's."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import make_url

from tests.support.databases import execute

GRANTS = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
    "DO $$ BEGIN IF to_regprocedure('memory_words_seen(bigint, text[])') IS NOT NULL THEN"
    " GRANT EXECUTE ON FUNCTION memory_words_seen(bigint, text[]) TO {role}; END IF; END $$",
)


@contextmanager
def as_agent(url: str) -> Iterator[str]:
    """The URL of a database, whose tables are there already, for a role that owns nothing."""
    with _role(url, *GRANTS) as restricted:
        yield restricted


@contextmanager
def as_owner(url: str) -> Iterator[str]:
    """The URL of an empty database for a role that makes its tables and is no superuser."""
    with _role(url, "GRANT ALL ON SCHEMA public TO {role}") as owner:
        yield owner


@contextmanager
def _role(url: str, *grants: str) -> Iterator[str]:
    role, password = f"zeus_agent_{secrets.token_hex(4)}", secrets.token_hex(8)
    execute(
        url, f"CREATE ROLE {role} LOGIN PASSWORD '{password}'", *(each.format(role=role) for each in grants)
    )
    try:
        yield make_url(url).set(username=role, password=password).render_as_string(hide_password=False)
    finally:
        execute(url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@contextmanager
def acting(url: str, user: str = "", project: str = "", role: str = "") -> Iterator[psycopg.Connection[Any]]:
    """SQL of one's own on behalf of somebody, who may be nobody; it is rolled back."""
    with psycopg.connect(url) as connection:
        for name, value in (("user_id", user), ("project_id", project), ("role", role)):
            if value:
                connection.execute("SELECT set_config(%s, %s, true)", [f"zeus.{name}", value])
        yield connection
        connection.rollback()
