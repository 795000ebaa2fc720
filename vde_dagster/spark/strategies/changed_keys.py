"""Fills that compute only the rows of keys that the changes of inputs affect."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.planning.engine_tasks import ChangedKeys
from vde_dagster.spark.strategies.base import Write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class KeysView:
    """Temporary view of the affected values of a key, under the table's names and in its types."""

    name: str
    columns: tuple[str, ...]

    def is_in(self, side: str) -> str:
        """Return the condition that a row of `side` has one of the key values; NULLs are equal."""
        same = (f"vde_keys.{quote(name)} <=> {side}.{quote(name)}" for name in self.columns)
        return f"EXISTS (SELECT 1 FROM {self.name} AS vde_keys WHERE {' AND '.join(same)})"


@contextmanager
def changed_keys(write: Write) -> Iterator[KeysView | None]:
    """Provide the keys to compute; None for all rows.

    If Spark cannot compute the keys, all rows are computed, with a note. The keys' query can fail
    because it evaluates expressions for rows that the model's query removes first.
    """
    from pyspark.errors import PySparkException

    changed = write.task.changed
    if not isinstance(changed, ChangedKeys):
        yield None
        return
    try:
        keys = _read_keys(write, changed).persist()
        keys.count()
    except PySparkException as error:
        reason = str(error).partition("\n")[0]
        write.why_all.append(f"its changed keys cannot be computed: {reason}")
        write.notes.append(f"all rows are computed, as its changed keys cannot be: {reason}")
        yield None
        return
    view = KeysView(f"vde_changed_keys_{uuid.uuid4().hex}", tuple(keys.columns))
    keys.createOrReplaceTempView(view.name)
    try:
        yield view
    finally:
        write.session.catalog.dropTempView(view.name)
        keys.unpersist()


def select_rows(write: Write, keys: KeysView | None) -> DataFrame:
    """Return the model's rows with the given keys; without `keys`, all rows."""
    if keys is None:
        return write.frame
    from pyspark.sql import functions

    listed = write.session.table(keys.name).alias("vde_keys")
    same = (f"vde_rows.{quote(name)} <=> vde_keys.{quote(name)}" for name in keys.columns)
    on = functions.expr(" AND ".join(same))
    return write.frame.alias("vde_rows").join(listed, on, "left_semi")


def _read_keys(write: Write, changed: ChangedKeys) -> DataFrame:
    names = [write.physical_name(name) for name in changed.key]
    listed = (f"CAST(k{n} AS {write.types[at]}) AS {quote(at)}" for n, at in enumerate(names))
    return write.session.sql(changed.query).selectExpr(*listed).distinct()
