"""INCREMENTAL_BY_CHANGES: writing its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vde_dagster.api.plans import Snapshot
from vde_dagster.api.values import quote
from vde_dagster.api.writers import Layout, WholeTable, Write
from vde_dagster.plugins.by_changes.kind import IncrementalByChanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = "vde_changed_keys"


class ByChangesWriter(WholeTable):
    """Replaces the rows of the keys that changed, or all rows if they are unknown."""

    own_session = True

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Write delete files (merge on read): keys may be in any file, which would otherwise be
        rewritten.
        """
        return Layout(properties={"write.delete.mode": "merge-on-read"})

    def digests_table(self, write: Write) -> bool:
        """Return True: keys may get the same rows again."""
        return True

    def write(self, write: Write) -> None:
        """Replace rows in one atomic step."""
        if write.task.changed is None:
            super().write(write)
            return
        keys = _keys(write, write.task.changed).persist()
        try:
            rows = _select_keys(write, keys)
            keys.createOrReplaceTempView(_KEYS)
            same = " AND ".join(f"{quote(name)} <=> target.{quote(name)}" for name in keys.columns)

            def put_together(staging: str) -> None:
                write.session.sql(
                    f"DELETE FROM {write.target(staging)} AS target "
                    f"WHERE EXISTS (SELECT 1 FROM {_KEYS} WHERE {same})"
                )
                write.writer(rows, staging).append()

            write.staged(put_together, "changed")
        finally:
            write.session.catalog.dropTempView(_KEYS)
            keys.unpersist()


def _keys(write: Write, changed: str) -> DataFrame:
    """Return the keys that changed, under the table's names and in its types."""
    kind = IncrementalByChanges.from_model(write.task.snapshot.model)
    names = [write.physical_name(name) for name in kind.key]
    listed = (f"CAST(k{n} AS {write.types[at]}) AS {quote(at)}" for n, at in enumerate(names))
    return write.session.sql(changed).selectExpr(*listed).distinct()


def _select_keys(write: Write, keys: DataFrame) -> DataFrame:
    """Return the rows with the given keys."""
    rows, changed = write.frame.alias("vde_rows"), keys.alias("vde_keys")
    from pyspark.sql import functions

    same = " AND ".join(
        f"vde_rows.{quote(name)} <=> vde_keys.{quote(name)}" for name in keys.columns
    )
    return rows.join(changed, functions.expr(same), "left_semi")
