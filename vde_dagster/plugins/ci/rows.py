"""Differences between a pull request's rows and production's, for changed models with a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.api.errors import VdeError
from vde_dagster.api.plans import PRODUCTION, Change, Plan
from vde_dagster.api.reports import plain_table
from vde_dagster.api.values import ModelName, count, listed
from vde_dagster.execution.environments.compare_tables import (
    Comparison,
    compare_tables,
    views_to_compare,
)
from vde_dagster.planning.plan.plan import Category, PlannedModel
from vde_dagster.reports.markdown import literal

if TYPE_CHECKING:
    from vde_dagster.api.models import Model
    from vde_dagster.api.plans import Environment
    from vde_dagster.api.workspace import Workspace

_TITLES = {"differing": "changed", "only_source": "added", "only_target": "removed"}
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class RowDifferences:
    """The result of comparing rows.

    Args:
        compared: Comparisons by model.
        keyless: Changed models without a key.
        failed: Reasons why models could not be compared.
    """

    compared: dict[ModelName, Comparison]
    keyless: tuple[ModelName, ...] = ()
    failed: tuple[str, ...] = ()


def compare_rows(
    workspace: Workspace, plan: Plan, environment: str, samples: int
) -> RowDifferences:
    """Compare models that a plan for production changes, as an environment shows them now.

    Args:
        samples: Maximum number of rows of each kind.
    """
    shown = workspace.store.environments.get(environment)
    production = workspace.store.environments.get(PRODUCTION)
    compared: dict[ModelName, Comparison] = {}
    keyless, failed = [], []
    for model in plan.models if shown and production else ():
        if not _may_differ(model, shown, production):
            continue
        text = str(model.name)
        try:
            source, target, grain = views_to_compare(workspace, f"{environment}:{PRODUCTION}", text)
            keys = grain or _unique_key(plan.snapshot_of(model).model)
            if not keys:
                keyless.append(model.name)
                continue
            found = compare_tables(workspace.engine(), source, target, keys, limit=samples)
        except VdeError as error:
            failed.append(f"{text}: {error.message}")
            continue
        compared[model.name] = found
    return RowDifferences(compared, tuple(keyless), tuple(failed))


def _may_differ(
    model: PlannedModel, shown: Environment | None, production: Environment | None
) -> bool:
    if model.change not in (Change.MODIFIED, Change.AFFECTED) or shown is None:
        return False
    if model.category in (Category.METADATA, Category.REUSE) or production is None:
        return False
    new, old = shown.entries.get(model.name), production.entries.get(model.name)
    if new is None or old is None:
        return False
    return new.table_id is None or new.table_id != old.table_id or new.held != old.held


def _unique_key(model: Model) -> tuple[str, ...]:
    """Return the key for merging rows; a key shared by versions of a row does not count."""
    from vde_dagster.project.kinds import IncrementalByUniqueKey

    kind = model.kind
    if isinstance(kind, IncrementalByUniqueKey) and not (kind.key_expressions or kind.strategy):
        return kind.unique_key
    return ()


def rows_markdown(found: RowDifferences) -> list[str]:
    """Write differences: a table of counts, and folded samples by model."""
    if not (found.compared or found.keyless or found.failed):
        return []
    parts = ["### Rows compared with production's"]
    if found.compared:
        headers = ("model", "key", "rows", "added", "removed", "changed", "columns that changed")
        parts.append(plain_table(headers, [_counts(*one) for one in found.compared.items()]))
    if found.keyless:
        parts.append(
            f"Not compared, as they lack a key (`grain` in the header): {listed(found.keyless)}."
        )
    parts += (f"- not compared: {literal(why)}" for why in found.failed)
    return [*parts, *(part for one in found.compared.items() for part in _samples(*one))]


def _counts(name: ModelName, one: Comparison) -> list[str]:
    rows = one.rows
    changed = [f"{column} ({number:,})" for column, number in one.columns.items() if number]
    # Production is the comparison's target: its additional rows were removed here.
    changed += [f"+{column}" for column in one.schema.removed]
    changed += [f"-{column}" for column in one.schema.added]
    changed += [f"{column}: {was} → {is_}" for column, (is_, was) in one.schema.changed.items()]
    repeated = rows["repeated_source"]
    told = f"{rows['source']:,} (before {rows['target']:,})"
    return [
        f"`{name}`",
        literal(", ".join(one.keys)) + (f" (repeated: {repeated:,})" if repeated else ""),
        told,
        f"{rows['only_source']:,}",
        f"{rows['only_target']:,}",
        f"{rows['differing']:,} of {rows['joined']:,}",
        literal(", ".join(changed)),
    ]


def _samples(name: ModelName, one: Comparison) -> Iterator[str]:
    for kind, sample in one.samples.items():
        title = f"{count(len(sample.rows), 'row')} of {name} {_TITLES[kind]}"
        # For changed rows the column names tell: `amount (source)` is the pull request's.
        headers = [
            literal(c.replace(" (source)", " (now)").replace(" (target)", " (production)"))
            for c in sample.columns
        ]
        table = plain_table(headers, [_cells(row) for row in sample.rows])
        yield f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"


def _cells(row: Sequence[Any]) -> list[str]:
    return [_cell(value) for value in row]


def _cell(value: Any) -> str:
    text = "NULL" if value is None else literal(str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
