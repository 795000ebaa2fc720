"""From a stretch of a SQL file to one line of Spark SQL and the tables it reads.

A query in Spark's dialect keeps its author's words. SQLGlot writes those of other dialects, and
what Spark would not read as it stands: QUALIFY, and what macros left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.dialects import as_written
from vde_dagster.project.expansion import NOTHING, Expanded, Expander
from vde_dagster.project.garbage import dismantle
from vde_dagster.project.names import ModelName
from vde_dagster.project.query_text import one_line
from vde_dagster.project.sql import (
    has_placeholder,
    query_sql,
    restore_parameter_text,
    restore_parameters,
    tables_read,
)

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokens import Token  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class NamingRules:
    """How table names in queries become model names.

    Args:
        catalog: The project's own catalog, left out of three-part names.
        default_namespace: Namespace of names without one.
    """

    catalog: str
    default_namespace: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered query.

    Args:
        sql: One line of Spark SQL; time variables are still there.
        reads: The tables it reads, with the place of the first mention.
        comments: Comments on the outermost projections, by output column.
        tree: What parsing `sql` by `as_written("spark")` gives, but for comments and positions;
            None where only parsing it tells.
    """

    sql: str
    reads: dict[ModelName, SourceLocation]
    comments: dict[str, str]
    tree: exp.Expr | None = None


def render(
    expander: Expander, expanded: Expanded, rules: NamingRules, *, what: str = "query"
) -> Rendered:
    """Parse expanded text and write it in one line of Spark SQL.

    Args:
        expander: Knows the file and the dialect.
        expanded: The text.
        rules: What names mean.
        what: What the text is, for messages.

    Raises:
        ProjectError: It cannot be parsed, or reads a table of another catalog.
    """
    tokens, tree = _parse(expander, expanded, what)
    _check_query(tree, expander, expanded, what)
    comments = _column_comments(tree) if "--" in expanded.text or "/*" in expanded.text else {}
    tree = _restored(tree, expander, expanded)
    reads: dict[ModelName, SourceLocation] = {}
    words = _Words() if expander.scope.dialect == "spark" else None
    for table in list(tables_read(tree)):
        start = _start(table)
        offset = expanded.origin(_looked_for(table, expanded.text) if start is None else start)
        parts = len(table.parts)
        name = _qualify(table, rules, expander, offset)
        reads.setdefault(name, expander.source.location(offset))
        if words is not None and not words.qualify(table, parts, start):
            words = None
    if words is None or _needs_writing(tree, expanded.text):
        return Rendered(_written(tree, expander), reads, comments)
    sql = one_line(expanded.text, tokens, words.prefixes, words.qualifiers)
    return Rendered(sql, reads, comments, tree)


def _written(tree: exp.Expr, expander: Expander) -> str:
    """Let SQLGlot write a tree, which is of no use afterwards."""
    formats = expander.scope.dialect != "spark"
    try:
        return query_sql(tree, translate_formats=formats, copy=False)
    finally:
        dismantle(tree)


@dataclass(frozen=True, slots=True)
class _Words:
    """What is to be changed in an author's words: the names of tables, by their offsets."""

    prefixes: dict[int, str] = field(default_factory=dict)
    qualifiers: set[int] = field(default_factory=set)

    def qualify(self, table: exp.Table, parts: int, start: int | None) -> bool:
        """Give a table's name its two parts, where it had so many; False without its place."""
        if start is None:
            return False
        if parts == 1:
            self.prefixes[start] = table.args["db"].sql(dialect="spark") + "."
        elif parts == 3:
            self.qualifiers.add(start)
        return True


def _needs_writing(tree: exp.Expr, text: str) -> bool:
    """Say whether an author's words are not those that Spark has to read."""
    from sqlglot import exp

    return NOTHING in text or ("qualify" in text.lower() and tree.find(exp.Qualify) is not None)


def _check_query(tree: exp.Expr, expander: Expander, expanded: Expanded, what: str) -> None:
    from sqlglot import exp

    if isinstance(tree, exp.DML | exp.DDL | exp.Command) and not isinstance(tree, exp.Query):
        raise expander.source.error(
            f"the {what} is no query but a statement, {type(tree).__name__.upper()}",
            expanded.origin(len(expanded.text) - len(expanded.text.lstrip())),
            "write the SELECT alone; how its rows are stored is the model's kind",
        )


def render_statement(expander: Expander, expanded: Expanded) -> str:
    """Write a statement that runs before or after the query as one line of Spark SQL.

    What SQLGlot cannot parse is kept as written.
    """
    text = expanded.text.strip()
    _, tree = _parse(expander, expanded, "statement")
    from sqlglot import exp

    if isinstance(tree, exp.Command):
        return restore_parameter_text(" ".join(text.split()))
    return _written(_restored(tree, expander, expanded), expander)


def _parse(expander: Expander, expanded: Expanded, what: str) -> tuple[list[Token], exp.Expr]:
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        dialect = _dialect(expander.scope.dialect)
        tokens = dialect.tokenize(expanded.text)
        trees = dialect.parser().parse(tokens, expanded.text)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        raise _syntax_error(expander, expanded, detail, str(error), what) from error
    except TokenError as error:
        raise expander.source.error(
            f"the {what} cannot be read: {error}", expanded.origin(0)
        ) from error
    # A comment behind the last semicolon is a tree of its own.
    statements = [t for t in trees if t is not None and not isinstance(t, exp.Semicolon)]
    if not statements:
        raise expander.source.error(f"the {what} is empty", expanded.origin(0))
    if len(statements) > 1:
        raise expander.source.error(
            f"the {what} is {len(statements)} statements",
            expanded.origin(0),
            "a macro may have returned a semicolon",
        )
    while tokens[-1].text == ";":
        tokens.pop()
    return tokens, statements[0]


def _dialect(name: str) -> Dialect:
    """Return the dialect to parse by: the time formats of all but Spark's are translated."""
    from sqlglot.dialects.dialect import Dialect

    return as_written(name) if name == "spark" else Dialect.get_or_raise(name)


def _syntax_error(
    expander: Expander, expanded: Expanded, detail: dict[str, object], text: str, what: str
) -> ProjectError:
    line, end = int(str(detail.get("line") or 1)), int(str(detail.get("col") or 1))
    offending = str(detail.get("highlight") or "")
    lines = expanded.text.split("\n")
    before = sum(len(part) + 1 for part in lines[: line - 1])
    offset = before + max(end - max(len(offending), 1), 0)
    message = str(detail.get("description") or text.splitlines()[0]).rstrip(".")
    message = message.replace("<class 'sqlglot.expressions.", "").replace("'>", "")
    near = f" near '{offending}'" if offending else ""
    context = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return expander.source.error(
        f"syntax error in the {what}{near}: {message}",
        expanded.origin(offset),
        f"look at: {context[:120]}" if context else None,
    )


def _restored(tree: exp.Expr, expander: Expander, expanded: Expanded) -> exp.Expr:
    """Turn what expansion left for the parser into what it stands for."""
    tree = _drop_nothing(tree, expander, expanded)
    return restore_parameters(tree) if has_placeholder(expanded.text) else tree


def _drop_nothing(tree: exp.Expr, expander: Expander, expanded: Expanded) -> exp.Expr:
    """Remove what macros returned as nothing, with the operator or list around it."""
    from sqlglot import exp

    if NOTHING not in expanded.text:
        return tree
    for identifier in list(tree.find_all(exp.Identifier)):
        if identifier.name != NOTHING:
            continue
        node: exp.Expr = identifier.parent or identifier
        while isinstance(node.parent, exp.Paren | exp.Alias | exp.Ordered):
            node = node.parent
        parent = node.parent
        if isinstance(parent, exp.Connector):
            other = parent.expression if parent.this is node else parent.this
            parent.replace(other)
        elif isinstance(parent, exp.Where | exp.Having | exp.Qualify):
            parent.pop()
        elif parent is not None and node.index is not None:
            node.pop()
        else:
            raise expander.source.error(
                "a macro returned nothing where something is needed",
                expanded.origin(_identifier_offset(identifier, expanded.text)),
                "return SQL text",
            )
    return tree


def _identifier_offset(identifier: exp.Identifier, text: str) -> int:
    start = identifier.meta.get("start")
    return start if isinstance(start, int) else max(text.find(identifier.name), 0)


def _start(table: exp.Table) -> int | None:
    start = table.parts[0].meta.get("start")
    return start if isinstance(start, int) else None


def _looked_for(table: exp.Table, text: str) -> int:
    return max(text.lower().find(table.name.lower()), 0)


def _qualify(table: exp.Table, rules: NamingRules, expander: Expander, offset: int) -> ModelName:
    """Give a table its two-part name in the tree, and return it."""
    from sqlglot import exp

    parts = [part.name for part in table.parts]
    if len(parts) == 3:
        if parts[0].lower() != rules.catalog.lower():
            raise expander.source.error(
                f"'{'.'.join(parts)}' is in another catalog than the project's",
                offset,
                f"the project's catalog is '{rules.catalog}'; name tables as schema.table",
            )
        table.set("catalog", None)
    elif len(parts) > 3:
        raise expander.source.error(
            f"'{'.'.join(parts)}' has more than three parts", offset, "write schema.table"
        )
    elif len(parts) == 1:
        table.set("db", exp.to_identifier(rules.default_namespace))
    try:
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in parts[-2:])
        return ModelName.parse(quoted, rules.default_namespace)
    except UsageError as error:
        raise expander.source.error(error.message, offset, error.hint) from None


def _column_comments(tree: exp.Expr) -> dict[str, str]:
    """Read comments behind the outermost projections: SQLMesh shows them as descriptions."""
    from sqlglot import exp

    if not isinstance(tree, exp.Select):
        return {}
    found: dict[str, str] = {}
    for projection in tree.expressions:
        comments = list(projection.comments or ())
        for child in (projection.args.get("alias"), projection.this):
            if isinstance(child, exp.Expr) and child.comments:
                comments += child.comments
        text = " ".join(comment.strip() for comment in comments).strip()
        if text and projection.alias_or_name:
            found[projection.alias_or_name] = text
    return found
