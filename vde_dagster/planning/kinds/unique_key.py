"""INCREMENTAL_BY_UNIQUE_KEY: tables that are merged on a key."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks.places import place_in_header
from vde_dagster.planning.kinds.base import version_of
from vde_dagster.planning.kinds.incremental import IncrementalMeaning
from vde_dagster.project.kinds import IncrementalByUniqueKey
from vde_dagster.project.model import Model
from vde_dagster.semantics import SemanticVersion

_SIDES = ("source", "target")


class UniqueKeyMeaning(IncrementalMeaning):
    """One row per key: the newest that was merged."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the key, what decides which of a key's rows is kept, and how rows are merged."""
        kind = model.kind
        assert isinstance(kind, IncrementalByUniqueKey)
        key = [version_of(model, version, name) for name in kind.unique_key]
        rows = digest("key", version.rows, *sorted([*key, *_key_expressions(model, version)]))
        if not _one_row_per_key(kind, version):
            # Which of a key's rows is kept is decided by all columns in their order.
            rows = digest("one of several", rows, *version.columns.values())
        if kind.when_matched or kind.merge_filter:
            rows = digest("merge", rows, *_merge(model, version))
        return rows

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the columns of the key: rows that share them all share the key.

        Nothing is promised where the filter lets a key be inserted that is there, or where a
        clause sets what the key is made of.
        """
        kind = model.kind
        assert isinstance(kind, IncrementalByUniqueKey)
        columns = {name.lower() for name in kind.unique_key}
        for text in kind.key_expressions:
            columns |= _columns_of(text)
        sets = {
            column.lower()
            for _, assigned in kind.when_matched
            for column, text in assigned
            if column not in kind.unique_key or text.lower() != f"source.{column}".lower()
        }
        return () if kind.merge_filter or sets & columns else (frozenset(columns),)


def _one_row_per_key(kind: IncrementalByUniqueKey, version: SemanticVersion) -> bool:
    """Say whether the query itself returns no key twice."""
    key = {name.lower() for name in kind.unique_key}
    return any({name.lower() for name in known} <= key for known in version.unique_keys)


def _columns_of(text: str) -> set[str]:
    from vde_dagster.sql.expressions import read_expression

    return {parts[0].lower() for parts, _ in read_expression(text).mentions}


def _key_expressions(model: Model, version: SemanticVersion) -> list[str]:
    """Return the key's expressions over the versions of their columns."""
    from vde_dagster.sql.expressions import read_expression

    kind = model.kind
    assert isinstance(kind, IncrementalByUniqueKey)
    out = []
    for text in kind.key_expressions:
        found = read_expression(text)
        check_steady(model, found.functions, text)
        names = dict.fromkeys(parts[0] for parts, _ in found.mentions)
        out.append(found.renamed({n.lower(): version_of(model, version, n) for n in names}))
    return out


def _merge(model: Model, version: SemanticVersion) -> list[str]:
    """Return the clauses and the filter over the versions of their columns."""
    from vde_dagster.sql.expressions import read_expression

    kind = model.kind
    assert isinstance(kind, IncrementalByUniqueKey)
    versions = {n.lower(): version_of(model, version, n) for n in kind.merge_columns}
    sides = dict.fromkeys(_SIDES, versions)

    def over_versions(text: str) -> str:
        if text in ("", "*"):
            return text
        found = read_expression(text)
        check_steady(model, found.functions, text, ("aggregate", "ordered aggregate"))
        return found.renamed_sides(sides)

    out = ["filter", over_versions(kind.merge_filter)]
    for condition, assigned in kind.when_matched:
        out += ["when", over_versions(condition)]
        for column, text in assigned:
            out += ["set", versions.get(column.lower(), column), over_versions(text)]
    return out


def check_steady(
    model: Model,
    functions: tuple[str, ...],
    text: str,
    refused: tuple[str, ...] = ("aggregate", "ordered aggregate", "unsteady", "generator"),
) -> None:
    """Refuse functions in an expression of a kind that has to be one value of a row.

    Args:
        model: The model.
        functions: The functions that the expression calls, in lower case.
        text: The expression.
        refused: Kinds of functions.

    Raises:
        ProjectError: It calls such a function; points at it.
    """
    from vde_dagster.semantics import spark_functions

    for name in functions:
        if spark_functions.kind(name) in refused:
            raise ProjectError(
                f"{model.name}: '{name}' cannot stand in '{text}' of its kind {model.kind.name}: "
                "it has not one value for a row of its own",
                hint="use functions of the row's columns alone, or compute it in the query",
                location=place_in_header(model, "kind", name),
            )
