"""SQL that finds the rows to refresh after an input table changes, for display to users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.changed_keys import spell_table
from vde_dagster.execution.handles import Handles
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.planning.environments.resolver import Resolver, tables_read
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.kinds.repeatable import explain_not_repeatable
from vde_dagster.planning.rendering.render import render_plain_query
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.reports.reasons import describe_reason

if TYPE_CHECKING:
    from vde_dagster.semantics.refresh.steps import State


@dataclass(frozen=True, slots=True)
class TableRefresh:
    """How a model is refreshed after one input table has changed.

    Args:
        table: The table, as `namespace.name`.
        method: `keys` if the rows of affected keys are computed again, `rows` if rows are added and
            deleted, `groups` if aggregates are merged; empty if all rows are computed.
        key: Output columns of the keys or groups.
        sql: Spark SQL that returns the keys, the rows, or the values to merge into the aggregates.
            A comment in this SQL marks the changed rows.
        only_added: Whether the method works only if the table gained rows and lost none.
        why_all: The reason for computing all rows; empty if the method avoids it.
    """

    table: str
    method: str = ""
    key: tuple[str, ...] = ()
    sql: str = ""
    only_added: bool = False
    why_all: str = ""

    def to_json(self) -> dict[str, object]:
        return {
            "table": self.table,
            "method": self.method or None,
            "only_added": self.only_added,
            "key": list(self.key),
            "sql": self.sql or None,
            "why_all": self.why_all or None,
        }


def show_refresh(
    handles: Handles,
    snapshot: Snapshot,
    snapshots: Mapping[ModelName, Snapshot],
    resolver: Resolver,
) -> list[TableRefresh]:
    """Describe, per input table, how a model is refreshed after the table changes.

    A table has two entries if the refresh is different after the table only gained rows.

    Args:
        snapshots: All snapshots of the plan, for the views that the model reads.

    Raises:
        UsageError: The model has no query, or its kind does not refresh from changes.
    """
    model, catalog = snapshot.model, handles.settings.catalog
    if model.query is None or not meaning_of(model.kind).refreshes(model):
        why = "it has no query" if model.query is None else f"its kind is {model.kind.name}"
        raise UsageError(
            f"{model.name} does not refresh from changes: {why}",
            hint="use a query of kind FULL (refresh changes) or INCREMENTAL_BY_CHANGES",
            location=model.location,
        )
    query = render_plain_query(model, resolver, catalog)
    schema: dict[str, Mapping[str, str]] = {}
    shown: dict[str, str] = {}
    for read in tables_read(snapshot, resolver, catalog):
        name = spell_table(catalog, read)
        schema[name] = columns_of(handles.lakehouse.table_metadata(read.ref), None)
        shown[name] = str(read.ref)
    reason = explain_not_repeatable(snapshot, snapshots)
    if reason is not None:
        return [
            TableRefresh(one, why_all=f"it {describe_reason(reason)}") for one in shown.values()
        ]

    types = {column.name.lower(): column.type or "" for column in snapshot.computed_columns}
    found = []
    for table, name in shown.items():
        after_adds, after_all = (
            _describe_refresh(snapshot, query, schema, table, types, only_added=only_added)
            for only_added in (True, False)
        )
        if after_adds != after_all and not after_adds.why_all:
            found.append(replace(after_adds, table=name, only_added=True))
        found.append(replace(after_all, table=name))
    return found


def _describe_refresh(
    snapshot: Snapshot,
    query: str,
    schema: Mapping[str, Mapping[str, str]],
    table: str,
    types: Mapping[str, str],
    *,
    only_added: bool,
) -> TableRefresh:
    from vde_dagster.semantics.refresh.linear import RowSteps
    from vde_dagster.semantics.refresh.merged import GroupSteps
    from vde_dagster.semantics.refresh.methods import find_refresh
    from vde_dagster.semantics.refresh.qualified import NotRefreshableError

    key, unique = meaning_of(snapshot.model.kind).changed_by(snapshot.model), snapshot.version
    try:
        steps = find_refresh(
            *(query, schema, [table], types),
            only_added=only_added,
            key=key,
            unique=unique.unique_keys,
        )
    except NotRefreshableError as error:
        return TableRefresh(table, why_all=str(error))
    sql = steps.write(_select_with_comment)
    if isinstance(steps, RowSteps):
        return TableRefresh(table, "rows", sql=sql)
    return TableRefresh(
        table, "groups" if isinstance(steps, GroupSteps) else "keys", steps.key, sql
    )


def _select_with_comment(table: str, state: State) -> str:
    if state == "changed":
        return f"SELECT * FROM {table} /* rows that came or went since the last fill */"
    if state == "signed":
        return f"SELECT *, 1 AS vde_sign FROM {table} /* rows that came, and with -1 that went */"
    return f"SELECT * FROM {table}"
