"""Command `vde lineage`: sources and consumers of columns, and the impact of a change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count, find_column
from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output
from vde_dagster.cli.project_view import trees
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.planning.snapshots.lineage import AffectedParts, Flow
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.project.model import Exposure

Column = Annotated[
    str, typer.Argument(metavar="MODEL[.COLUMN]", help="The model, or one of its columns.")
]
Down = Annotated[bool, typer.Option("--down", help="Show consumers, not sources.")]
Impact = Annotated[bool, typer.Option("--impact", help="Show what a change of the column affects.")]
Of = Annotated[
    str | None,
    typer.Option(
        "--environment",
        "--env",
        "-e",
        metavar="ENV",
        help="Use the definitions of an environment or version, such as prod@41, not the files.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="ENV",
        help="Show edges and columns that differ from an environment or version, such as prod@41.",
    ),
]


@on_project
def lineage(
    workspace: Workspace,
    output: Output,
    of: Column,
    down: Down = False,
    impact: Impact = False,
    environment: Of = None,
    against: Against = None,
) -> None:
    """Show the columns that a column is computed from or filtered by, back to external tables.

    The last tree has the columns that decide which rows exist. Examples: vde lineage
    marts.daily.revenue; vde lineage marts.daily; vde lineage raw.orders.amount --down; vde lineage
    raw.orders.amount --impact; vde lineage marts.daily --against prod; vde lineage marts.daily
    --env dev --against prod@41
    """
    from vde_dagster.planning.snapshots.lineage import trace, trace_down
    from vde_dagster.project.selection import model_and_column, no_model

    # Report an unknown name before building the files' definitions.
    shown, snapshots = (
        _load_version(workspace, environment) if environment is not None else (None, {})
    )
    models: Collection[ModelName] = workspace.project.models if shown is None else snapshots
    name, column = model_and_column(models, of, workspace.settings.default_namespace)
    if name not in models:
        raise no_model(name, models)
    if shown is None:
        snapshots = workspace.snapshots()
    snapshot = snapshots[name]
    if column is not None:
        column = find_column(snapshot.name, column, [one.name for one in snapshot.columns])
    if impact and (down or against is not None):
        option = "--down" if down else "--against"
        raise UsageError(f"--impact and {option} cannot be combined", hint="remove one of them")
    if impact:
        if column is None:
            raise UsageError(
                f"--impact requires a column, but '{of}' is a model",
                hint=f"for example: vde lineage {name}.{snapshot.columns[0].name} --impact"
                if snapshot.columns
                else None,
            )
        _show_impact(output, snapshots, workspace.project.exposures, name, column)
        return
    flows = (trace_down if down else trace)(snapshots, name, column)
    if against is not None:
        other, theirs = _load_version(workspace, against)
        from_label = None if shown is None else f"{shown.name}@{shown.version}"
        _show_difference(output, other, theirs, snapshots, (name, column), flows,
                         from_label=from_label, down=down)  # fmt: skip
        return
    columns = [column] if column else [item.name for item in snapshot.columns]
    has_rows = any((flow.model, flow.column) == (str(name), None) for flow in flows)
    tops = [*columns, *([None] if has_rows and not down else [])]
    output.result(
        {**_flows_json(str(name), column, flows), "opaque": snapshot.version.opaque},
        "\n".join(_flow_lines(str(name), tops, flows, down=down)),
    )
    if snapshot.version.opaque and not down:
        from rich.markup import escape

        output.note(
            "the lineage is incomplete, because part of the query is opaque: "
            f"{escape(snapshot.version.opaque)}"
        )


def _load_version(workspace: Workspace, text: str) -> tuple[Environment, dict[ModelName, Snapshot]]:
    # Imported here, because lineage of the files does not need the state store.
    found = workspace.environments.named(text)
    return found, workspace.environments.snapshots(found)


def _show_difference(
    output: Output,
    shown: Environment,
    theirs: Mapping[ModelName, Snapshot],
    ours: Mapping[ModelName, Snapshot],
    of: tuple[ModelName, str | None],
    flows: Sequence[Flow],
    *,
    from_label: str | None,
    down: bool,
) -> None:
    from vde_dagster.planning.snapshots.lineage import trace, trace_down

    name, column = of
    others: Sequence[Flow] = ()
    if name in theirs:
        others = (trace_down if down else trace)(theirs, name, column)
    new, gone = (
        [flow for flow in some if flow not in rest]
        for some, rest in ((flows, set(others)), (others, set(flows)))
    )
    touched = {(flow.model, flow.column) for flow in flows} | {
        (flow.parent, flow.source) for flow in flows
    }
    own = [column] if column else [one.name for one in ours[name].columns]
    touched |= {(str(name), one) for one in own}
    changed = []
    for model, held in sorted(touched, key=lambda one: (one[0], one[1] or "")):
        key = ModelName(*model.split(".", 1))
        one, other = ours.get(key), theirs.get(key)
        if one is None or _content_version(one, held) != (other and _content_version(other, held)):
            changed.append((model, held))
    lines = [
        f"{word}: {_text(flow.model, flow.column)} <- {_text(flow.parent, flow.source)}  {flow.how}"
        for word, some in (("new", new), ("gone", gone))
        for flow in some
    ]
    lines += [f"different values: {_text(*one)}" for one in changed]
    output.result(
        {
            "model": str(name),
            "column": column,
            "of": from_label,
            "against": f"{shown.name}@{shown.version}",
            "new": _flows_json(str(name), column, new)["flows"],
            "gone": _flows_json(str(name), column, gone)["flows"],
            "changed": [{"model": model, "column": held} for model, held in changed],
        },
        "\n".join(lines) or f"no differences from {shown.name}@{shown.version}",
    )


def _content_version(snapshot: Snapshot, column: str | None) -> str | None:
    if column is None:
        return snapshot.version.rows
    wanted = column.lower()
    return next((one.version for one in snapshot.columns if one.name.lower() == wanted), None)


def _show_impact(
    output: Output,
    snapshots: Mapping[ModelName, Snapshot],
    exposures: Sequence[Exposure],
    name: ModelName,
    column: str,
) -> None:
    from vde_dagster.planning.snapshots.lineage import AffectedParts, find_affected_parts

    found = find_affected_parts(snapshots, name, column)
    touched = {name: AffectedParts((column,), rows=False), **found}
    columns = [(model, column) for model, item in touched.items() for column in item.columns]
    found_readers = [one for one in exposures if any(one.reads_column(*pair) for pair in columns)]
    shown = [one.name for one in found_readers if one.what != "metric"]
    metrics = [one.name for one in found_readers if one.what == "metric"]
    lines = [_impact_line(one, snapshots[one], item) for one, item in found.items()]
    lines += [f"{one}: reads changed values" for one in shown]
    lines += [f"the metric {one}: its value changes" for one in metrics]
    output.result(
        {
            "model": str(name),
            "column": column,
            "models": [
                {
                    "model": str(one),
                    "columns": list(item.columns),
                    "rows": item.rows,
                    "has_table": snapshots[one].has_table,
                }
                for one, item in found.items()
            ],
            "exposures": shown,
            "metrics": metrics,
        },
        "\n".join(lines) or f"nothing depends on {name}.{column}",
    )


def _impact_line(name: ModelName, snapshot: Snapshot, item: AffectedParts) -> str:
    how = "" if snapshot.has_table else " (a view)"
    if item.rows:
        return f"{name}{how}: all {count(len(item.columns), 'column')}, because rows may change"
    return f"{name}{how}: {', '.join(item.columns)}"


def _flows_json(model: str, column: str | None, flows: Sequence[Flow]) -> dict[str, Any]:
    return {
        "model": model,
        "column": column,
        "flows": [
            {
                "model": flow.model,
                "column": flow.column,
                "from_model": flow.parent,
                "from_column": flow.source,
                "how": flow.how,
            }
            for flow in flows
        ],
    }


def _flow_lines(
    model: str, columns: Sequence[str | None], flows: Sequence[Flow], *, down: bool
) -> Iterator[str]:
    # Repeated nodes are named without their branches.
    edges: dict[str, list[tuple[str, str]]] = {}
    for flow in flows:
        upper, lower = _text(flow.parent, flow.source), _text(flow.model, flow.column)
        start, end = (upper, lower) if down else (lower, upper)
        edges.setdefault(start.lower(), []).append((end.lower(), f"{end}  {flow.how}"))
    texts = (_text(model, column) for column in columns)
    return trees(((text.lower(), text) for text in texts), edges)


def _text(model: str, column: str | None) -> str:
    return f"{model}.{column}" if column is not None else f"{model} (its rows)"
