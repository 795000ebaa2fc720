"""From a stretch of a SQL file to one line of Spark SQL and the tables it reads.

A query in Spark's dialect keeps its author's words. SQLGlot writes those of other dialects, if it
can write them so that it reads the same again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.relation_columns import Columns
from vde_dagster.project.reading.columns import (
    ColumnsOf,
    NotToldError,
    column_forms,
    may_have_column_forms,
    needs_columns,
)
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.edits import NOTHING, without_nothing
from vde_dagster.sql.expanded import Expanded, Runs
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import spark_text
from vde_dagster.sql.other_dialects.writing import restore_parameters
from vde_dagster.sql.query_text import one_line
from vde_dagster.sql.reading import parsed, read_query, read_statements
from vde_dagster.sql.scanner import SourceText, scan
from vde_dagster.sql.spark_forms import NoSparkForm, spark_forms
from vde_dagster.sql.statements import replace_dotted_names
from vde_dagster.sql.tables import tables_read
from vde_dagster.sql.trees import has_placeholder, restore_parameter_text

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokens import Token  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered query.

    Args:
        sql: Spark SQL without comments and formatting, with its time variables.
        origins: Places of its pieces.
        reads: The tables it reads, with the place of the first mention.
        comments: Comments on the outermost projections, by output column.
        tree: The tree of `sql`, but for comments and positions.
    """

    sql: str
    origins: Runs
    reads: dict[ModelName, SourceLocation]
    comments: dict[str, str]
    tree: exp.Expr


def render(
    expander: Expander, expanded: Expanded, names: TableNames, *, what: str = "query"
) -> Rendered:
    """Parse expanded text and write it in one line of Spark SQL; `what` names the text in errors.

    Raises:
        ProjectError: It cannot be parsed, or reads a table of another catalog.
    """
    expanded = _in_spark_forms(expander, _without_nothing(expander, expanded))
    in_spark = expander.scope.dialect == "spark"
    columns_of = _columns_of(expander, names, what)
    if in_spark:
        expanded, tokens, tree = _in_column_forms(
            expander, expanded, columns_of, may_have_column_forms, what
        )
    else:
        tokens, tree = _parse(expander, expanded, what)
    _check_query(tree, expander, expanded, what)
    comments = _column_comments(tree) if "--" in expanded.text or "/*" in expanded.text else {}
    if has_placeholder(expanded.text):
        tree = restore_parameters(tree)
    reads: dict[ModelName, SourceLocation] = {}
    words = _Words()
    for table in list(tables_read(tree)):
        start = table.parts[0].meta.get("start")
        if start is None:
            start = max(expanded.text.lower().find(table.name.lower()), 0)
        offset = expanded.origin(start)
        written = table.parts
        name = _qualify(table, names, expander, offset)
        reads.setdefault(name, expander.source.location(offset))
        words.qualify(table, written)
    if in_spark:
        made = one_line(expanded.text, tokens, words.prefixes, words.qualifiers).through(expanded)
    else:
        made = _word_by_word(_translated(tree, expander, expanded, what), expander, expanded)
        made, _, tree = _in_column_forms(
            expander, made, columns_of, needs_columns, what, of_other_dialect=True
        )
    return Rendered(made.text, made.runs, reads, comments, tree)


def _word_by_word(sql: str, expander: Expander, expanded: Expanded) -> Expanded:
    """Give the words of a translated query their origins, which SQLGlot does not.

    The same words in the same number have the same order; others came from where the first of them
    stands, or from the word before.
    """
    written: dict[str, list[int]] = defaultdict(list)
    for token in expander.tokens(expanded.text):
        written[token.text.strip('`"').casefold()].append(token.start)
    made: dict[str, list[int]] = defaultdict(list)
    for token in scan(SourceText(expander.source.path, sql)):
        made[token.text.strip('`"').casefold()].append(token.start)
    first = len(expanded.text) - len(expanded.text.lstrip())
    runs = [(0, ~expanded.origin(first))]
    for word, starts in made.items():
        there = written[word]
        alike = there if len(there) == len(starts) else there[:1] * len(starts)
        runs += [(start, ~expanded.origin(at)) for start, at in zip(starts, alike, strict=False)]
    return Expanded(sql, tuple(sorted(dict(runs).items())))


def _without_nothing(expander: Expander, expanded: Expanded) -> Expanded:
    """Blank out the nothing that macros returned, with the operator or comma beside it."""
    if NOTHING not in expanded.text:
        return expanded
    text, offset = without_nothing(expanded.text, expander.tokens(expanded.text))
    if offset is not None:
        raise expander.source.error(
            "a macro returned nothing where something is needed",
            expanded.origin(offset),
            "return SQL text",
        )
    return replace(expanded, text=text)


def _in_spark_forms(expander: Expander, expanded: Expanded) -> Expanded:
    """Rewrite forms that Spark cannot read, or refuse them."""
    if expander.scope.dialect != "spark":
        return expanded
    try:
        edits = spark_forms(expanded.text)
    except NoSparkForm as form:
        raise _refused(form, expander, expanded) from form
    return expanded.edited(edits) if edits else expanded


def _refused(form: NoSparkForm, expander: Expander, expanded: Expanded) -> ProjectError:
    return expander.source.error(str(form), expanded.origin(form.offset), form.hint)


_MOST_FORMS = 50
"""Aliases that mean each other would be written anew without end."""


def _in_column_forms(
    expander: Expander,
    expanded: Expanded,
    columns_of: ColumnsOf,
    needed: Callable[[str], bool],
    what: str,
    *,
    of_other_dialect: bool = False,
) -> tuple[Expanded, list[Token], exp.Expr]:
    """Parse Spark SQL, and rewrite forms that need the names of columns until none is left.

    Args:
        needed: Says whether a text may have such forms.
        of_other_dialect: Whether SQLGlot has written it for a query of another dialect.
    """
    read = _read_again if of_other_dialect else _parse
    tokens, tree = read(expander, expanded, what)
    for _ in range(_MOST_FORMS):
        if not needed(expanded.text):
            break
        try:
            edits = column_forms(expanded.text, tokens, tree, columns_of)
        except NoSparkForm as form:
            raise _refused(form, expander, expanded) from form
        if not edits:
            break
        expanded = expanded.edited(edits)
        tokens, tree = read(expander, expanded, what)
    return expanded, tokens, tree


def _columns_of(expander: Expander, names: TableNames, what: str) -> ColumnsOf:
    """Return a function of the columns of tables, by the names that the file writes."""
    known = expander.scope.known_columns

    def found(name: ModelName) -> Columns:
        namespace = name.namespace or names.default_namespace
        model = ModelName(namespace.lower(), name.name.lower())
        columns = known.of(model) if known is not None and what == "query" else None
        if columns is None:
            raise NotToldError
        return columns

    return found


def _translated(tree: exp.Expr, expander: Expander, expanded: Expanded, what: str) -> str:
    try:
        return spark_text(tree, expander.scope.dialect)
    except Unwritable as problem:
        raise expander.source.error(
            f"the {what} cannot be written in Spark SQL: {problem}",
            expanded.origin(len(expanded.text) - len(expanded.text.lstrip())),
            "write it in Spark's dialect: dialect spark",
        ) from problem


def _read_again(expander: Expander, made: Expanded, what: str) -> tuple[list[Token], exp.Expr]:
    """Read the Spark SQL that was written for a query of another dialect."""
    from sqlglot.errors import ParseError, SqlglotError

    try:
        reading = read_query(made.text)
    except SqlglotError as error:
        detail = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        problem = str(detail.get("description") or error).splitlines()[0].rstrip(".")
        words = "".join(str(detail.get(key) or "") for key in ("highlight", "end_context"))
        near = f", near '{words[:40].strip()}'" if words.strip() else ""
        raise expander.source.error(
            f"the {what} cannot be written in Spark SQL: {problem}{near}",
            made.origin(0),
            "write it in Spark's dialect: dialect spark",
        ) from error
    return reading.tokens, reading.tree


@dataclass(frozen=True, slots=True)
class _Words:
    """Replacements of table names in the author's text, by offset."""

    prefixes: dict[int, str] = field(default_factory=dict)
    qualifiers: set[int] = field(default_factory=set)

    def qualify(self, table: exp.Table, written: Sequence[exp.Expr]) -> None:
        """Give a table's name its two parts, where it was written with more, fewer or others."""
        starts = [part.meta["start"] for part in written if "start" in part.meta]
        if len(starts) < len(written):
            return
        namespace = table.args["db"]
        given = len(written) == 1 or namespace is not written[-2]
        self.qualifiers.update(starts[:-1] if given else starts[:-2])
        if given:
            self.prefixes[starts[-1]] = namespace.sql(dialect="spark") + "."


def _check_query(tree: exp.Expr, expander: Expander, expanded: Expanded, what: str) -> None:
    from sqlglot import exp

    if isinstance(tree, exp.DML | exp.DDL | exp.Command) and not isinstance(tree, exp.Query):
        raise expander.source.error(
            f"the {what} is no query but a statement, {type(tree).__name__.upper()}",
            expanded.origin(len(expanded.text) - len(expanded.text.lstrip())),
            "write the SELECT alone; how its rows are stored is the model's kind",
        )


def checked_query(expander: Expander, expanded: Expanded, what: str) -> None:
    """Raise an error, which calls the text `what`, unless it is one query."""
    expanded = _without_nothing(expander, expanded)
    _, tree = _parse(expander, expanded, what)
    _check_query(tree, expander, expanded, what)


_RESOURCE = re.compile(r"\s*ADD\s+(JAR|FILE|ARCHIVE)S?\s", re.IGNORECASE)
"""Statements that load code or files, which only Spark has."""


def render_statement(expander: Expander, expanded: Expanded) -> str:
    """Write a statement that runs before or after the query as Spark SQL in its author's words.

    One of another dialect is translated, or kept as written where SQLGlot cannot parse it.
    """
    from sqlglot import exp

    expanded = _without_nothing(expander, expanded)
    if _RESOURCE.match(expanded.text):
        return restore_parameter_text(" ".join(expanded.text.split()))
    tokens, tree = _parse(expander, expanded, "statement")
    if isinstance(tree, exp.Command):
        return restore_parameter_text(" ".join(expanded.text.split()))
    if expander.scope.dialect == "spark":
        return one_line(expanded.text, tokens, {}, ()).text
    if has_placeholder(expanded.text):
        tree = restore_parameters(tree)
    return _translated(tree, expander, expanded, "statement")


def render_last_statement(expander: Expander, expanded: Expanded) -> str:
    """Write a statement that runs over views: its names are in the catalogs that Spark knows.

    In no other statement can names be told by their words alone.
    """
    text = render_statement(expander, expanded)
    names = expander.scope.names
    return text if names is None else replace_dotted_names(text, names.in_own_catalog)


def _parse(expander: Expander, expanded: Expanded, what: str) -> tuple[list[Token], exp.Expr]:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, TokenError

    trees: Sequence[exp.Expr | None]
    try:
        if expander.scope.dialect == "spark":
            tokens, trees = read_statements(expanded.text)
        else:
            dialect = Dialect.get_or_raise(expander.scope.dialect)
            tokens = dialect.tokenize(expanded.text)
            trees = parsed(dialect, tokens, expanded.text)
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
    if expander.scope.dialect == "spark" and _COMMA_BEFORE_FROM.search(expanded.text):
        _check_commas(expander, expanded, tokens)
    return tokens, statements[0]


_COMMA_BEFORE_FROM = re.compile(r",[\s\n]*(?:--[^\n]*\n\s*)*FROM\b", re.IGNORECASE)


def _check_commas(expander: Expander, expanded: Expanded, tokens: list[Token]) -> None:
    """Refuse `SELECT a, FROM t`, which SQLGlot reads and Spark does not."""
    for comma, word, behind in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_column = behind.text in (",", ".") or behind.text.upper() in ("FROM", "AS")
        if comma.text == "," and word.text.upper() == "FROM" and not is_column:
            raise expander.source.error(
                "there is a comma before FROM", expanded.origin(comma.start), "take it out"
            )


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


def _qualify(table: exp.Table, names: TableNames, expander: Expander, offset: int) -> ModelName:
    """Give a table its two-part name in the tree, and return it."""
    from sqlglot import exp

    if table.args.get("db") == "":  # `sales..orders`: SQL Server's and Snowflake's default schema.
        raise expander.source.error(
            f"'{table.catalog}..{table.name}' leaves out its schema",
            offset,
            "write the schema that is meant between the dots",
        )
    parts = [part.name for part in table.parts]
    try:
        name = names.model_name(parts)
    except UsageError as error:
        raise expander.source.error(error.message, offset, error.hint) from None
    if len(parts) == 3:
        table.set("catalog", None)
    if len(parts) == 1:
        table.set("db", exp.to_identifier(names.default_namespace))
    elif parts[-2].lower() != name.namespace:
        table.set("db", exp.to_identifier(name.namespace))
    return name


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
