"""Fills that add and delete single rows, or merge aggregates with the changes of inputs.

Readers see one commit, after which the rows are the same as after a fill of all rows. Changes are
computed before the commit. Their queries may fail although the model's query succeeds, because they
also evaluate expressions for rows that the model's query filters out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote, string_literal
from vde_dagster.lakehouse.metadata.commit_summaries import is_quiet
from vde_dagster.planning.engine_tasks import ChangedGroups, ChangedRows
from vde_dagster.spark.session.failures import cause_line, is_spark_failure
from vde_dagster.spark.strategies.base import Write
from vde_dagster.spark.strategies.changed_keys import keys_view
from vde_dagster.spark.strategies.computed_rows import ComputedRows, compute_once
from vde_dagster.spark.strategies.replace_rows import (
    Deletion,
    measure_deletion,
    measures_deletions,
    replace_rows,
    select_with_files,
)
from vde_dagster.spark.tables.columns import cast_to_table, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SIGN = "vde_sign"
_COPIES = "vde_copies"
_LACKS_ROWS = "the table lacks rows that its last fill wrote"


class NotWrittenError(Exception):
    """The changes cannot be written, so all rows must be computed. Nothing was written."""


def write_changes(write: Write, changed: ChangedRows | ChangedGroups) -> None:
    """Run a query of changes, and apply its result to the table in one visible commit.

    Raises:
        NotWrittenError: The changes do not fit the table, or Spark cannot compute them.
    """
    _check_head(write, changed.since)
    if isinstance(changed, ChangedGroups):
        _merge_groups(write, changed)
    elif changed.only_added:
        _append(write, changed)
    else:
        _change_rows(write, changed)


def _check_head(write: Write, since: int | None) -> None:
    """Raise NotWrittenError if a fill has written the branch after the commit `since`."""
    table, branch = write.table, write.task.branch
    head = table.head(branch)
    while head is not None and head != since and is_quiet(table.summary(head)):
        head = table.parent(head)
    if head is None or head != since:
        raise NotWrittenError("another fill has written the table")


def _run_query(write: Write, query: str) -> DataFrame:
    with _computing("the changes"):
        return write.session.sql(query)


def _append(write: Write, changed: ChangedRows) -> None:
    changes = _run_query(write, changed.query)
    rows = cast_to_table(changes, write.task, write.frame_types)
    with _computing("the changes"):
        write.writer(rows, write.task.branch).append()


def _change_rows(write: Write, changed: ChangedRows) -> None:
    from pyspark.sql import functions

    names = list(write.types)
    listed = ", ".join(map(quote, names))
    changes = _run_query(write, changed.query)
    rows = cast_to_table(changes, write.task, write.types, [_SIGN])
    # Additions (+1) and deletions (-1) of equal rows are added up first.
    total = functions.sum(_SIGN).alias(_COPIES)
    net = rows.groupBy(*map(quote, names)).agg(total).where(f"{_COPIES} <> 0")
    with ExitStack() as stack:
        found = _compute(net, "the added and deleted rows")
        removed = found.where(f"{_COPIES} < 0")
        added = found.frame.where(f"{_COPIES} > 0")
        if removed.is_empty:
            write.writer(_repeat_copies(write, added), write.task.branch).append()
            return
        source = stack.enter_context(write.source(removed.frame))
        keys = stack.enter_context(keys_view(write, removed.select(*map(quote, names))))
        # To delete one of several copies of a row, all copies are deleted, and the others added
        # again.
        condition = keys.is_in("target")
        old = stack.enter_context(_old_rows(write, condition, names))
        both = (
            f"SELECT {listed}, {_COPIES} FROM {source} "
            f"UNION ALL SELECT {listed}, 1 FROM {old.relation}"
        )
        left = write.session.sql(
            f"SELECT {listed}, sum({_COPIES}) AS {_COPIES} FROM ({both}) GROUP BY {listed} "
            f"HAVING IF(sum({_COPIES}) < 0, raise_error('{_LACKS_ROWS}'), sum({_COPIES}) > 0)"
        )
        new = _repeat_copies(write, added.unionByName(left))
        _replace(write, condition, new, _LACKS_ROWS, old.deletion)


def _repeat_copies(write: Write, rows: DataFrame) -> DataFrame:
    """Repeat each row by its number of copies, and add the table's missing columns as NULL."""
    listed = [
        quote(name) if name in write.types else f"CAST(NULL AS {type_}) AS {quote(name)}"
        for name, type_ in write.frame_types.items()
    ]
    copies = f"explode(sequence(1, CAST({_COPIES} AS INT))) AS vde_copy"
    return rows.selectExpr(*listed, copies).drop("vde_copy")


def _merge_groups(write: Write, changed: ChangedGroups) -> None:
    from vde_dagster.semantics.refresh.merged import merge_query

    outputs = [*changed.key, *(total.column for total in changed.totals)]
    at = {output: write.physical_name(output) for output in outputs}
    changes = _run_query(write, changed.query)
    found = {field.name.lower(): spark_type(field.dataType) for field in changes.schema.fields}
    for output, physical in at.items():
        if found[output] != write.types[physical]:
            raise NotWrittenError(
                f"the column {output} has another type in the table than in the query"
            )
    ansi = write.session.conf.get("spark.sql.ansi.enabled", "false")
    if ansi != "true" and any(kind.startswith("decimal") for kind in found.values()):
        raise NotWrittenError("sums of decimals may overflow without ANSI mode")
    with ExitStack() as stack:
        new = _compute(changes, "the changes of the groups")
        if changed.key and new.count == 0:
            write.writer(write.frame.limit(0), write.task.branch).append()
            return
        view = stack.enter_context(write.source(new.frame))
        listed = ", ".join(f"{quote(name)} AS {quote(output)}" for output, name in at.items())
        condition = "true"
        if changed.key:
            renamed = [f"{quote(output)} AS {quote(at[output])}" for output in changed.key]
            keys = stack.enter_context(keys_view(write, new.select(*renamed)))
            condition = keys.is_in("target")
        old = stack.enter_context(_old_rows(write, condition, list(at.values())))
        before = f"SELECT {listed} FROM {old.relation}"
        query = merge_query(
            changed.key, changed.totals, changed.count, before, f"SELECT * FROM {view}"
        )
        merged, why = write.session.sql(query), _describe_contradiction(changed)
        if not changed.key:
            # One row: computing it first costs less than a write that fails.
            merged = _compute(merged, "the merged row").frame
            if not merged.where("vde_lost").isEmpty():
                raise NotWrittenError(why)
        left = merged.where(f"IF(vde_lost, raise_error({string_literal(why)}), NOT vde_gone)")
        new_rows = cast_to_table(left, write.task, write.frame_types)
        _replace(write, condition, new_rows, why, old.deletion)


def _describe_contradiction(changed: ChangedGroups) -> str:
    opened = ", ".join(total.column for total in changed.totals if total.open)
    if opened:
        return f"the new value of {opened} cannot be computed from the table's row"
    return "the table's groups contradict the changes"


@dataclass(frozen=True, slots=True)
class _OldRows:
    """The table's rows that a fill replaces.

    Args:
        relation: SQL of a relation with these rows.
        deletion: Number and files of the rows, if they were measured.
    """

    relation: str
    deletion: Deletion | None


@contextmanager
def _old_rows(write: Write, condition: str, names: Sequence[str]) -> Iterator[_OldRows]:
    listed, target = ", ".join(map(quote, names)), write.target(write.task.branch)
    if not measures_deletions(write):
        yield _OldRows(f"(SELECT {listed} FROM {target} AS target WHERE {condition}) AS old", None)
        return
    # The rows are read once, for their number, their files, and their values.
    query = select_with_files(write, write.task.branch, condition, names)
    rows = _compute(_run_query(write, query), "the rows to replace")
    with write.source(rows.frame) as view:
        files = f"SELECT vde_file FROM {view}"
        yield _OldRows(view, measure_deletion(write, write.task.branch, files))


def _replace(
    write: Write, condition: str, rows: DataFrame, why_failed: str, deletion: Deletion | None
) -> None:
    """Replace the rows that meet a condition with rows that were derived from the table.

    Args:
        why_failed: Message that the query of `rows` raises if changes contradict the table's rows.

    Raises:
        NotWrittenError: Changes contradict the table's rows, or Spark cannot compute the rows.
    """
    with _computing("the changes", why_failed):
        head = write.table.head(write.task.branch)
        replace_rows(write, condition, rows, head=head, deletion=deletion)


def _compute(frame: DataFrame, what: str) -> ComputedRows:
    with _computing(what):
        return compute_once(frame)


@contextmanager
def _computing(what: str, why_failed: str | None = None) -> Iterator[None]:
    """Raise NotWrittenError in place of an error of Spark.

    Its message is `why_failed` if Spark's message contains `why_failed`. Otherwise the message is
    `<what> cannot be computed`, with the cause.
    """
    try:
        yield
    except Exception as error:
        if not is_spark_failure(error):
            raise
        if why_failed is not None and why_failed in str(error):
            raise NotWrittenError(why_failed) from error
        raise NotWrittenError(f"{what} cannot be computed: {cause_line(error)}") from error
