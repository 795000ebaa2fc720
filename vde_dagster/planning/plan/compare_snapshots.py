"""Changes between a snapshot and the one that an environment shows, and their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.plan import Category, Change
from vde_dagster.planning.snapshots.snapshot import Snapshot


def classify(new: Snapshot | None, old: Snapshot | None) -> tuple[Change, Category | None]:
    """Return the change of a model and its category; a side is None if removed or added."""
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
    """Return whether a view becomes a fully rebuilt table, which has the same rows for readers."""
    return new.has_table and not old.has_table and meaning_of(new.model.kind).replaces_all


def differing_columns(new: Snapshot, old: Snapshot) -> list[str]:
    """Return the changed columns of a changed model; all columns if its rows changed."""
    if new.standalone_rows != old.standalone_rows:
        return [column for column, _ in new.standalone_columns]
    before = dict(old.standalone_columns)
    return [
        name for name, version in new.standalone_columns if before.get(name, version) != version
    ]


REMOVED = "removed from the project"

_MANY = 3
"""From this number of changed columns on, one sentence lists them."""
_MOST_CAUSES = 2
"""Edits of other models that are named as causes."""

Pair = tuple[Snapshot, Snapshot]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why models of a plan changed, in sentences: the cause first, then its path to each."""

    changed: Mapping[ModelName, Pair]
    _own: dict[ModelName, list[str]] = field(default_factory=dict)
    _behind: dict[ModelName, list[str]] = field(default_factory=dict)

    def explain(self, new: Snapshot, old: Snapshot | None) -> tuple[str, ...]:
        """Explain a change; must be called for parents before their children."""
        if old is None:
            return ("new in the project",)
        if new.means(old):
            return ()
        inherited: list[str] = []
        shown: dict[str, None] = {}
        behind: dict[str, None] = {}
        for parent in new.parents:
            pair = self.changed.get(parent)
            reached = _reached(new, pair) if pair is not None else []
            if pair is None or not reached:
                continue
            causes = dict.fromkeys(self._behind.get(parent, ()))
            shown |= causes
            behind |= causes
            if own := self._own.get(parent):
                cause = f"upstream, in {parent}: {own[0]}"
                behind[cause] = None
                if _rows_differ(pair):
                    shown[cause] = None
                    reached = [text for text in reached if text != _ROWS.format(parent)]
            inherited += reached
        self._behind[new.name] = list(behind)[:_MOST_CAUSES]
        self._own[new.name] = definition_changes(new, old, bool(inherited))
        return (*self._own[new.name], *list(shown)[:_MOST_CAUSES], *inherited)


def definition_changes(new: Snapshot, old: Snapshot, inherits: bool = False) -> list[str]:
    """Return the reasons for a change in the model's own definition, the cause first."""
    if new.definition_hash == old.definition_hash:
        return []
    out: list[str] = []
    if new.model.kind.name != old.model.kind.name:
        out.append(f"kind changed from {old.model.kind.name} to {new.model.kind.name}")
    pin = new.model.physical_version
    if pin is not None and pin != old.model.physical_version:
        out.append(f"physical_version {pin} is another table")
    if new.standalone_rows != old.standalone_rows and (rows := _row_change(new, old, inherits)):
        out.append(rows)  # Of long lists of columns only the first are shown.
    out += _column_changes(new, old)
    if new.model.audits != old.model.audits:
        out.append("audits changed")
    if new.layout_hash != old.layout_hash:
        out.append("the physical layout changed")
    if not out:
        out.append("the definition changed, its data does not")
    return out


def _column_changes(new: Snapshot, old: Snapshot) -> list[str]:
    before, after = dict(old.standalone_columns), dict(new.standalone_columns)
    differ = [name for name, version in after.items() if before.get(name, version) != version]
    if new.standalone_rows == old.standalone_rows or len(differ) < _MANY:
        out = [f"column {name} is computed differently" for name in differ]
    else:
        out = [f"so do the values of {len(differ)} columns: {', '.join(differ)}"]
    names = renamed_columns(new.standalone_columns, old.standalone_columns)
    for name in [name for name in after if name not in before]:
        if name in names:
            out.append(f"column {names[name]} is renamed to {name}")
            continue
        same = [old_name for old_name, version in before.items() if version == after[name]]
        out.append(f"column {name} added" + (f" (the same values as {same[0]})" if same else ""))
    gone = [name for name in before if name not in after and name not in names.values()]
    return [*out, *(f"column {name} removed" for name in gone)]


def renamed_columns(
    new: Iterable[tuple[str, str]], old: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the old names of renamed columns by the new ones, from (name, version)."""
    after, before = dict(new), dict(old)
    gone: dict[str, list[str]] = {}
    for name, version in before.items():
        if name not in after:
            gone.setdefault(version, []).append(name)
    added = [name for name in after if name not in before]
    return {name: gone[after[name]].pop(0) for name in added if gone.get(after[name])}


def _row_change(new: Snapshot, old: Snapshot, inherits: bool) -> str | None:
    if new.version.opaque:
        return f"the query returns other rows (not understood: {new.version.opaque})"
    if new.model.query is None or old.model.query is None or old.version.opaque:
        return "it has other rows"
    after, before = _clauses(new.model.query), _clauses(old.model.query)
    differ = [name for name in after if after[name] != before[name]]
    if not differ:
        return None if inherits else "the query returns other rows"
    return f"{' and '.join(differ)} changed, so the query returns other rows"


def _clauses(query: str) -> dict[str, Counter[str]]:
    """Return the clauses that decide a query's rows."""
    from sqlglot import exp

    from vde_dagster.sql.reading import read_query

    clauses: dict[str, tuple[type[exp.Expr], ...]] = {
        "a filter (WHERE)": (exp.Where,),
        "a filter (HAVING)": (exp.Having,),
        "a filter (QUALIFY)": (exp.Qualify,),
        "a join": (exp.Join,),
        "the grouping": (exp.Group,),
        "DISTINCT": (exp.Distinct,),
        "the limit": (exp.Limit, exp.Offset),
        "a union of queries": (exp.SetOperation,),
        "a table that it reads": (exp.Table,),
    }
    tree = read_query(query).tree
    return {
        name: Counter(repr(node) for node in tree.find_all(*types))
        for name, types in clauses.items()
    }


_ROWS = "the rows of {} changed"


def _rows_differ(pair: Pair) -> bool:
    return pair[0].version.rows != pair[1].version.rows


def _reached(new: Snapshot, pair: Pair) -> list[str]:
    """Return the reasons why the change of a parent affects a model."""
    after, before = pair
    parent, opaque = after.name, new.version.opaque if new.model.python is None else None
    out: list[str] = []
    if opaque and after.version != before.version:
        out.append(f"any change of {parent} counts: the query is not understood: {opaque}")
    if _rows_differ(pair):
        out.append(_ROWS.format(parent))
    versions = {column.name: column.version for column in before.columns}
    names = renamed_columns(
        [(column.name, column.version) for column in after.columns], versions.items()
    )
    read: list[str] = []
    columns: list[str] = []
    for column in after.columns:
        if versions.get(column.name) == column.version:
            continue
        how = f"is what was {names[column.name]}" if column.name in names else "changed"
        targets = [
            f"{new.name}.{one.output}" if one.output else f"the rows of {new.name} ({one.how})"
            for one in new.reads
            if one.parent == str(parent) and one.column.lower() == column.name.lower()
            if one.how != "unknown"  # The opaque query above explains it.
        ]
        if targets:
            columns.append(column.name)
        read += [f"{parent}.{column.name} {how} → {target}" for target in dict.fromkeys(targets)]
    if _rows_differ(pair) and len(columns) >= _MANY:
        read = [f"with them {len(columns)} columns that it reads: {', '.join(columns)}"]
    return [*out, *read]
