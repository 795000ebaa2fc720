"""A kind's rules for plans: the version of its rows, its keys, the rows that audits read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks.diagnostics import place_in_header
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import OutputColumn
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.project.kinds import AddedColumn, Kind
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion


class Meaning:
    """How a kind's properties affect versions, keys, reads and audits of a model.

    Attributes:
        filled_once: Whether a table stays complete once it was filled.
        replaces_all: Whether a fill replaces all rows with exactly the query's result.
    """

    # The defaults suit a table that is written as a whole.
    filled_once: bool = False
    # Such a fill can be skipped while the inputs are unchanged.
    replaces_all: bool = False

    def standalone_version(self, model: Model) -> SemanticVersion | None:
        """Return the model's version if the kind itself computes it, as SEED does, or None."""
        return None

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Return the row version: a hash of everything that determines the rows that readers see.

        Raises:
            ProjectError: The kind names a column that the query does not have.
        """
        return version.rows

    def fill(self, model: Model, rows: str) -> str:
        """Return the fill version: a hash of the row version `rows` and of the model's `marks`."""
        return digest("fill", rows, "whole", *model.marks)

    def metadata(self, model: Model) -> list[str | None]:
        """Return properties of the kind that do not affect data, such as the size of batches."""
        return []

    def inputs(self, model: Model) -> Mapping[ModelName, Input]:
        """Return how a fill of the model reads each parent.

        By default, kinds filled by intervals read the rows of an interval, and other kinds read the
        whole table. A parent with `Input.BY_COMMITS` must be a table in the model's query.
        """
        how = Input.BY_INTERVAL if model.kind.by_intervals else Input.WHOLE
        return dict.fromkeys(model.depends_on, how)

    def changed_by(self, model: Model) -> tuple[str, ...]:
        """Return the key columns, if a fill replaces only the rows of changed keys."""
        # A fill of a key whose input is unchanged must change nothing.
        return ()

    def refreshes(self, model: Model) -> bool:
        """Return whether a fill computes only changed keys, rows or groups, if it can find them."""
        return bool(self.changed_by(model))

    def chooses(self, model: Model) -> bool:
        """Return whether each fill chooses between computing all rows and only changes."""
        return False

    def most_intervals(self, model: Model) -> int | None:
        """Return the maximum number of intervals per job, or None if it is unlimited."""
        return model.kind.batch_size or (1 if model.reads_itself else None)

    def is_cut_freely(self, model: Model) -> bool:
        """Return whether any division of a range into jobs gives the same rows."""
        return model.kind.batch_size is not None

    def batches_at_once(self, model: Model) -> int:
        """Return how many jobs may fill a table at once."""
        return 1 if model.reads_itself else model.kind.batch_concurrency or 1

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the sets of columns (in lower case) with unique values in the table."""
        return tuple(dict.fromkeys(version.unique_keys))

    def added(self, model: Model, version: SemanticVersion, rows: str) -> tuple[OutputColumn, ...]:
        """Return the columns that the kind adds to the query's columns, such as `valid_from`.

        Raises:
            ProjectError: The query has a column with the name of an added column.
        """
        made = {name.lower() for name in version.columns}
        for column in model.kind.added_columns:
            if column.name.lower() in made:
                raise ProjectError(
                    f"the query of {model.name} returns a column '{column.name}', but its kind "
                    f"{model.kind.name} adds a column of that name",
                    hint="give the query's column another name",
                    location=place_in_header(model, "kind", column.name),
                )
        return tuple(
            OutputColumn(
                column.name,
                column.type,
                self.added_version(model, version, rows, column),
                column.description,
            )
            for column in model.kind.added_columns
        )

    def added_version(
        self, model: Model, version: SemanticVersion, rows: str, column: AddedColumn
    ) -> str:
        return digest("added", model.kind.name, column.name, rows, *version.columns.values())

    def audited_rows(self, kind: Kind, rows: str, interval: Interval, time_type: str | None) -> str:
        """Return the query of the rows that audits check after a fill.

        Args:
            rows: The query that returns all of the model's rows.
            time_type: Spark SQL type of the time column, if there is one.
        """
        return rows

    @staticmethod
    def column_version(
        model: Model, version: SemanticVersion, column: str, *, named_in: str = "kind"
    ) -> str:
        """Return the version of an output column that the header's property `named_in` names.

        Raises:
            ProjectError: The query has no such column.
        """
        for name, value in version.columns.items():
            if name.lower() == column.lower():
                return value
        if not version.columns:
            return column
        names = f"its kind {model.kind.name}" if named_in == "kind" else named_in
        raise ProjectError(
            f"{model.name} has no output column '{column}', which {names} names",
            hint=f"its columns are {', '.join(version.columns)}",
            location=place_in_header(model, named_in, column),
        )


_MEANINGS: dict[type[Kind], Meaning] = {}
_PLUGINS: Seam[type[Meaning]] = Seam("kind_meanings")
MeaningClass = TypeVar("MeaningClass", bound="type[Meaning]")


def meaning_for(*kinds: type[Kind]) -> Callable[[MeaningClass], MeaningClass]:
    """Register the decorated subclass of `Meaning` for some kinds."""

    def register(cls: MeaningClass) -> MeaningClass:
        _MEANINGS.update(dict.fromkeys(kinds, cls()))
        return cls

    return register


def meaning_of(kind: Kind) -> Meaning:
    """Return the `Meaning` of a kind.

    Raises:
        UsageError: The kind's distribution is broken or registers no `Meaning`.
    """
    meaning = _MEANINGS.get(type(kind))
    if meaning is None:
        meaning = _MEANINGS[type(kind)] = _PLUGINS.require(kind.name)()
    return meaning
