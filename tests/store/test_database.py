"""What goes wrong in a database is told alike, whichever way a statement took to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, text
from sqlalchemy.exc import IntegrityError

from zeus_runtime.errors import RunError
from zeus_runtime.store.database import Database
from zeus_runtime.store.memory_tables import PLACE, create_memory_tables
from zeus_runtime.store.prepared import Prepared

ANN = Prepared(insert(PLACE).values(scope="user", scope_id="ann", changes=0).inline())
NOWHERE = Prepared(text("INSERT INTO nowhere VALUES (1)"))


async def test_an_error_of_the_driver_itself_is_explained_as_one_of_sqlalchemys_is(tmp_path: Path) -> None:
    def twice(connection: Connection) -> None:
        ANN.run(connection, {})
        ANN.run(connection, {})

    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(create_memory_tables)
    for transact in (database.run, database.write):
        with pytest.raises(RunError, match="no such table"):
            await transact(lambda connection: NOWHERE.run(connection, {}))
        with pytest.raises(IntegrityError, match="UNIQUE"):
            await transact(twice)
    await database.close()
