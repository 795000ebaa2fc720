"""How two tables differ, as JSON and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.values import json_value, text_value

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.compare_tables import Comparison

_HEADINGS = {
    "differing": "rows that differ",
    "only_source": "rows that only the first has",
    "only_target": "rows that only the second has",
}


def comparison_json(found: Comparison) -> dict[str, Any]:
    """Return the documented JSON form."""
    return {
        "source": found.source,
        "target": found.target,
        "on": list(found.keys),
        "schema": {
            "added": dict(found.schema.added),
            "removed": dict(found.schema.removed),
            "changed": {name: list(types) for name, types in found.schema.changed.items()},
        },
        "rows": dict(found.rows),
        "columns": dict(found.columns),
        "not_compared": list(found.not_compared),
        "samples": {
            kind: [
                dict(zip(sample.columns, map(json_value, row), strict=True)) for row in sample.rows
            ]
            for kind, sample in found.samples.items()
        },
    }


def show_comparison(console: Console, found: Comparison) -> None:
    """Print what differs: columns, numbers of rows, and some of the rows."""
    console.print(f"{found.source} → {found.target}, by {', '.join(found.keys)}", markup=False)
    schema = [
        *((name, type_, "") for name, type_ in found.schema.removed.items()),
        *((name, "", type_) for name, type_ in found.schema.added.items()),
        *((name, *types) for name, types in found.schema.changed.items()),
    ]
    if schema:
        console.print(simple_table(("column", "first", "second"), schema))
    rows = [(word.replace("_", " "), f"{count:,}") for word, count in found.rows.items()]
    console.print(simple_table(("rows", "count"), rows))
    differing = [(name, f"{count:,}") for name, count in found.columns.items() if count]
    if differing:
        console.print(simple_table(("column", "values that differ"), differing))
    if found.not_compared:
        console.print(f"not compared: {', '.join(found.not_compared)}", markup=False)
    for kind, sample in found.samples.items():
        console.print(_HEADINGS[kind])
        shown = [[text_value(value) for value in row] for row in sample.rows]
        console.print(simple_table(sample.columns, shown))
