"""Lenses: the effect of a model's text, shown above the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count, listed
from vde_dagster.planning.plan.plan import Category, Change, Plan, PlannedModel
from vde_dagster.programs.editor.reading import Reading
from vde_dagster.programs.editor.session import PlanPreview
from vde_dagster.project.dag import descendants
from vde_dagster.reports.document import format_duration
from vde_dagster.reports.plan import work_text
from vde_dagster.reports.reasons import describe_break, describe_reason, describe_skip

MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Lens:
    """A line above a model in the editor, with the effects of the edited text.

    Args:
        line: Number of the line, from 1.
        breaks: Whether the change breaks readers of the environment.
    """

    model: ModelName
    line: int
    text: str
    breaks: bool = False


def lenses(reading: Reading, outlook: PlanPreview, path: str) -> list[Lens]:
    found: list[Lens] = []
    for model in reading.models_in(path):
        if model.kind.is_external:
            continue
        line = model.location.line or 1
        if outlook.plan is None:
            found.append(Lens(model.name, line, f"no plan: {outlook.why}"))
            continue
        planned = next((one for one in outlook.plan.models if one.name == model.name), None)
        if planned is None:
            continue
        parts = list(_describe_effects(reading, outlook, outlook.plan, planned))
        breaks = [part for part in parts if part.startswith("breaks ")]
        found.append(Lens(model.name, line, "; ".join(parts), bool(breaks)))
    return found


def _describe_effects(
    reading: Reading, outlook: PlanPreview, plan: Plan, model: PlannedModel
) -> Iterator[str]:
    if model.change is Change.UNCHANGED and not model.builds and not model.audits:
        yield f"same as in {outlook.environment}"
        return
    yield from (f"breaks {describe_break(broken)}" for broken in model.breaks)
    yield _describe_work(plan, model)
    if model in plan.audited:
        yield "1 to audit"
    below = descendants(reading.project.models, [model.name]) - {model.name}
    computed = [one for one in plan.computed if one.name in below]
    if computed and model.change is not Change.UNCHANGED:
        names = listed([str(one.name) for one in computed], MOST_NAMES)
        yield f"{count(len(computed), 'downstream model')} computed: {names}"
    elif below and model.change is not Change.ADDED:
        yield f"{count(len(below), 'downstream model')} unchanged"
    work = [one for one in plan.computed if one.name == model.name or one in computed]
    seconds = [outlook.seconds[one.name] for one in work if one.name in outlook.seconds]
    if seconds:
        yield f"about {format_duration(sum(seconds))}"


def _describe_work(plan: Plan, model: PlannedModel) -> str:
    if model.change is Change.ADDED:
        return f"new: {work_text(plan, model)}" if model.builds else "new: nothing is computed"
    if model.category is Category.METADATA:
        what = "metadata only"
    else:
        what = ", ".join(map(describe_reason, model.reasons[:2])) or model.change.value
    if model.skips is not None:
        return f"{what}: skipped, {describe_skip(model.skips)}"
    return f"{what}: {work_text(plan, model)}" if model.builds else f"{what}: nothing is computed"
