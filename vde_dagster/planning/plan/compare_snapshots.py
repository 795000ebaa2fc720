"""Differences between a snapshot and the environment's snapshot, with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from vde_dagster.base.names import ModelName
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.plan import Category, Change
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.planning.snapshots.snapshot import Snapshot


def classify_change(new: Snapshot | None, old: Snapshot | None) -> tuple[Change, Category | None]:
    """Return how a model changes, and the effect of the change on its data.

    An added model has no `old` snapshot, and a removed model has no `new` snapshot.
    """
    if new is None:
        return Change.REMOVED, None
    if old is None:
        return Change.ADDED, None
    if new.means(old):
        return Change.UNCHANGED, None
    same = new.definition_hash == old.definition_hash
    change = Change.AFFECTED if same else Change.MODIFIED
    if new.forward is not None:
        goes_on = new.standalone_meaning != old.standalone_meaning
        return change, Category.FORWARD_ONLY if goes_on else Category.METADATA
    if same:
        return change, Category.AFFECTED
    # What was a mixture is made anew.
    return change, _category(new, old) if old.forward is None else Category.BREAKING


def _category(new: Snapshot, old: Snapshot) -> Category:
    same_fill = not new.has_table or new.fill_version == old.fill_version
    if new.version.rows != old.version.rows or not (same_fill or becomes_table(new, old)):
        return Category.BREAKING
    new_columns = [(column.name, column.version) for column in new.columns]
    old_columns = [(column.name, column.version) for column in old.columns]
    if new_columns == old_columns:
        same_kind = new.model.kind.name == old.model.kind.name
        return Category.METADATA if same_kind else Category.REUSE
    before = dict(old_columns)
    if any(before.get(name, version) != version for name, version in new_columns):
        # Even where the values are at hand under another name: readers get others under this one.
        return Category.BREAKING
    if {version for _, version in new_columns} <= {version for _, version in old_columns}:
        return Category.REUSE
    if set(old_columns) <= set(new_columns):
        return Category.NON_BREAKING
    return Category.BREAKING


def becomes_table(new: Snapshot, old: Snapshot) -> bool:
    """Return whether a view becomes a table that every fill replaces as a whole."""
    return new.has_table and not old.has_table and meaning_of(new.model.kind).replaces_all


def differing_columns(new: Snapshot, old: Snapshot) -> list[str]:
    """Return the columns whose values change; all columns if the rows change."""
    if new.standalone_rows != old.standalone_rows:
        return [column for column, _ in new.standalone_columns]
    before = dict(old.standalone_columns)
    return [
        name for name, version in new.standalone_columns if before.get(name, version) != version
    ]


_MANY = 3
"""Minimum number of changed columns that are listed in one sentence."""
_MOST_CAUSES = 2
"""Maximum number of other models' changes that are named as causes."""

Pair = tuple[Snapshot, Snapshot]


@dataclass(frozen=True, slots=True)
class ChangeReasons:
    """Finds the reasons why models change. Parents must be passed before their children."""

    # The cause comes first, then its path to the model.
    changed: Mapping[ModelName, Pair]
    _own: dict[ModelName, list[Reason]] = field(default_factory=dict)
    _behind: dict[ModelName, list[Reason]] = field(default_factory=dict)

    def explain(self, new: Snapshot, old: Snapshot | None) -> tuple[Reason, ...]:
        """Return the reasons why a model changes."""
        if old is None:
            return (Reason(ReasonCode.ADDED),)
        if new.means(old):
            return ()
        inherited: list[Reason] = []
        shown: dict[Reason, None] = {}
        behind: dict[Reason, None] = {}
        for parent in new.parents:
            pair = self.changed.get(parent)
            reached = _parent_reasons(new, pair) if pair is not None else []
            if pair is None or not reached:
                continue
            causes = dict.fromkeys(self._behind.get(parent, ()))
            shown |= causes
            behind |= causes
            if own := self._own.get(parent):
                cause = replace(own[0], upstream=parent)
                behind[cause] = None
                if _rows_differ(pair):
                    shown[cause] = None
                    reached = [one for one in reached if one.code is not ReasonCode.PARENT_ROWS]
            inherited += reached
        self._behind[new.name] = list(behind)[:_MOST_CAUSES]
        self._own[new.name] = definition_changes(new, old, bool(inherited))
        return (*self._own[new.name], *list(shown)[:_MOST_CAUSES], *inherited)


def definition_changes(new: Snapshot, old: Snapshot, inherits: bool = False) -> list[Reason]:
    """Return the changes of a model's own definition, the most important change first."""
    if new.definition_hash == old.definition_hash:
        return []
    out: list[Reason] = []
    if new.model.kind.name != old.model.kind.name:
        out.append(Reason(ReasonCode.KIND, (old.model.kind.name, new.model.kind.name)))
    pin = new.model.physical_version
    if pin is not None and pin != old.model.physical_version:
        out.append(Reason(ReasonCode.PHYSICAL_VERSION, (pin,)))
    if new.standalone_rows != old.standalone_rows and (rows := _row_change(new, old, inherits)):
        out.append(rows)  # Of long lists of columns only the first are shown.
    out += _column_changes(new, old)
    if new.model.audits != old.model.audits:
        out.append(Reason(ReasonCode.AUDITS))
    if new.layout_hash != old.layout_hash:
        out.append(Reason(ReasonCode.LAYOUT))
    if not out:
        out.append(Reason(ReasonCode.NO_EFFECT))
    return out


def _column_changes(new: Snapshot, old: Snapshot) -> list[Reason]:
    before, after = dict(old.standalone_columns), dict(new.standalone_columns)
    differ = [name for name, version in after.items() if before.get(name, version) != version]
    if new.standalone_rows == old.standalone_rows or len(differ) < _MANY:
        out = [Reason(ReasonCode.COLUMN_COMPUTED, (name,)) for name in differ]
    else:
        out = [Reason(ReasonCode.COLUMNS_COMPUTED, tuple(differ))]
    names = renamed_columns(new.standalone_columns, old.standalone_columns)
    for name in [name for name in after if name not in before]:
        if name in names:
            out.append(Reason(ReasonCode.COLUMN_RENAMED, (names[name], name)))
            continue
        same = [old_name for old_name, version in before.items() if version == after[name]]
        out.append(Reason(ReasonCode.COLUMN_ADDED, (name, *same[:1])))
    gone = [name for name in before if name not in after and name not in names.values()]
    return [*out, *(Reason(ReasonCode.COLUMN_REMOVED, (name,)) for name in gone)]


def renamed_columns(
    new: Iterable[tuple[str, str]], old: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Map new to old names of renamed columns, given (name, version) pairs of both definitions."""
    after, before = dict(new), dict(old)
    gone: dict[str, list[str]] = {}
    for name, version in before.items():
        if name not in after:
            gone.setdefault(version, []).append(name)
    added = [name for name in after if name not in before]
    return {name: gone[after[name]].pop(0) for name in added if gone.get(after[name])}


def _row_change(new: Snapshot, old: Snapshot, inherits: bool) -> Reason | None:
    if new.version.opaque:
        return Reason(ReasonCode.ROWS_NOT_UNDERSTOOD, detail=new.version.opaque)
    if new.model.query is None or old.model.query is None or old.version.opaque:
        return Reason(ReasonCode.ROWS_MAY_DIFFER)
    after, before = _clauses(new.model.query), _clauses(old.model.query)
    differ = tuple(name for name in after if after[name] != before[name])
    return None if inherits and not differ else Reason(ReasonCode.ROWS, differ)


def _clauses(query: str) -> dict[str, Counter[str]]:
    from sqlglot import exp

    from vde_dagster.sql.reading import read_query

    clauses: dict[str, tuple[type[exp.Expr], ...]] = {
        "where": (exp.Where,),
        "having": (exp.Having,),
        "qualify": (exp.Qualify,),
        "join": (exp.Join,),
        "group": (exp.Group,),
        "distinct": (exp.Distinct,),
        "limit": (exp.Limit, exp.Offset),
        "set": (exp.SetOperation,),
        "table": (exp.Table,),
    }
    tree = read_query(query).tree
    return {
        name: Counter(repr(node) for node in tree.find_all(*types))
        for name, types in clauses.items()
    }


def _rows_differ(pair: Pair) -> bool:
    return pair[0].version.rows != pair[1].version.rows


def _parent_reasons(new: Snapshot, pair: Pair) -> list[Reason]:
    after, before = pair
    parent, opaque = after.name, new.version.opaque if new.model.python is None else None
    out: list[Reason] = []
    if opaque and after.version != before.version:
        out.append(Reason(ReasonCode.PARENT_NOT_UNDERSTOOD, parent=parent, detail=opaque))
    if _rows_differ(pair):
        out.append(Reason(ReasonCode.PARENT_ROWS, parent=parent))
    versions = {column.name: column.version for column in before.columns}
    names = renamed_columns(
        [(column.name, column.version) for column in after.columns], versions.items()
    )
    read: dict[Reason, None] = {}
    columns: list[str] = []
    for column in after.columns:
        if versions.get(column.name) == column.version:
            continue
        was = names.get(column.name, "")
        uses = [
            Reason(
                ReasonCode.PARENT_COLUMN if one.output else ReasonCode.PARENT_COLUMN_ROWS,
                (column.name, was, f"{new.name}.{one.output}" if one.output else str(new.name)),
                parent,
                "" if one.output else one.how,
            )
            for one in new.reads
            if one.parent == str(parent) and one.column.lower() == column.name.lower()
            if one.how != "unknown"  # The opaque query above explains it.
        ]
        if uses:
            columns.append(column.name)
        read |= dict.fromkeys(uses)
    if _rows_differ(pair) and len(columns) >= _MANY:
        read = {Reason(ReasonCode.PARENT_COLUMNS, tuple(columns)): None}
    return [*out, *read]
