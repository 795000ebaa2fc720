"""Checks of models that are filled from changes of their parents' rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import listed
from vde_dagster.planning.checks.diagnostics import CheckedModel, place_in_header
from vde_dagster.planning.snapshots.snapshot import Snapshot, column_types
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.project.kinds import Full
from vde_dagster.semantics.errors import mistake_offset


def check_parents_by_commits(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report parents that are read commit by commit, but have no table or are not in the query."""
    model = known.model
    for name, how in known.inputs.items():
        if how is not Input.BY_COMMITS:
            continue
        place = place_in_header(model, "kind")
        parent = parents.get(name)
        if parent is None:
            what = (
                f"kind {model.kind.name} of {model.name} reads commits of {name}, but its query "
                f"does not read {name}"
            )
            hint = f"{model.name} reads {', '.join(map(str, parents)) or 'nothing'}"
            yield Problem(what, hint, place)
        elif not (parent.has_table or parent.model.kind.is_external):
            what = f"{model.name} reads the commits of {name}, which has no table"
            yield Problem(what, f"give {name} a kind with a table, or read its inputs", place)


def check_changed_keys(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a model that is filled by changed keys, but whose parents lack the keys."""
    model = known.model
    if not known.changed_by or model.query is None:
        return
    from vde_dagster.semantics.refresh.keys import tables_with_key

    schema = column_types(parents)
    if (
        parents
        and len(schema) == len(parents)
        and not any("*" in columns for columns in schema.values())
        and not tables_with_key(model.query, schema, known.changed_by)
    ):
        key = ", ".join(known.changed_by)
        place = place_in_header(model, "kind", known.changed_by[0])
        missing = _missing_types(parents, schema, model.query, known.changed_by)
        if missing is not None:
            yield Problem(f"{model.name}: {missing[0]}", missing[1], place)
            return
        from vde_dagster.semantics.refresh.methods import explain_not_refreshable

        why = explain_not_refreshable(model.query, schema, key=known.changed_by)
        offset = mistake_offset(model.query, why) if why is not None else None
        yield Problem(
            f"{model.name}: no parent's rows contain the key {key}, so changed keys cannot be "
            f"found: {why}",
            (why.hint if why is not None else "")
            or "choose a key that the query copies from a parent and uses in each JOIN, GROUP BY "
            "and PARTITION BY, or choose kind FULL",
            place if offset is None else model.place(offset),
        )


def check_refresh_changes(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report that `refresh changes` has no effect, with the reason."""
    # The property has no effect if each fill computes all rows anyway.
    model = known.model
    refresh = model.kind.refresh if isinstance(model.kind, Full) else "whole"
    if refresh != "changes":
        return
    what = f"{model.name}: `refresh changes` has no effect, because all rows are computed"
    if model.query is None or model.pre_statements or model.post_statements:
        own = "is Python code" if model.query is None else "has its own statements"
        place = place_in_header(model, "refresh")
        yield Problem(f"{what}: the model {own}", "remove the property", place, False)
        return
    if known.clock is not None:
        hint = "take the time from a column of a parent, or remove the property"
        yield Problem(
            f"{what}: the query reads {known.clock}", hint, place_in_header(model, "refresh"), False
        )
        return
    schema = column_types(parents)
    if any(type_ == "UNKNOWN" for types in schema.values() for type_ in types.values()):
        return
    from vde_dagster.semantics.refresh.methods import explain_not_refreshable

    why = explain_not_refreshable(model.query, schema) if len(schema) == len(parents) else None
    if why is not None:
        offset = mistake_offset(model.query, why)
        where = place_in_header(model, "refresh") if offset is None else model.place(offset)
        hint = why.hint or "write the query without this part"
        yield Problem(f"{what}: {why}", f"{hint}, or remove the property", where, False)


def _missing_types(
    parents: Mapping[ModelName, Snapshot],
    schema: Mapping[str, Mapping[str, str]],
    query: str,
    key: Sequence[str],
) -> tuple[str, str] | None:
    """Return a message and a hint if only unknown column types prevent finding changed keys."""
    from vde_dagster.semantics.refresh.keys import tables_with_key

    untyped = {
        name: [c for c, type_ in schema[str(name)].items() if type_ == "UNKNOWN" and c != "*"]
        for name in parents
    }
    untyped = {name: columns for name, columns in untyped.items() if columns}
    known = {
        column.lower(): type_
        for types in schema.values()
        for column, type_ in types.items()
        if type_ != "UNKNOWN"
    }
    typed = {
        table: {
            c: known.get(c.lower(), "STRING") if type_ == "UNKNOWN" else type_
            for c, type_ in types.items()
        }
        for table, types in schema.items()
    }
    if not untyped or not tables_with_key(query, typed, key):
        return None
    first, columns = next(iter(untyped.items()))
    read = dict.fromkeys(
        str(one) for name in untyped for one in parents[name].model.depends_on or [name]
    )
    where = "external_models.yaml"
    if any(parents[name].model.tool == "dbt" for name in untyped):
        where = "YAML, as data_type below the source's columns"
    return (
        f"the types of {', '.join(columns)} of {first} are unknown, so the changed "
        f"{', '.join(key)} cannot be found",
        f"declare the columns of {listed(list(read))} with their types in {where}, or "
        f"cast them in the SELECT: CAST({columns[0]} AS STRING) AS {columns[0]}",
    )
