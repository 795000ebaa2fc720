"""Queries for the output rows that changes of a table affect.

`find_affected` derives a query from the original query. It handles one reference to a table at a
time: the changed rows take the place of the table, and all other references stay. Starting with the
innermost SELECT, each SELECT becomes a query for the rows that may differ. Its output has only the
columns whose values are known for these rows:

- Conditions that name other columns are left out, so the query may find too many rows, but never
  too few.
- In a grouped query, the GROUP BY expressions are known. In a query with windows, the expressions
  that all windows have in PARTITION BY are known.
- The right side of a LEFT JOIN adds rows with NULLs when it loses rows: the left side's rows that
  meet changed rows are affected, and the right side's columns are unknown. In the same way, the
  rows that meet changed rows in a SEMI or ANTI JOIN or in a subquery of a condition are affected.
- After a FULL JOIN, only the `coalesce` of two columns that the join makes equal is known.
- Each branch of a set operation has its own changes.
- A column that the query groups, partitions or compares by is known only if its type is exact.
  Floats are not exact: 0.0 and -0.0 are in one group, so a changed row may have the value 0.0 while
  its group's row has -0.0.

If several references change, each has its own step: there, earlier references have their new rows
and later references their old rows. The steps together find all changes of the result, as in the
delta of a product (Blakeley, Larson, Tompa: Efficiently Updating Materialized Views, SIGMOD
1986).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlglot import exp

from vde_dagster.semantics.refresh import refusals, trees
from vde_dagster.semantics.refresh.qualified import (
    NotRefreshableError,
    Qualified,
    find_table_node,
    reading_number,
)
from vde_dagster.sql.trees import used_args

CHANGED = "vde_changed"
"""The name of the changed table in derived queries."""


@dataclass(frozen=True, slots=True)
class AffectedRowsQuery:
    """Query that returns the output rows affected by changed rows of one table.

    Args:
        columns: Output columns that the query can compute, in lower case.
        query: Its tables are named `vde_0`, `vde_1`, … as in `Qualified`, and the changed table
            `vde_changed`.
    """

    columns: tuple[str, ...]
    query: exp.Select


def find_affected(query: Qualified, reading: int) -> AffectedRowsQuery:
    """Write a query for the output rows that may differ after rows of one table changed.

    Args:
        reading: Number N of the changed table, which is named `vde_N` in the query.

    Raises:
        NotRefreshableError: Any output row may change.
    """
    root = query.tree.copy()
    leaf = find_table_node(root, reading)
    found = _Step(query, leaf).query(root)
    names = [one.alias_or_name.lower() for one in found.selects]
    single = {name for name in names if names.count(name) == 1}
    columns = [o for o in found.selects if o.find(exp.Column) and o.alias_or_name.lower() in single]
    found = _only(found, columns, NotRefreshableError(refusals.NO_COLUMN, hint=refusals.SELECT_ONE))
    leaf.set("this", exp.to_identifier(CHANGED))
    return AffectedRowsQuery(tuple(one.alias_or_name.lower() for one in found.selects), found)


@dataclass(slots=True)
class _Sources:
    """The sources of a SELECT, with their known columns.

    Args:
        changed: Alias of the source with changed rows; None if an expression's subquery has them.
        lost: Aliases of sources whose columns are unknown.
        partly: Known columns of the source `changed`; None if all are known.
        pairs: Pairs of columns that a FULL JOIN makes equal.
    """

    changed: str | None = None
    lost: set[str] = field(default_factory=set)
    partly: Collection[str] | None = None
    # The `coalesce` of such a pair is known.
    pairs: set[frozenset[trees.Place]] = field(default_factory=set)


class _Step:
    def __init__(self, query: Qualified, leaf: exp.Table) -> None:
        self._query = query
        self._leaf = leaf

    def query(self, query: exp.Expr) -> exp.Select:
        while isinstance(query, exp.Subquery):
            if used_args(query) - {"this", "alias"}:
                raise NotRefreshableError(refusals.NOT_SUPPORTED, query)
            query = query.this
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query)
        if not isinstance(query, exp.Select):
            raise NotRefreshableError("a part of the query is not a SELECT", query)
        return self._select(query)

    def _holds(self, part: exp.Expr | None) -> bool:
        return trees.contains_node(part, self._leaf)

    def _set_operation(self, query: exp.SetOperation) -> exp.Select:
        if query.args.get("limit") or query.args.get("offset") or query.args.get("by_name"):
            raise refusals.unsupported_clause_error(query)
        left, right = query.this, query.expression
        branch, other = (left, right) if self._holds(left) else (right, left)
        names = [one.alias_or_name for one in query.selects]
        types = [list(self._query.types(one).values()) for one in (branch, other)]
        places = {one.alias_or_name.lower(): n for n, one in enumerate(branch.selects)}
        if len(places) < len(names) or len({name.lower() for name in names}) < len(names):
            raise NotRefreshableError(
                "a set operation has two columns with the same name",
                refusals.output_list(branch),
                "give each column of the branches its own name",
            )
        found = self.query(branch)
        kept, inexact = [], []
        for one in found.selects:
            place = places[one.alias_or_name.lower()]
            if all(len(known) == len(names) for known in types):
                type_ = types[0][place]
                same = type_ != "UNKNOWN" and type_ == types[1][place]
                if same and _is_distinct(query) and not trees.has_exact_equality(type_):
                    inexact.append(one)
                elif same:
                    kept.append(exp.alias_(one.unalias(), names[place], quoted=True))
        if inexact and not kept:
            raise NotRefreshableError(refusals.INEXACT, inexact[0], refusals.CAST_INEXACT)
        why = "the branches of a set operation have different types"
        hint = "cast the columns of both branches to the same types"
        return _only(found, kept, NotRefreshableError(why, refusals.output_list(branch), hint))

    def _select(self, select: exp.Select) -> exp.Select:
        if (
            used_args(select) - refusals.PLAIN
            or select.args.get("kind")
            or select.args.get("windows")
        ):
            raise refusals.unsupported_clause_error(select)
        sources, made = self._sources(select)
        outputs = self._outputs(select, sources)
        where = select.args.get("where")
        conditions = trees.conjuncts(where.this if where is not None else None)
        conditions = [c for c in conditions if not self._holds(c)]
        if sources.changed is None:
            conditions.append(self._met(select))
        known = [c for c in conditions if self._is_known(c, sources)]
        if sources.changed is not None and any(one.find(exp.Column) for one in outputs):
            closer = self._nearer(outputs, [*known, *trees.join_conditions(made)], sources, made)
            if closer is not None:
                outputs = closer
                own = {source.alias_or_name for source in trees.list_sources(select)} - {
                    sources.changed
                }
                known = [c for c in known if not trees.reads_any(c, own)]
        for condition in known:
            made.where(condition.copy(), copy=False)
        return _only(made, outputs, refusals.no_known_column_error(select, sources.lost))

    def _sources(self, select: exp.Select) -> tuple[_Sources, exp.Select]:
        begin = select.args.get("from_")
        if begin is None:
            raise NotRefreshableError("a part of the query reads no table", select)
        found = _Sources()
        made = exp.Select(from_=exp.From(this=self._source(begin.this, found)))
        before = {begin.this.alias_or_name}
        for join in select.args.get("joins") or ():
            self._join(join, before, found, made)
            before.add(join.this.alias_or_name)
        for lateral in select.args.get("laterals") or ():
            if self._is_known(lateral, found):
                made.append("laterals", lateral.copy())
            else:
                found.lost.add(lateral.alias_or_name)
        return found, made

    def _source(self, source: exp.Expr, found: _Sources) -> exp.Expr:
        if not self._holds(source):
            return source.copy()
        found.changed = source.alias_or_name
        if isinstance(source, exp.Table):
            copied = source.copy()
            copied.set("this", exp.to_identifier(CHANGED))
            return copied
        if not isinstance(source, exp.Subquery):
            raise NotRefreshableError(
                "a lateral query reads the changed table",
                source,
                "write the lateral query as a join",
            )
        inner = self.query(source)
        found.partly = {one.alias_or_name.lower() for one in inner.selects}
        return exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(found.changed)))

    def _join(
        self, join: exp.Join, before: Collection[str], found: _Sources, made: exp.Select
    ) -> None:
        if used_args(join) - {"this", "side", "kind", "on"}:
            raise NotRefreshableError(
                "a join has a clause other than ON", join, "write the join's condition as ON"
            )
        side, kind = (str(join.args.get(key) or "").upper() for key in ("side", "kind"))
        on, alias = trees.conjuncts(join.args.get("on")), join.this.alias_or_name
        if self._holds(join.args.get("on")):
            raise NotRefreshableError(
                "the condition of a join reads the changed table",
                join.args["on"],
                "move the subquery from ON to a separate join",
            )
        lateral = isinstance(join.this, exp.Lateral | exp.Unnest)
        if lateral and not self._is_known(join.this, found):
            found.lost.add(alias)
            return
        was = found.changed
        source = self._source(join.this, found)
        here = was is None and found.changed is not None
        known = [c for c in on if self._is_known(c, found)]
        if kind in ("SEMI", "ANTI"):
            if here:
                self._meet(made, source, known)
                found.lost.add(alias)
            elif len(known) == len(on):
                made.append("joins", trees.new_join(source, side, kind, known))
            return
        if was is None and not here:  # A subquery has the changed rows, or a later source.
            made.append("joins", trees.new_join(source, side, kind, on))
        elif side == "FULL":
            self._full(made, source, known, alias, before, found, here=here)
        elif here and side == "LEFT":
            self._meet(made, source, known)
            found.lost.add(alias)
        elif side == "RIGHT" and (not here or len(known) < len(on)):
            # With fewer conditions, rows without a match would get one.
            self._meet(made, source, known)
            found.lost.update(before)
            found.pairs.clear()
        elif here or len(known) == len(on) or (known and side != "LEFT"):
            made.append("joins", trees.new_join(source, side, kind, known))
        else:
            found.lost.add(alias)  # More rows without it.

    def _meet(self, made: exp.Select, source: exp.Expr, known: list[exp.Expr]) -> None:
        """Add a source to `made` with an inner join on the conditions `known`."""
        if not known:
            raise NotRefreshableError(
                "no condition of a join can be computed for the changed rows",
                source,
                "join by columns whose values are known on both sides",
            )
        made.append("joins", trees.new_join(source, "", "", known))

    def _full(
        self,
        made: exp.Select,
        source: exp.Expr,
        known: list[exp.Expr],
        alias: str,
        before: Collection[str],
        found: _Sources,
        *,
        here: bool,
    ) -> None:
        if not known:
            raise NotRefreshableError(
                "no condition of a FULL JOIN can be computed for the changed rows",
                source,
                "join by columns whose values are known on both sides",
            )
        made.append("joins", trees.new_join(source, "RIGHT" if here else "LEFT", "", known))
        # Rows without a match have NULLs in the columns of earlier pairs.
        pairs, found.pairs = found.pairs, set()
        for one, other in trees.equal_pairs(known):
            sides = [
                frozenset((trees.source_and_column(s),))
                if isinstance(s, exp.Column)
                else trees.coalesced_columns(s)
                for s in (one, other)
            ]
            columns = sides[0] | sides[1]
            types = {self._type(made, column) for column in columns}
            whole = all(len(side) == 1 or side in pairs for side in sides)
            across = [source for source, _ in columns].count(alias) == 1 < len(columns)
            if whole and across and len(types) == 1 and None not in types:
                found.pairs.add(columns)
        found.lost.update((*before, alias))

    def _met(self, select: exp.Select) -> exp.Expr:
        """Return a condition for the rows that a subquery's changed rows can affect."""
        at: exp.Expr = self._leaf
        outermost: exp.Expr | None = None
        while at is not select:
            if isinstance(at, exp.Select | exp.SetOperation):
                outermost = at
            assert at.parent is not None
            at = at.parent
        assert outermost is not None
        own = {source.alias_or_name for source in trees.list_sources(select)}
        place = outermost.parent
        if isinstance(place, exp.Subquery):
            place = place.parent if isinstance(place.parent, exp.In) else place
        if isinstance(place, exp.In) and not isinstance(place.this, exp.Tuple):
            if _is_top_conjunct(place, select):
                return self._correlated(_linked(self.query(outermost), place.this, own), outermost)
            if not _is_correlated(outermost):
                return _in_condition_may_change(self.query(outermost), place.this, own)
        if isinstance(place, exp.In | exp.Exists | exp.Subquery):
            return self._correlated(self._plain_rows(outermost), outermost)
        raise NotRefreshableError(
            "a value is compared with each row of a subquery",
            place,
            "write the comparison with EXISTS or NOT EXISTS",
        )

    def _correlated(self, inner: exp.Select, subquery: exp.Expr) -> exp.Expr:
        """Return an EXISTS of a correlated query, or raise an error for other queries."""
        if not _is_correlated(inner):
            raise NotRefreshableError(
                "a subquery is not correlated, so its changes affect all rows",
                subquery,
                "correlate the subquery with the row by an equality, or make it a model that this "
                "model joins by a key",
            )
        return exp.Exists(this=inner)

    def _plain_rows(self, select: exp.Expr) -> exp.Select:
        if not isinstance(select, exp.Select):
            raise NotRefreshableError(
                "a subquery is a set operation", select, "write one subquery for each branch"
            )
        plain = select.copy()
        marked = self._leaf
        place = list(select.find_all(exp.Table)).index(marked)
        self._leaf = list(plain.find_all(exp.Table))[place]
        for part in ("group", "having", "qualify", "order", "distinct", "limit"):
            if part in ("qualify", "limit") and plain.args.get(part):
                raise refusals.unsupported_clause_error(select)
            plain.set(part, None)
        plain.set("expressions", [exp.alias_(exp.Literal.number(1), "one")])
        try:
            return self._select(plain)
        finally:
            self._leaf = marked

    def _outputs(self, select: exp.Select, sources: _Sources) -> list[exp.Expr]:
        group = select.args.get("group")
        if group is not None and (
            used_args(group) - {"expressions"} or group.find(exp.Rollup, exp.Cube, exp.GroupingSets)
        ):
            raise NotRefreshableError(refusals.SEVERAL_SETS, group, refusals.ONE_SET)
        within: list[list[exp.Expr]] = []
        if group is not None:
            within.append(group.expressions)
        elif total := next(filter(trees.is_aggregate, refusals.computed_nodes(select)), None):
            raise NotRefreshableError(
                "the query aggregates all rows into one",
                total,
                "group by a column, or keep the kind FULL",
            )
        windows = (node for node in refusals.computed_nodes(select) if isinstance(node, exp.Window))
        within += [window.args.get("partition_by") or [] for window in windows]
        clauses = [select.args.get(name) for name in ("where", "qualify")]
        conditions = [c for one in clauses if one is not None for c in trees.conjuncts(one.this)]
        equal = self._equal(select, [*conditions, *trees.join_conditions(select)])
        compared = within
        within = [self._exact(select, some) for some in compared]
        parts = [part for some in within for part in some if isinstance(part, exp.Column)]
        types: Mapping[str, str] = {}
        if _is_distinct(select):
            types = {name.lower(): t for name, t in self._query.types(select).items()}
        found = []
        for one in select.selects:
            if _is_distinct(select) and not trees.has_exact_equality(
                types.get(one.alias_or_name.lower(), "UNKNOWN")
            ):
                continue
            value = self._determined(one.unalias(), equal, parts if within else None, sources)
            by_parts = all(trees.is_determined_by(value, some) for some in within)
            named = bool(one.alias_or_name) and not isinstance(one, exp.Aliases)
            if named and by_parts and not self._holds(one) and self._is_known(value, sources):
                found.append(exp.alias_(value.copy(), one.alias_or_name, quoted=True))
        for values, exact in zip(compared, within, strict=True):
            if values and not exact and not found:
                raise NotRefreshableError(refusals.INEXACT, values[0], refusals.CAST_INEXACT)
        return found

    def _exact(self, select: exp.Select, parts: Sequence[exp.Expr]) -> list[exp.Expr]:
        # Floats are left out: a group can have rows with 0.0 and -0.0, and returns only one value.
        rest = [part for part in parts if self._type(select, trees.source_and_column(part)) is None]
        found = [part for part in parts if part not in rest]
        if rest:
            typed = select.copy()
            for clause in ("having", "qualify", "distinct", "order"):
                typed.set(clause, None)
            named = enumerate(rest)
            listed = [exp.alias_(part.copy(), f"vde_part_{n}", quoted=True) for n, part in named]
            typed.set("expressions", listed)
            types = list(self._query.types(typed).values())
            if len(types) == len(rest):
                pairs = zip(rest, types, strict=True)
                found += [part for part, type_ in pairs if trees.has_exact_equality(type_)]
        return found

    def _determined(
        self,
        value: exp.Expr,
        equal: Mapping[trees.Place, Collection[trees.Place]],
        parts: Sequence[exp.Expr] | None,
        sources: _Sources,
    ) -> exp.Expr:
        """Replace columns in an output's expression with known columns of equal value.

        Args:
            parts: The columns to use; None for any columns.
        """
        if self._holds(value) or value.find(exp.Query):
            return value

        places = None if parts is None else {trees.source_and_column(part) for part in parts}

        def determined(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            begin = trees.source_and_column(node)
            for place in (begin, *sorted(trees.find_equal_columns(equal, begin) - {begin})):
                column = node if place == begin else exp.column(place[1], place[0], quoted=True)
                if (places is None or place in places) and self._is_known(column, sources):
                    return column
            return node

        return value.copy().transform(determined)

    def _is_known(self, expression: exp.Expr, sources: _Sources) -> bool:
        if trees.coalesced_columns(expression) in sources.pairs:
            return True
        if isinstance(expression, exp.Column):
            alias, name = trees.source_and_column(expression)
            if alias in sources.lost:
                return False
            partly = sources.partly if alias == sources.changed else None
            return partly is None or name in partly
        if self._holds(expression):
            return False
        return all(self._is_known(part, sources) for part in expression.iter_expressions())

    def _nearer(
        self, outputs: list[exp.Expr], known: list[exp.Expr], sources: _Sources, made: exp.Select
    ) -> list[exp.Expr] | None:
        """Rewrite the outputs to read only the changed rows, without joins, or return None."""
        alias = sources.changed
        if made.args.get("laterals") or alias is None:
            return None
        equal = self._equal(made, known)

        def closer(node: exp.Expr) -> exp.Expr:
            if trees.coalesced_columns(node) in sources.pairs:
                node = next((c for c in node.find_all(exp.Column) if c.table == alias), node)
            if not isinstance(node, exp.Column) or node.table == alias:
                return node
            for name, other in sorted(
                trees.find_equal_columns(equal, trees.source_and_column(node))
            ):
                if name == alias and (sources.partly is None or other in sources.partly):
                    return exp.column(other, name, quoted=True)
            return node

        found = [one.copy().transform(closer) for one in outputs]
        if not all(trees.reads_only(one, alias) for one in found):
            return None
        source = next(one for one in trees.list_sources(made) if one.alias_or_name == alias)
        made.set("from_", exp.From(this=source.copy()))
        made.set("joins", None)
        return found

    def _equal(
        self, made: exp.Select, known: list[exp.Expr]
    ) -> dict[trees.Place, set[trees.Place]]:
        equal: dict[trees.Place, set[trees.Place]] = {}
        for one, other in trees.equal_columns(known):
            if self._type(made, one) == self._type(made, other) is not None:
                equal.setdefault(one, set()).add(other)
                equal.setdefault(other, set()).add(one)
        return equal

    def _type(self, made: exp.Select, column: trees.Place) -> str | None:
        source = next(
            (one for one in trees.list_sources(made) if one.alias_or_name == column[0]), None
        )
        types: Mapping[str, str] = {}
        if isinstance(source, exp.Table):
            name = self._leaf.name if source.name == CHANGED else source.name
            types = self._query.schema[self._query.readings[reading_number(name)]]
        elif isinstance(source, exp.Subquery):
            types = self._query.types(trees.replace_table(source.this, CHANGED, self._leaf.name))
        found = {name.lower(): type_ for name, type_ in types.items()}.get(column[1], "UNKNOWN")
        return found if trees.has_exact_equality(found) else None


def _linked(query: exp.Select, value: exp.Expr, outer: Set[str]) -> exp.Select:
    """Restrict a query of one column to rows with the value of an outer expression."""
    (output,) = query.selects
    if outer.isdisjoint(column.table for column in query.find_all(exp.Column)):
        alias = exp.TableAlias(this=exp.to_identifier("vde_met"))
        column: exp.Expr = exp.column(output.alias_or_name, "vde_met", quoted=True)
        query = exp.Select(from_=exp.From(this=exp.Subquery(this=query, alias=alias)))
        query.set("expressions", [exp.alias_(exp.Literal.number(1), "one")])
    elif {source.alias_or_name for source in trees.list_sources(query)}.isdisjoint(outer):
        column = output.unalias()
    else:
        raise NotRefreshableError(
            "a subquery uses table aliases of the outer query",
            query,
            "give the tables in the subquery other aliases",
        )
    query.where(exp.EQ(this=column.copy(), expression=value.copy()), copy=False)
    return query


def _is_correlated(query: exp.Expr) -> bool:
    selects = query.find_all(exp.Select)
    inside = {source.alias_or_name for one in selects for source in trees.list_sources(one)}
    return any(column.table not in inside for column in query.find_all(exp.Column))


def _in_condition_may_change(query: exp.Select, value: exp.Expr, outer: Set[str]) -> exp.Expr:
    """Return a condition for the rows whose IN or NOT IN a subquery's changed rows may affect.

    A changed row with NULL affects all rows.
    """
    source = exp.Subquery(
        this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier("vde_nulls"))
    )
    nulls = exp.Select(
        expressions=[exp.alias_(exp.Literal.number(1), "one")], from_=exp.From(this=source)
    )
    column = exp.column(query.selects[0].alias_or_name, "vde_nulls", quoted=True)
    nulls.where(exp.Is(this=column, expression=exp.Null()), copy=False)
    return exp.paren(
        exp.or_(
            exp.Exists(this=_linked(query, value, outer)),
            exp.Exists(this=nulls),
            exp.Is(this=value.copy(), expression=exp.Null()),
        )
    )


def _is_distinct(query: exp.Query) -> bool:
    if isinstance(query, exp.Union):
        return bool(query.args.get("distinct"))
    return isinstance(query, exp.SetOperation) or bool(query.args.get("distinct"))


def _is_top_conjunct(node: exp.Expr, select: exp.Select) -> bool:
    at = node.parent
    while isinstance(at, exp.And | exp.Paren):
        at = at.parent
    return isinstance(at, exp.Where) and at.parent is select


def _only(
    select: exp.Select, outputs: list[exp.Expr], otherwise: NotRefreshableError
) -> exp.Select:
    if not outputs:
        raise otherwise
    select.set("expressions", outputs)
    return select
