"""Random queries: joins of all kinds, groups, windows, subqueries and set operations."""

from __future__ import annotations

import random
from collections.abc import Sequence

SCHEMA = {
    "o": {"id": "INT", "c": "INT", "n": "INT", "d": "INT"},
    "c": {"id": "INT", "name": "STRING", "region": "INT"},
    "e": {"c": "INT", "day": "INT"},
}
_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
_JOINS += ("LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN")
_SETS = ("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT")

Source = tuple[str, list[str]]
"""Alias of a source, and its columns of type INT."""


class RandomQuery:
    """A query over the tables of `SCHEMA`, as Spark SQL in `text`.

    Args:
        linear: Whether most parts neither group nor compare rows; generators are added.
    """

    def __init__(self, chance: random.Random, depth: int = 2, *, linear: bool = False) -> None:
        self._chance = chance
        self._linear = linear
        self._aliases = 0
        self.text, _ = self._query(depth)

    def _alias(self) -> str:
        self._aliases += 1
        return f"s{self._aliases}"

    def _likely(self, share: float) -> bool:
        return self._chance.random() < share

    def _column(self, sources: Sequence[Source]) -> str:
        return self._chance.choice(
            [f"{alias}.{name}" for alias, names in sources for name in names]
        )

    def _value(self, sources: Sequence[Source]) -> str:
        column, other = self._column(sources), self._column(sources)
        return self._chance.choice(
            [column] * 3
            + [f"{column} + 1", f"{column} + {other}", f"coalesce({column}, 0)"]
            + [f"CASE WHEN {other} > 1 THEN {column} ELSE 2 END", f"nullif({column}, 2)"]
        )

    def _table(self) -> tuple[str, Source]:
        name, alias = self._chance.choice(sorted(SCHEMA)), self._alias()
        columns = [column for column, type_ in SCHEMA[name].items() if type_ == "INT"]
        return f"{name} AS {alias}", (alias, columns)

    def _source(self, depth: int) -> tuple[str, Source]:
        if depth <= 0 or self._likely(0.6):
            return self._table()
        text, columns = self._query(depth - 1)
        alias = self._alias()
        return f"({text}) AS {alias}", (alias, columns)

    def _condition(self, sources: Sequence[Source], depth: int) -> str:
        chance, column, other = self._chance, self._column(sources), self._column(sources)
        form = chance.choice(
            ["compare"] * 3 + ["null", "or", "exists", "exists", "in", "scalar"]
            if depth > 0
            else ["compare", "null"]
        )
        if form == "compare":
            sign = chance.choice(["=", "<", ">", "<>", "<=>"])
            return f"{column} {sign} {chance.choice([other, '1', '2'])}"
        if form == "null":
            return f"{column} IS {chance.choice(['', 'NOT '])}NULL"
        if form == "or":
            return f"({self._condition(sources, 0)} OR {self._condition(sources, 0)})"
        negated = "NOT " if self._likely(0.35) else ""
        if form == "in":
            return f"{column} {negated}IN ({self._select(depth - 1, 1)[0]})"
        table, source = self._table()
        link = f"{self._column([source])} = {other}"
        if form == "scalar":
            return f"{column} > (SELECT max({self._column([source])}) FROM {table} WHERE {link})"
        more = f" AND {self._condition([source], 0)}" if self._likely(0.4) else ""
        return f"{negated}EXISTS (SELECT 1 FROM {table} WHERE {link}{more})"

    def _select(self, depth: int, count: int = 0) -> tuple[str, list[str]]:
        """Return a SELECT and its columns; `count` of them, if given."""
        chance = self._chance
        text, first = self._source(depth)
        sources = [first]
        for _ in range(chance.choice([0, 0, 1, 1, 2])):
            kind = chance.choice(_JOINS)
            joined, source = self._source(depth)
            text += f" {kind} {joined}"
            if kind != "CROSS JOIN":
                sign = chance.choice(["=", "=", "=", "<=>"])
                text += f" ON {self._column(sources)} {sign} {self._column([source])}"
                if self._likely(0.25):
                    text += f" AND {self._condition([*sources, source], 0)}"
            if "SEMI" not in kind and "ANTI" not in kind:
                sources.append(source)
        if self._linear and self._likely(0.3):
            alias = self._alias()
            text += f" LATERAL VIEW explode(array({self._value(sources)}, 2)) {alias} AS v"
            sources.append((alias, ["v"]))
        if self._likely(0.5):
            text += f" WHERE {self._condition(sources, depth)}"
        wanted = count or chance.randrange(1, 4)
        forms = ["plain", "plain", "group", "group", "window", "distinct"]
        form = chance.choice(forms + ["plain"] * 20 if self._linear else forms)
        values = [self._value(sources) for _ in range(wanted)]
        if form == "group":
            values = list(dict.fromkeys(values))
            text += f" GROUP BY {', '.join(values)}"
            if self._likely(0.3):
                text += f" HAVING max({self._column(sources)}) > 1"
            if not count:
                total = chance.choice(["count(*)", f"sum({self._column(sources)})"])
                values.append(f"CAST({total} AS INT)")
        elif form == "window" and not count:
            by = list(dict.fromkeys(self._column(sources) for _ in range(chance.randrange(1, 3))))
            values = [chance.choice([*by, value]) for value in values]
            window = f"OVER (PARTITION BY {', '.join(by)})"
            values.append(f"CAST(max({self._column(sources)}) {window} AS INT)")
        names = [f"k{number}" for number in range(len(values))]
        listed = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        distinct = "DISTINCT " if form == "distinct" else ""
        return f"SELECT {distinct}{listed} FROM {text}", names

    def _query(self, depth: int) -> tuple[str, list[str]]:
        if depth <= 0 or not self._likely(0.2):
            return self._select(depth)
        count = self._chance.randrange(1, 3)
        (one, names), (other, more) = (self._select(depth - 1, count) for _ in range(2))
        if len(names) != len(more):
            return one, names
        sets = ("UNION ALL",) if self._linear else _SETS
        return f"{one} {self._chance.choice(sets)} {other}", names

    def totals(self) -> str:
        """Return a query of aggregates that may be merged, with or without GROUP BY."""
        chance = self._chance
        inner, names = self._query(1)
        column = chance.choice
        calls = ["count(*)", f"count({column(names)})", "count(1)"]
        for name in names:
            calls += [f"sum({name})", f"count({name})", f"count(*) FILTER (WHERE {name} > 1)"]
            calls += [f"sum({name}) FILTER (WHERE {column(names)} > 1)"]
        if self._likely(0.3):
            calls += [f"{call}({column(names)})" for call in ("min", "max")]
            calls += [f"{call}({column(names)} > 1)" for call in ("bool_or", "bool_and")]
        found = chance.sample(calls, chance.randrange(1, min(5, len(calls))))
        if self._likely(0.5):
            found = list(dict.fromkeys(["count(*)", *found]))
        if self._likely(0.5):
            sums = [one for one in found if one.startswith("sum") and "FILTER" not in one]
            found = list(dict.fromkeys([*found, *(f"count{one[3:]}" for one in sums)]))
        by = [column(names), f"coalesce({column(names)}, 0)"][: chance.randrange(3)]
        listed = [f"{one} AS g{n}" for n, one in enumerate(by)]
        listed += [f"{one} AS t{n}" for n, one in enumerate(found)]
        where = f" WHERE {column(names)} > 1" if self._likely(0.3) else ""
        group = f" GROUP BY {', '.join(by)}" if by else ""
        return f"SELECT {', '.join(listed)} FROM ({inner}) AS rows{where}{group}"
