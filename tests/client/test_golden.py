"""The client reads a file of format 1, and creates the same tables in a new file."""

from __future__ import annotations

from pathlib import Path

import apsw

from stratalog.client import Client
from stratalog.client.push_decision import NEVER, OPEN
from stratalog.protocol.sync import Cookie
from tests.client.helpers import InProcess, new_document

GOLDEN = Path(__file__).parents[2] / "formats" / "golden" / "client-v1.sql"


def test_a_file_of_format_1_is_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    with Client(InProcess(new_document()), str(path), document="acme/plan") as client:
        shown = {"cells/A1": "text", "cells/B1": b"\0\xff", "cells/C1": [1, 2.5, None], "name": "text"}
        assert dict(client.scan()) == shown
        assert [(row.name, row.args["key"]) for row in client.pending()] == [("put", "cells/B1"), ("put", "cells/C1")]
        assert [(row.status, row.reason) for row in client.failures()] == [
            ("rejected", "inc needs numbers: key=cells/A1")
        ]
        with client.held() as local:
            last = {local.client: 3}
            assert local.cookie == Cookie(3, "cghdvuklup5k26ic2uixcgcc", 3, "3f" * 32, local.group, last)
            assert [row.sent for row in local.pending()] == [OPEN, NEVER]
        assert client.mutate("put", {"key": "k", "value": 1}).sequence == 6


def test_a_new_file_has_the_tables_of_format_1(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    Client(InProcess(new_document()), str(path)).close()
    assert tables(path) == tables(written(tmp_path))


def written(folder: Path) -> Path:
    """Create a database from the golden file, and return its path."""
    path = folder / "golden.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute(GOLDEN.read_text())
    connection.close()
    return path


def tables(path: Path) -> list[str]:
    """Return a database's schema, its application id and its user version."""
    connection = apsw.Connection(str(path))
    made = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql")]
    numbers = [connection.pragma("application_id"), connection.pragma("user_version")]
    connection.close()
    return [*made, *map(str, numbers)]
