"""Differences between a pull request's rows and production's, for changed models with a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vde_dagster.api.errors import VdeError
from vde_dagster.api.plans import PRODUCTION, Change, Environment, Plan
from vde_dagster.api.reports import literal, plain_table
from vde_dagster.api.values import ModelName, count, listed

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

_TITLES = {"differing": "changed", "only_source": "added", "only_target": "removed"}
_LONGEST = 60


@dataclass(slots=True)
class RowDifferences:
    """Differences between rows of a pull request's environment and production, as Markdown.

    Args:
        compared: For each compared model, the cells of its row in the table of counts.
        samples: Folded tables of sample rows.
        failed: Reasons why models could not be compared.
    """

    compared: list[list[str]] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    keyless: list[ModelName] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def compare_rows(
    workspace: Workspace, plan: Plan, environment: str, samples: int
) -> RowDifferences:
    """Compare the rows of a plan's changed models between an environment and production."""
    preview = workspace.store.environments.get(environment)
    production = workspace.store.environments.get(PRODUCTION)
    result = RowDifferences()
    for model in plan.models if preview and production else ():
        if not _may_differ(model, preview, production):
            continue
        name, both = model.name, f"{environment}:{PRODUCTION}"
        try:
            found = workspace.environments.compare_rows(name, both, samples)
        except VdeError as error:
            result.failed.append(f"{name}: {error.message}")
            continue
        if found is None:
            result.keyless.append(name)
            continue
        changed = [f"{column} ({number:,})" for column, number in found.columns.items() if number]
        # Production is the comparison's target: its additional rows were removed here.
        changed += [f"+{column}" for column in found.schema.removed]
        changed += [f"-{column}" for column in found.schema.added]
        changed += [
            f"{column}: {was} → {is_}" for column, (is_, was) in found.schema.changed.items()
        ]
        result.compared.append(_count_cells(name, found.keys, found.rows, changed))
        for kind, sample in found.samples.items():
            title = f"{count(len(sample.rows), 'row')} of {name} {_TITLES[kind]}"
            result.samples.append(_folded_sample(title, sample.columns, sample.rows))
    return result


def _may_differ(
    model: Plan.Model, preview: Environment | None, production: Environment | None
) -> bool:
    if model.change not in (Change.MODIFIED, Change.AFFECTED) or preview is None:
        return False
    if model.keeps_rows or production is None:
        return False
    new, old = preview.entries.get(model.name), production.entries.get(model.name)
    if new is None or old is None:
        return False
    return new.table_id is None or new.table_id != old.table_id or new.held != old.held


def rows_markdown(found: RowDifferences) -> list[str]:
    if not (found.compared or found.keyless or found.failed):
        return []
    parts = ["### Rows compared with production's"]
    if found.compared:
        headers = ("model", "key", "rows", "added", "removed", "changed", "columns that changed")
        parts.append(plain_table(headers, found.compared))
    if found.keyless:
        parts.append(
            f"Not compared, as they lack a key (`grain` in the header): {listed(found.keyless)}."
        )
    parts += (f"- not compared: {literal(why)}" for why in found.failed)
    return [*parts, *found.samples]


def _count_cells(
    name: ModelName, keys: Sequence[str], rows: Mapping[str, int], changed: Sequence[str]
) -> list[str]:
    repeated = rows["repeated_source"]
    return [
        f"`{name}`",
        literal(", ".join(keys)) + (f" (repeated: {repeated:,})" if repeated else ""),
        f"{rows['source']:,} (before {rows['target']:,})",
        f"{rows['only_source']:,}",
        f"{rows['only_target']:,}",
        f"{rows['differing']:,} of {rows['joined']:,}",
        literal(", ".join(changed)),
    ]


def _folded_sample(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    # For changed rows the column names tell: `amount (source)` is the pull request's.
    headers = [
        literal(c.replace(" (source)", " (now)").replace(" (target)", " (production)"))
        for c in columns
    ]
    table = plain_table(headers, [_cells(row) for row in rows])
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"


def _cells(row: Sequence[Any]) -> list[str]:
    return [_cell(value) for value in row]


def _cell(value: Any) -> str:
    text = "NULL" if value is None else literal(str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
