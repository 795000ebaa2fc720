"""Checks for missing columns and tables that a file names, and for properties without effect."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName, quote
from vde_dagster.base.texts import did_you_mean, suggest
from vde_dagster.planning.checks import diagnostics
from vde_dagster.planning.snapshots.snapshot import Snapshot, column_types
from vde_dagster.project.kinds import External
from vde_dagster.project.macros.variables import EVALUATING, PROMOTING, STAGE
from vde_dagster.project.model import Audit, Model
from vde_dagster.project.properties.model_properties import METADATA
from vde_dagster.project.reading.builtin_audits import BUILTIN_AUDITS
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.versions.version import OTHER_COLUMNS, UNKNOWN_TABLE
from vde_dagster.sql.expressions import TRANSFORMS

_TRANSFORM = re.compile(r"\s*(?:\w+\s*\((?:\s*\d+\s*,)?\s*)?(`(?:[^`]|``)*`|[^\W\d]\w*)")
"""A column, or a partition transform with its column: `day`, `days(ts)`, `bucket(4, id)`."""


_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*$", re.DOTALL)


def check_partition_transforms(
    known: diagnostics.CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report partition expressions that Iceberg does not support."""
    model = known.model
    for text in model.partitioned_by if model.kind.owns_table else ():
        place = diagnostics.place_in_header(model, "partitioned_by")
        call = _CALL.match(text)
        if call is None:
            if _column(text) is None:
                hint = "write partitioned_by (column), or (days(column))"
                what = f"partitioned_by of {model.name}: '{text}' is not a column"
                yield Problem(what, hint, place)
            continue
        name = call[1].lower()
        if name not in TRANSFORMS:
            yield Problem(
                f"partitioned_by of {model.name}: Iceberg has no transform '{name}'",
                suggest(name, TRANSFORMS, "transforms"),
                place,
            )
        elif name in ("bucket", "truncate") and not re.search(r"(^|,)\s*\d+\s*(,|$)", call[2]):
            yield Problem(
                f"partitioned_by of {model.name}: '{text}' lacks a number",
                f"write {name}(16, column)",
                place,
            )


def check_named_columns(
    known: diagnostics.CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report columns that a header names but the query does not return."""
    model = known.model
    if known.columns is None or model.kind.is_external:
        return
    if not (model.partitioned_by or model.clustered_by or model.columns or model.grains) and (
        not model.column_descriptions
    ):
        return
    columns = [column.name for column in known.columns]
    have = {name.lower() for name in columns}

    declared = [column.name for column in model.columns] if model.query is not None else []
    named: tuple[tuple[str, str, Iterable[str | None]], ...] = (
        ("partitioned_by", "partitioned_by names", map(_column, model.partitioned_by)),
        ("clustered_by", "clustered_by names", map(_column, model.clustered_by)),
        ("columns", "columns declares", declared),
        ("column_descriptions", "column_descriptions names", model.column_descriptions),
        ("grain", "its grain names", chain.from_iterable(model.grains)),
    )
    for what, words, names in named:
        for name in dict.fromkeys(names):
            if name and name.lower() not in have:
                elsewhere = what == "column_descriptions" and model.described_in.get(name.lower())
                naming = f"{elsewhere.path} describes" if elsewhere else words
                yield Problem(
                    f"{model.name} has no column '{name}', which {naming}",
                    suggest(name, columns, "its columns"),
                    elsewhere or diagnostics.place_in_header(model, what, name),
                    certain=what in ("partitioned_by", "clustered_by"),
                )


def check_declared_columns(
    known: diagnostics.CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a model with a table whose columns are neither declared nor known."""
    model = known.model
    # A table that is not in the catalog has its own warning.
    if (
        known.unknown_star
        and model.kind.owns_table
        and not UNKNOWN_TABLE.fullmatch(known.unknown_star)
    ):
        yield Problem(
            f"{model.name}: the columns of its star are not known ({known.unknown_star})",
            "write the columns in place of the star, or declare them: columns (id INT, …)",
            model.location,
        )
    if model.python is not None and model.kind.owns_table and not model.columns:
        yield Problem(
            f"{model.name} is a Python model and does not declare its columns",
            "give the decorator columns={'name': 'TYPE', …}",
            model.location,
        )


def _column(text: str) -> str | None:
    found = _TRANSFORM.match(text)
    return found[1].strip("`").replace("``", "`") if found else None


_WORDS = re.compile(r"'(?:[^'\\]|\\.)*'|[^\W\d]\w*")
_OF_BUILTINS = frozenset(
    {
        "all",
        "and",
        "as",
        "audited_value",
        "by",
        "cast",
        "column_name",
        "count",
        "distinct",
        "distinct_values",
    }
    | {"duplicated_value", "failed", "false", "from", "group", "having", "in", "is", "lag"}
    | {"length", "like", "lower", "not", "not_null", "null", "or", "order", "over", "previous"}
    | {"rlike", "row_count", "select", "steps", "string", "this_model", "true", "union", "where"}
)
"""Words in the built-in audits' queries other than the model's columns."""


def check_audit_columns(
    known: diagnostics.CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report mistakes in audits' queries, such as columns that the model does not have."""
    if not known.model.audits or (known.columns is None and known.model.kind.is_read):
        return
    repeated = any(one.rule == "repeated" for one in known.findings)
    columns = {
        column.name: column.type or "UNKNOWN"
        for column in known.columns or ()
        if not (repeated and ":" in column.name)  # Those get a number behind their name.
    }
    plain = _OF_BUILTINS.union(name.lower() for name in columns)
    for audit in known.model.audits:
        words = {word.lower() for word in _WORDS.findall(audit.query) if word[0] != "'"}
        has_null_in_list = {"null", "in"} <= words
        is_plain = audit.name in BUILTIN_AUDITS and words <= plain and not has_null_in_list
        if not is_plain or audit.translated:
            yield from _read(known, audit, columns, parents)


def _read(
    known: diagnostics.CheckedModel,
    audit: Audit,
    columns: dict[str, str],
    parents: Mapping[ModelName, Snapshot],
) -> Iterator[Problem]:
    from vde_dagster.semantics.analysis import SPARK, analyze
    from vde_dagster.semantics.checks.operands import RULE, Origin
    from vde_dagster.semantics.translated import find_operators

    model = known.model
    schema = column_types({**parents, **known.audited})
    is_partial = isinstance(model.kind, External) and model.kind.partial
    schema[str(model.name)] = columns | ({OTHER_COLUMNS: "UNKNOWN"} if is_partial else {})
    this = quote(*model.name)
    origin = Origin(audit.dialect, frozenset(audit.dialect_trust), model.tool)
    arguments = f"SELECT {', '.join(audit.translated)} FROM {this}" if audit.translated else ""
    try:
        found = analyze(
            audit.query.replace("@this_model", this),
            schema,
            functions=known.functions,
            query_owner=f"audit {audit.name} of {model.name}",
            origin=SPARK if arguments else origin,
        )
    except SemanticError as error:
        for mistake in error.mistakes:
            word = mistake.word if isinstance(mistake, SemanticError) else None
            yield Problem(
                f"{model.name}: audit {audit.name}: {mistake.message}",
                mistake.hint,
                diagnostics.place_in_header(model, "audits", audit.name, word or ""),
            )
        return
    operators = find_operators(arguments, schema, origin, known.functions) if arguments else ()
    for one in (*found.findings, *operators):
        if one.rule not in diagnostics.NAMES:
            yield Problem(
                f"{model.name}: audit {audit.name}: {one.message}",
                one.hint,
                diagnostics.place_in_header(model, "audits", audit.name),
                # dbt's tests are often those of packages, which their users cannot edit.
                one.certain and not (one.rule == RULE and model.tool == "dbt"),
                untyped=one.untyped,
            )


_NEAR = 0.8
_FILES = frozenset(
    [
        "avro",
        "binaryfile",
        "csv",
        "delta",
        "hudi",
        "iceberg",
        "json",
        "orc",
        "parquet",
        "text",
        "xml",
    ]
)
"""Formats of files that Spark reads by their path, as in parquet.`/path`; in lower case."""
_NO_NAMESPACE = "default"
"""The namespace of tables named without one, unless a setting names another."""


def missing_table_problems(
    absent: Collection[ModelName], models: Mapping[ModelName, Model]
) -> Iterator[Problem]:
    # Similar models are suggested for undeclared tables.
    own = [name for name, model in models.items() if not model.kind.is_external]
    for name in absent:
        is_declared = bool(models[name].source)
        near = None if is_declared else _find_similar_model(name, own)
        file = name.namespace.lower() in _FILES
        readers = [
            str(one) for one, m in models.items() if name in (*m.depends_on, *m.audited_against)
        ]
        reader = readers[0] if readers else "a model"
        what = f"{reader} reads {name}, which is neither a model, nor declared, nor in the catalog"
        hint = "declare tables of other programs in external_models.yaml"
        if is_declared:
            what = f"{reader} reads {name}, which is declared but not in the catalog"
            hint = "create it before a plan computes its readers, or correct its declaration"
        if file:
            what = f"{reader} reads files by their path: {name.namespace}.`{name.name}` "
            what += "is looked up as a table of the lakehouse"
            hint = (
                "read them in a Python model, context.spark.read.format("
                f"'{name.namespace}').load('{name.name}'); a small CSV file is a SEED model"
            )
        elif near is not None:
            written = name.name if name.namespace == _NO_NAMESPACE else str(name)
            hint = did_you_mean(written, str(near), f" Else {hint}")
        yield Problem(what, hint, models[name].location, certain=file or near is not None)


def _find_similar_model(name: ModelName, own: Collection[ModelName]) -> ModelName | None:
    # If the name has no schema, models of all schemas are searched.
    for candidate in own:
        same = candidate.name.lower() == name.name.lower()
        if name.namespace.lower() == _NO_NAMESPACE and same:
            return candidate
        alike = difflib.SequenceMatcher(None, name.name.lower(), candidate.name.lower())
        if _differ_by_one_letter(name.namespace.lower(), candidate.namespace.lower()) and (
            same or alike.ratio() >= _NEAR
        ):
            return candidate
    return None


def _differ_by_one_letter(one: str, other: str) -> bool:
    """Return whether two texts differ by one letter, or by two swapped letters."""
    shorter, longer = sorted((one, other), key=len)
    if one == other or len(longer) - len(shorter) > 1 or len(shorter) < 2:
        return False
    if len(shorter) < len(longer):
        return any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))
    wrong = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(wrong) == 2:
        first, second = wrong
        return one[first] == other[second] and one[second] == other[first]
    return len(wrong) == 1


_OF_CATALOGS = {"default_catalog": "models live in the project's catalog"}
_OF_TABLES = {
    "partitioned_by": "has no table to be partitioned",
    "clustered_by": "has no table to be sorted",
    "table_properties": "has no table to have properties",
    "physical_properties": "has no table to have properties",
    "storage_format": "has no table to have a format",
}
_OF_KINDS = {
    "materialized": "neither Spark nor Iceberg has materialized views; a FULL model has a table",
    "batch_size": "its whole table is filled at once",
    "forward_only": "every change recomputes its whole table",
}
_NO_STAGES = {
    "loading": "macros run only once, when files are read",
    "creating": "a table is made by the fill that first writes it",
    "demoting": "nothing runs when a view is dropped",
}
_OF_VIEWS = {"virtual_properties": "has no view to have properties"}


def unused_properties(
    known: diagnostics.CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    model, kind = known.model, known.model.kind
    given = diagnostics.properties_in_header(model)
    for name, why in {**METADATA, **_OF_CATALOGS}.items():
        if name in given:
            yield _idle(model, name, f"property '{name}' does nothing here: {why}")
    for name in diagnostics.repeated_properties(model):
        message = f"property '{name}' is given twice; the last value counts"
        place = diagnostics.place_in_header(model, name, name)
        hint = diagnostics.hint_to_remove_property(model, name, "remove the other value")
        yield Problem(message, hint, place, certain=False)
    written = diagnostics.kind_in_header(model)
    if written is None:
        return
    lacking = ({} if written.owns_table else _OF_TABLES) | ({} if written.is_shown else _OF_VIEWS)
    for name, why in lacking.items():
        if name in given:
            yield _idle(model, name, f"property '{name}' does nothing: a {kind.name} model {why}")
    # How the kind's own SQL is written is read with it.
    read = {item.name for item in written.properties} | {"name", "dialect"}
    for name in sorted(given.get("kind", frozenset()) - read):
        why = f": {_OF_KINDS[name]}" if name in _OF_KINDS else ""
        yield _idle(model, name, f"property '{name}' does nothing for a {kind.name} model{why}")


def unused_statements(
    known: diagnostics.CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report statements and audits that never run or have no effect."""
    model, kind = known.model, known.model.kind
    groups = {
        "statements before and after its query are": model.pre_statements or model.post_statements,
        "statements on virtual update are": model.on_virtual_update,
        "audits are": model.audits,
    }
    for what, given in groups.items():
        if given and not kind.is_shown and not kind.is_audited:
            yield Problem(
                f"{model.name} is {kind.name}, so readers contain its query: its {what} not run",
                "move them to the models that read it, or choose kind VIEW",
                model.location,
                certain=False,
            )
    for following, place in diagnostics.statements_after_header(model, "CACHE"):
        if following.is_word("TABLE", "LAZY"):
            yield Problem(
                f"{model.name}: CACHE TABLE caches nothing here; each query that reads the "
                "cached table computes it again",
                "write CREATE TEMPORARY VIEW; to compute the query only once, make it a model",
                place,
                certain=False,
            )


def unused_stages(
    known: diagnostics.CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report comparisons of `@runtime_stage` with a SQLMesh stage that vde does not have."""
    for stage, place in diagnostics.find_compared_texts(known.model, STAGE):
        if stage in _NO_STAGES:
            yield Problem(
                f"{known.model.name}: @{STAGE} is never '{stage}' here: {_NO_STAGES[stage]}",
                f"compare with '{EVALUATING}', or in on_virtual_update with '{PROMOTING}'",
                place,
                certain=False,
            )


def _idle(model: Model, name: str, message: str) -> Problem:
    hint = diagnostics.hint_to_remove_property(model, name, f"remove '{name}'")
    return Problem(message, hint, diagnostics.place_in_header(model, name), certain=False)
