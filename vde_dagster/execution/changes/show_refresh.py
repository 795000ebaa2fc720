"""The queries that find the rows of a model to refresh from changes, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.changed_keys import spell_table
from vde_dagster.execution.handles import Handles
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.planning.environments.resolver import Resolver, tables_read
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.kinds.repeatable import why_not_repeatable
from vde_dagster.planning.rendering.render import render_plain_query
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.reports.reasons import describe_reason


@dataclass(frozen=True, slots=True)
class TableRefresh:
    """Refresh of a model after changes of one table.

    Args:
        table: The table, as `namespace.name`.
        key: Output columns whose affected values are computed again; empty for all rows.
        sql: Spark SQL of these values; the table's changed rows are marked by a comment.
        why_all: Why all rows are computed; empty if they are not.
    """

    table: str
    key: tuple[str, ...] = ()
    sql: str = ""
    why_all: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the form of JSON output."""
        return {
            "table": self.table,
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
    """Return how a model refreshes after changes of each table that it reads.

    Args:
        snapshots: All snapshots of the plan, for the views that the model reads.

    Raises:
        UsageError: The model has no query, or its kind does not refresh from changes.
    """
    from vde_dagster.semantics.refresh.keys import State, find_key_steps
    from vde_dagster.semantics.refresh.qualified import NotRefreshableError

    model, catalog = snapshot.model, handles.settings.catalog
    if model.query is None or not meaning_of(model.kind).refreshes(model):
        raise UsageError(
            f"{model.name} does not refresh from changes: its kind is {model.kind.name}",
            hint="give it kind FULL (refresh changes) or INCREMENTAL_BY_CHANGES",
            location=model.location,
        )
    query = render_plain_query(model, resolver, catalog)
    schema: dict[str, Mapping[str, str]] = {}
    shown: dict[str, str] = {}
    for read in tables_read(snapshot, resolver, catalog):
        name = spell_table(catalog, read)
        schema[name] = columns_of(handles.lakehouse.table_metadata(read.ref), None)
        shown[name] = str(read.ref)
    why = why_not_repeatable(snapshot, snapshots)
    if why is not None:
        return [TableRefresh(one, why_all=f"it {describe_reason(why)}") for one in shown.values()]

    def relation(table: str, state: State) -> str:
        changed = " /* rows that came or went since the last fill */"
        return f"SELECT * FROM {table}{changed if state == 'changed' else ''}"

    key, found = meaning_of(model.kind).changed_by(model), []
    for table, name in shown.items():
        unique = snapshot.version.unique_keys
        try:
            steps = find_key_steps(query, schema, [table], key=key, unique=unique)
        except NotRefreshableError as error:
            found.append(TableRefresh(name, why_all=str(error)))
        else:
            found.append(TableRefresh(name, steps.key, steps.write(relation)))
    return found
