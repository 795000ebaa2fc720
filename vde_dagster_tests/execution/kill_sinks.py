"""Where syncs of a shop send rows whose process is killed: a table, an HTTP receiver, files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from vde_dagster.base.json_values import json_value
from vde_dagster_tests.sync.receiver import Receiver, receiving
from vde_dagster_tests.sync.world import in_postgres

Rows = list[dict[str, Any]]


@dataclass
class Sinks:
    """The targets of a shop's syncs, by the name of the sync.

    Args:
        folder: Where files go.
        postgres: The URL of a database; None for no sync into one.
        receiver: The HTTP receiver, which runs in this process.
    """

    folder: Path
    postgres: str | None
    receiver: Receiver

    def definitions(self) -> list[dict[str, Any]]:
        """Return the syncs, as `syncs.yaml` has them."""
        latest = {"source": "marts.latest", "key": ["customer"], "mode": "mirror", "batch": 2}
        dlt = {"sink": "dlt", "batch": 2}
        merged = {"destination": "duckdb", "options": {"credentials": str(self._database)}}
        added = {"destination": "filesystem", "options": {"bucket_url": str(self.folder / "lake")}}
        found: list[dict[str, Any]] = [
            {"name": "http", **latest, "sink": "http", "to": {"prod": {"url": self.receiver.url}}},
            {
                "name": "file",
                **latest,
                **dlt,
                "to": {"prod": {**merged, "dataset": "crm", "table": "latest"}},
            },
            {
                "name": "lake",
                "source": "marts.daily",
                "mode": "append",
                **dlt,
                "to": {"prod": {**added, "dataset": "crm", "table": "daily"}},
            },
        ]
        if self.postgres is not None:
            to = {"prod": {"url": self.postgres, "table": "latest"}}
            found.append({"name": "postgresql", **latest, "sink": "postgresql", "to": to})
        return found

    def assert_equal(self, name: str, latest: Rows, daily: Rows) -> None:
        """Compare a target with the rows that the environment shows."""
        if name == "postgresql":
            assert self.postgres is not None
            assert in_postgres(self.postgres) == sorted(latest, key=repr)
        elif name == "http":
            shown = {str(row["customer"]): json_value(row) for row in latest}
            assert self.receiver.rows == shown
        elif name == "file":
            with duckdb.connect(str(self._database), read_only=True) as database:
                made = database.execute("SELECT * FROM crm.latest").fetch_arrow_table()
            own = [one for one in made.column_names if not one.startswith(("_dlt", "vde_gone"))]
            found = sorted((_plain(row) for row in made.select(own).to_pylist()), key=repr)
            assert found == sorted(map(_plain, latest), key=repr)
        else:
            # Appended at least once: nothing that is shown is missing, and nothing else is there.
            files = (self.folder / "lake" / "crm" / "daily").rglob("*.parquet")
            found = [_plain(row) for file in files for row in _appended(file)]
            assert {repr(row) for row in found} >= {repr(_plain(row)) for row in daily}

    @property
    def _database(self) -> Path:
        return self.folder / "outside.duckdb"


def _appended(file: Path) -> Rows:
    rows: Rows = pq.ParquetFile(file).read().to_pylist()
    return [{k: v for k, v in row.items() if not k.startswith("_dlt")} for row in rows]


def _plain(row: dict[str, Any]) -> dict[str, str]:
    """Return a row with its values as texts, whatever number type a target makes of a decimal."""
    return {name: str(value) for name, value in sorted(row.items())}


@contextmanager
def open_sinks(folder: Path, postgres: str | None = None) -> Iterator[Sinks]:
    """Run the receiver, and lend the targets."""
    with receiving() as receiver:
        yield Sinks(folder, postgres, receiver)
