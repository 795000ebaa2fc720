"""Report of a plan: breaking changes, work with its reasons, views, statements and risks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import and_more, count, listed
from vde_dagster.planning.changes.backlog import FIRST_FILL
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.plan import Category, Change, Plan, PlanKind, PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.reports.document import (
    Cell,
    Mark,
    Report,
    Row,
    Section,
    count_units,
    diff_lines,
    format_duration,
    format_ranges,
    savings_text,
    sentences,
    short_time,
    unit_name,
)
from vde_dagster.reports.reasons import (
    describe_backlog,
    describe_batches,
    describe_break,
    describe_change_in_place,
    describe_environments,
    describe_reason,
    describe_skip,
)

MOST_NAMES = 10
"""Maximum number of models and views that a sentence names."""

Estimate = Callable[[PlannedModel], float | None]
"""Estimates a model's seconds of work from earlier runs; None if it never ran."""

Readers = Mapping[ModelName, Sequence[str]]
"""Known readers of each model besides the project's models."""

_TITLES = {
    PlanKind.PLAN: "Plan for",
    PlanKind.RUN: "Run of",
    PlanKind.RESTATEMENT: "Restatement of",
}
_MARKS = {
    Change.ADDED: Mark.GOOD,
    Change.MODIFIED: Mark.CHANGED,
    Change.AFFECTED: Mark.AFFECTED,
    Change.REMOVED: Mark.BAD,
    Change.UNCHANGED: Mark.QUIET,
}


def plan_report(
    plan: Plan,
    previous: Mapping[str, Snapshot] = MappingProxyType({}),
    estimate: Estimate | None = None,
    readers: Readers = MappingProxyType({}),
) -> Report:
    """Return the report of a plan: breaking changes, work, views and risks.

    Args:
        previous: Snapshots that the plan replaces, by id, for text differences.
    """
    base = f"version {plan.base_version}" if plan.base_version else "a new environment"
    is_plan = plan.kind is PlanKind.PLAN
    deployed = [
        f"{model.name} changes a table that readers see" for model in plan.models if model.deploys
    ]
    moved = [f"{name}, by {listed(models)}" for name, models in plan.moves.items()]
    broken = sentences("Breaking changes", break_sentences(plan, readers), Mark.BAD)
    return Report(
        title=_TITLES[plan.kind],
        subject=plan.environment,
        summary="nothing to publish" if plan.is_empty else summary(plan),
        id="" if plan.is_empty else plan.id,
        facts=f"made {short_time(plan.created_at)} UTC against {base}",
        breaks=broken[0] if broken else None,
        warnings_title="Likely mistakes" if is_plan else "Notes",
        warnings=plan.notices,
        short=tuple(_short(plan)),
        work=() if plan.is_empty else tuple(_work(plan, previous, estimate)),
        rest=(
            *sentences("Moves metrics", moved),
            *sentences("Stores new definitions of", list(plan.other_kept)),
            *_outdated(plan),
            *sentences("Leaves to later runs", backlog_sentences(plan)),
            *_views(plan),
            *sentences("Runs before all", plan.complete_statements.before),
            *sentences("Runs after all", plan.complete_statements.after),
            *sentences("At risk", [*deployed, *_removed(plan)], Mark.BAD),
        ),
    )


def summary(plan: Plan) -> str:
    """Describe a plan in one line."""
    counts: Counter[Change] = Counter(model.change for model in plan.models)
    changes = [change for change in Change if change is not Change.UNCHANGED and counts[change]]
    words = [f"{counts[change]} {change.value}" for change in changes]
    computed, recorded = len(plan.computed), len(plan.recorded)
    words.append(f"{computed} to compute" if computed else "nothing to compute")
    if recorded:
        words.append(f"{recorded} to record as filled")
    if skips := len(plan.builds) - computed - recorded:
        words.append(f"{skips} to skip")
    if audited := plan.audited:
        words.append(f"{len(audited)} to audit")
    return ", ".join(words)


def break_sentences(plan: Plan, readers: Readers = MappingProxyType({})) -> list[str]:
    """Return the changes that break readers of the environment, as sentences."""
    return [describe_break(broken, readers.get(broken.model, ())) for broken in plan.breaks]


def breaking_models(plan: Plan) -> list[PlannedModel]:
    return [model for model in plan.models if model.is_breaking]


def risks(plan: Plan) -> list[str]:
    """Return the risks to check before an approval, as sentences."""
    return [
        *(
            f"{model.name} is breaking: {'; '.join(map(describe_reason, model.reasons))}"
            for model in breaking_models(plan)
        ),
        *(
            f"{model.name} changes a table that readers see: {'; '.join(_in_place(model))}"
            for model in plan.models
            if model.deploys
        ),
        *_removed(plan),
    ]


def work_text(plan: Plan, model: PlannedModel) -> str:
    """Describe what a plan computes for a model, as in `365 days, 2013-01-01 … 2013-12-31`."""
    snapshot = plan.snapshots[model.snapshot_id or ""]
    by_changes = model.backlog is not None and not model.backlog.why_all
    parts = ["rows that changes affect" if by_changes else "whole table"]
    if snapshot.is_incremental:
        number = count(count_units(snapshot, model.intervals), unit_name(snapshot.cadence.unit))
        parts = [number, format_ranges(model.intervals)]
    parts += ["computed again"] if model.again else []
    parts += ["recorded as filled, not computed"] if model.records_only else []
    parts += [describe_batches(model.batches)] if model.batches else []
    parts += ["also audits existing rows"] if model.audits else []
    return ", ".join(parts)


def _short(plan: Plan) -> Iterator[str]:
    if names := [model.name for model in breaking_models(plan)]:
        yield f"breaking: {listed(names, MOST_NAMES)}"
    changed = [model for model in plan.models if model.in_place is not None]
    for model in changed[:MOST_NAMES]:
        yield f"in place: {model.name}: {'; '.join(_in_place(model))}"
    if more := and_more(len(changed), MOST_NAMES):
        yield f"in place:{more}"
    if plan.moves:
        yield f"may change the metrics {listed(plan.moves, MOST_NAMES)}"


def _work(
    plan: Plan, previous: Mapping[str, Snapshot], estimate: Estimate | None
) -> Iterator[Section]:
    def section(
        title: str, amount: str, work: str, models: Sequence[PlannedModel], texts: Sequence[str]
    ) -> Section:
        estimates = [estimate(model) if estimate else None for model in models]
        known = any(seconds is not None for seconds in estimates) and work == "work"
        rows = tuple(
            _row(plan, model, text, previous, format_duration(seconds) if known else None)
            for model, text, seconds in zip(models, texts, estimates, strict=True)
        )
        if known:
            amount += (
                f", about {format_duration(sum(s or 0.0 for s in estimates))} "
                "(estimated from earlier runs)"
            )
        headers = ("model", "change", work, *(("estimate",) if known else ()), "version")
        return Section(title, amount, headers, rows)

    computed = plan.recorded or plan.computed
    number = sum(count_units(plan.snapshots[m.snapshot_id or ""], m.intervals) for m in computed)
    amount = f"{count(len(computed), 'model')}, {count(number, 'interval')}"
    if computed:
        texts = [work_text(plan, model) for model in computed]
        title = "Records as filled" if plan.recorded else "Computes"
        yield section(title, amount, "work", computed, texts)
    else:
        yield Section("Computes", "nothing")
    skips = [(model, model.skips) for model in plan.builds if model.skips is not None]
    if skips:
        texts = [
            f"skipped, {describe_skip(skipped)}{savings_text([skipped])}" for _, skipped in skips
        ]
        amount = f"{count(len(skips), 'model')}{savings_text(skipped for _, skipped in skips)}"
        yield section("Skips", amount, "why", [model for model, _ in skips], texts)
    free = [m for m in plan.models if not m.builds and m.change is not Change.UNCHANGED]
    if free:
        texts = [
            ", ".join(
                [
                    *([f"served by {model.table.ref}"] if model.table else []),
                    *(["audits the existing rows"] if model.audits else []),
                ]
            )
            for model in free
        ]
        yield section("Changes without computing", count(len(free), "model"), "", free, texts)
    audited = [model for model in plan.audited if model.change is Change.UNCHANGED]
    if audited:
        amount = f"{count(len(audited), 'model')} without computing"
        texts = ["audits the existing rows"] * len(audited)
        yield section("Audits", amount, "", audited, texts)
    untouched = len(plan.models) - len(plan.builds) - len(free) - len(audited)
    if untouched:
        amount = f"{count(untouched, 'model')} as {'it is' if untouched == 1 else 'they are'}"
        yield Section("Leaves", amount, mark=Mark.QUIET)


def _row(
    plan: Plan,
    model: PlannedModel,
    work: str,
    previous: Mapping[str, Snapshot],
    seconds: str | None,
) -> Row:
    change, mark = model.change.value, _MARKS[model.change]
    if model.category is not None and model.category.value != change:
        change += f", {model.category.value.replace('_', '-')}"
        mark = Mark.BAD if model.category is Category.BREAKING else mark
    return Row(
        (
            Cell(str(model.name), Mark.NAME),
            Cell(change, mark),
            Cell(work, Mark.GOOD if model.skips is not None else Mark.WORK),
            *([Cell(seconds)] if seconds is not None else []),
            Cell(plan.version_of(model) or "", Mark.QUIET),
        ),
        (*_in_place(model), *_reasons(plan, model)),
        text_changes(plan, model, previous),
    )


def _reasons(plan: Plan, model: PlannedModel) -> Iterator[str]:
    yield from map(describe_reason, model.reasons) if model.change is not Change.ADDED else ()
    if model.backlog is not None and model.builds:
        yield from describe_backlog(model.backlog)
    elif _is_first_fill(model):
        defined = plan.snapshot_of(model).model
        meaning = meaning_of(defined.kind)
        if meaning.refreshes(defined) and not meaning.chooses(defined):
            yield f"computes all rows: {FIRST_FILL}"


def _is_first_fill(model: PlannedModel) -> bool:
    computes = model.builds and model.skips is None and not model.records_only
    return computes and model.table is not None and not model.table.intervals


def backlog_sentences(plan: Plan) -> list[str]:
    """Describe changed input tables of models that this plan does not compute."""
    return [
        f"{model.name}: {'; '.join(describe_backlog(model.backlog))}"
        for model in plan.models
        if model.backlog is not None and not model.builds
    ]


def _in_place(model: PlannedModel) -> tuple[str, ...]:
    return describe_change_in_place(model.in_place) if model.in_place else ()


def text_changes(
    plan: Plan, model: PlannedModel, previous: Mapping[str, Snapshot]
) -> tuple[str, ...]:
    """Return a unified diff of a model's text, if it was edited or removed."""
    old = previous.get(model.previous_snapshot_id or "")
    if old is None or model.change not in (Change.MODIFIED, Change.REMOVED):
        return ()
    new = plan.snapshots.get(model.snapshot_id or "")
    return tuple(diff_lines(definition_text(old), definition_text(new) if new else ""))


_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_BLANKS = re.compile(r"\s+")


def definition_text(snapshot: Snapshot) -> str:
    """Return the text of a model's file, followed by statements that run but are not in it."""
    # A stored definition has both, and nothing proves that the query comes from the text.
    model = snapshot.model
    written = f";{_plain(model.source)};"
    runs = [*model.pre_statements, model.query or "", *model.post_statements]
    hidden = [text for text in runs if text and f";{_plain(text)};" not in written]
    return "\n".join([model.source, *(f"-- runs:\n{text}" for text in hidden)])


def _plain(text: str) -> str:
    return _BLANKS.sub("", _COMMENT.sub("", text)).strip(";").lower()


def _outdated(plan: Plan) -> Iterator[Section]:
    if plan.outdates:
        amount = f"{count(len(plan.outdates), 'table')}, recomputed by the next runs"
        rows = (
            (found, Cell("whole table" if found.whole else format_ranges(found.intervals)))
            for found in plan.outdates
        )
        yield Section(
            "Makes outdated",
            amount,
            ("model", "shown", "range"),
            tuple(
                Row((Cell(str(found.name), Mark.NAME), Cell(describe_environments(found)), ranges))
                for found, ranges in rows
            ),
        )


def _views(plan: Plan) -> Iterator[Section]:
    views = plan.views
    changed = {"created": views.created, "replaced": views.replaced, "dropped": views.dropped}
    if views:
        counts = ", ".join(f"{len(refs)} {word}" for word, refs in changed.items() if refs)
        rows = [
            Row((Cell(f"{word} {listed(refs)}", Mark.BAD if word == "dropped" else Mark.PLAIN),))
            for word, refs in changed.items()
            if refs
        ]
        yield Section("Views", counts, rows=tuple(rows))


def _removed(plan: Plan) -> list[str]:
    readers = Counter(
        parent for snapshot in plan.snapshots.values() for parent in snapshot.model.depends_on
    )
    removed = [model.name for model in plan.models if model.change is Change.REMOVED]
    still = [f" while it has {count(readers[n], 'reader')}" if readers[n] else "" for n in removed]
    return [f"{name} is removed{read}" for name, read in zip(removed, still, strict=True)]
