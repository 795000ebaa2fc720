"""Forward-only changes: a changed snapshot reuses the table that production shows.

The snapshot inherits production's fill version and, by name, the versions of columns, so the table
serves it and its children do not change. New columns get new versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import suggest
from vde_dagster.base.times import instant_text
from vde_dagster.errors import UsageError
from vde_dagster.planning.plan.columns_in_place import ColumnsInPlace
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.planning.snapshots.identity import with_content_id
from vde_dagster.planning.snapshots.snapshot import Forward, Snapshot
from vde_dagster.planning.tables.table import ColumnChange, ColumnChanges, PhysicalTable
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion

if TYPE_CHECKING:
    from vde_dagster.planning.environments.warehouse_state import WarehouseState


TableTypes = Callable[[PhysicalTable], Mapping[str, str]]
"""Reads the Spark SQL types of a table's columns, by column name, from Iceberg."""


def _recorded_types(table: PhysicalTable) -> Mapping[str, str]:
    return {column.name: column.type for column in table.columns if column.type}


def may_change_in_place(
    snapshots: Mapping[ModelName, Snapshot], state: WarehouseState, options: PlanOptions
) -> bool:
    """Return whether any model of a plan may keep production's table after a change."""
    if state.production is None:
        return False
    if state.previews:
        return True
    kinds = (snapshot.model.kind for snapshot in snapshots.values())
    return any(
        kind.changes_in_place and (kind.forward_only or options.forward_only) for kind in kinds
    ) or any(state.snapshots[key].forward is not None for key in state.published_ids)


def require_matching_patterns(
    options: PlanOptions, snapshots: Mapping[ModelName, Snapshot]
) -> None:
    """Raise UsageError if a pattern of `--allow-…-model` matches no model."""
    names = [str(name) for name in snapshots]
    for what, patterns in (
        ("destructive", options.allow_destructive),
        ("additive", options.allow_additive),
    ):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern.lower()) for name in names):
                raise UsageError(
                    f"--allow-{what}-model {pattern}: no model matches",
                    hint=suggest(pattern, names, "models"),
                )


def require_effective_from_used(options: PlanOptions, plan: Plan) -> None:
    """Raise UsageError if `--effective-from` is in the future, or no change in place uses it."""
    since = options.effective_from
    if since is None:
        return
    if since > plan.created_at:
        raise UsageError(
            f"--effective-from {instant_text(since)} lies in the future",
            hint="give an instant before now: new intervals are computed with the new definition "
            "anyway",
        )
    previews = (model.table is not None and model.table.preview for model in plan.models)
    if not any(model.in_place for model in plan.models) and not any(previews):
        raise UsageError(
            "--effective-from applies to changes in place, but the plan has none",
            hint="add --forward-only, or set forward_only true in the model's kind; for a model "
            "that gets a new table, --start sets the first interval to fill",
        )


class InPlaceFindingCode(str, Enum):
    """Reasons to refuse a change in place, or to warn about it."""

    SHARED_TABLE = "shared_table"
    KIND_CHANGED = "kind_changed"
    KEY_RETYPED = "key_retyped"
    RECOMPUTED_ELSEWHERE = "recomputed_elsewhere"
    ROWS_STAY = "rows_stay"
    UNNAMED_FIELDS = "unnamed_fields"
    DESTRUCTIVE = "destructive"
    ADDITIVE = "additive"


@dataclass(frozen=True, slots=True)
class InPlaceFinding:
    """A problem with a change in place: the plan is refused, or gets a warning.

    Args:
        refuses: Whether the plan is refused.
        names: Depending on the code: other models that share the table, environments that preview
            the change, or columns.
        others: Environments that recomputed the model instead of previewing the change.
        changes: The column changes that cause the problem.
    """

    # `reports/forward_only.py` has its text.
    code: InPlaceFindingCode
    model: Model
    refuses: bool
    names: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    changes: ColumnChanges = ()


@dataclass
class ForwardOnly:
    """Decides which changed models keep production's tables. Pass parents before their children.

    Args:
        changes: For each model that keeps its table, the changes of its columns.
        previewed: For each model, the environments that already preview its change in place.
        findings: Problems that refuse the plan, or give it a warning.
    """

    state: WarehouseState
    options: PlanOptions
    types: TableTypes = _recorded_types
    changes: dict[ModelName, ColumnChanges] = field(default_factory=dict)
    previewed: dict[ModelName, tuple[str, ...]] = field(default_factory=dict)
    findings: list[InPlaceFinding] = field(default_factory=list)

    def revise(self, plain: Snapshot) -> Snapshot:
        """Return a snapshot that keeps production's table if asked and possible, else `plain`."""
        base, table = self._base(plain)
        if base is None or table is None or base.means(plain):
            return plain
        if base.forward is not None and base.standalone_hash == plain.meaning:
            return base
        kind = plain.model.kind
        if not kind.changes_in_place:
            return plain
        means_the_same = base.standalone_meaning == plain.standalone_meaning
        if means_the_same and base.forward is None:
            return plain  # The table holds it as it is.
        asked = kind.forward_only or self.options.forward_only
        if not asked and not means_the_same and not self._previewed(plain, table):
            return plain
        if not _can_share_table(plain, base):
            self._note_recomputation(plain, InPlaceFindingCode.KIND_CHANGED)
            return plain
        made = ColumnsInPlace(plain, base, table, self.types(table)).compare()
        retyped = _retyped(plain, made.changes)
        if retyped is not None:
            self._note_recomputation(plain, InPlaceFindingCode.KEY_RETYPED, (retyped,))
            return plain
        assert self.state.production is not None
        shown = self.state.production.entries.values()
        sharing = [e.name for e in shown if e.table_id == table.id and e.name != plain.name]
        if sharing:
            names = tuple(map(str, sharing))
            self.findings.append(
                InPlaceFinding(InPlaceFindingCode.SHARED_TABLE, plain.model, True, names)
            )
            return plain
        if made.unnamed:
            columns = tuple(made.unnamed)
            self.findings.append(
                InPlaceFinding(InPlaceFindingCode.UNNAMED_FIELDS, plain.model, True, columns)
            )
        return self._extend(plain, base, table, made)

    def _note_recomputation(
        self, plain: Snapshot, code: InPlaceFindingCode, changes: ColumnChanges = ()
    ) -> None:
        # This is an error for a model with a physical version, and a warning for a forward-only
        # model or plan.
        model = plain.model
        refuses = model.physical_version is not None
        if refuses or model.kind.forward_only or self.options.forward_only:
            self.findings.append(InPlaceFinding(code, model, refuses, changes=changes))

    def _base(self, plain: Snapshot) -> tuple[Snapshot | None, PhysicalTable | None]:
        # The table is production's, or an earlier table with the model's physical version.
        base, table = self._production(plain.name)
        pin = plain.model.physical_version
        if base is None or pin is None or base.model.physical_version == pin:
            return base, table
        earlier = self.state.tables.get(self.state.pinned.get(plain.name, ""))
        if earlier is None:
            return None, None
        return self.state.snapshots[earlier.snapshot_id], earlier

    def _production(self, name: ModelName) -> tuple[Snapshot | None, PhysicalTable | None]:
        production = self.state.production
        entry = production.entries.get(name) if production is not None else None
        if entry is None or entry.table_id is None:
            return None, None
        table = self.state.tables.get(entry.table_id)
        if table is None or not table.created or table.preview is not None:
            return None, None
        return self.state.snapshots[entry.snapshot_id], table

    def _previewed(self, plain: Snapshot, table: PhysicalTable) -> bool:
        # A definition that is previewed stays forward-only. If another environment has recomputed
        # the model, the user must choose.
        seen = [
            previewed
            for previewed in self.state.previews.get(plain.name, ())
            if previewed.forward.table_id == table.id and _same(previewed.forward, plain)
        ]
        by = tuple(dict.fromkeys(previewed.environment for previewed in seen))
        target = self.state.target
        if not by or (target is not None and target.name in by):
            return bool(by)
        anew = dict.fromkeys(name for previewed in seen for name in previewed.anew)
        if not anew:
            self.previewed[plain.name] = by
            return True
        if target is None or target.name not in anew:
            code, others = InPlaceFindingCode.RECOMPUTED_ELSEWHERE, tuple(anew)
            self.findings.append(InPlaceFinding(code, plain.model, False, by, others))
        return False

    def _extend(
        self, plain: Snapshot, base: Snapshot, table: PhysicalTable, made: ColumnsInPlace
    ) -> Snapshot:
        columns, changes = tuple(made.columns), tuple(made.changes)
        self._check(plain, changes)
        if not plain.model.kind.refills and self.options.effective_from is not None:
            self.findings.append(InPlaceFinding(InPlaceFindingCode.ROWS_STAY, plain.model, False))
        names = {column.name for column in columns}
        own = tuple((c.name, c.version) for c in plain.columns if c.name in names)
        forward = Forward(
            table.id,
            plain.id,
            plain.version.rows,
            plain.fill_version,
            own,
            tuple(made.fields.items()),
            tuple(made.widened.items()),
        )
        version = SemanticVersion(
            base.version.rows,
            {column.name: column.version for column in columns},
            base.version.opaque,
            tuple(key for key in base.version.unique_keys if key in plain.version.unique_keys),
        )
        self.changes[plain.name] = changes
        return with_content_id(
            replace(
                plain,
                version=version,
                fill_version=base.fill_version,
                columns=columns,
                forward=forward,
            )
        )

    def _check(self, plain: Snapshot, changes: ColumnChanges) -> None:
        kind = plain.model.kind
        destructive, additive = InPlaceFindingCode.DESTRUCTIVE, InPlaceFindingCode.ADDITIVE
        found = (
            (destructive, kind.on_destructive_change, self.options.allow_destructive),
            (additive, kind.on_additive_change, self.options.allow_additive),
        )
        for code, policy, allowed in found:
            # Readers of a removed or retyped column lose its values or its type.
            lost = code is destructive
            concerned = tuple(c for c in changes if (c.what in ("removed", "retyped")) == lost)
            if not concerned or policy in ("allow", "ignore"):
                continue
            if not any(fnmatchcase(str(plain.name), pattern.lower()) for pattern in allowed):
                refuses = policy != "warn"
                self.findings.append(InPlaceFinding(code, plain.model, refuses, changes=concerned))


def _can_share_table(plain: Snapshot, base: Snapshot) -> bool:
    new, old = plain.model.kind, base.model.kind
    # A kind may get a column after its others, as a snapshot does that records deletions.
    added, had = (_lower(column.name for column in kind.added_columns) for kind in (new, old))
    return (
        type(new) is type(old)
        and _lower(new.fixed) == _lower(old.fixed)
        and (new.refills or plain.cadence.unit is base.cadence.unit)
        and new.interval_column == old.interval_column
        and (not new.by_partitions or plain.model.partitioned_by == base.model.partitioned_by)
        and added[: len(had)] == had[: len(added)]
    )


def _retyped(plain: Snapshot, changes: Iterable[ColumnChange]) -> ColumnChange | None:
    """Return the first retyped column that a fill needs for finding existing rows, or None."""
    kind = plain.model.kind
    texts = (*kind.fixed, *(plain.model.partitioned_by if kind.by_partitions else ()))
    words = {word for text in texts for word in re.findall(r"\w+", text.lower())}
    return next((c for c in changes if c.what == "retyped" and c.column.lower() in words), None)


def _same(forward: Forward, plain: Snapshot) -> bool:
    own = forward.fill_version, forward.columns
    return forward.own_id == plain.id or own == plain.standalone_meaning


def _lower(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names]
