"""Environments: the snapshot and the table of each model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.settings import EnvironmentMode, SuffixTarget

PRODUCTION = "prod"
"""Name of the environment whose views have the models' own names."""


def production_first(name: str) -> tuple[bool, str]:
    """Return a sort key for environment names, with production first."""
    return name != PRODUCTION, name


@dataclass(frozen=True, slots=True)
class ViewNames:
    """The names of an environment's views: `db.model` in production, `db__dev.model` in `dev`.

    Args:
        suffix: The part of the view's name that ends with the environment's name: `schema` gives
            `db__dev.model`, and `table` gives `db.model__dev`.
        mode: `dev_only` if production shows the tables themselves instead of views over tables.
    """

    environment: str
    suffix: SuffixTarget = "schema"
    mode: EnvironmentMode = "full"

    @property
    def are_tables(self) -> bool:
        """Whether models with tables are shown as tables instead of views."""
        return self.environment == PRODUCTION and self.mode == "dev_only"

    def ref(self, name: ModelName) -> TableRef:
        if self.environment == PRODUCTION:
            return TableRef(name.namespace, name.name)
        if self.suffix == "table":
            return TableRef(name.namespace, f"{name.name}__{self.environment}")
        return TableRef(f"{name.namespace}__{self.environment}", name.name)

    def quoted(self, name: ModelName, catalog: str) -> str:
        return self.ref(name).quoted(catalog)

    def require_free(self, shown: Iterable[ModelName], taken: Iterable[ModelName]) -> None:
        """Raise UsageError if a view would have the name of a production view or external table."""
        if self.environment == PRODUCTION:
            return
        names = {(name.namespace.lower(), name.name.lower()): name for name in taken}
        for name in shown:
            ref = self.ref(name)
            other = names.get((ref.namespace.lower(), ref.name.lower()))
            if other is not None:
                raise UsageError(
                    f"the view of {name} in an environment '{self.environment}' would have the "
                    f"same name as {other}",
                    hint="choose another name for the environment",
                )

    def same_as(self, other: ViewNames) -> bool:
        """Return whether both values give equal view names, and show the same models as tables."""
        if self.environment == PRODUCTION:
            return other.environment == PRODUCTION and self.are_tables == other.are_tables
        return self.environment == other.environment and self.suffix == other.suffix


@dataclass(frozen=True, slots=True)
class HeldState:
    """An earlier Iceberg snapshot of a table, which an environment still shows.

    Args:
        snapshot_id: None for a table without rows.
        schema_id: The Iceberg schema that readers see.
    """

    snapshot_id: int | None
    schema_id: int
    rows: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """A model in one version of an environment, with its snapshot and its table.

    Args:
        table_id: The physical table that serves it; None for views and external tables.
        held: The earlier state of the table that the entry shows; None for its current state.
    """

    name: ModelName
    snapshot_id: str
    table_id: str | None
    held: HeldState | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """One published version of an environment.

    Args:
        version: Number of the version, from 1.
        plan_id: The plan that was applied; None for another change, such as a rollback.
        published_at: Time of the publication (UTC).
        expires_at: Earliest time (UTC) at which the janitor may drop it, or None for never.
        note: Text for people (`rollback to 3`).
        frozen: The version that a frozen environment shows (`prod@41`); None if it may change.
        kept: Data that plug-ins store about other project files, by plug-in name.
    """

    name: str
    version: int
    entries: dict[ModelName, Entry]
    publication_id: str
    published_at: datetime
    published_by: str
    plan_id: str | None = None
    expires_at: datetime | None = None
    note: str = ""
    suffix: SuffixTarget = "schema"
    mode: EnvironmentMode = "full"
    frozen: str | None = None
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def views(self) -> ViewNames:
        return ViewNames(self.name, self.suffix, self.mode)

    @property
    def tables(self) -> frozenset[str]:
        entries = self.entries.values()
        return frozenset(entry.table_id for entry in entries if entry.table_id)

    @property
    def pinned_states(self) -> dict[str, HeldState]:
        """The earlier table states that the environment shows, by table id."""
        entries = self.entries.values()
        return {e.table_id: e.held for e in entries if e.table_id and e.held is not None}

    def require_whole(self) -> None:
        """Check that the environment shows each table at one Iceberg snapshot.

        Raises:
            ConflictError: A table is shown at two Iceberg snapshots, or `prod` shows a table at
                another Iceberg snapshot than its newest.
        """
        held = self.pinned_states
        if not held:
            return
        if self.name == PRODUCTION:
            raise ConflictError(
                f"'{PRODUCTION}' cannot show an earlier Iceberg snapshot of a table, because "
                "production's fills write to this table",
                hint=f"roll it back: vde rollback {PRODUCTION}",
            )
        for entry in self.entries.values():
            if entry.table_id in held and held[entry.table_id] != entry.held:
                raise ConflictError(
                    f"environment '{self.name}' would show the table of {entry.name} at two "
                    "different Iceberg snapshots",
                    hint=f"plan again: vde plan {self.name}",
                )


def require_changeable(name: str, frozen: str | None) -> None:
    """Raise UsageError if an environment shows a frozen version."""
    if frozen is not None:
        raise UsageError(
            f"environment '{name}' is frozen: it always shows {frozen}",
            hint=f"plan another environment, or drop this environment: vde drop {name}",
        )


def outdated_plan_error(name: str, base_version: int, current: Environment | None) -> ConflictError:
    """Return the error for an environment that was published after the plan was created."""
    version = current.version if current else 0
    who = f" by {current.published_by}" if current else ""
    return ConflictError(
        f"environment '{name}' was changed{who} from version {base_version} to {version} after the "
        "plan was created",
        hint=f"plan again: vde plan {name}",
    )


def protected_tables(environment: str, production: Environment | None) -> frozenset[str]:
    """Return the ids of tables that an environment may not write: production's; none for `prod`."""
    # Only production may write the tables that it shows.
    return frozenset() if environment == PRODUCTION or production is None else production.tables


MAX_NAME = 60
_SEPARATORS = re.compile(r"[-_/.#+]*[-/.#+][-_/.#+]*")


def branch_name(text: str) -> str:
    """Return the text if it looks like a Git branch such as `feature/x`, otherwise ""."""
    found = text.strip()
    known = re.fullmatch(r"[A-Za-z0-9_/.#+-]+", found) and _SEPARATORS.search(found)
    return found if known else ""


def environment_name(text: str) -> str:
    """Check and normalize an environment's name, or derive one from a branch name.

    >>> environment_name("Dev"), environment_name("pr-12"), environment_name("feature/x")
    ('dev', 'pr_12', 'feature_x')

    Raises:
        UsageError: The normalized name is empty or too long, starts or ends with `_`, or contains
            `__` or characters other than letters, digits and `_`.
    """
    branch = branch_name(text)
    name = _SEPARATORS.sub("_", text.strip().lower()) if branch else text.strip().lower()
    if branch and len(name) > MAX_NAME:
        # Long branch names with the same beginning stay distinct.
        end = hashlib.sha256(branch.encode()).hexdigest()[:8]
        name = f"{name[: MAX_NAME - 9].rstrip('_')}_{end}"
    if not re.fullmatch(f"[a-z0-9_]{{1,{MAX_NAME}}}", name):
        raise UsageError(
            f"'{text}' is not a valid environment name",
            hint=f"use up to {MAX_NAME} letters, digits and underscores, for example dev_anna, or "
            "the name of a branch, for example feature/x",
        )
    if "__" in name or name[0] == "_" or name[-1] == "_":
        raise UsageError(
            f"the environment name '{name}' starts or ends with '_', or contains '__'",
            hint="choose another name: '__' separates schema and environment in the catalog's "
            "namespaces",
        )
    return name
