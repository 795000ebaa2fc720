"""Column names with the upper and lower case of their definitions.

Versions, tables and views use names in lower case. Other systems get a name as `columns` declares
it, or else as the query writes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.snapshot import Snapshot, column_types
from vde_dagster.semantics.errors import SemanticError


def column_spelling(
    name: ModelName, snapshots: Mapping[ModelName, Snapshot], functions: Collection[str] = ()
) -> dict[str, str]:
    """Map a model's column names in lower case to the names with their original case.

    Args:
        snapshots: The model's snapshot and the available snapshots of its ancestors.
    """
    known: dict[ModelName, dict[str, str]] = {}
    # Parents first; a model that reads itself has been entered already.
    waiting = [name]
    while waiting:
        one = waiting[-1]
        snapshot = snapshots.get(one)
        if snapshot is None or one in known:
            waiting.pop()
            continue
        has_star = "*" in (snapshot.model.query or "")
        parents = [one for one in snapshot.parents if has_star and one in snapshots]
        missing = [one for one in parents if one not in known and one not in waiting]
        if missing:
            waiting += missing
            continue
        known[one] = _spell_columns(snapshot, snapshots, known, functions)
        waiting.pop()
    return known.get(name, {})


def _spell_columns(
    snapshot: Snapshot,
    snapshots: Mapping[ModelName, Snapshot],
    known: Mapping[ModelName, Mapping[str, str]],
    functions: Collection[str],
) -> dict[str, str]:
    model = snapshot.model
    found = {column.name: column.name for column in snapshot.columns}
    if model.query is not None:
        from vde_dagster.semantics.analysis import analyze

        parents = {name: snapshots[name] for name in snapshot.parents if name in snapshots}
        schema = {}
        for table, types in column_types(parents).items():
            spelled = known.get(ModelName(*table.split(".", 1)), {})
            schema[table] = {spelled.get(column, column): type_ for column, type_ in types.items()}
        try:
            written = analyze(model.query, schema, functions=functions).spelling
        except SemanticError:
            written = {}  # Its parents are not all known: names stay in lower case.
        found |= {name: text for name, text in written.items() if name in found}
    declared = {column.name.lower(): column.name for column in model.columns}
    return found | {name: text for name, text in declared.items() if name in found}
