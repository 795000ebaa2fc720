"""Acts of other programs on a raw table: writes by Spark, PyIceberg and Flink, and upkeep.

Each function takes the table, and acts with the dice of its world.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.by_changes.random_queries import SCHEMA
from vde_dagster_tests.daily_runs import DailyRuns
from vde_dagster_tests.lakehouse.pyiceberg_tables import writable


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table of other programs."""

    name: str
    runs: DailyRuns
    dice: random.Random

    @property
    def quoted(self) -> str:
        """The name with its catalog."""
        return f"lakehouse.raw.{self.name}"

    @property
    def session(self) -> Any:
        """The Spark session that writes it."""
        return self.runs.workspace.engine().session  # type: ignore[attr-defined]

    @property
    def number(self) -> int:
        """A value that may be in the table."""
        return self.dice.randrange(1, 4)

    @property
    def column(self) -> str:
        """A column of whole numbers."""
        return self.dice.choice([c for c, type_ in SCHEMA[self.name].items() if type_ == "INT"])

    @property
    def value(self) -> str:
        """A value to write, as SQL."""
        return self.dice.choice(["1", "2", "3", "NULL"])

    def rows(self, count: int) -> str:
        """Return random rows, as SQL."""
        rows = (random_row(self.name, self.dice) for _ in range(count))
        return ", ".join(
            "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows
        )

    def sql(self, text: str) -> None:
        """Run a statement, in which `{t}` is the table."""
        self.runs.sql(text.format(t=self.quoted, short=f"raw.{self.name}"))

    def iceberg(self) -> Table:
        """Return the table as PyIceberg has it."""
        return writable(self.runs.workspace.lakehouse, TableRef("raw", self.name))

    def arrow(self, iceberg: Table, count: int) -> pa.Table:
        """Return random rows in the table's types."""
        types = iceberg.schema().as_arrow()
        schema = pa.schema([(name, types.field(name).type) for name in SCHEMA[self.name]])
        rows = [
            dict(zip(SCHEMA[self.name], random_row(self.name, self.dice), strict=True))
            for _ in range(count)
        ]
        return pa.Table.from_pylist(rows, schema=schema)


def random_row(name: str, dice: random.Random) -> tuple[object, ...]:
    """Return a row of a table of `SCHEMA`."""
    return tuple(
        dice.choice("ab") if type_ == "STRING" else dice.choice([None, 1, 2, 3, 4])
        for type_ in SCHEMA[name].values()
    )


def insert(t: RawTable) -> None:
    t.sql(f"INSERT INTO {{t}} ({', '.join(SCHEMA[t.name])}) VALUES {t.rows(2)}")


def delete(t: RawTable) -> None:
    t.sql(f"DELETE FROM {{t}} WHERE {t.column} = {t.number}")


def update(t: RawTable) -> None:
    column = t.column
    t.sql(f"UPDATE {{t}} SET {column} = {t.value} WHERE {column} <=> {t.number}")


def merge(t: RawTable) -> None:
    column = t.column
    t.sql(
        f"MERGE INTO {{t}} AS t USING (SELECT {t.number} AS k) AS s "
        f"ON t.{column} = s.k WHEN MATCHED AND t.{column} > 1 THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {column} = {t.value} "
        f"WHEN NOT MATCHED THEN INSERT ({column}) VALUES (s.k)"
    )


def overwrite(t: RawTable) -> None:
    column = t.column
    t.sql(
        f"INSERT OVERWRITE {{t}} SELECT * FROM {{t}} "
        f"WHERE {column} IS NULL OR {column} <> {t.number}"
    )


def append_by_pyiceberg(t: RawTable) -> None:
    iceberg = t.iceberg()
    iceberg.append(t.arrow(iceberg, 2))


def overwrite_by_pyiceberg(t: RawTable) -> None:
    iceberg = t.iceberg()
    iceberg.overwrite(t.arrow(iceberg, 4))


def delete_by_pyiceberg(t: RawTable) -> None:
    t.iceberg().delete(EqualTo(t.column, t.number))


def overwrite_part_by_pyiceberg(t: RawTable) -> None:
    iceberg = t.iceberg()
    iceberg.overwrite(t.arrow(iceberg, 1), EqualTo(t.column, t.number))


def delete_by_value(t: RawTable) -> None:
    """Delete rows by an equality delete file, as Flink does."""
    jvm = t.session._jvm
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(t.session._jsparkSession, t.quoted)
    column = t.column
    schema = table.schema().select([column])
    ids = t.session.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = schema.findField(column).fieldId()
    path = f"{table.location()}/data/{uuid.uuid4().hex}.parquet"
    file = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(path))
    factory = iceberg.data.GenericAppenderFactory(table.schema(), table.spec(), ids, schema, None)
    writer = factory.newEqDeleteWriter(file, iceberg.FileFormat.PARQUET, None)
    record = iceberg.data.GenericRecord.create(schema)
    record.setField(column, t.number)
    writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def add_files(t: RawTable) -> None:
    """Add a Parquet file without field ids that another program wrote."""
    folder = t.runs.folder.root / f"files_{uuid.uuid4().hex}"
    folder.mkdir()
    pq.write_table(t.arrow(t.iceberg(), 2), folder / "rows.parquet")
    t.sql(
        "CALL lakehouse.system.add_files(table => '{short}', "
        f"source_table => '`parquet`.`{folder}`')"
    )


def publish_branch(t: RawTable) -> None:
    """Write a branch, and publish it by moving `main` (write, audit, publish)."""
    t.sql("ALTER TABLE {t} CREATE BRANCH audited")
    listed = ", ".join(SCHEMA[t.name])
    t.sql(f"INSERT INTO {{t}}.branch_audited ({listed}) VALUES {t.rows(1)}")
    t.sql(f"DELETE FROM {{t}}.branch_audited WHERE {t.column} = {t.number}")
    t.sql("CALL lakehouse.system.fast_forward('{short}', 'main', 'audited')")
    t.sql("ALTER TABLE {t} DROP BRANCH audited")


def recreate(t: RawTable) -> None:
    """Drop the table, and create it again with most of its rows."""
    kept = f"{t.quoted}_{uuid.uuid4().hex}"
    column = t.column
    t.sql(f"CREATE TABLE {kept} USING iceberg AS SELECT * FROM {{t}} WHERE {column} IS NOT NULL")
    t.sql("DROP TABLE {t} PURGE")
    t.sql(f"CREATE TABLE {{t}} USING iceberg AS SELECT * FROM {kept}")
    t.sql(f"DROP TABLE {kept}")


def replace(t: RawTable) -> None:
    column = t.column
    t.sql(
        "CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT * FROM {t} "
        f"WHERE {column} IS NULL OR {column} <> {t.number}"
    )


def compact(t: RawTable) -> None:
    t.sql(
        "CALL lakehouse.system.rewrite_data_files(table => '{short}', "
        "options => map('rewrite-all', 'true'))"
    )


def compact_deletes(t: RawTable) -> None:
    t.sql(
        "CALL lakehouse.system.rewrite_position_delete_files(table => '{short}', "
        "options => map('rewrite-all', 'true'))"
    )


def expire(t: RawTable) -> None:
    t.sql(
        "CALL lakehouse.system.expire_snapshots(table => '{short}', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )


def roll_back(t: RawTable) -> None:
    history = t.session.sql(f"SELECT snapshot_id FROM {t.quoted}.snapshots").collect()
    chosen = t.dice.choice(history)[0]
    t.sql(f"CALL lakehouse.system.set_current_snapshot('{{short}}', {chosen})")


def change_modes(t: RawTable) -> None:
    for statement in ("delete", "update", "merge"):
        mode = t.dice.choice(["copy-on-write", "merge-on-read"])
        t.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.{statement}.mode' = '{mode}')")


def upgrade_format(t: RawTable) -> None:
    t.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")


def change_partitions(t: RawTable) -> None:
    column = t.column
    transform = t.dice.choice([column, f"bucket(2, {column})"])
    t.sql(f"ALTER TABLE {{t}} ADD PARTITION FIELD {transform}")


def add_column(t: RawTable) -> None:
    t.sql(f"ALTER TABLE {{t}} ADD COLUMN x{t.dice.randrange(10**6)} INT")


def rename_column(t: RawTable) -> None:
    t.sql("ALTER TABLE {t} ADD COLUMN passing INT")
    t.sql(f"ALTER TABLE {{t}} RENAME COLUMN passing TO x{t.dice.randrange(10**6)}")


def swap_columns(t: RawTable) -> None:
    """Exchange the names of two columns."""
    one, other = t.column, t.column
    if one != other:
        t.sql(f"ALTER TABLE {{t}} RENAME COLUMN {one} TO passing")
        t.sql(f"ALTER TABLE {{t}} RENAME COLUMN {other} TO {one}")
        t.sql(f"ALTER TABLE {{t}} RENAME COLUMN passing TO {other}")


def drop_column(t: RawTable) -> None:
    t.sql("ALTER TABLE {t} ADD COLUMN passing INT")
    t.sql("ALTER TABLE {t} DROP COLUMN passing")


def empty_column(t: RawTable) -> None:
    """Drop a column, and add another one with its name."""
    column = t.column
    t.sql(f"ALTER TABLE {{t}} DROP COLUMN {column}")
    t.sql(f"ALTER TABLE {{t}} ADD COLUMN {column} INT")


def widen_column(t: RawTable) -> None:
    t.sql(f"ALTER TABLE {{t}} ALTER COLUMN {t.column} TYPE BIGINT")


Act = Callable[[RawTable], None]
WRITES: tuple[Act, ...] = (insert, insert, insert, delete, update, merge)
"""Acts that change rows; each tick has some of them."""
OTHERS: tuple[Act, ...] = (
    *(overwrite, append_by_pyiceberg, append_by_pyiceberg, overwrite_by_pyiceberg),
    *(delete_by_pyiceberg, overwrite_part_by_pyiceberg, delete_by_value, add_files),
    *(publish_branch, recreate, replace, compact, compact_deletes, expire, roll_back),
    *(change_modes, upgrade_format, change_partitions, add_column, rename_column, swap_columns),
    *(drop_column, empty_column, widen_column),
)
