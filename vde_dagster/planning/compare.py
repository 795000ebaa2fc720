"""How a snapshot differs from the one that an environment has, and why."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan import Category, Change
from vde_dagster.planning.snapshot import Snapshot


def classify(new: Snapshot | None, old: Snapshot | None) -> tuple[Change, Category | None]:
    """Say how a model changed and what that means for its data.

    Args:
        new: The target snapshot, or None when the model is removed.
        old: The environment's snapshot, or None when the model is new.
    """
    if new is None:
        return Change.REMOVED, None
    if old is None:
        return Change.ADDED, None
    if new.id == old.id:
        return Change.UNCHANGED, None
    same = new.definition_hash == old.definition_hash
    change = Change.AFFECTED if same else Change.MODIFIED
    if new.forward is not None:
        goes_on = _meaning(new) != _meaning(old)
        return change, Category.FORWARD_ONLY if goes_on else Category.METADATA
    if same:
        return change, Category.AFFECTED
    if old.forward is not None:
        # What was a mixture is made anew.
        return change, Category.BREAKING
    return change, _category(new, old)


def _meaning(snapshot: Snapshot) -> tuple[str, tuple[tuple[str, str], ...]]:
    return snapshot.own_fill, snapshot.own_columns


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
    """Say whether a view becomes a table that is written whole, so that readers find the same."""
    return new.has_table and not old.has_table and meaning_of(new.model.kind).replaces_all


def reasons(
    new: Snapshot | None,
    old: Snapshot | None,
    changed: Mapping[ModelName, tuple[Snapshot, Snapshot]],
) -> tuple[str, ...]:
    """Explain a change in sentences, with the path of columns that carries it.

    Args:
        new: The target snapshot.
        old: The environment's snapshot.
        changed: (new, old) snapshots of the models that changed, by name.
    """
    if new is None:
        return ("removed from the project",)
    if old is None:
        return ("new in the project",)
    if new.id == old.id:
        return ()
    out = [*_own_changes(new, old), *_inherited_changes(new, changed)]
    return tuple(out)


_MANY = 3
"""From how many columns on a change of rows is said instead of each of them."""


def _own_changes(new: Snapshot, old: Snapshot) -> list[str]:
    if new.definition_hash == old.definition_hash:
        return []
    out: list[str] = []
    if new.model.kind.name != old.model.kind.name:
        out.append(f"kind changed from {old.model.kind.name} to {new.model.kind.name}")
    pin = new.model.physical_version
    if pin is not None and pin != old.model.physical_version:
        out.append(f"physical_version {pin} is another table")
    before, after = dict(old.own_columns), dict(new.own_columns)
    gone = [name for name in before if name not in after]
    for name in [n for n in after if n not in before]:
        same = [old_name for old_name, version in before.items() if version == after[name]]
        renamed = next((old_name for old_name in same if old_name in gone), None)
        if renamed is not None:
            gone.remove(renamed)
            out.append(f"column {renamed} is renamed to {name}")
            continue
        out.append(f"column {name} added" + (f" (the same values as {same[0]})" if same else ""))
    out += [f"column {name} removed" for name in gone]
    differ = [name for name, version in after.items() if before.get(name, version) != version]
    if new.own_rows == old.own_rows or len(differ) < _MANY:
        out += [f"column {name} is computed differently" for name in differ]
    else:
        out.append(f"so do values of {len(differ)} columns: {', '.join(differ)}")
    if new.own_rows != old.own_rows:
        # The cause comes first: of long lists of columns only the first are shown.
        opaque = f" (not understood: {new.version.opaque})" if new.version.opaque else ""
        out.insert(0, f"the query returns other rows{opaque}")
    if new.model.audits != old.model.audits:
        out.append("audits changed")
    if new.layout_hash != old.layout_hash:
        out.append("the physical layout changed")
    if not out:
        out.append("the definition changed, its data does not")
    return out


def _inherited_changes(
    new: Snapshot, changed: Mapping[ModelName, tuple[Snapshot, Snapshot]]
) -> list[str]:
    out: list[str] = []
    opaque = new.version.opaque if new.model.python is None else None
    for parent in new.parents:
        pair = changed.get(parent)
        if pair is None:
            continue
        parent_new, parent_old = pair
        if opaque and parent_new.version != parent_old.version:
            out.append(f"any change of {parent} counts: the query is not understood: {opaque}")
        before = {column.name: column.version for column in parent_old.columns}
        if parent_new.version.rows != parent_old.version.rows:
            out.append(f"the rows of {parent} changed")
        for column in parent_new.columns:
            if before.get(column.name) == column.version:
                continue
            targets = [
                read.output or f"rows ({read.how})"
                for read in new.reads
                if read.parent == str(parent) and read.column.lower() == column.name.lower()
            ]
            out += [
                f"{parent}.{column.name} changed → {new.name}.{target}"
                if not target.startswith("rows (")
                else f"{parent}.{column.name} changed → the rows of {new.name} ({target[6:-1]})"
                for target in dict.fromkeys(targets)
            ]
    return out
