"""INCREMENTAL_BY_PARTITION and INCREMENTAL_UNMANAGED: tables whose rows name no interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.hashing import digest
from vde_dagster.errors import ProjectError
from vde_dagster.planning.cadence import Cadence
from vde_dagster.planning.checks.places import place_in_header
from vde_dagster.planning.kinds.base import version_of
from vde_dagster.planning.kinds.incremental import IncrementalMeaning
from vde_dagster.project.kinds import IncrementalUnmanaged
from vde_dagster.project.model import Model
from vde_dagster.semantics import SemanticVersion

if TYPE_CHECKING:
    from vde_dagster.sql.expressions import Expression


class PartitionMeaning(IncrementalMeaning):
    """A partition's rows are those of the last fill that had any of it."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add what the table is partitioned by."""
        return digest("partitions", version.rows, *_over_versions(model, version))

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the query's keys that tell partitions apart: a fill writes whole partitions."""
        by = {name.lower() for text in model.partitioned_by for name in _columns_of(model, text)}
        keys = (key for key in version.unique_keys if by <= {name.lower() for name in key})
        return tuple(keys)


class UnmanagedMeaning(PartitionMeaning):
    """Every fill's rows, or with `insert_overwrite` those that none has replaced since."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Say whether rows are replaced, and by which partitions."""
        kind = model.kind
        assert isinstance(kind, IncrementalUnmanaged)
        if kind.insert_overwrite:
            return digest("overwritten", super().rows(model, version))
        return digest("appended", version.rows)

    def fill(self, model: Model, rows: str) -> str:
        """Add the unit of time: a unit that was filled by smaller ones would be filled again."""
        filled = super().fill(model, rows)
        return digest("fill", filled, Cadence.of(model).unit.name)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return no key where fills add rows."""
        kind = model.kind
        assert isinstance(kind, IncrementalUnmanaged)
        return super().unique_keys(model, version) if kind.insert_overwrite else ()


def _read(model: Model, text: str) -> Expression:
    from vde_dagster.sql.expressions import read_expression

    try:
        return read_expression(text)
    except ValueError as error:
        raise ProjectError(
            f"{model.name}: '{text}' in partitioned_by is not an expression: {error}",
            hint="write columns, or Iceberg's transforms of them such as days(at)",
            location=place_in_header(model, "partitioned_by"),
        ) from error


def _columns_of(model: Model, text: str) -> tuple[str, ...]:
    return tuple(parts[0] for parts, _ in _read(model, text).mentions)


def _over_versions(model: Model, version: SemanticVersion) -> list[str]:
    out = []
    for text in model.partitioned_by:
        columns = _columns_of(model, text)
        names = {
            name.lower(): version_of(model, version, name, named_in="partitioned_by")
            for name in columns
        }
        out.append(_read(model, text).renamed(names))
    return sorted(out)
