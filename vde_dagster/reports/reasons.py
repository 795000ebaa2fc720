"""Sentences for the planner's values: reasons, contract breaks, changes in place, backlogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from vde_dagster.base.texts import count, listed, size
from vde_dagster.base.times import instant_text
from vde_dagster.planning.changes.refresh import Refresh, RefreshCode
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.reports.document import format_duration

if TYPE_CHECKING:
    from vde_dagster.planning.changes.backlog import Backlog, TableBacklog
    from vde_dagster.planning.environments.contracts import ContractBreak
    from vde_dagster.planning.plan.plan import Batches, Outdated
    from vde_dagster.planning.table_contents import Skipped
    from vde_dagster.planning.tables.table import ColumnChange, TableChange

_CLAUSES = {
    "where": "a filter (WHERE)",
    "having": "a filter (HAVING)",
    "qualify": "a filter (QUALIFY)",
    "join": "a join",
    "group": "the grouping",
    "distinct": "DISTINCT",
    "limit": "the limit",
    "set": "a union of queries",
    "table": "a table that it reads",
}
_SENTENCES = {
    ReasonCode.ADDED: "new in the project",
    ReasonCode.REMOVED: "removed from the project",
    ReasonCode.UNREADABLE: (
        "its published version is unknown, because its stored definition cannot be read"
    ),
    ReasonCode.KIND: "kind changed from {0} to {1}",
    ReasonCode.PHYSICAL_VERSION: "physical_version {0} requires another table",
    ReasonCode.ROWS_NOT_UNDERSTOOD: "the query returns other rows (not understood: {detail})",
    ReasonCode.ROWS_MAY_DIFFER: "it has other rows",
    ReasonCode.COLUMN_COMPUTED: "column {0} is computed differently",
    ReasonCode.COLUMNS_COMPUTED: "the values of {count} columns change with the rows: {all}",
    ReasonCode.COLUMN_RENAMED: "column {0} is renamed to {1}",
    ReasonCode.COLUMN_REMOVED: "column {0} removed",
    ReasonCode.AUDITS: "audits changed",
    ReasonCode.LAYOUT: "the physical layout changed",
    ReasonCode.NO_EFFECT: "the definition changed, its data does not",
    ReasonCode.PARENT_ROWS: "the rows of {parent} changed",
    ReasonCode.PARENT_NOT_UNDERSTOOD: (
        "any change of {parent} counts, because the query is not understood: {detail}"
    ),
    ReasonCode.PARENT_COLUMNS: (
        "the parent's rows changed, and with them {count} columns that the model reads: {all}"
    ),
    ReasonCode.HISTORY_RESTARTS: (
        "its history restarts: the new table gets only the rows that its sources still have"
    ),
    ReasonCode.PREVIEWED: "changes forward-only, as previewed in {all}",
    ReasonCode.CATCHES_UP: "its inputs now have more data for its latest slot",
    ReasonCode.BEFORE_CRON: (
        "requested before its cron is due: computed if its inputs have changed"
    ),
    ReasonCode.BECOMES_TABLE: ("its rows are stored in a table; its readers find the same rows"),
}
_REPEATED = {
    ReasonCode.NEVER_SKIPPED: "skip_unchanged is false",
    ReasonCode.OWN_STATEMENTS: "has its own statements",
    ReasonCode.PYTHON: "is Python code that is not declared deterministic",
    ReasonCode.NOT_UNDERSTOOD: "is not understood: {detail}",
    ReasonCode.READS_CLOCK: "reads {detail}",
    ReasonCode.DATES_OF_TEXTS: "reads a date that it builds from texts",
}
_COLUMNS = {
    "added": "{c.name}{new} is added, NULL in existing rows",
    "restored": "{c.name} is shown again, NULL in rows that were filled without it",
    "widened": "{c.name} widens from {c.was} to {c.becomes}",
    "retyped": (
        "{c.name} changes its type from {c.was} to {becomes}, which Iceberg cannot do in place: "
        "existing rows show NULL"
    ),
    "reordered": (
        "{c.name} keeps the field order of {c.was}; the query has another order, so fields are "
        "matched by name"
    ),
    "removed": "{c.name}{old} is no longer shown or filled",
    "not_retyped": "{c.name} stays {c.was}: its change to {becomes} is ignored",
    "kept": "{c.name} stays, NULL in new rows: its removal is ignored",
    "not_added": "{c.name} is not added: its kind ignores additive changes",
}


def describe_reason(reason: Reason | str) -> str:
    # Plans stored before codes existed contain the sentence.
    if isinstance(reason, str):
        return reason
    text = _describe_reason(reason)
    return text if reason.upstream is None else f"upstream, in {reason.upstream}: {text}"


def _describe_reason(reason: Reason) -> str:
    code, names = reason.code, reason.names
    if code in _REPEATED:
        views = "".join(f"reads {name}, which " for name in names)
        return views + _REPEATED[code].format(detail=reason.detail)
    if code is ReasonCode.ROWS:
        clauses = " and ".join(_CLAUSES[name] for name in names)
        changed = f"{clauses} changed, so " if names else ""
        return f"{changed}the query returns other rows"
    if code is ReasonCode.COLUMN_ADDED:
        same = "".join(f" (the same values as {name})" for name in names[1:])
        return f"column {names[0]} added{same}"
    if code in (ReasonCode.PARENT_COLUMN, ReasonCode.PARENT_COLUMN_ROWS):
        column, was, own = names
        if code is ReasonCode.PARENT_COLUMN_ROWS:
            own = f"the rows of {own} ({reason.detail})"
        change = f"was {was} before" if was else "changed"
        return f"{reason.parent}.{column} {change} → {own}"
    if code is ReasonCode.PARTS:
        units = " or ".join(names)
        return (
            f"a partly filled {units} counts as empty, and is filled again {reason.detail} by "
            f"{reason.detail}"
        )
    return _SENTENCES[code].format(
        *names, parent=reason.parent, detail=reason.detail, count=len(names), all=", ".join(names)
    )


def describe_break(broken: ContractBreak, more_readers: Iterable[str] = ()) -> str:
    """Describe a breaking change and its readers in a sentence."""
    subject = str(broken.model) if broken.column is None else f"{broken.model}.{broken.column}"
    if broken.becomes is None:
        went = f"is renamed to {broken.renamed}" if broken.renamed else "is removed"
        text = f"{subject} {went if broken.column else 'is no longer shown'}"
    else:
        how = "widens" if broken.widens else "changes its type"
        text = f"{subject} {how} from {broken.was} to {broken.becomes}"
    declared = [f"the dashboard {name}" for name in broken.exposures]
    declared += [f"the sync {name}" for name in broken.syncs]
    declared += [f"the metric {name}" for name in broken.metrics]
    readers = [*map(str, broken.readers), *declared, *more_readers]
    return f"{text}; read by {', '.join(readers)}" if readers else text


def describe_breaks(breaks: Sequence[ContractBreak]) -> str:
    """Summarize breaking changes in one line."""
    more = f" (and {len(breaks) - 1} more)" if breaks[1:] else ""
    return f"{describe_break(breaks[0])}{more}"


def describe_column_change(change: ColumnChange) -> str:
    """Describe the change of a column in a reused table, including the values in existing rows."""
    old, new = (f" {type_}" if type_ else "" for type_ in (change.was, change.becomes))
    becomes = change.becomes or (
        "a struct with other fields (to change its fields in place, declare the column's type)"
    )
    what = "field " if change.field else "column "
    return what + _COLUMNS[change.what].format(c=change, old=old, new=new, becomes=becomes)


def describe_change_in_place(change: TableChange) -> tuple[str, ...]:
    changes = list(map(describe_column_change, change.columns))
    if not change.deploys:
        first = f"forward-only: previewed on a branch of {change.table}, without a copy"
        wider = ["types widen at the deployment; the preview has the old ones"]
        return (first, *changes, *(wider if change.widened else ()))
    first = f"forward-only: {change.table} keeps its rows; the new definition fills later ones"
    if change.effective_from is not None:
        changes.append(f"rows from {instant_text(change.effective_from)} on are computed again")
    lost = [c.name for c in change.columns if c.what in ("removed", "retyped", "kept")]
    nulls = f", NULL in {', '.join(lost)}" if lost else ""
    which = "filled or computed again" if change.effective_from else "filled"
    rollback = (
        "a rollback shows the earlier columns and rows; with --definitions-only it keeps rows that "
        f"the new definition {which}{nulls}"
    )
    return (first, *changes, rollback)


def describe_backlog(backlog: Backlog) -> Iterator[str]:
    """Yield sentences on the changed input tables of a model's next fill."""
    if backlog.tables:
        moved = listed(map(_describe_table_backlog, backlog.tables))
        yield f"changes since {instant_text(backlog.since)}: {moved}"
    if backlog.refresh is not None:
        yield describe_refresh(backlog.refresh)
    elif backlog.why_all:
        yield f"computes all rows: {backlog.why_all}"


def _describe_table_backlog(table: TableBacklog) -> str:
    parts = []
    if table.commits is None:
        parts.append("unknown commits")
    elif table.commits or not table.filled_first:
        parts.append(count(table.commits, "commit"))
    if table.added is not None and table.removed is not None and table.commits:
        parts.append(f"+{table.added:,} -{table.removed:,} rows")
    parts += ["the fills of this plan"] if table.filled_first else []
    return f"{table.table} {', '.join(parts)}"


def describe_refresh(refresh: Refresh, *, done: bool = False) -> str:
    """Describe how a fill computes its rows, as a clause.

    Args:
        done: Whether the fill is recorded.

    >>> describe_refresh(Refresh(RefreshCode.ASKED, tables=("raw.orders",), key=("customer_id",)))
    'refreshes from changes of raw.orders by customer_id'
    """
    # The clause names the changes that the fill reads, or the reason for computing all rows.
    if not refresh.from_changes:
        return f"{'computed' if done else 'computes'} all rows: {describe_why_all(refresh)}"
    by = f" by {', '.join(refresh.key)}" if refresh.key else ""
    verb = "refreshed" if done else "refreshes"
    rows = "from changed rows of" if refresh.changes == "rows" else "from changes of"
    if refresh.changes == "groups":
        verb, rows = "merged" if done else "merges", "changes of"
    trial = ", a trial to measure this method" if refresh.code is RefreshCode.TRIED else ""
    return f"{verb} {rows} {listed(refresh.tables)}{by}{trial}{_describe_estimate(refresh)}"


def describe_why_all(refresh: Refresh) -> str:
    sizes = refresh.sizes
    if sizes is not None and refresh.code is RefreshCode.SMALL:
        why = f"its inputs are small ({size(sizes.inputs)})"
    elif sizes is not None and refresh.code is RefreshCode.MUCH_CHANGED:
        share = f"{min(1.0, sizes.share):.0%}"
        why = f"{size(sizes.changed)} of {size(sizes.inputs)} changed ({share})"
    elif sizes is not None and refresh.code is RefreshCode.MUCH_READ:
        why = f"a refresh reads {size(sizes.scanned + sizes.changed)} to find the rows to replace"
    elif refresh.code is RefreshCode.TRIED_WHOLE:
        why = "a trial to measure this method"
    else:
        return refresh.detail
    return why + _describe_estimate(refresh)


def _describe_estimate(refresh: Refresh) -> str:
    if refresh.estimate is None or refresh.code is RefreshCode.ASKED:  # It decided nothing.
        return ""
    whole, changes = _about(refresh.estimate.whole), _about(refresh.estimate.changes)
    if refresh.from_changes:
        return f"; about {changes}, all rows {whole}"
    return f"; about {whole}, from changes {changes}"


def _about(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else format_duration(seconds)


def describe_skip(skipped: Skipped) -> str:
    return f"its inputs have not changed since {instant_text(skipped.since)}"


def describe_batches(batches: Batches) -> str:
    size = batches.bytes
    shown = f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"
    return f"about {batches.count:,} batches that read {shown} each"


def describe_environments(outdated: Outdated) -> str:
    """Describe which environments show an outdated table (`of dev, test`), or why it is kept."""
    of = f"of {', '.join(outdated.environments)}"
    return of if outdated.environments else "kept for rollbacks and plans"
