"""Rules of INCREMENTAL_BY_UNIQUE_KEY: one row per key."""

from __future__ import annotations

from collections.abc import Iterable

from vde_dagster.base.hashing import digest
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks.diagnostics import place_in_header
from vde_dagster.planning.kinds.base import Meaning, meaning_for
from vde_dagster.planning.kinds.incremental import IncrementalMeaning
from vde_dagster.project.kinds import IncrementalByUniqueKey
from vde_dagster.project.kinds.unique_key import DELETE_INSERT
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster.sql.expressions import read_expression


@meaning_for(IncrementalByUniqueKey)
class UniqueKeyMeaning(IncrementalMeaning):
    # A merge keeps the newest row of each key. With a dbt strategy, it keeps all rows of a key.
    def rows(self, model: Model, version: SemanticVersion) -> str:
        kind = IncrementalByUniqueKey.from_model(model)
        key = [self.column_version(model, version, name) for name in kind.unique_key]
        rows = digest("key", version.rows, *sorted([*key, *_key_expressions(model, version)]))
        if not is_unique_by_key(kind.unique_key, version):
            # Which of a key's rows is kept is decided by all columns in their order.
            rows = digest("one of several", rows, *version.columns.values())
            if kind.strategy == DELETE_INSERT:
                rows = digest(DELETE_INSERT, rows)
        if kind.when_matched or kind.merge_filter:
            rows = digest("merge", rows, *_merge(model, version))
        return rows

    def changed_by(self, model: Model) -> tuple[str, ...]:
        # A model with a dbt strategy has none, because each fill may insert rows whose key is NULL
        # again.
        kind = IncrementalByUniqueKey.from_model(model)
        return kind.unique_key if kind.refresh == "changes" and not kind.strategy else ()

    def metadata(self, model: Model) -> list[str | None]:
        parts = super().metadata(model)
        return [*parts, "refresh", "changes"] if self.changed_by(model) else parts

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the kind's key, or no key if a merge can write two rows with one key."""
        # There is no unique key for a dbt strategy, for a filter that allows a second row of a key,
        # and for a clause that sets a column of the key.
        kind = IncrementalByUniqueKey.from_model(model)
        if kind.strategy:
            return ()
        columns = {name.lower() for name in kind.unique_key}
        for text in kind.key_expressions:
            columns |= {parts[0].lower() for parts, _ in read_expression(text).mentions}
        sets = {
            column.lower()
            for _, assigned in kind.when_matched
            for column, text in assigned
            if column not in kind.unique_key or text.lower() != f"source.{column}".lower()
        }
        return () if kind.merge_filter or sets & columns else (frozenset(columns),)


def is_unique_by_key(key: Iterable[str], version: SemanticVersion) -> bool:
    """Return whether the query certainly returns each key at most once."""
    key = {name.lower() for name in key}
    return any({name.lower() for name in known} <= key for known in version.unique_keys)


def _key_expressions(model: Model, version: SemanticVersion) -> list[str]:
    kind = IncrementalByUniqueKey.from_model(model)
    out = []
    for text in kind.key_expressions:
        found = read_expression(text)
        check_deterministic(model, found.functions, text)
        names = dict.fromkeys(parts[0] for parts, _ in found.mentions)
        out.append(
            found.renamed({n.lower(): Meaning.column_version(model, version, n) for n in names})
        )
    return out


def _merge(model: Model, version: SemanticVersion) -> list[str]:
    """Return the merge clauses and the filter, with column versions in place of column names."""
    kind = IncrementalByUniqueKey.from_model(model)
    versions = {n.lower(): Meaning.column_version(model, version, n) for n in kind.merge_columns}

    def over_versions(text: str) -> str:
        if text in ("", "*"):
            return text
        found = read_expression(text)
        check_deterministic(model, found.functions, text, ("aggregate", "ordered aggregate"))
        return found.renamed_sides(dict.fromkeys(("source", "target"), versions))

    out = ["filter", over_versions(kind.merge_filter)]
    for condition, assigned in kind.when_matched:
        out += ["when", over_versions(condition)]
        for column, text in assigned:
            out += ["set", versions.get(column.lower(), column), over_versions(text)]
    return out


def check_deterministic(
    model: Model,
    functions: tuple[str, ...],
    text: str,
    refused: tuple[str, ...] = ("aggregate", "ordered aggregate", "unsteady", "generator"),
) -> None:
    """Raise ProjectError if an expression in a model's kind calls a refused type of function.

    Args:
        functions: The functions that the expression calls, in lower case.
        text: The expression, for the message.
        refused: Types of functions (`spark_functions.function_kind`). By default, aggregates,
            generators such as `explode`, and nondeterministic functions (`unsteady`).
    """
    from vde_dagster.semantics import spark_functions

    for name in functions:
        if spark_functions.function_kind(name) in refused:
            raise ProjectError(
                f"{model.name}: '{name}' is not allowed in '{text}' of its kind "
                f"{model.kind.name}: it is not a function of one row",
                hint="use functions of the row's columns alone, or compute it in the query",
                location=place_in_header(model, "kind", name),
            )
