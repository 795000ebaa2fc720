"""Building a model's snapshot from its parents' snapshots."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from vde_dagster.base.failures import Problem
from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks.check_model import check_model
from vde_dagster.planning.checks.diagnostics import CheckedModel
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.kinds.repeatable import reads_clock
from vde_dagster.planning.snapshots.identity import with_content_id
from vde_dagster.planning.snapshots.snapshot import (
    CANONICALISER,
    OutputColumn,
    Read,
    Snapshot,
    column_types,
)
from vde_dagster.project.kinds import Kind
from vde_dagster.project.model import Model, PythonSource
from vde_dagster.project.python.literal_queries import literal_queries
from vde_dagster.semantics.errors import SemanticError, mistake_offset
from vde_dagster.semantics.versions.lineage import ColumnLineage
from vde_dagster.semantics.versions.version import SemanticVersion, opaque_version

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.semantics.analysis import Analysis


_STRING = re.compile(r"""([rR]'[^']*'|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)
"""A Spark string literal; a string with a doubled quote counts as two literals."""


def build_snapshot(model: Model, parents: Mapping[ModelName, Snapshot]) -> Snapshot:
    """Compute the versions, columns and reads of one model from its parents' snapshots."""
    return build_and_check_snapshot(model, parents, (), (), CANONICALISER, None)[0]


def build_and_check_snapshot(
    model: Model,
    parents: Mapping[ModelName, Snapshot],
    scalar_functions: Sequence[str],
    functions: Sequence[str],
    canonicaliser: str,
    tree: exp.Expr | None,
    audited: Mapping[ModelName, Snapshot] | None = None,
) -> tuple[Snapshot, tuple[Problem, ...]]:
    """Compute one model's snapshot, and find mistakes in the model.

    Args:
        scalar_functions: User functions that are deterministic and scalar.
        tree: The query's syntax tree, if it was parsed before. The call modifies the tree.
        audited: Snapshots of models that only the model's audits read; None if not available.
    """
    version, columns, reads, analysis = _meaning(model, parents, scalar_functions, functions, tree)
    if model.session:
        version, columns = _add_session_settings(model, version, columns)
    meaning = meaning_of(model.kind)
    rows = meaning.rows(model, version)
    if model.pre_statements or model.post_statements:
        rows = digest("statements", rows, *model.pre_statements, "|", *model.post_statements)
    version = replace(version, rows=rows, unique_keys=meaning.unique_keys(model, version))
    # A kind that is written as a whole cannot read itself; the checks report it.
    if model.reads_itself and model.python is None and model.kind.by_intervals:
        _check_own_types(model, columns)
    added = meaning.added(model, version, rows)
    if added:
        version = replace(
            version, columns={**version.columns, **{item.name: item.version for item in added}}
        )
        columns = (*columns, *added)
    fill = meaning.fill(model, rows)
    metadata = _metadata_hash(model)
    properties = chain.from_iterable(sorted(model.table_properties))
    layout = digest("layout", *model.partitioned_by, "|", *model.clustered_by, "|", *properties)
    snapshot = Snapshot(
        id="",
        model=model,
        version=version,
        fill_version=fill,
        metadata_hash=metadata,
        layout_hash=layout,
        columns=columns,
        parents=tuple(parents),
        canonicaliser=canonicaliser,
        definition_hash=_definition_hash(model, metadata, layout),
        reads=reads,
        other_texts=_other_texts(model, analysis),
    )
    snapshot = with_content_id(snapshot)
    whole = columns if analysis is None or analysis.complete else None
    findings = () if analysis is None else analysis.findings
    functions = (*scalar_functions, *functions)
    inputs = meaning.inputs(model)
    changed_by = meaning.changed_by(model)
    # A model that chooses computes all rows without a warning.
    needs_clock = meaning.refreshes(model) and not meaning.chooses(model)
    clock = reads_clock(model.query or "") if needs_clock else None
    known = CheckedModel(
        model,
        whole or None,
        findings,
        functions,
        audited or {},
        inputs,
        changed_by,
        clock,
        None if model.columns else version.unknown_star,
    )
    return snapshot, check_model(known, parents)


_Meaning = tuple[SemanticVersion, tuple[OutputColumn, ...], tuple[Read, ...], "Analysis | None"]


def _meaning(
    model: Model,
    parents: Mapping[ModelName, Snapshot],
    scalar_functions: Sequence[str],
    functions: Sequence[str],
    tree: exp.Expr | None,
) -> _Meaning:
    declared = {column.name: column for column in model.columns}
    parent_versions = {str(name): snapshot.version for name, snapshot in parents.items()}
    own = meaning_of(model.kind).standalone_version(model)
    if own is not None:
        return own, _columns(model, own, {}), (), None
    if model.python is not None:
        version, reads = _python_meaning(model, model.python, parents, parent_versions, functions)
        return version, _columns(model, version, {}), reads, None
    assert model.query is not None
    from vde_dagster.semantics.analysis import analyze
    from vde_dagster.semantics.checks.operands import Origin
    from vde_dagster.semantics.session import read_session
    from vde_dagster.sql.definitions import TableColumn

    schema = column_types(parents)
    try:
        analysis = analyze(
            model.query,
            schema,
            parents=parent_versions,
            scalar_functions=tuple(scalar_functions),
            functions=functions,
            tree=tree,
            query_owner=str(model.name),
            session=read_session(model.session, model.pre_statements),
            origin=Origin(
                model.dialect,
                frozenset(model.dialect_trust),
                model.tool,
                frozenset(
                    TableColumn(str(name).lower(), column)
                    for name, parent in parents.items()
                    if parent.model.dialect == model.dialect
                    for column in parent.other_texts
                ),
            ),
        )
    except SemanticError as error:
        raise ProjectError.combine(_add_place(one, model) for one in error.mistakes) from error
    version = analysis.version
    if declared:
        version = replace(version, columns=_declared_versions(model, version))
    reads = _reads(analysis.lineage)
    version = _with_types_in_place(version, parents, model.query, reads)
    columns = _columns(model, version, analysis.output_types)
    return version, columns, reads, analysis


def _other_texts(model: Model, analysis: Analysis | None) -> tuple[str, ...]:
    """Return columns whose casts to text differ between the model's dialect and Spark.

    Columns of declared type are left out.
    """
    declared = {column.name.lower() for column in model.columns if column.type}
    return tuple(sorted((analysis.other_texts if analysis else frozenset()) - declared))


def _with_types_in_place(
    version: SemanticVersion,
    parents: Mapping[ModelName, Snapshot],
    query: str | None,
    reads: Sequence[Read],
) -> SemanticVersion:
    """Add column types that changed in place to the hashes of a model that reads these columns."""
    # These columns keep their versions. A new field affects only outputs that read the whole
    # column. A wider type affects every output that reads the column. Without a `query`, as for
    # Python code, all columns of the parents are read.
    changed = {
        (str(name), column.lower()): digest("fields", *(text for one in own for text in one.texts))
        for name, snapshot in parents.items()
        if snapshot.forward is not None
        for column, own in snapshot.forward.fields
    }
    if changed and query is not None and version.opaque is None:
        from vde_dagster.sql.casts import whole_columns

        whole = whole_columns(query)
        if whole is not None:
            changed = {key: text for key, text in changed.items() if key[1] in whole}
    changed |= {
        (str(name), column.lower()): digest("widened", type_)
        for name, snapshot in parents.items()
        if snapshot.forward is not None
        for column, type_ in snapshot.forward.widened
    }
    if not changed:
        return version
    if query is None or version.opaque is not None:
        every = sorted(changed.values())
        made = {name: digest("nested", value, *every) for name, value in version.columns.items()}
        return replace(version, rows=digest("nested", version.rows, *every), columns=made)
    found: dict[str | None, set[str]] = {}
    for read in reads:
        text = changed.get((read.parent, read.column.lower()))
        if text is not None:
            output = read.output.lower() if read.output is not None else None
            found.setdefault(output, set()).add(text)
    made = {
        name: digest("nested", value, *sorted(found[name])) if name in found else value
        for name, value in version.columns.items()
    }
    rows = digest("nested", version.rows, *sorted(found[None])) if None in found else version.rows
    return replace(version, rows=rows, columns=made)


def _add_session_settings(
    model: Model, version: SemanticVersion, columns: tuple[OutputColumn, ...]
) -> tuple[SemanticVersion, tuple[OutputColumn, ...]]:
    settings = [*chain.from_iterable(model.session)]
    made = {name: digest("session", value, *settings) for name, value in version.columns.items()}
    version = replace(version, rows=digest("session", version.rows, *settings), columns=made)
    return version, tuple(column._replace(version=made[column.name]) for column in columns)


def _reads(lineage: ColumnLineage) -> tuple[Read, ...]:
    return (
        *(
            Read(source.table, source.column, output, source.kind)
            for made in (lineage.columns, lineage.conditions)
            for output, sources in made.items()
            for source in sources
        ),
        *(Read(source.table, source.column, None, source.kind) for source in lineage.rows),
    )


def _python_text(python: PythonSource) -> str:
    module, function, _ = python.place
    from vde_dagster.project.python.versions import python_version

    text = python_version(module, function, python.files, python.outside)
    if python.variables:
        text = digest("blueprint", text, *_parts(python.variables))
    if python.settings or python.sqlmesh_dialect:
        text = digest("settings", text, python.sqlmesh_dialect, *_parts(python.settings))
    return text


def _parts(values: Mapping[str, Any]) -> list[str]:
    return [part for pair in sorted(values.items()) for part in map(repr, pair)]


def _declared_versions(model: Model, version: SemanticVersion) -> dict[str, str]:
    # Values are cast to the declared type.
    types = {column.name.lower(): column.type for column in model.columns}
    return {
        name: digest("cast", value, types[name.lower()]) if types.get(name.lower()) else value
        for name, value in version.columns.items()
    }


def _columns(
    model: Model, version: SemanticVersion, inferred: Mapping[str, str]
) -> tuple[OutputColumn, ...]:
    declared = {column.name.lower(): column for column in model.columns}
    described = {name.lower(): text for name, text in model.column_descriptions.items()}
    out = []
    for name, value in version.columns.items():
        column = declared.get(name.lower())
        known = inferred.get(name)
        type_ = column.type if column and column.type else None
        if type_ is None and known and "UNKNOWN" not in known.upper():
            type_ = known
        text = described.get(name.lower()) or (column.description if column else None)
        out.append(OutputColumn(name, type_, value, text))
    return tuple(out)


def _python_meaning(
    model: Model,
    python: PythonSource,
    parents: Mapping[ModelName, Snapshot],
    versions: Mapping[str, SemanticVersion],
    functions: Sequence[str],
) -> tuple[SemanticVersion, tuple[Read, ...]]:
    # They follow from the model's queries if these can be found. Otherwise the model reads all
    # columns of its parents.
    columns = [column.name for column in model.columns]
    text, why = _python_text(python), "a Python model"
    read = _queries_read(model, python, parents, versions, functions)
    if read is None:
        version = opaque_version(text, versions, columns, why)
        reads = [
            Read(str(name), column.name, None, "python")
            for name, snapshot in parents.items()
            for column in snapshot.columns
        ]
        return _with_types_in_place(version, parents, None, ()), tuple(reads)
    results, reads = read
    order = [name for result in results.values() for name in (*result.columns, "|")]
    version = opaque_version(digest("queries", text, *order), results, columns, why)
    return version, tuple(reads)


def _queries_read(
    model: Model,
    python: PythonSource,
    parents: Mapping[ModelName, Snapshot],
    versions: Mapping[str, SemanticVersion],
    functions: Sequence[str],
) -> tuple[dict[str, SemanticVersion], list[Read]] | None:
    """Analyze the SQL strings of a Python model: their versions, and the columns that they read.

    Returns None if the model may read parents by other code, too, or if a query cannot be analyzed.
    """
    path, function, _ = python.place
    queries = literal_queries(python.files[path], function)
    if not parents or not queries or python.sqlmesh_dialect not in ("", "spark"):
        return None
    from vde_dagster.semantics.analysis import analyze
    from vde_dagster.semantics.session import read_session

    schema, session = column_types(parents), read_session(model.session, model.pre_statements)
    results, reads = dict[str, SemanticVersion](), dict[Read, None]()
    for number, query in enumerate(queries):
        try:
            analysis = analyze(
                query, schema, parents=versions, functions=tuple(functions), session=session
            )
        except SemanticError:
            return None  # It may read a view that the code itself makes.
        own = _reads(analysis.lineage)
        result = _with_types_in_place(analysis.version, parents, query, own)
        if result.opaque is not None or not analysis.complete:
            return None
        results[f"query {number}"] = result
        reads.update(dict.fromkeys(Read(one.parent, one.column, None, "python") for one in own))
    named = {one.parent for one in reads}
    return (results, list(reads)) if named == set(versions) else None


_WHEN = (
    *("cron_tz", "interval_unit", "allow_partials", "relative_start", "relative_end"),
    *("freshness", "until_now"),
    *("retry_policy", "op_tags", "pool", "automation_condition"),
)
"""Properties added in later versions: they are part of hashes only where they are set."""


def _metadata_hash(model: Model) -> str:
    pieces = _STRING.split(model.query or "")
    pieces[::2] = [piece.lower() for piece in pieces[::2]]
    # A stored query has no formatting; the case of its names is none, either.
    text = "".join(pieces) if model.query else None
    parts: list[str | None] = [text, model.description, model.owner, model.cron, model.kind.name]
    parts += [*model.tags, "|"]
    for audit in model.audits:
        parts += [audit.name, audit.query, str(audit.blocking)]
        parts += chain.from_iterable(audit.arguments)
    for column in model.columns:
        parts += ["column", column.name, column.type, column.description]
    for name, text in sorted(model.column_descriptions.items()):
        parts += ["comment", name, text]
    for grain in model.grains:
        parts += ["grain", *grain]
    if model.on_virtual_update:
        parts += ["on virtual update", *model.on_virtual_update]
    parts += [str(model.start), str(model.end)]
    for name in _WHEN:
        value = getattr(model, name)
        if value:
            parts += [name, str(value)]
    for signal in model.signals:
        parts += ["signal", signal.name, repr(signal.arguments), _python_text(signal.python)]
    for name, text in model.virtual_properties:
        parts += ["view", name, text]
    if model.skip_unchanged is not None:
        parts += ["skip unchanged", str(model.skip_unchanged)]
    if model.dialect_trust:
        parts += ["dialect trust", *model.dialect_trust]
    if model.asset is not None:
        parts += ["asset", repr(model.asset)]
    parts += meaning_of(model.kind).metadata(model)
    kind = model.kind
    policies = (kind.forward_only, kind.on_destructive_change, kind.on_additive_change)
    if policies != (Kind.forward_only, Kind.on_destructive_change, Kind.on_additive_change):
        parts += ["in place", *map(str, policies)]
    return digest("metadata", *parts)


def _definition_hash(model: Model, metadata: str, layout: str) -> str:
    source = _python_text(model.python) if model.python else None
    statements = (*model.pre_statements, "|", *model.post_statements)
    return digest(metadata, layout, model.kind.text, *model.marks, source, *statements)


def _check_own_types(model: Model, columns: tuple[OutputColumn, ...]) -> None:
    """Refuse a model that reads itself if the types of its columns are unknown."""
    # Such types could be determined only from the model's table, which does not exist yet.
    unknown = [column.name for column in columns if column.type is None]
    if unknown:
        typed = ", ".join(f"{name} TYPE" for name in unknown)
        declare = f"declare them: columns ({typed})"
        if model.tool == "dbt":
            listed = ", ".join(f"{{name: {name}, data_type: TYPE}}" for name in unknown)
            declare = (
                "set config: {contract: {enforced: true}} in the model's YAML, and declare all of "
                f"its columns there, these with their types: [{listed}]"
            )
        raise ProjectError(
            f"{model.name} reads itself, and the types of its columns {', '.join(unknown)} are "
            "unknown until its table exists",
            hint=f"{declare}; or cast them in the query",
            location=model.location,
        )


def hash_for_children(snapshot: Snapshot) -> str:
    """Hash the parts of a snapshot that its child models depend on."""
    version = snapshot.version
    parts: list[str | None] = [str(snapshot.model.name), version.rows]
    parts.append(str(sorted(sorted(key) for key in version.unique_keys)))
    for column in snapshot.columns:
        parts += [column.name, column.type, column.version]
    if snapshot.other_texts:
        parts += ["other texts", snapshot.model.dialect, *snapshot.other_texts]
    return digest("seen", *parts)


def _add_place(error: ProjectError, model: Model) -> ProjectError:
    if not isinstance(error, SemanticError):
        return error
    location = model.place(mistake_offset(model.query or "", error))
    return ProjectError(f"{model.name}: {error.message}", hint=error.hint, location=location)
