"""Reports of environments: versions, their data, rollbacks, freezes, and the janitor's removals."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.texts import count, listed, size
from vde_dagster.reports.document import (
    Cell,
    Mark,
    Report,
    Row,
    Section,
    format_ranges,
    sentences,
    short_time,
)

if TYPE_CHECKING:
    from vde_dagster.execution.environments.compare import DataChange, VersionChange
    from vde_dagster.execution.environments.environments import FreezeResult
    from vde_dagster.execution.environments.rollback import RestoredView, RollbackResult
    from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
    from vde_dagster.lakehouse.maintenance.sweep import Decision


MOST_MODELS = 3
"""Maximum number of models that a row of a table names."""
MOST_NAMES = 20
"""Maximum number of models that a sentence on a rollback names."""
MOST_KEPT = 10
"""Maximum number of rows for kept objects in the janitor's table, one per action and reason."""


def history_section(changes: Sequence[VersionChange]) -> Section:
    columns = ("version", "published (UTC)", "changes", "models", "data", "note", "plan", "by")
    return Section("", columns=columns, rows=tuple(map(_version, changes)))


def _version(change: VersionChange) -> Row:
    version = change.version
    counts = {"added": version.added, "changed": version.changed, "removed": version.removed}
    note = "" if version.note == "plan" else version.note
    notes = ("dropped" if version.dropped else note, change.attached)
    texts = (
        str(version.version),
        short_time(version.published_at),
        change.what,
        ", ".join(f"{number} {what}" for what, number in counts.items() if number),
        data_summary(change.data),
        ", ".join(filter(None, notes)),
    )
    plan = Cell(version.plan_id or "", Mark.PLAN)
    return Row((*map(Cell, texts), plan, Cell(version.published_by)))


def data_summary(tables: Sequence[DataChange]) -> str:
    """Summarize changes of tables: `3 tables +10 -2 rows, 1 new table, 1 earlier table`."""
    moved = [table for table in tables if not table.is_new]
    back = sum(table.is_back for table in tables)
    rows = ""
    if all(table.added is not None for table in moved):
        added, removed = (
            sum(n or 0 for n in each)
            for each in ([table.added for table in moved], [table.removed for table in moved])
        )
        rows = f" +{added:,} -{removed:,} rows"
    parts = [count(len(moved), "table") + rows] if moved else []
    others = ((len(tables) - len(moved) - back, "new table"), (back, "earlier table"))
    return ", ".join([*parts, *(count(many, noun) for many, noun in others if many)])


def data_section(tables: Sequence[DataChange]) -> Section:
    columns = ("table of", "intervals (UTC)", "rows", "added", "removed")
    return Section("", columns=columns, rows=tuple(map(_data, tables)))


def _data(table: DataChange) -> Row:
    added, removed = _number(table.added), _number(table.removed)
    if table.is_new:
        added, removed = "earlier table" if table.is_back else "new table", ""
    names, ranges = table.models[:MOST_MODELS], format_ranges(table.intervals, MOST_MODELS)
    texts = (ranges, _number(table.rows), added, removed)
    return Row((Cell(", ".join(map(str, names)), Mark.NAME), *map(Cell, texts)))


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def rollback_sentence(result: RollbackResult) -> str:
    return f"{result.environment.name} is at version {result.environment.version}, {_equal(result)}"


def _equal(result: RollbackResult) -> str:
    how = "with the definitions of" if result.definitions_only else "equal to"
    return f"{how} version {result.restored}"


def rollback_report(result: RollbackResult) -> Report:
    """Return the report of `vde rollback --dry-run`."""
    name, version = result.environment.name, result.environment.version
    views: Counter[str] = Counter(view.change for view in result.views)
    amount = ", ".join(f"{views[word]} {word}" for word in _VIEW_MARKS if views[word])
    unchanged = len(result.unchanged)
    as_is = f"{count(unchanged, 'model')} as {'it is' if unchanged == 1 else 'they are'}"
    kept = ["the project's files"]
    kept += ["the rows of all tables (--definitions-only)"] if result.definitions_only else []
    again = f"vde rollback {name} --to {result.base_version}"
    kept += [f"version {result.base_version}: to return to it, run: {again}"]
    return Report(
        "Rollback of",
        name,
        f"version {result.base_version} → {version}, {_equal(result)}",
        facts="dry run, nothing was changed",
        rest=(
            Section("Views", amount or "unchanged", rows=tuple(map(_view, result.views))),
            _moved_data(result),
            *sentences("Also", [*_table_notes(result)]),
            *sentences("Missing afterwards", [*_missing_notes(result)]),
            *([Section("Leaves", as_is, mark=Mark.QUIET)] if unchanged else []),
            *sentences("Does not touch", kept, Mark.QUIET),
        ),
    )


_VIEW_MARKS = {"created": Mark.GOOD, "replaced": Mark.CHANGED, "dropped": Mark.BAD}


def _view(view: RestoredView) -> Row:
    before, after = view.before or "", view.after or ""
    versions = f"{before} → {after}" if before and after and before != after else before or after
    cells = (
        Cell(str(view.name), Mark.NAME),
        Cell(view.change, _VIEW_MARKS[view.change]),
        Cell(versions, Mark.QUIET),
    )
    return Row(cells)


def _moved_data(result: RollbackResult) -> Section:
    rows = []
    for name, after in result.moved.items():
        before = result.rows_before.get(name)
        known = before is not None and after is not None
        numbers = f"{before:,} → {after:,} rows" if known else "rows restored"
        rows.append(Row((Cell(str(name), Mark.NAME), Cell(numbers))))
    amount = f"{count(len(rows), 'table')} restored" if rows else "unchanged"
    return Section("Data", amount, rows=tuple(rows))


def rollback_notes(result: RollbackResult) -> Iterator[str]:
    """Yield notes on a rollback: restored tables, pinned tables, missing ranges."""
    if result.moved:
        yield f"data restored: {_names(result.moved)}"
    yield from _table_notes(result)
    yield from (f"missing: {note}" for note in _missing_notes(result))


def _table_notes(result: RollbackResult) -> Iterator[str]:
    name = result.environment.name
    if result.held:
        yield f"pinned until the next plan or run of {name}: {_names(result.held)}"
    for other, names in result.holding.items():
        yield (f"{other} keeps its current data of {_names(names)} until its next plan or run")
    for one in result.reverted:
        yield f"{one.name} {'; '.join(one.sentences())}"


def _missing_notes(result: RollbackResult) -> Iterator[str]:
    if result.missing:
        ranges = [f"{model} ({format_ranges(found)})" for model, found in result.missing.items()]
        yield f"{_names(ranges)}; to compute them, run: vde run {result.environment.name}"


def freeze_sentence(result: FreezeResult) -> str:
    made, until = result.environment, short_time(result.environment.expires_at)
    kept = f"until {until} UTC" if until else f"until it is dropped: vde drop {made.name}"
    return (
        f"{made.name} is frozen at {made.frozen}: {count(len(made.entries), 'model')}, "
        f"{count(result.tables, 'pinned table')}; kept {kept}"
    )


def freeze_notes(result: FreezeResult) -> Iterator[str]:
    """Yield notes on models whose data a frozen environment does not keep."""
    if result.live:
        yield (
            f"not frozen: {_names(result.live)}; external tables have no versions, so views "
            "over them show current rows"
        )


def _names(names: Iterable[object]) -> str:
    return listed(names, MOST_NAMES)


def janitor_section(report: JanitorReport) -> Section:
    """Return the janitor's actions, the objects that it keeps, and the freed space."""
    acted, failed = report.acted, len(report.failures)
    verb = "would free" if report.dry_run else "freed"
    kept = [one for one in report.decisions if one.outcome == "kept"]
    rows = [_decision(one, subject) for one, subject in _lines(acted)]
    rows += [_decision(one, subject) for one, subject in _kept_lines(kept)[:MOST_KEPT]]
    title = f"{verb} {size(report.bytes) or '0 B'} in {count(len(acted), 'step')}"
    if kept:
        title += f", keeps {count(len(kept), 'object')}; --json lists each with its reason"
    if failed:
        title += f"; {failed} failed, the next run retries all except refused deletions"
    columns = ("action", "subject", "reason", "outcome", "size")
    return Section(title, "", columns, tuple(rows), Mark.BAD if failed else Mark.PLAIN)


def _decision(decision: Decision, subject: str) -> Row:
    texts = (
        decision.action.replace("_", " "),
        subject,
        decision.error or decision.reason,
        decision.outcome,
        size(decision.bytes),
    )
    return Row(tuple(map(Cell, texts)))


def _kept_lines(kept: Sequence[Decision]) -> list[tuple[Decision, str]]:
    groups: dict[tuple[str, str], list[Decision]] = {}
    for one in kept:
        groups.setdefault((one.action, one.reason), []).append(one)
    ordered = sorted(
        groups.values(), key=lambda one: (one[0].action != "hold_snapshots", -len(one))
    )
    return [
        (replace(group[0], bytes=sum(one.bytes or 0 for one in group) or None), names)
        for group in ordered
        for names in [listed((one.subject for one in group), MOST_MODELS)]
    ]


def _lines(decisions: Iterable[Decision]) -> Iterator[tuple[Decision, str]]:
    # Versions that are removed for the same reason share a line.
    def key(decision: Decision) -> tuple[str, str, str]:
        environment = decision.version[0] if decision.version else ""
        return decision.action, environment, decision.reason if environment else ""

    for (_, environment, _), group in itertools.groupby(decisions, key):
        alike = list(group)
        if not environment or len(alike) == 1:
            yield from ((decision, decision.subject) for decision in alike)
            continue
        numbers = [decision.version[1] for decision in alike if decision.version]
        span = f"{min(numbers)} to {max(numbers)}"
        if len(numbers) != max(numbers) - min(numbers) + 1:
            span = f"{span}, {len(numbers)} of them"
        yield alike[0], f"{environment} versions {span}"
