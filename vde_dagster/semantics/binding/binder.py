"""Binds the names of one query. Also records its mistakes, and why it must be compared as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from vde_dagster.base.hashing import digest_values, hex_or_text_bytes
from vde_dagster.semantics._sqlglot import called_function, data_type
from vde_dagster.semantics.algebra.nodes import BOOLEAN, Leaf, Node, Terms
from vde_dagster.semantics.algebra.void_type import is_void
from vde_dagster.semantics.binding.names import NamedSource, Scope
from vde_dagster.semantics.errors import RecordedRefusal, Rule, SemanticError
from vde_dagster.semantics.function_types import are_not_comparable, lack_common_type
from vde_dagster.semantics.spark_functions import SYNTAX_CLASSES
from vde_dagster.semantics.types import infer, infer_family
from vde_dagster.semantics.versions.version import (
    OTHER_COLUMNS,
    SemanticVersion,
    leaf_column,
    leaf_rows,
)

_CONDITIONS = (exp.DType.BOOLEAN, exp.DType.NULL, exp.DType.UNKNOWN)


class Unsupported(Exception):
    """The query has a construct that the analysis does not support."""


def refuse_other_args(e: exp.Expr, understood: set[str], what: str = "") -> None:
    """Raise `Unsupported` if a SQLGlot node has arguments that are not in `understood`."""
    for key, value in e.args.items():
        if value and key not in understood:
            words = key.strip("_").replace("_", " ")
            raise Unsupported(f"{what} with {words}" if what else words.upper())


def flat_operands(e: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    # Generated queries have thousands of operands, too many for recursion.
    stack, operands = [e], []
    while stack:
        item = stack.pop()
        if item.__class__ is kind:
            stack += (item.args["expression"], item.args["this"])
        elif item.__class__ is exp.Paren:
            stack.append(item.this)
        else:
            operands.append(item)
    return operands


Handler = Callable[["Binder", Any, Scope], Node]


class Binder:
    """Converts the syntax tree of one query to the relational algebra.

    See `analyze` for the arguments.
    """

    CTE_BUDGET = 64
    """Maximum number of uses of CTEs that are merged into the query; others stay separate."""

    def __init__(
        self,
        schema: Mapping[str, Mapping[str, str]],
        parents: Mapping[str, SemanticVersion],
        scalar_functions: Collection[str] = (),
        functions: Collection[str] = (),
    ) -> None:
        from vde_dagster.semantics.binding.expressions import HANDLERS

        self._handlers = HANDLERS
        self._schema = {_plain(name): columns for name, columns in schema.items()}
        self._parents = {_plain(name): version for name, version in parents.items()}
        self.terms = Terms()
        self.scalar_functions = frozenset(name.lower() for name in scalar_functions)
        self.functions = frozenset(name.lower() for name in functions) | self.scalar_functions
        self.unsupported_reason: str | None = None
        self.mistakes: list[SemanticError] = []
        self.partial: str | None = None
        """Reason why unknown columns may exist, set after a star of a table with such columns."""
        self.noted: list[RecordedRefusal] = []
        self.leaves: list[Leaf] = []
        self.cte_readings = 0
        self.using_calls_coalesce = False
        """Whether to bind a USING column of a FULL JOIN as a call of `coalesce`."""

    def bind(self, e: exp.Expr, scope: Scope) -> Node:
        """Convert a syntax tree to an expression, with `unknown` for unsupported parts."""
        if e.args.get("negate"):
            return self._negated(e, scope)
        handler = self._handlers.get(e.__class__)
        if handler is not None:
            return handler(self, e, scope)
        name = e.__class__.__name__
        if name in SYNTAX_CLASSES:
            return self.bind_by_class(e, scope)
        return self.give_up(f"{name} is not understood", *self.bind_children(e, scope))

    def _negated(self, e: exp.Expr, scope: Scope) -> Node:
        e.set("negate", None)
        try:
            node = self.bind(e, scope)
        finally:
            e.set("negate", True)
        # With ANY and ALL, NOT applies to each pattern.
        each = isinstance(e.expression, exp.Any | exp.All)
        return self.terms.make("not each", node) if each else self.terms.negate(node)

    def bind_by_class(self, e: exp.Expr, scope: Scope) -> Node:
        parts: list[Any] = []
        for key, value in sorted(e.args.items()):
            if value.__class__ is list:
                if value:
                    parts += [key, len(value), *(self.bind_argument(item, scope) for item in value)]
            elif value is not None:
                parts += [key, self.bind_argument(value, scope)]
        return self.terms.make(e.__class__.__name__, *parts)

    def bind_argument(self, value: Any, scope: Scope) -> Any:
        if isinstance(value, exp.Expr):
            return self.bind(value, scope)
        if isinstance(value, (str, bool, int)):
            return value
        if isinstance(value, (exp.DType, float)):
            return str(value)
        raise Unsupported(f"an argument of type {type(value).__name__}")

    def bind_children(self, e: exp.Expr, scope: Scope) -> list[Node]:
        # The lineage of the expression includes the columns of its children.
        return [self.bind(child, scope) for child in e.iter_expressions()]

    def give_up(self, why: str, *operands: Node) -> Node:
        """Record why the query is not supported, and return `unknown` over the operands.

        Without operands, lineage treats `unknown` as a use of every column of every table.
        """
        # The query is then compared as text.
        if self.unsupported_reason is None:
            self.unsupported_reason = why
        return self.terms.make("unknown", *operands)

    def give_up_call(self, why: str, arguments: list[Node]) -> Node:
        return self.give_up(why, *(arguments or [self.terms.make("Null")]))

    def check_condition(self, node: Node, e: exp.Expr) -> Node:
        """Return a condition, or `unknown` if Spark does not accept its type."""
        if is_void(node):
            return self.give_up("NULL as a condition", node)
        return self.require_boolean(node, e)

    def require_boolean(self, node: Node, e: exp.Expr) -> Node:
        """Return an operand, or `unknown` if it is not a BOOLEAN."""
        if node.tag in BOOLEAN:
            return node
        kind = infer(e)
        refused = kind is not None and kind.this not in _CONDITIONS
        return self.give_up("a condition that is not BOOLEAN", node) if refused else node

    def require_common_type(
        self, node: Node, values: Iterable[exp.Expr], *, ordered: bool = False
    ) -> Node:
        """Return a CASE or similar, or `unknown` if its values have no common type."""
        if not lack_common_type(map(infer_family, values), ordered=ordered):
            return node
        return self.give_up("values without a common type", node)

    def require_comparable(self, node: Node, values: Sequence[exp.Expr]) -> Node:
        """Return a comparison, or `unknown` if Spark cannot compare its operands."""
        maps = any(called_function(e.unnest()) == "map" for e in values)
        if maps or are_not_comparable(map(infer_family, values)):
            return self.give_up("a comparison of types that Spark does not compare", node)
        return node

    def record_mistake(self, mistake: SemanticError) -> Node:
        # After a star with unknown columns, any name may exist, so this is not a mistake.
        if self.partial is not None:
            return self.give_up(self.partial)
        # Binding continues, so that all mistakes of a query are reported at once.
        self.mistakes.append(mistake)
        return self.give_up(mistake.message)

    def record_refusal(self, rule: Rule, where: exp.Expr, *details: Any) -> None:
        self.noted.append(RecordedRefusal(rule, where, details))

    def bind_table(self, parts: tuple[str, ...]) -> NamedSource:
        """Create the FROM entry of a table from the lower-case parts of its name."""
        name = ".".join(parts)
        columns, version = self._schema.get(name), self._parents.get(name)
        types: dict[str, Any] = {}
        is_open = columns is None and not (version is not None and version.columns)
        if columns is not None:
            is_open = OTHER_COLUMNS in columns
            columns = {c: t for c, t in columns.items() if c != OTHER_COLUMNS}
            types = {c.lower(): data_type(t) for c, t in columns.items()}
        elif version is not None and version.columns:
            types = dict.fromkeys(version.columns)
        leaf = self._leaf(name, columns, version, types)
        leaf.open = is_open
        self.leaves.append(leaf)
        return NamedSource(
            parts=parts,
            names=list(types),
            nodes={},
            types=types,
            leaf=leaf,
            open=is_open,
            written={c.lower(): c for c in columns or ()},
        )

    def _leaf(
        self,
        name: str,
        columns: Mapping[str, str] | None,
        version: SemanticVersion | None,
        types: dict[str, Any],
    ) -> Leaf:
        if version is None:
            return Leaf(
                name,
                leaf_rows(name),
                {c.lower(): leaf_column(name, c.lower(), t) for c, t in (columns or {}).items()},
                types,
            )
        rows = hex_or_text_bytes(version.rows)
        versions = {c: hex_or_text_bytes(v) for c, v in version.columns.items()}
        for column in types:
            if column not in versions:
                self.give_up(f"column {column} of {name} has no version")
                versions[column] = digest_values("no version", rows, column)
        return Leaf(name, rows, versions, types, version.unique_keys)


def _plain(name: str) -> str:
    return name.replace("`", "").lower()
