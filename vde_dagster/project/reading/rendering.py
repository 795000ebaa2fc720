"""Rendering of a part of a SQL file as one line of Spark SQL, with the tables that it reads.

A query in Spark's dialect keeps its original text. SQLGlot translates other dialects; the
translation is accepted only if it parses to the same query.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.known_columns import Columns
from vde_dagster.project.reading.columns import (
    ColumnsOf,
    UnknownColumnsError,
    column_forms,
    may_have_column_forms,
    needs_columns,
)
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.edits import NOTHING, Edit, Expanded, Runs, remove_nothing
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql
from vde_dagster.sql.other_dialects.writing import restore_parameters
from vde_dagster.sql.query_text import to_one_line
from vde_dagster.sql.reading import find_tables_read, parse_tokens, read_statements
from vde_dagster.sql.scanner import SourceText, scan
from vde_dagster.sql.scanner import Token as SourceToken
from vde_dagster.sql.spark_forms import NoSparkForm, find_rewrites
from vde_dagster.sql.statements import replace_dotted_names
from vde_dagster.sql.trees import has_placeholder, restore_parameter_text


@dataclass(frozen=True, slots=True)
class Rendered:
    """A query as one line of Spark SQL, with the tables that it reads.

    Args:
        sql: Spark SQL without comments and formatting, with its time variables.
        origins: Places of the query's pieces.
        reads: Tables that the query reads, with the place of the first mention.
        comments: Comments on the outermost projections, by output column.
        tree: Syntax tree of `sql`.
    """

    sql: str
    origins: Runs
    reads: dict[ModelName, SourceLocation]
    comments: dict[str, str]
    tree: exp.Expr


def render(
    expander: Expander, expanded: Expanded, names: TableNames, *, what: str = "query"
) -> Rendered:
    """Render a query with expanded macros as one line of Spark SQL; `what` names it in errors."""
    text = _QueryText(expander, expanded, what).without_nothing().in_spark_forms()
    columns_of = _columns_by_name(expander, names, what)
    if text.in_spark:
        text, tokens, tree = text.in_column_forms(columns_of, may_have_column_forms)
    else:
        tokens, tree = text.parse()
    text.check_query(tree)
    expanded = text.expanded
    comments = _column_comments(tree) if "--" in expanded.text or "/*" in expanded.text else {}
    if has_placeholder(expanded.text):
        tree = restore_parameters(tree)
    reads: dict[ModelName, SourceLocation] = {}
    words = _NameEdits()
    for table in list(find_tables_read(tree)):
        start = table.parts[0].meta.get("start")
        if start is None:
            start = max(expanded.text.lower().find(table.name.lower()), 0)
        written = table.parts
        name = _qualify_table(table, names, text, start)
        reads.setdefault(name, expander.source.location(expanded.origin(start)))
        words.qualify(table, written)
    if text.in_spark:
        made = to_one_line(expanded.text, tokens, words.prefixes, words.qualifiers).through(
            expanded
        )
    else:
        translated = replace(text, expanded=_map_words(text.translated(tree), text))
        translated, _, tree = translated.in_column_forms(
            columns_of, needs_columns, is_translated=True
        )
        made = translated.expanded
    return Rendered(made.text, made.runs, reads, comments, tree)


def checked_query(expander: Expander, expanded: Expanded, what: str) -> None:
    """Check that a text is one query; `what` is the text's name in the error."""
    text = _QueryText(expander, expanded, what).without_nothing()
    text.check_query(text.parse()[1])


_RESOURCE = re.compile(r"\s*ADD\s+(JAR|FILE|ARCHIVE)S?\s", re.IGNORECASE)
"""Spark's statements that load code or files."""


def render_statement(expander: Expander, expanded: Expanded) -> str:
    """Render a statement that runs before or after a model's query, as Spark SQL.

    A statement of another dialect is translated, or kept if SQLGlot does not support it.
    """
    text = _QueryText(expander, expanded, "statement").without_nothing()
    as_written = text.expanded.text
    if _RESOURCE.match(as_written):
        return restore_parameter_text(" ".join(as_written.split()))
    tokens, tree = text.parse()
    if isinstance(tree, exp.Command):
        return restore_parameter_text(" ".join(as_written.split()))
    if text.in_spark:
        return to_one_line(as_written, tokens, {}, ()).text
    return text.translated(restore_parameters(tree) if has_placeholder(as_written) else tree)


def render_last_statement(expander: Expander, expanded: Expanded) -> str:
    """Render a statement that does not belong to a fill, such as one on published views.

    Names of tables in the project's catalog get Spark's name of the catalog as prefix.
    """
    text = render_statement(expander, expanded)
    names = expander.scope.names
    return text if names is None else replace_dotted_names(text, names.in_own_catalog)


_MOST_FORMS = 50
"""Maximum number of rewrites; aliases may refer to each other in a cycle."""
_COMMA_BEFORE_FROM = re.compile(r",[\s\n]*(?:--[^\n]*\n\s*)*FROM\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _QueryText:
    """Text that is translated to Spark SQL. `what` is its name in error messages."""

    expander: Expander
    expanded: Expanded
    what: str

    @property
    def in_spark(self) -> bool:
        return self.expander.scope.dialect == "spark"

    @property
    def begin(self) -> int:
        return len(self.expanded.text) - len(self.expanded.text.lstrip())

    def error(self, offset: int, message: str, hint: str | None = None) -> ProjectError:
        return self.expander.source.error(message, self.expanded.origin(offset), hint)

    def edited(self, edits: list[Edit]) -> _QueryText:
        return replace(self, expanded=self.expanded.edited(edits)) if edits else self

    def without_nothing(self) -> _QueryText:
        written = self.expanded.text
        if NOTHING not in written:
            return self
        text, offset = remove_nothing(written, self.expander.tokens(written))
        if offset is not None:
            message = "a macro returned nothing where SQL is required"
            raise self.error(offset, message, "return SQL text")
        return replace(self, expanded=replace(self.expanded, text=text))

    def in_spark_forms(self) -> _QueryText:
        if not self.in_spark:
            return self
        try:
            return self.edited(find_rewrites(self.expanded.text))
        except NoSparkForm as form:
            raise self.error(form.offset, str(form), form.hint) from form

    def in_column_forms(
        self, columns_of: ColumnsOf, needed: Callable[[str], bool], *, is_translated: bool = False
    ) -> tuple[_QueryText, list[Token], exp.Expr]:
        """Parse Spark SQL, and rewrite query forms such as `* REPLACE` until none is left.

        Args:
            needed: Returns whether a text may have such forms.
            is_translated: Whether SQLGlot has translated the text from another dialect.
        """
        text = self
        tokens, tree = text.parse_translated() if is_translated else text.parse()
        for _ in range(_MOST_FORMS):
            if not needed(text.expanded.text):
                break
            try:
                edits = column_forms(text.expanded.text, tokens, tree, columns_of)
            except NoSparkForm as form:
                raise text.error(form.offset, str(form), form.hint) from form
            if not edits:
                break
            text = text.edited(edits)
            tokens, tree = text.parse_translated() if is_translated else text.parse()
        return text, tokens, tree

    def translated(self, tree: exp.Expr) -> str:
        scope = self.expander.scope
        try:
            return write_spark_sql(tree, scope.dialect, scope.dialect_trust)
        except Unwritable as problem:
            message = f"the {self.what} cannot be translated to Spark SQL: {problem}"
            place, hint = self._problem_place(problem), self._hint(problem.function)
            raise self.error(place, message, hint) from problem

    def _hint(self, function: str | None = None) -> str:
        """Return the hint for an untranslatable text; it may suggest `dialect_trust (function)`."""
        if self.expander.scope.hint is not None:
            return self.expander.scope.hint(function)
        trust = f"; or trust the function: dialect_trust ({function})" if function else ""
        return f"write it in Spark's dialect: dialect spark{trust}"

    def _problem_place(self, problem: Unwritable) -> int:
        """Return the place of a problem's call or cast, by default the start of the text."""
        if problem.start is not None and problem.start < len(self.expanded.text):
            return problem.start
        tokens = SourceToken.split(self.expanded.text) if problem.types else []
        for before, token, behind in zip(tokens, tokens[1:], tokens[2:] + tokens[:1], strict=False):
            cast = before.is_word("AS") and behind.text in ("(", ")")
            if token.text.upper() in problem.types and (cast or before.text.endswith(":")):
                return token.start
        return self.begin

    def check_query(self, tree: exp.Expr) -> None:
        if isinstance(tree, exp.DML | exp.DDL | exp.Command) and not isinstance(tree, exp.Query):
            raise self.error(
                self.begin,
                f"the {self.what} is a statement, {type(tree).__name__.upper()}, not a query",
                "write only the SELECT; the model's kind defines how its rows are stored",
            )

    def parse_translated(self) -> tuple[list[Token], exp.Expr]:
        scope = replace(self.expander.scope, dialect="spark")
        try:
            return replace(self, expander=Expander(self.expander.source, scope)).parse()
        except ProjectError as error:
            message = f"the {self.what} cannot be translated to Spark SQL: {error.message}"
            raise self.error(0, message, self._hint()) from error

    def parse(self) -> tuple[list[Token], exp.Expr]:
        trees: Sequence[exp.Expr | None]
        written = self.expanded.text
        try:
            if self.in_spark:
                tokens, trees = read_statements(written)
            else:
                dialect = Dialect.get_or_raise(self.expander.scope.dialect)
                tokens = dialect.tokenize(written)
                trees = parse_tokens(dialect, tokens, written)
        except ParseError as error:
            detail = error.errors[0] if error.errors else {}
            raise self._syntax_error(detail, str(error)) from error
        except TokenError as error:
            raise self.error(0, f"the {self.what} cannot be parsed: {error}") from error
        # A comment after the last semicolon is a separate tree.
        statements = [t for t in trees if t is not None and not isinstance(t, exp.Semicolon)]
        if not statements:
            raise self.error(0, f"the {self.what} is empty")
        if len(statements) > 1:
            message = f"the {self.what} consists of {len(statements)} statements"
            raise self.error(0, message, "a macro may have returned a semicolon")
        while tokens[-1].text == ";":
            tokens.pop()
        if self.in_spark and _COMMA_BEFORE_FROM.search(written):
            self._check_commas(tokens)
        return tokens, statements[0]

    def _check_commas(self, tokens: list[Token]) -> None:
        for comma, word, behind in zip(tokens, tokens[1:], tokens[2:], strict=False):
            is_column = behind.text in (",", ".") or behind.text.upper() in ("FROM", "AS")
            if comma.text == "," and word.text.upper() == "FROM" and not is_column:
                raise self.error(comma.start, "there is a comma before FROM", "remove it")

    def _syntax_error(self, detail: dict[str, object], text: str) -> ProjectError:
        line, end = int(str(detail.get("line") or 1)), int(str(detail.get("col") or 1))
        offending = str(detail.get("highlight") or "")
        lines = self.expanded.text.split("\n")
        before = sum(len(part) + 1 for part in lines[: line - 1])
        message = str(detail.get("description") or text.splitlines()[0]).rstrip(".")
        message = message.replace("<class 'sqlglot.expressions.", "").replace("'>", "")
        near = f" near '{offending}'" if offending else ""
        context = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return self.error(
            before + max(end - max(len(offending), 1), 0),
            f"syntax error in the {self.what}{near}: {message}",
            f"look at: {context[:120]}" if context else None,
        )


def _map_words(sql: str, text: _QueryText) -> Expanded:
    """Map the words of a translated query to their origins."""
    expanded = text.expanded
    written: dict[str, list[int]] = defaultdict(list)
    for token in text.expander.tokens(expanded.text):
        written[token.text.strip('`"').casefold()].append(token.start)
    made: dict[str, list[int]] = defaultdict(list)
    for token in scan(SourceText(text.expander.source.path, sql)):
        made[token.text.strip('`"').casefold()].append(token.start)
    runs = [(0, ~expanded.origin(text.begin))]
    for word, starts in made.items():
        there = written[word]
        # Equal words are mapped in order if they occur equally often, else to the first.
        alike = there if len(there) == len(starts) else there[:1] * len(starts)
        runs += [(start, ~expanded.origin(at)) for start, at in zip(starts, alike, strict=False)]
    return Expanded(sql, tuple(sorted(dict(runs).items())))


def _columns_by_name(expander: Expander, names: TableNames, what: str) -> ColumnsOf:
    known = expander.scope.known_columns

    def found(name: ModelName) -> Columns:
        namespace = name.namespace or names.default_namespace
        model = ModelName(namespace.lower(), name.name.lower())
        columns = known.find(model) if known is not None and what == "query" else None
        if columns is None:
            raise UnknownColumnsError
        return columns

    return found


@dataclass(frozen=True, slots=True)
class _NameEdits:
    prefixes: dict[int, str] = field(default_factory=dict)
    qualifiers: set[int] = field(default_factory=set)

    def qualify(self, table: exp.Table, written: Sequence[exp.Expr]) -> None:
        starts = [part.meta["start"] for part in written if "start" in part.meta]
        if len(starts) < len(written):
            return
        namespace = table.args["db"]
        given = len(written) == 1 or namespace is not written[-2]
        self.qualifiers.update(starts[:-1] if given else starts[:-2])
        if given:
            self.prefixes[starts[-1]] = namespace.sql(dialect="spark") + "."


def _qualify_table(table: exp.Table, names: TableNames, text: _QueryText, start: int) -> ModelName:
    if table.args.get("db") == "":  # `sales..orders`: SQL Server's and Snowflake's default schema.
        message = f"'{table.catalog}..{table.name}' omits its schema"
        raise text.error(start, message, "write the schema between the dots")
    parts = [part.name for part in table.parts]
    try:
        name = names.model_name(parts)
    except UsageError as error:
        raise text.error(start, error.message, error.hint) from None
    if len(parts) == 3:
        table.set("catalog", None)
    if len(parts) == 1:
        table.set("db", exp.to_identifier(names.default_namespace))
    elif parts[-2].lower() != name.namespace:
        table.set("db", exp.to_identifier(name.namespace))
    return name


def _column_comments(tree: exp.Expr) -> dict[str, str]:
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
