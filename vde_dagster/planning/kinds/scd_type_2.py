"""SCD_TYPE_2_BY_TIME and SCD_TYPE_2_BY_COLUMN: tables that keep every version of a row."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks.places import place_in_header
from vde_dagster.planning.kinds.base import Meaning, version_of
from vde_dagster.planning.kinds.unique_key import check_steady
from vde_dagster.planning.proven_keys import proven_keys
from vde_dagster.planning.snapshot import OutputColumn
from vde_dagster.project.kinds import AddedColumn, ScdType2
from vde_dagster.project.kinds.keys import columns_of, part_column
from vde_dagster.project.kinds.scd_type_2 import ALL
from vde_dagster.project.model import Model
from vde_dagster.semantics import SemanticVersion
from vde_dagster.sql.expressions import read_expression


class ScdMeaning(Meaning):
    """Which versions a key has is decided by all that tells them apart, and by when it is looked.

    A table of the same content goes on with the history that it has; one that is made anew begins
    with what its sources say today. Whatever makes it anew is therefore in the version of its
    rows, so that its readers are made anew with it.
    """

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the key, what makes a version, how its time is told, and the marks."""
        kind = _kind(model)
        key = sorted(_part_version(model, version, part) for part in kind.unique_key)
        updated = kind.updated_at
        compared = kind.compared
        if compared is None:
            changes = ["time"]
        elif compared == ALL:
            changes = ["all", *version.columns.values()]
        else:
            changes = sorted(version_of(model, version, name) for name in compared)
        return digest(
            "scd",
            version.rows,
            kind.name,
            kind.time_data_type,
            str(kind.begins_when_seen),
            str(kind.invalidate_hard_deletes),
            str(kind.batch_size),
            *model.marks,
            version_of(model, version, updated) if updated else None,
            "|",
            *key,
            "|",
            *changes,
            "|",
            # Which of a key's rows is taken is decided by all columns in their order.
            *([] if _one_row_per_key(kind, version) else version.columns.values()),
        )

    def fill(self, model: Model, rows: str) -> str:
        """Hash the rows, in which everything is."""
        return digest("fill", rows, model.kind.name, *model.marks)

    def metadata(self, model: Model) -> list[str | None]:
        """Return whether the history may be made anew."""
        return ["restatable"] if model.kind.restatable else []

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the key with either end of a version, and what blocking audits check.

        No version lasts no time, so no two of a key begin or end together. Audits look at the
        whole table after every fill.
        """
        kind = _kind(model)
        key = frozenset(name.lower() for name in kind.key_columns)
        keys = [key | {kind.valid_from_name.lower()}, key | {kind.valid_to_name.lower()}]
        for audit in model.audits:
            if audit.blocking:
                keys += proven_keys(audit.query)
        return tuple(dict.fromkeys(keys))

    def added(self, model: Model, version: SemanticVersion, rows: str) -> tuple[OutputColumn, ...]:
        """Return the ends of a version, which must have names of their own."""
        kind = _kind(model)
        if kind.valid_from_name.lower() == kind.valid_to_name.lower():
            raise ProjectError(
                f"{model.name}: both ends of a version are called '{kind.valid_from_name}'",
                hint="give valid_from_name and valid_to_name different values",
                location=place_in_header(model, "kind", "valid_to_name"),
            )
        return super().added(model, version, rows)

    def added_version(
        self, model: Model, version: SemanticVersion, rows: str, column: AddedColumn
    ) -> str:
        """Hash the rows and which end it is: its name takes no part."""
        end = "from" if column.name == _kind(model).valid_from_name else "to"
        return digest("added", "scd", end, rows)


def _kind(model: Model) -> ScdType2:
    assert isinstance(model.kind, ScdType2)
    return model.kind


def _part_version(model: Model, version: SemanticVersion, part: str) -> str:
    """Return the version of a column of the key, or an expression over its columns' versions."""
    versions = {name.lower(): version_of(model, version, name) for name in columns_of(part)}
    if part_column(part) is not None:
        (found,) = versions.values()
        return found
    expression = read_expression(part)
    check_steady(model, expression.functions, part)
    return expression.renamed(versions)


def _one_row_per_key(kind: ScdType2, version: SemanticVersion) -> bool:
    """Say whether the query itself returns no key twice."""
    if any(part_column(part) is None for part in kind.unique_key):
        return False
    key = {name.lower() for name in kind.key_columns}
    return any({name.lower() for name in known} <= key for known in version.unique_keys)
