"""Fills that add and delete single rows, or merge aggregates with the changes of inputs.

Each method makes one commit that readers see; the table's rows are then the same as after a fill of
all rows. The changes are computed before anything is committed, because computing them may fail:
their queries evaluate expressions for rows that the model's query may filter out first.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.lakehouse.metadata.commit_summaries import is_quiet
from vde_dagster.planning.engine_tasks import ChangedGroups, ChangedRows
from vde_dagster.spark.strategies.base import Write
from vde_dagster.spark.strategies.changed_keys import Names, write_equal
from vde_dagster.spark.tables.columns import as_table_rows, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SIGN = "vde_sign"
_COPIES = "vde_copies"


class NotWrittenError(Exception):
    """The changes cannot be written, and nothing was written; the message has the reason."""


def write_changes(write: Write, changed: ChangedRows | ChangedGroups) -> None:
    """Write the changes of a table's rows.

    Raises:
        NotWrittenError: Changes contradict the table's rows, or Spark cannot compute the changes.
    """
    _check_head(write, changed.since)
    if isinstance(changed, ChangedGroups):
        _merge_groups(write, changed)
    elif changed.only_added:
        _append(write, changed)
    else:
        _change_rows(write, changed)


def _check_head(write: Write, since: int | None) -> None:
    """Check that no fill has written a branch after `since`, the commit with the rows to change."""
    table, branch = write.table, write.task.branch
    head = table.head(branch)
    while head is not None and head != since and is_quiet(table.summary(head)):
        head = table.parent(head)
    if head is None or head != since:
        raise NotWrittenError("another fill has written the table")


def _read(write: Write, query: str) -> DataFrame:
    """Return the rows of a derived query.

    Raises:
        NotWrittenError: Spark refuses the query.
    """
    from pyspark.errors import PySparkException

    try:
        return write.session.sql(query)
    except PySparkException as error:
        raise NotWrittenError(_cannot("the changes", error)) from error


def _append(write: Write, changed: ChangedRows) -> None:
    from pyspark.errors import PySparkException

    changes = _read(write, changed.query)
    rows = as_table_rows(changes, write.task, write.frame_types)
    try:
        write.writer(rows, write.task.branch).append()
    except PySparkException as error:
        raise NotWrittenError(_cannot("the changes", error)) from error


def _change_rows(write: Write, changed: ChangedRows) -> None:
    """Add and delete rows; additions (+1) and deletions (-1) of equal rows are added up first.

    To delete one of several copies of a row, all copies are deleted, and the others added again.
    """
    from pyspark.sql import functions

    names = list(write.types)
    went = ", ".join(f"went.{quote(name)}" for name in names)
    changes = _read(write, changed.query)
    rows = as_table_rows(changes, write.task, write.types, [_SIGN])
    total = functions.sum(_SIGN).alias(_COPIES)
    net = rows.groupBy(*map(quote, names)).agg(total).where(f"{_COPIES} <> 0")
    with _computed(net, "the added and deleted rows") as view:
        came = net.where(f"{_COPIES} > 0")
        if net.where(f"{_COPIES} < 0").isEmpty():
            write.writer(_repeated(write, came), write.task.branch).append()
            return

        def put_together(staging: str) -> None:
            # The branch that is read does not change before the commit.
            left = write.session.sql(
                f"SELECT {went}, first(went.{_COPIES}) + count(target.vde_there) AS {_COPIES} "
                f"FROM {view} AS went LEFT JOIN (SELECT *, 1 AS vde_there "
                f"FROM {write.target(write.task.branch)}) AS target "
                f"ON {write_equal('went', 'target', names)} WHERE went.{_COPIES} < 0 "
                f"GROUP BY {went}"
            )
            with _computed(left, "the deleted rows"):
                if not left.where(f"{_COPIES} < 0").isEmpty():
                    raise NotWrittenError("the table lacks rows that its last fill wrote")
                _delete(write, staging, view, names, f"{_COPIES} < 0")
                added = came.unionByName(left.where(f"{_COPIES} > 0"))
                write.writer(_repeated(write, added), staging).append()

        write.staged(put_together, "changed")


def _repeated(write: Write, rows: DataFrame) -> DataFrame:
    """Return rows with all columns of the table; a row with N copies is returned N times."""
    listed = [
        quote(name) if name in write.types else f"CAST(NULL AS {type_}) AS {quote(name)}"
        for name, type_ in write.frame_types.items()
    ]
    copies = f"explode(sequence(1, CAST({_COPIES} AS INT))) AS vde_copy"
    return rows.selectExpr(*listed, copies).drop("vde_copy")


def _merge_groups(write: Write, changed: ChangedGroups) -> None:
    """Replace the changed groups by the result of merging their aggregates with the changes."""
    from vde_dagster.semantics.refresh.merged import merge_query

    outputs = [*changed.key, *(total.column for total in changed.totals)]
    at = {output: write.physical_name(output) for output in outputs}
    changes = _read(write, changed.query)
    found = {field.name.lower(): spark_type(field.dataType) for field in changes.schema.fields}
    for output, physical in at.items():
        if found[output] != write.types[physical]:
            raise NotWrittenError(f"the table has another type for {output}")
    ansi = write.session.conf.get("spark.sql.ansi.enabled", "false")
    if ansi != "true" and any(kind.startswith("decimal") for kind in found.values()):
        raise NotWrittenError("sums of decimals may overflow without ANSI")
    with _computed(changes, "the changes of the groups") as view:
        listed = ", ".join(f"{quote(name)} AS {quote(output)}" for output, name in at.items())
        same = write_equal("target", "changed", [(at[output], output) for output in changed.key])
        among = f"WHERE EXISTS (SELECT 1 FROM {view} AS changed WHERE {same})"
        old = f"SELECT {listed} FROM {write.target(write.task.branch)} AS target "
        old += among if changed.key else ""
        query = merge_query(
            changed.key, changed.totals, changed.count, old, f"SELECT * FROM {view}"
        )

        def put_together(staging: str) -> None:
            merged = write.session.sql(query)
            with _computed(merged, "the changed groups") as groups:
                if not merged.where("vde_lost").isEmpty():
                    raise NotWrittenError(_why_lost(changed))
                left = merged.where("NOT vde_gone")
                rows = as_table_rows(left, write.task, write.frame_types)
                if changed.key:
                    names = [(at[output], output) for output in changed.key]
                    _delete(write, staging, groups, names)
                    write.writer(rows, staging).append()
                else:
                    write.overwrite(rows, staging)

        write.staged(put_together, "changed")


def _why_lost(changed: ChangedGroups) -> str:
    opened = ", ".join(total.column for total in changed.totals if total.open)
    if opened:
        return f"the new value of {opened} does not follow from the table's row"
    return "the table's groups contradict the changes"


def _delete(write: Write, staging: str, view: str, names: Names, where: str = "true") -> None:
    """Delete the rows that are equal to a row of a view in the named columns."""
    same = write_equal("target", "changed", names)
    write.session.sql(
        f"DELETE FROM {write.target(staging)} AS target "
        f"WHERE EXISTS (SELECT 1 FROM {view} AS changed WHERE {where} AND {same})"
    )


@contextmanager
def _computed(frame: DataFrame, what: str) -> Iterator[str]:
    """Compute rows, and provide a temporary view of them.

    The view contains the computed rows, not their query: Spark would lose the query's constant
    columns in the subquery that finds the files of a copy-on-write DELETE.

    Raises:
        NotWrittenError: Spark cannot compute the rows.
    """
    from pyspark.errors import PySparkException

    view = f"vde_changes_{uuid.uuid4().hex}"
    frame.persist()
    try:
        try:
            rows = frame.localCheckpoint()
        except PySparkException as error:
            raise NotWrittenError(_cannot(what, error)) from error
        rows.createOrReplaceTempView(view)
        try:
            yield view
        finally:
            frame.sparkSession.catalog.dropTempView(view)
    finally:
        frame.unpersist()


def _cannot(what: str, error: Exception) -> str:
    return f"{what} cannot be computed: {str(error).partition(chr(10))[0]}"
