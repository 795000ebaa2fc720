"""The words of a SQL model, in its header and its query.

Scopes come from SQLGlot; columns of tables come from the snapshots. A word that a macro wrote has
no place in the file, and an ambiguous name has no symbol, because a wrong result would be worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer import scope as scopes

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.programs.editor.reading import Mention, Span, Symbol, column_names
from vde_dagster.project.model import Model
from vde_dagster.semantics._sqlglot import parse
from vde_dagster.sql.edits import find_place
from vde_dagster.sql.scanner import SourceText, Token, scan

WITH_COLUMNS = frozenset(
    {"time_column", "unique_key", "grain", "grains", "references", "partitioned_by", "kind"}
    | {"clustered_by", "columns", "column_descriptions", "audits"}
)
"""Properties of a header whose values name columns."""


@dataclass(slots=True)
class FileSymbols:
    """The words of a model's text with the objects that they refer to.

    Args:
        links: For each output column from a star, the source column.
        whole: Whether every word of the query has a place and a symbol.
    """

    mentions: list[Mention] = field(default_factory=list)
    links: dict[Symbol, Symbol] = field(default_factory=dict)
    whole: bool = True


def header_tokens(source: SourceText, model: Model) -> list[Token]:
    """Return the tokens of a SQL model's header, with its brackets; empty without a header."""
    found: list[Token] = []
    depth = 0
    first = model.location.line or 1
    for token in scan(source):
        if token.kind == "comment" or source.location(token.start).line < first:  # type: ignore[operator]
            continue
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        found.append(token)
        if depth == 0 and token.text == ")":
            return found
        if depth == 0 and token.text == ";":
            return []
    return []


def find_symbols(
    model: Model, snapshots: Mapping[ModelName, Snapshot], *, with_header: bool = True
) -> FileSymbols:
    found = FileSymbols()
    path = model.location.path.as_posix()
    if with_header and path.endswith(".sql"):
        try:
            _read_header(model, snapshots, path, found)
        except VdeError:
            found.whole = False
    if model.query is not None:
        try:
            _QueryReader(model, snapshots, found).read(parse(model.query))
        except (VdeError, SqlglotError, RecursionError, ValueError):
            found.whole = False
    return found


def _read_header(
    model: Model, snapshots: Mapping[ModelName, Snapshot], path: str, found: FileSymbols
) -> None:
    tokens = header_tokens(SourceText(model.location.path, model.source), model)
    columns = set(column_names(snapshots, model.name) or ())
    depth, name = 0, ""
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.text in "()":
            depth += 1 if token.text == "(" else -1
            continue
        if depth == 1 and before is not None and before.text in "(,":
            name = token.text.lower()
            continue
        if token.text == ",":
            continue
        if name == "name" and depth == 1:
            # A name is one token or several with dots between.
            last = found.mentions[-1] if found.mentions else None
            start = token.start
            if last is not None and last.symbol.kind == "model" and last.span.end == start:
                start = found.mentions.pop().span.start
            span = Span(path, start, token.end)
            found.mentions.append(Mention(span, Symbol("model", model.name), True))
        if name == "depends_on" and token.text != ".":
            _read_dependency(path, tokens, token, found)
        word = token.text.strip("`").lower()
        if name in WITH_COLUMNS and word in columns and token.kind in ("word", "quoted"):
            behind = model.source[token.end : token.end + 4].lstrip()
            if not behind.startswith((":=", "=>")):
                symbol = Symbol("column", model.name, word)
                found.mentions.append(Mention(Span(path, token.start, token.end), symbol))


def _read_dependency(path: str, tokens: list[Token], last: Token, found: FileSymbols) -> None:
    at = tokens.index(last)
    if at > 1 and tokens[at - 1].text == "." and tokens[at + 1].text in (",", ")"):
        parts = [tokens[at - 2].text, last.text]
        name = ModelName(*(part.strip("`").lower() for part in parts))
        span = Span(path, tokens[at - 2].start, last.end)
        found.mentions.append(Mention(span, Symbol("model", name)))


class _QueryReader:
    def __init__(
        self, model: Model, snapshots: Mapping[ModelName, Snapshot], found: FileSymbols
    ) -> None:
        self.model, self.snapshots, self.found = model, snapshots, found
        self.path = model.location.path.as_posix()
        self.numbers: dict[int, int] = {}
        self.root: Any = None

    def read(self, tree: exp.Expr) -> None:
        found = scopes.traverse_scope(tree)
        self.root = found[-1] if found else None
        self.numbers = {id(scope): number for number, scope in enumerate(found)}
        for scope in found:
            self._read_tables(scope)
            self._read_outputs(scope)
            self._read_columns(scope)

    # -- places ----------------------------------------------------------------------------

    def _span(self, *parts: exp.Expr) -> Span | None:
        query, origins = self.model.query or "", self.model.origins
        known = [part.meta for part in parts]
        if not origins or any("start" not in meta for meta in known):
            self.found.whole = False
            return None
        start, end = known[0]["start"], known[-1]["end"] + 1
        begin = find_place(origins, start)
        stop = begin + end - start
        if begin < 0 or self.model.source[begin:stop] != query[start:end]:
            self.found.whole = False
            return None
        return Span(self.path, begin, stop)

    def _mention(
        self,
        symbol: Symbol,
        *parts: exp.Expr,
        defines: bool = False,
        output: bool = False,
        qualifies: bool = False,
    ) -> None:
        span = self._span(*parts)
        if span is not None:
            self.found.mentions.append(Mention(span, symbol, defines, output, qualifies))

    # -- columns ---------------------------------------------------------------------------

    def _output_symbol(self, scope: Any, column: str) -> Symbol:
        # The output columns of the outermost query are the model's columns.
        scope = _first_branch(scope)
        if self.root is not None and scope is _first_branch(self.root):
            return Symbol("column", self.model.name, column)
        return Symbol("inner", self.model.name, column, self.numbers.get(id(scope), -1))

    def _source_columns(self, source: Any) -> list[str] | None:
        if isinstance(source, scopes.Scope):
            return self._scope_columns(_first_branch(source))
        name = table_name(source)
        return None if name is None else column_names(self.snapshots, name)

    def _scope_columns(self, scope: Any) -> list[str] | None:
        names: list[str] = []
        for select in scope.expression.selects:
            if select.is_star:
                for source in self._star_sources(scope, select):
                    columns = self._source_columns(source)
                    if columns is None:
                        return None
                    names += columns
            else:
                names.append(select.alias_or_name.lower())
        return names

    def _star_sources(self, scope: Any, select: exp.Expr) -> list[Any]:
        table = select.table if isinstance(select, exp.Column) else ""
        if table:
            return [scope.sources[table]] if table in scope.sources else []
        return [source for _, source in scope.selected_sources.values()]

    def _source_symbol(self, source: Any, column: str) -> Symbol | None:
        if isinstance(source, scopes.Scope):
            return self._output_symbol(source, column)
        name = table_name(source)
        return None if name is None else Symbol("column", name, column)

    # -- reading ---------------------------------------------------------------------------

    def _read_tables(self, scope: Any) -> None:
        number = self.numbers[id(scope)]
        for name, (node, source) in scope.selected_sources.items():
            if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
                if isinstance(source, scopes.Scope):
                    self._mention(self._cte_symbol(node.name, source), node.this)
                else:
                    model = table_name(node)
                    if model is not None:
                        self._mention(Symbol("model", model), *node.parts)
            alias = node.args.get("alias")
            if isinstance(alias, exp.TableAlias) and alias.this is not None:
                symbol = Symbol("alias", self.model.name, name.lower(), number)
                self._mention(symbol, alias.this, defines=True)
        for cte in getattr(scope.expression, "ctes", ()):
            source = scope.cte_sources.get(cte.alias)
            if source is not None:
                symbol = self._cte_symbol(cte.alias, source)
                self._mention(symbol, cte.args["alias"].this, defines=True)

    def _cte_symbol(self, name: str, scope: Any) -> Symbol:
        number = self.numbers.get(id(_first_branch(scope)), -1)
        return Symbol("cte", self.model.name, name.lower(), number)

    def _read_outputs(self, scope: Any) -> None:
        if not isinstance(scope.expression, exp.Select) or _first_branch(scope) is not scope:
            return
        if scope.is_set_operation and not self._names_outputs(scope):
            return
        for select in scope.expression.selects:
            if select.is_star:
                if any(select.args.get(key) for key in ("except_", "replace", "rename", "except")):
                    self.found.whole = False
                for source in self._star_sources(scope, select):
                    for column in self._source_columns(source) or ():
                        inner = self._source_symbol(source, column)
                        if inner is not None:
                            self.found.links[
                                self._output_symbol(self._outermost_union(scope), column)
                            ] = inner
                continue
            symbol = self._output_symbol(self._outermost_union(scope), select.alias_or_name.lower())
            if isinstance(select, exp.Alias):
                self._mention(symbol, select.args["alias"], defines=True)
            elif isinstance(select, exp.Column) and isinstance(select.this, exp.Identifier):
                self._mention(symbol, select.this, defines=True)

    def _outermost_union(self, scope: Any) -> Any:
        while scope.is_set_operation and scope.parent is not None:
            scope = scope.parent
        return scope

    def _names_outputs(self, scope: Any) -> bool:
        while scope.is_set_operation and scope.parent is not None:
            if scope.parent.set_operation_scopes[0] is not scope:
                return False
            scope = scope.parent
        return True

    def _read_columns(self, scope: Any) -> None:
        outputs = {id(select) for select in getattr(scope.expression, "selects", ())}
        left = self._names_outputs(scope)
        seen: set[int] = set()
        for column in scope.columns:
            if id(column) in seen or not isinstance(column.this, exp.Identifier):
                continue
            seen.add(id(column))
            output = id(column) in outputs and left
            self._read_column(scope, column, output)

    def _read_column(self, scope: Any, column: exp.Column, output: bool) -> None:
        parts = column.parts
        table = column.table
        at: Any = scope
        while at is not None:
            if table and table in at.sources:
                self._read_qualifier(at, column, table)
                symbol = self._source_symbol(at.sources[table], column.name.lower())
                if symbol is not None:
                    self._mention(symbol, column.this, output=output)
                return
            name = parts[0].name.lower()
            found = self._find_unqualified(at, name, len(parts) == 1)
            if found is not None:
                self._mention(found, parts[0], output=output and len(parts) == 1)
                return
            at = at.parent
        self.found.whole = False

    def _read_qualifier(self, scope: Any, column: exp.Column, table: str) -> None:
        reference = scope.selected_sources.get(table)
        if reference is None:
            return
        node, source = reference
        identifier = column.args["table"]
        if node.args.get("alias") is not None and node.alias:
            symbol = Symbol("alias", self.model.name, table.lower(), self.numbers[id(scope)])
            self._mention(symbol, identifier)
        elif isinstance(source, scopes.Scope):
            self._mention(self._cte_symbol(table, source), identifier)
        elif (name := table_name(node)) is not None:
            self._mention(Symbol("model", name), *column.parts[:-1], qualifies=True)

    def _find_unqualified(self, scope: Any, name: str, single: bool) -> Symbol | None:
        having: list[Any] = []
        unknown: list[Any] = []
        for _, source in scope.selected_sources.values():
            columns = self._source_columns(source)
            if columns is None:
                unknown.append(source)
            elif name in columns:
                having.append(source)
        if len(having) == 1:
            return self._source_symbol(having[0], name)
        if having:
            return None
        aliases = [s for s in getattr(scope.expression, "selects", ()) if isinstance(s, exp.Alias)]
        if single and any(alias.alias.lower() == name for alias in aliases):
            return self._output_symbol(self._outermost_union(scope), name)
        return self._source_symbol(unknown[0], name) if len(unknown) == 1 else None


def _first_branch(scope: Any) -> Any:
    # The first query names the columns of the union.
    while scope.set_operation_scopes:
        scope = scope.set_operation_scopes[0]
    return scope


def table_name(node: Any) -> ModelName | None:
    """Return the model that a table in FROM names, or None for functions and one-part names."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        return None
    parts: Sequence[exp.Expr] = node.parts
    if len(parts) < 2:
        return None
    return ModelName(parts[-2].name.lower(), parts[-1].name.lower())
