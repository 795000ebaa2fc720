"""Entry point of the semantic analysis: a query's versions, lineage and types, in one pass."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from vde_dagster.semantics._sqlglot import canonical_text, parse, type_text
from vde_dagster.semantics.algebra.nodes import Output, Rel
from vde_dagster.semantics.algebra.uniqueness import group_keys
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.ctes import NO_CTES
from vde_dagster.semantics.binding.queries import bind_query
from vde_dagster.semantics.checks import find_mistakes, is_in_written_query
from vde_dagster.semantics.checks.operands import Origin
from vde_dagster.semantics.checks.written_texts import find_other_texts
from vde_dagster.semantics.errors import Finding, SemanticError
from vde_dagster.semantics.session import UNKNOWN, Session
from vde_dagster.semantics.simplify import simplify
from vde_dagster.semantics.versions.digests import Digester
from vde_dagster.semantics.versions.lineage import ColumnLineage, trace_lineage, unknown_sources
from vde_dagster.semantics.versions.version import UNKNOWN_STAR, SemanticVersion, opaque_version
from vde_dagster.sql.grammar.tokens import PIPES
from vde_dagster.sql.reading import DOUBT
from vde_dagster.sql.trees import dismantle

_LOG = logging.getLogger(__name__)

SPARK = Origin()
Schema = Mapping[str, Mapping[str, str]]
Parents = Mapping[str, SemanticVersion]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The version, column lineage and output types of a query.

    Args:
        output_types: SQL type by output name, ``UNKNOWN`` if it could not be determined.
        findings: Mistakes found by the `checks`.
        complete: Whether all output columns are known.
        spelling: Output names as the author wrote them, by lower-case output name.
        other_texts: Lower-case names of outputs that Spark casts to a different text than the
            original dialect does.
    """

    version: SemanticVersion
    lineage: ColumnLineage
    output_types: dict[str, str]
    findings: tuple[Finding, ...] = ()
    complete: bool = False
    spelling: Mapping[str, str] = field(default_factory=dict)
    other_texts: frozenset[str] = frozenset()


def analyze(
    query: str,
    schema: Schema,
    *,
    parents: Parents | None = None,
    scalar_functions: Collection[str] = (),
    functions: Collection[str] = (),
    tree: exp.Expr | None = None,
    query_owner: str = "a query",
    session: Session = UNKNOWN,
    origin: Origin = SPARK,
) -> Analysis:
    """Return a query's version, lineage and types.

    Args:
        parents: Versions by table name; a table without a version is external.
        scalar_functions: Deterministic user functions that return one value.
        functions: Other user functions, which are not reported as unknown.
        tree: The tree from `sql.reading`, if available. It is modified.
        query_owner: The name of the model or audit with the query, for the log.

    Raises:
        SemanticError: The query has a syntax error, or a column is ambiguous or does not exist. The
            error describes the first mistake; its `mistakes` lists all of them.
    """
    given = tree
    if tree is None:
        tree = parse(query)
    reading = Binder(schema, parents or {}, scalar_functions, functions)
    reading.unsupported_reason = tree.meta.get(DOUBT)
    if reading.unsupported_reason == PIPES:
        reading.partial = PIPES  # SQLGlot drops parts of pipes, so unknown names may exist.
    reading.terms.has_zoned_timestamps = session.has_zoned_timestamps
    try:
        found = _read(query, tree, reading, schema, parents or {}, query_owner, origin)
        if session.unlike is not None:
            read = _bind_all_tables(tree, schema, parents or {})
            found = _as_text_version(query, found, read, session.unlike)
        if given is None or not (reading.mistakes or found.findings):
            written = tuple(one for one in found.findings if is_in_written_query(one, query))
            if reading.mistakes:
                mistakes = {(one.message, one.line, one.column): one for one in reading.mistakes}
                raise SemanticError.combine_mistakes(list(mistakes.values()))
            return replace(found, findings=written)
    finally:
        reading.terms.free_nodes()
        dismantle(tree)
    # The tree may know other places than the text, and a mistake has to name the text's.
    return analyze(
        query,
        schema,
        parents=parents,
        scalar_functions=scalar_functions,
        functions=functions,
        query_owner=query_owner,
        session=session,
        origin=origin,
    )


def _as_text_version(query: str, found: Analysis, reading: Binder, unlike: str) -> Analysis:
    # The session may change the query's meaning.
    unlike += f"; {UNKNOWN_STAR}" if found.version.unknown_star else ""
    version = opaque_version(query, _read_versions(reading), list(found.output_types), unlike)
    types = {
        name: "UNKNOWN" if "TIMESTAMP" in kind else kind
        for name, kind in found.output_types.items()
    }
    return replace(found, version=version, output_types=types)


def _read(
    query: str,
    tree: exp.Expr,
    reading: Binder,
    schema: Schema,
    parents: Parents,
    of: str,
    origin: Origin,
) -> Analysis:
    names: list[str] | None = None
    try:
        rel = bind_query(reading, tree, None, NO_CTES)
        names = [output.name for output in rel.outputs]
        found = _analyzed(query, rel, reading)
    except Unsupported as why:
        found = _analyze_as_text(query, tree, schema, parents, str(why))
    except RecursionError:
        return _analyze_as_text(query, tree, schema, parents, "nested too deeply")
    except Exception as error:
        why_not = f"not understood ({type(error).__name__}: {error})"
        if not reading.mistakes:
            # Sound, and yet a mistake of ours: every change around the query counts as a change.
            _LOG.warning("%s is %s", of, why_not, exc_info=True)
        return _analyze_as_text(query, tree, schema, parents, why_not)
    if reading.mistakes:
        return found
    try:
        findings = find_mistakes(tree, reading, names, origin)
        texts = find_other_texts(tree, names or (), origin)
    except RecursionError:
        findings, texts = (), frozenset()
    return replace(found, findings=findings, complete=names is not None, other_texts=texts)


def _analyzed(query: str, rel: Rel, reading: Binder) -> Analysis:
    rel.outputs = _number_repeated_names(rel.outputs)
    names = [o.name for o in rel.outputs]
    lineage = trace_lineage(rel, reading.leaves)
    if reading.unsupported_reason is not None:
        version = _opaque_over(query, reading, names, reading.unsupported_reason)
    else:
        keys = _named_keys(rel, reading)
        simplify(rel, reading.terms)
        rows, columns = Digester().digest_query(rel)
        version = SemanticVersion(
            rows.hex(),
            {name: column.hex() for name, column in zip(names, columns, strict=True)},
            unique_keys=keys,
        )
    return Analysis(
        version=version,
        lineage=lineage,
        output_types={o.name: type_text(o.type) for o in rel.outputs},
        spelling={o.name: o.written for o in rel.outputs if o.written},
    )


def _number_repeated_names(outputs: list[Output]) -> list[Output]:
    # Spark refuses to store columns with the same name.
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    named: list[Output] = []
    for output in outputs:
        name, n = output.name, numbers.get(output.name, 1)
        while name in taken:
            n += 1
            name = f"{output.name}:{n}"
        numbers[output.name] = n
        taken.add(name)
        named.append(Output(name, output.node, output.type, output.written))
    return named


def _named_keys(rel: Rel, reading: Binder) -> tuple[frozenset[str], ...]:
    names = {o.node: o.name for o in reversed(rel.outputs)}
    found = [
        frozenset(names[node] for node in key)
        for key in group_keys(rel.group, reading.terms)
        if all(node in names for node in key)
    ]
    return tuple(dict.fromkeys(found))


def _opaque_over(query: str, reading: Binder, names: list[str], why: str) -> SemanticVersion:
    return opaque_version(canonical_text(query), _read_versions(reading), names, why)


def _read_versions(reading: Binder) -> dict[str, SemanticVersion]:
    return {
        leaf.table: SemanticVersion(leaf.rows.hex(), {c: v.hex() for c, v in leaf.columns.items()})
        for leaf in reading.leaves
    }


def _bind_all_tables(tree: exp.Expr, schema: Schema, parents: Parents) -> Binder:
    reading = Binder(schema, parents)
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            parts = tuple(part.name.lower() for part in table.parts)
            if len(parts) > 1 or parts[0] not in ctes:
                reading.bind_table(parts)
    return reading


def _analyze_as_text(
    query: str, tree: exp.Expr, schema: Schema, parents: Parents, why: str
) -> Analysis:
    # Every output depends on every table.
    reading = _bind_all_tables(tree, schema, parents)
    selects = tree.selects if isinstance(tree, exp.Query) else []
    spelled = [s.output_name for s in selects if not s.is_star]
    spelling: dict[str, str] = {}
    for place, name in enumerate(spelled):
        spelling.setdefault(name.lower() or f"_col_{place}", name or f"_col_{place}")
    names = list(spelling)
    if any(s.is_star for s in selects):
        why = f"{why}; {UNKNOWN_STAR}"
    version = _opaque_over(query, reading, names, why)
    unknown = unknown_sources(reading.leaves)
    lineage = ColumnLineage(dict.fromkeys(names, ()), dict.fromkeys(names, ()), unknown)
    return Analysis(version, lineage, dict.fromkeys(names, "UNKNOWN"), spelling=spelling)
