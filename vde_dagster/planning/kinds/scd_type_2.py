"""SCD_TYPE_2_BY_TIME and SCD_TYPE_2_BY_COLUMN: versions of rows with their validity."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks.diagnostics import place_in_header
from vde_dagster.planning.kinds.base import Meaning, meaning_for
from vde_dagster.planning.kinds.simple import audited_keys
from vde_dagster.planning.kinds.unique_key import check_deterministic, is_unique_by_key
from vde_dagster.planning.snapshots.snapshot import OutputColumn
from vde_dagster.project.kinds import AddedColumn, ScdType2, ScdType2ByColumn, ScdType2ByTime
from vde_dagster.project.kinds.scd_type_2 import ALL, columns_in, key_column
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster.sql.expressions import read_expression


@meaning_for(ScdType2ByTime, ScdType2ByColumn)
class ScdMeaning(Meaning):
    # Rows depend on the compared columns and on the time of the load. A table of the same content
    # continues its history. A new table starts with the current rows of its sources, so everything
    # that causes a new table is part of the row version. Then the readers of the table are
    # recomputed, too.
    def rows(self, model: Model, version: SemanticVersion) -> str:
        # It includes the key, the compared columns, the source of the validity times, and `marks`.
        kind = ScdType2.from_model(model)
        key = sorted(_part_version(model, version, part) for part in kind.unique_key)
        plain = all(key_column(part) is not None for part in kind.unique_key)
        one_row = plain and is_unique_by_key(kind.key_columns, version)
        updated = kind.updated_at_name
        compared = kind.compared
        if compared is None:
            changes = ["time"]
        elif compared == ALL:
            changes = ["all", *version.columns.values()]
        else:
            changes = sorted(self.column_version(model, version, name) for name in compared)
        return digest(
            "scd",
            version.rows,
            kind.name,
            kind.time_data_type,
            str(kind.dates_first_load),
            str(kind.invalidate_hard_deletes),
            str(kind.batch_size),
            *model.marks,
            self.column_version(model, version, updated) if updated else None,
            "|",
            *key,
            "|",
            *changes,
            "|",
            # Which of a key's rows is taken is decided by all columns in their order.
            *([] if one_row else version.columns.values()),
        )

    def fill(self, model: Model, rows: str) -> str:
        # `rows` already includes everything that determines the history.
        return digest("fill", rows, model.kind.name, *model.marks)

    def changed_by(self, model: Model) -> tuple[str, ...]:
        # A dbt snapshot has none, because each fill begins new versions of rows whose key is NULL.
        kind = ScdType2.from_model(model)
        return kind.key_columns if kind.refresh == "changes" and not kind.as_dbt else ()

    def metadata(self, model: Model) -> list[str | None]:
        parts: list[str | None] = [] if model.kind.disable_restatement else ["restatable"]
        return [*parts, "refresh", "changes"] if self.changed_by(model) else parts

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        # Two versions of a key never start, or end, at the same time. With `as_dbt` they may, so
        # only the audited keys are returned. Audits check the whole table after every fill.
        kind = ScdType2.from_model(model)
        if kind.as_dbt:
            return tuple(dict.fromkeys(audited_keys(model)))
        key = frozenset(name.lower() for name in kind.key_columns)
        keys = [key | {kind.valid_from_name.lower()}, key | {kind.valid_to_name.lower()}]
        return tuple(dict.fromkeys((*keys, *audited_keys(model))))

    def added(self, model: Model, version: SemanticVersion, rows: str) -> tuple[OutputColumn, ...]:
        kind = ScdType2.from_model(model)
        if kind.valid_from_name.lower() == kind.valid_to_name.lower():
            raise ProjectError(
                f"{model.name}: valid_from_name equals valid_to_name: '{kind.valid_from_name}'",
                hint="give valid_from_name and valid_to_name different values",
                location=place_in_header(model, "kind", "valid_to_name"),
            )
        return super().added(model, version, rows)

    def added_version(
        self, model: Model, version: SemanticVersion, rows: str, column: AddedColumn
    ) -> str:
        # The role is start or end of validity, or deletion.
        kind = ScdType2.from_model(model)
        ends = {kind.valid_from_name: "from", kind.valid_to_name: "to"}
        return digest("added", "scd", ends.get(column.name, "deleted"), rows)


def _part_version(model: Model, version: SemanticVersion, part: str) -> str:
    versions = {
        name.lower(): Meaning.column_version(model, version, name) for name in columns_in(part)
    }
    if key_column(part) is not None:
        (found,) = versions.values()
        return found
    expression = read_expression(part)
    check_deterministic(model, expression.functions, part)
    return expression.renamed(versions)
