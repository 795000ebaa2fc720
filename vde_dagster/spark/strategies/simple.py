"""FULL: tables that are replaced whole, or by the keys whose rows changed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.planning.engine_tasks import ChangedKeys
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.kinds import Full
from vde_dagster.spark.strategies.base import Strategy, Write, strategy_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@strategy_for(Full)
class WholeTable(Strategy):
    """Replaces all rows, or the rows of changed keys, in one Iceberg commit."""

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        """Return None: all rows belong to the interval."""
        return None

    def digests_table(self, write: Write) -> bool:
        """Return whether only some keys are written, which may get the same rows again."""
        return write.task.changed is not None

    def write(self, write: Write) -> None:
        """Overwrite all rows, or the rows of the keys that changed."""
        if write.task.changed is None:
            write.overwrite(write.frame, write.task.branch)
        else:
            _replace_keys(write, write.task.changed)


def _replace_keys(write: Write, changed: ChangedKeys) -> None:
    """Replace the rows of changed keys; all rows if Spark cannot compute these keys.

    Their query evaluates expressions for rows that the model's query may leave out before.
    """
    from pyspark.errors import PySparkException

    view = f"vde_changed_keys_{uuid.uuid4().hex}"
    try:
        keys = _keys(write, changed).persist()
        keys.count()
    except PySparkException as error:
        reason = str(error).partition("\n")[0]
        write.notes.append(f"all rows are computed, as its changed keys cannot be: {reason}")
        write.overwrite(write.frame, write.task.branch)
        return
    try:
        rows = _select_keys(write, keys)
        keys.createOrReplaceTempView(view)
        same = " AND ".join(f"{quote(name)} <=> target.{quote(name)}" for name in keys.columns)

        def put_together(staging: str) -> None:
            write.session.sql(
                f"DELETE FROM {write.target(staging)} AS target "
                f"WHERE EXISTS (SELECT 1 FROM {view} WHERE {same})"
            )
            write.writer(rows, staging).append()

        write.staged(put_together, "changed")
    finally:
        write.session.catalog.dropTempView(view)
        keys.unpersist()


def _keys(write: Write, changed: ChangedKeys) -> DataFrame:
    """Return the keys that changed, under the table's names and in its types."""
    names = [write.physical_name(name) for name in changed.key]
    listed = (f"CAST(k{n} AS {write.types[at]}) AS {quote(at)}" for n, at in enumerate(names))
    return write.session.sql(changed.query).selectExpr(*listed).distinct()


def _select_keys(write: Write, keys: DataFrame) -> DataFrame:
    """Return the rows with the given keys."""
    rows, changed = write.frame.alias("vde_rows"), keys.alias("vde_keys")
    from pyspark.sql import functions

    same = " AND ".join(
        f"vde_rows.{quote(name)} <=> vde_keys.{quote(name)}" for name in keys.columns
    )
    return rows.join(changed, functions.expr(same), "left_semi")
