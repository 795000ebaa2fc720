"""NEWEST_ROWS: how its tables are written."""

from __future__ import annotations

from vde_dagster.base.names import quote
from vde_dagster.spark.strategies.base import Strategy, Write, condition, strategy_for
from vde_dagster_tests.kinds.newest_rows import NewestRows


@strategy_for(NewestRows)
class Newest(Strategy):
    """Numbers the table's rows together with the new ones, and writes those that are kept."""

    def write(self, write: Write) -> None:
        """Overwrite the table by what is kept of it and of the new rows."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        kind = write.task.snapshot.model.kind
        assert isinstance(kind, NewestRows)
        number = write.physical_name("newest")
        key = [write.physical_name(name) for name in kind.row_key]
        order = write.physical_name(kind.newest_by)
        rest = [quote(name) for name in write.types if name != number]
        known = write.session.table(write.target(write.task.branch))
        every = known.select(*rest).unionByName(write.frame.select(*rest)).distinct()
        window = Window.partitionBy(*key).orderBy(f.col(quote(order)).desc(), *sorted(rest))
        ranked = every.withColumn(number, f.row_number().over(window).cast("int"))
        kept = ranked.where(f.col(quote(number)) <= kind.keep).select(*map(quote, write.types))
        write.writer(kept, write.task.branch).overwrite(condition("true"))
