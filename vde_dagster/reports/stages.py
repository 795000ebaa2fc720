"""Report of the stages of an apply (`vde plan --explain`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count, listed
from vde_dagster.planning.plan import stages
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.reports.document import Cell, Mark, Row, Section
from vde_dagster.reports.plan import MOST_NAMES, work_text


def stages_section(plan: Plan) -> Section:
    rows: list[Row] = []
    for number, stage in enumerate(stages.apply_stages(plan), 1):
        first, *others = _lines(plan, stage)
        rows.append(Row((Cell(f"{number}. {first}", Mark.NAME),)))
        rows += [Row((Cell(f"   {text}"),)) for text in others]
    return Section("Stages", rows=tuple(rows))


def _lines(plan: Plan, stage: stages.Stage) -> Iterator[str]:
    match stage:
        case stages.RunUnitTests(names):
            yield f"run the unit tests of {listed(names, MOST_NAMES)}; a failure ends the apply"
        case stages.RunStatements(when, statements):
            yield f"run {count(len(statements), 'statement')} of {when}_all"
            yield from statements
        case stages.LockTables(names):
            tables = count(len(names), "table") if names else "no tables"
            yield f"lock {tables} for writing" + (", if they are published" if names else "")
            yield from _names(names)
        case stages.FillTables(after):
            yield f"fill and audit {count(len(after), 'model')}, parents first"
            models = {model.name: model for model in plan.models}
            for name in stage.models:
                yield _fill(plan, models[name], after[name])
        case stages.AuditAfterFills(names):
            yield "run the audits that waited for fills of other tables"
            yield from _names(names)
        case stages.ChangeLayouts(names):
            yield f"change the layout of {count(len(names), 'table')} in place"
            yield from _names(names)
        case stages.Publish(version, views, deploys):
            yield f"publish version {version} of {plan.environment} in one commit"
            yield (
                f"views: {len(views.created)} created, {len(views.replaced)} replaced, "
                f"{len(views.dropped)} dropped"
            )
            if deploys:
                yield f"tables changed in place: {listed(deploys, MOST_NAMES)}"


def _names(names: Iterable[ModelName]) -> Iterator[str]:
    if text := listed(names, MOST_NAMES):
        yield text


def _fill(plan: Plan, model: PlannedModel, before: Iterable[ModelName]) -> str:
    if model.builds:
        work = work_text(plan, model)
    elif model.audits:
        work = "audit its rows"
    else:
        work = "change its table in place" if model.deploys else "create its table"
    waits = listed(sorted(before), MOST_NAMES)
    return f"{model.name}: {work}" + (f", after {waits}" if waits else "")
