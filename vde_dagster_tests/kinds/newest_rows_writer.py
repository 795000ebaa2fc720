"""NEWEST_ROWS: writing its tables."""

from __future__ import annotations

from vde_dagster.api.values import quote
from vde_dagster.api.writers import Strategy, Write
from vde_dagster_tests.kinds.newest_rows import NewestRows


class NewestWriter(Strategy):
    """Numbers the table's rows together with the new rows, and writes the newest."""

    def write(self, write: Write) -> None:
        """Overwrite the table by the newest of its rows and the new rows."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        kind = NewestRows.from_model(write.task.snapshot.model)
        number = write.physical_name("newest")
        key = [write.physical_name(name) for name in kind.row_key]
        order = write.physical_name(kind.newest_by)
        rest = [quote(name) for name in write.types if name != number]
        known = write.session.table(write.target(write.task.branch))
        every = known.select(*rest).unionByName(write.frame.select(*rest)).distinct()
        window = Window.partitionBy(*key).orderBy(f.col(quote(order)).desc(), *sorted(rest))
        ranked = every.withColumn(number, f.row_number().over(window).cast("int"))
        kept = ranked.where(f.col(quote(number)) <= kind.keep).select(*map(quote, write.types))
        write.overwrite(kept, write.task.branch)
