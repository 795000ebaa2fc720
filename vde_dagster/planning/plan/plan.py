"""The plan as a value: models with their changes and intervals, views, and statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Literal

from vde_dagster.base.names import ModelName
from vde_dagster.planning.changes.backlog import Backlog
from vde_dagster.planning.environments.contracts import ContractBreak
from vde_dagster.planning.environments.environment import Entry
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.reasons import StoredReason
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.planning.tables.table import PhysicalTable, TableChange, TableRef
from vde_dagster.project.macros.variables import substitute_time_variables, time_variable_values

AFTER_ALL = ModelName("settings", "after_all")
"""Used in place of a model's name for the environment's statements after a publication."""


@dataclass(frozen=True, slots=True)
class EnvironmentStatements:
    """Spark SQL that runs before and after all other work of a plan. It may use time variables."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after)

    def map(self, change: Callable[[str], str]) -> EnvironmentStatements:
        return EnvironmentStatements(
            tuple(map(change, self.before)), tuple(map(change, self.after))
        )

    def at(
        self, now: datetime, start: datetime | None, end: datetime | None
    ) -> EnvironmentStatements:
        """Return the statements with values for the time variables (all UTC).

        Args:
            start: The plan's start; by default, yesterday at 00:00.
            end: The plan's end; by default, today at 00:00.
        """
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        values = time_variable_values(start or day - timedelta(days=1), end or day, now)
        return self.map(lambda text: substitute_time_variables(text, values))


NO_STATEMENTS = EnvironmentStatements()


class Change(str, Enum):
    """How a plan changes a model of an environment."""

    ADDED = "added"
    MODIFIED = "modified"
    AFFECTED = "affected"
    REMOVED = "removed"
    UNCHANGED = "unchanged"


class Category(str, Enum):
    """The effect of a change on the model's data."""

    METADATA = "metadata"
    REUSE = "reuse"
    NON_BREAKING = "non_breaking"
    BREAKING = "breaking"
    AFFECTED = "affected"
    FORWARD_ONLY = "forward_only"


class PlanKind(str, Enum):
    """Whether a plan publishes changes, runs due intervals, or computes intervals again."""

    PLAN = "plan"
    RUN = "run"
    RESTATEMENT = "restatement"


@dataclass(frozen=True, slots=True)
class Batches:
    """The number and size of the jobs of a long backfill, estimated from the parents' sizes.

    Args:
        bytes: Average size of the parents' files that each job reads.
    """

    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """One model in a plan, with its change and the work on its table.

    Args:
        category: The change's effect on its data; None if unchanged, added or removed.
        reasons: Reasons of the change, with its path (`orders.amount changed → total`).
        snapshot_id: The target snapshot; None if removed.
        previous_snapshot_id: The environment's snapshot; None if added.
        table: The physical table that will serve it; None for views and external tables.
        intervals: The ranges to compute (UTC); for a standalone audit, its range.
        audits: Whether audits check existing rows.
        layout: Whether partitioning, sort order or properties of the table change in place.
        restate: Whether filled intervals are computed again.
        catches_up: Whether a full table is computed again for the range of its last fill.
        records_only: Whether the intervals are recorded as filled without computing anything.
        skippable: Whether the fill is skipped if the inputs are unchanged when it starts.
        skips: The skipped work, if the skip is already known at planning time.
        always: Reason why a run computes the model even if the inputs are unchanged.
        in_place: A change of a table that production shows.
        backlog: The input changes that the next fill reads, for a model filled by changes.
        moves: Metrics that read columns or rows affected by the change.
    """

    name: ModelName
    change: Change
    category: Category | None
    reasons: tuple[StoredReason, ...]
    snapshot_id: str | None = None
    previous_snapshot_id: str | None = None
    table: PhysicalTable | None = None
    builds: bool = False
    intervals: IntervalSet = field(default_factory=IntervalSet)
    audits: bool = False
    restate: bool = False
    layout: bool = False
    breaks: tuple[ContractBreak, ...] = ()
    records_only: bool = False
    skippable: bool = False
    skips: Skipped | None = None
    always: StoredReason = ""
    in_place: TableChange | None = None
    # Reason: the parents have more rows now, or the run ignores crons.
    catches_up: bool = False
    batches: Batches | None = None
    backlog: Backlog | None = None
    moves: tuple[str, ...] = ()

    @property
    def again(self) -> bool:
        """Whether intervals that are filled already are filled again."""
        return self.restate or self.catches_up

    @property
    def is_breaking(self) -> bool:
        """Whether the model's own change affects existing rows or values."""
        return self.category is Category.BREAKING

    @property
    def keeps_rows(self) -> bool:
        """Whether the change leaves all existing rows as they are."""
        return self.category in (Category.METADATA, Category.REUSE)

    @property
    def deploys(self) -> bool:
        """Whether the plan changes a table in place that readers see."""
        return self.in_place is not None and self.in_place.deploys


@dataclass(frozen=True, slots=True)
class PlannedViews:
    """The environment's views that a publication creates, replaces and drops."""

    created: tuple[TableRef, ...] = ()
    replaced: tuple[TableRef, ...] = ()
    dropped: tuple[TableRef, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.replaced or self.dropped)

    def to_json(self) -> dict[str, list[str]]:
        return {one.name: list(map(str, getattr(self, one.name))) for one in fields(self)}


@dataclass(frozen=True, slots=True)
class Outdated:
    """A table with rows that become outdated, because a restatement replaces their source rows.

    Args:
        environments: Environments that show the table, sorted; empty if none does.
        intervals: The ranges to compute again (UTC).
        whole: Whether the table can only be computed again as a whole.
    """

    name: ModelName
    environments: tuple[str, ...]
    table_id: str
    intervals: IntervalSet
    whole: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "name": str(self.name),
            "environments": list(self.environments),
            "intervals": self.intervals.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """The origin of a plan that waits for approval. Unrecorded fields are empty.

    Args:
        files: Hash of the project files that the plan was made from.
        author: The person who proposed the plan or wrote the change.
    """

    files: str = ""
    author: str = ""

    def matches_files(self, files: str) -> bool:
        """Return whether the plan was made from project files with the hash `files`."""
        # This is also true if the plan has no hash of files.
        return self.files in ("", files)


Level = Literal["refuse", "ask", "warn"]
"""The effect of an objection, see `Objection`."""
_CONSEQUENCES = {
    "refuse": "the plan cannot be applied",
    "ask": "the plan waits for an approval",
    "warn": "",
}


@dataclass(frozen=True, slots=True)
class Objection:
    """A gate's objection to a plan.

    Args:
        message: The objection, in a sentence.
        level: `refuse` if the plan cannot be applied, `ask` if it must be applied by its id after
            someone has read it, or `warn` if it may be applied freely.
        approvers: The possible approvers. If empty, anyone may approve.
    """

    rule: str
    message: str
    level: Level
    approvers: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The objection as one line: its rule, its message, and the consequence for the plan."""
        end = _CONSEQUENCES[self.level]
        if self.level == "ask" and self.approvers:
            end += f" of {' or '.join(self.approvers)}"
        return f"{self.rule}: {self.message}" + (f"; {end}" if end else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "message": self.message,
            "level": self.level,
            "approvers": list(self.approvers),
            "models": list(self.models),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to compute and publish to bring an environment to a project's state.

    Args:
        id: Unique id, which also names the plan's branches and its partition in Dagster.
        base_version: The environment's version at planning time, 0 for none.
        models: The models in topological order, removed models last.
        entries: All of the environment's models after the plan.
        snapshots: Every snapshot that `entries` names, by id.
        start: Start of the requested range (UTC), or None.
        end: Exclusive end of the requested range (UTC), or None.
        expires_at: When the environment expires (UTC), or None.
        warnings: Likely mistakes in the project, with their places and corrections.
        restates: Ranges whose rows change for readers (UTC), by model.
        outdates: Tables not written by the plan that become outdated, as known at planning time.
        other_statements: Whether the plan changes the environment's statements.
        proposal: Origin of a plan that needs an approval; None for other plans.
        branch: The branch that the environment's name was derived from, or empty.
        objections: Objections of gates at planning time; None if no gates were evaluated.
        kept: Data that plug-ins store about other project files, by plug-in name.
        other_kept: Names of plug-ins whose stored data the plan changes.
    """

    # Types of its parts, for annotations: `Plan.Model`.
    Model = Annotated[PlannedModel, "part of a plan"]
    Table = Annotated[PhysicalTable, "part of a plan"]

    id: str
    environment: str
    kind: PlanKind
    # The plan cannot be applied once the environment has changed.
    base_version: int
    created_at: datetime
    models: tuple[PlannedModel, ...]
    views: PlannedViews
    entries: dict[ModelName, Entry]
    snapshots: dict[str, Snapshot]
    start: datetime | None = None
    end: datetime | None = None
    expires_at: datetime | None = None
    warnings: tuple[str, ...] = ()
    restates: dict[ModelName, IntervalSet] = field(default_factory=dict)
    outdates: tuple[Outdated, ...] = ()
    statements: EnvironmentStatements = NO_STATEMENTS
    other_statements: bool = False
    proposal: Proposal | None = None
    branch: str = ""
    objections: tuple[Objection, ...] | None = None
    kept: dict[str, str] = field(default_factory=dict)
    other_kept: tuple[str, ...] = ()

    @property
    def as_written(self) -> Plan:
        """The plan as it was stored; signatures are verified against the stored plan."""
        return self

    @property
    def notices(self) -> tuple[str, ...]:
        """The texts to show before the plan's models: warnings, and objections of gates."""
        return (*self.warnings, *(one.sentence for one in self.objections or ()))

    @property
    def target(self) -> dict[ModelName, Snapshot]:
        return {name: self.snapshots[entry.snapshot_id] for name, entry in self.entries.items()}

    @property
    def tables(self) -> dict[str, PhysicalTable]:
        return {model.table.id: model.table for model in self.models if model.table}

    def resolver(self, tables: Mapping[str, PhysicalTable] | None = None, **more: Any) -> Resolver:
        """Return a resolver of names in the target, by default with the plan's tables."""
        tables = self.tables if tables is None else tables
        return Resolver(self.environment, self.entries, self.snapshots, tables, **more)

    @property
    def builds(self) -> tuple[PlannedModel, ...]:
        """The models with ranges to fill, in topological order."""
        return tuple(model for model in self.models if model.builds)

    @property
    def computed(self) -> tuple[PlannedModel, ...]:
        """The models of `builds`, except `recorded` models and models known to be skipped."""
        left = (model for model in self.builds if model.skips is None)
        return tuple(model for model in left if not model.records_only)

    @property
    def recorded(self) -> tuple[PlannedModel, ...]:
        """The models of `builds` that are only recorded as filled."""
        return tuple(model for model in self.builds if model.records_only)

    def restates_alone(self, table_id: str, inputs: Collection[str]) -> bool:
        """Return whether the plan fills a table again, and fills none of its inputs first.

        Args:
            inputs: Ids of the tables that the fill reads.
        """
        built = {one.table.id: one for one in self.builds if one.table is not None}
        own = built.get(table_id)
        others = built.keys() - {table_id}
        return own is not None and own.restate and others.isdisjoint(inputs)

    @property
    def audited(self) -> tuple[PlannedModel, ...]:
        """The models that are audited without being filled."""
        return tuple(model for model in self.models if model.audits and not model.builds)

    @property
    def breaks(self) -> tuple[ContractBreak, ...]:
        """The columns and models that change or disappear for readers."""
        return tuple(broken for model in self.models for broken in model.breaks)

    @property
    def moves(self) -> dict[str, tuple[ModelName, ...]]:
        """The models that may change a metric's values, by the metric's name."""
        names = sorted({name for model in self.models for name in model.moves})
        return {one: tuple(m.name for m in self.models if one in m.moves) for one in names}

    @property
    def is_empty(self) -> bool:
        return (
            not self.views
            and not self.builds
            and not self.other_statements
            and not self.other_kept
            and not any(model.audits for model in self.models)
            and all(model.change is Change.UNCHANGED for model in self.models)
        )

    @property
    def complete_statements(self) -> EnvironmentStatements:
        """Return the environment's statements with values for their time variables."""
        return self.statements.at(self.created_at, self.start, self.end)

    def snapshot_of(self, model: PlannedModel) -> Snapshot:
        """Return the target snapshot of a model that is not removed."""
        return self.snapshots[model.snapshot_id or ""]

    def version_of(self, model: PlannedModel) -> str | None:
        """Return the version of a model's table or view, or None if it has neither."""
        snapshot = self.snapshots.get(model.snapshot_id or "")
        if snapshot is None or not snapshot.model.kind.is_shown:
            return None
        return model.table.version if model.table is not None else snapshot.table_version
