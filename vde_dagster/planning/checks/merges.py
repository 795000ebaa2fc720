"""What a kind sets columns to when it merges rows: values that the columns do not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header
from vde_dagster.planning.checks.queries import NAMES
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.problem import Problem


def merged_values(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Read what is set as a query over the new row and the table's, both with its columns."""
    kind = known.model.kind
    if known.columns is None or not (kind.assignments or kind.conditions):
        return
    from vde_dagster.semantics import SemanticError, analyze

    types = {column.name: column.type or "UNKNOWN" for column in known.columns}
    shown = ", ".join(f"{text} AS {_name(i)}" for i, (_, text) in enumerate(kind.assignments))
    only = " AND ".join(f"({text})" for text in kind.conditions)
    query = f"SELECT {shown or '1 AS v'} FROM source CROSS JOIN target"
    try:
        found = analyze(
            f"{query} WHERE {only}" if only else query,
            {"source": types, "target": types},
            functions=known.functions,
        )
    except SemanticError:
        return  # Columns that are not there are told by name.
    for one in found.findings:
        if one.rule not in NAMES and one.certain:
            location = place_in_header(known.model, "kind", "when_matched")
            yield Problem(f"{known.model.name}, in its kind: {one.message}", one.hint, location)
    yield from _refused(known, found.output_types, types)


def _refused(
    known: Known, values: Mapping[str, str], types: Mapping[str, str]
) -> Iterator[Problem]:
    from vde_dagster.semantics.storing import is_refused

    of_column = {name.lower(): (name, type_) for name, type_ in types.items()}
    for number, (column, text) in enumerate(known.model.kind.assignments):
        value = values.get(_name(number), "UNKNOWN")
        name, type_ = of_column.get(column.lower(), (column, "UNKNOWN"))
        if is_refused(value, type_):
            yield Problem(
                f"{known.model.name}: its kind sets '{name}', which is {type_}, to {value}: {text}",
                f"write CAST(… AS {type_}), or give the column another type",
                place_in_header(known.model, "kind", "set", column),
            )


def _name(number: int) -> str:
    return f"v{number}"
