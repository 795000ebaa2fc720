"""Random queries in Spark SQL over a few small tables, and random data for them.

Queries use what DuckDB can run after SQLGlot's transpilation: joins of every kind, correlated
subqueries, grouping sets, windows, set operations, DISTINCT, LIMIT over a total order, stars over
structs, table functions in FROM, LATERAL.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from vde_dagster_tests.semantics.dense_queries import NO_KEYS
from vde_dagster_tests.semantics.other_types import value_of

SCHEMA: dict[str, dict[str, str]] = {
    "a": {"id": "INT", "k": "INT", "v": "INT", "s": "STRING", "f": "BOOLEAN", "d": "DATE"},
    "b": {"id": "INT", "k": "INT", "w": "INT", "s": "STRING", "d": "DATE"},
    "c": {"k": "INT", "x": "INT", "y": "INT", "t": "TIMESTAMP"},
    "e": {"id": "INT", "xs": "ARRAY<INT>"},
    "g": {"id": "INT", "st": "STRUCT<q: STRING, p: INT>"},
    "u": {"id": "INT", "k": "INT", "v": "INT"},
}
KEYS = {"u": ("id",)}
"""Columns whose values no two rows share; one of them may be NULL."""
_LISTS = "ARRAY<INT>"
DUCKDB_TYPES = {
    "INT": "INTEGER",
    "STRING": "VARCHAR",
    _LISTS: "INTEGER[]",
    "STRUCT<q: STRING, p: INT>": "STRUCT(q VARCHAR, p INTEGER)",
}
"""What DuckDB calls the types that it has under other names."""
_PLAIN = ["a", "b", "c"]
_JOINS = [
    *("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"),
    *("CROSS JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "LEFT JOIN unique"),
]


def random_rows(
    rng: random.Random, schema: Mapping[str, Mapping[str, str]] = SCHEMA
) -> dict[str, list[tuple[object, ...]]]:
    """Few rows per table, with NULLs, duplicates and ties."""

    def value(kind: str) -> object:
        if rng.random() < 0.15:
            return None
        if kind == "INT":
            return rng.randint(-1, 3)
        if kind == "BOOLEAN":
            return rng.random() < 0.5
        if kind == "STRING":
            return rng.choice(["", "a", "b", "A", "ab"])
        if kind == _LISTS:
            return [rng.randint(0, 2) for _ in range(rng.randint(0, 3))]
        if not kind.startswith("STRUCT"):
            return value_of(kind, rng)
        return {"p": value("INT"), "q": value("STRING")}

    rows = {
        table: [tuple(value(kind) for kind in columns.values()) for _ in range(rng.randint(0, 7))]
        for table, columns in schema.items()
    }
    for table, key in KEYS.items():
        places = [list(SCHEMA[table]).index(column) for column in key]
        rows[table] = list({tuple(row[i] for i in places): row for row in rows[table]}.values())
    return rows


class Queries:
    """Makes random queries.

    Args:
        rng: Decides.
        texts: Whether numbers may be written as texts, which tells equal ones apart.
    """

    def __init__(self, rng: random.Random, *, texts: bool = False) -> None:
        self.rng = rng
        self.texts = texts
        self.aliases = 0

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"

    def query(self, depth: int = 2) -> tuple[str, list[tuple[str, str]]]:
        """A query and its output columns with their types."""
        roll = self.rng.random()
        if depth > 0 and roll < 0.12:
            return self.set_operation(depth)
        if depth > 0 and roll < 0.2:
            name = self.alias()
            inner, columns = self.query(depth - 1)
            body, out = self.select(depth - 1, [(name, columns)])
            return f"WITH {name} AS ({inner}) {body}", out
        return self.select(depth, [])

    def set_operation(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        width = self.rng.randint(1, 3)
        kinds = [self.rng.choice(["INT", "STRING"]) for _ in range(width)]
        op = self.rng.choice(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
        sides = [self.plain_select(depth - 1, kinds) for _ in range(self.rng.choice([2, 2, 3]))]
        if len(sides) == 3 and op not in ("UNION", "UNION ALL"):
            sides.pop()
        columns = [(f"u{i}", kind) for i, kind in enumerate(kinds)]
        return f" {op} ".join(sides), columns

    def plain_select(self, depth: int, kinds: list[str]) -> str:
        from_, sources = self.from_clause(depth, [])
        items = [f"{self.expression(kind, sources)} AS u{i}" for i, kind in enumerate(kinds)]
        where = f" WHERE {self.predicate(sources, depth)}" if self.rng.random() < 0.5 else ""
        return f"SELECT {', '.join(items)} FROM {from_}{where}"

    def source(
        self, depth: int, ctes: list[tuple[str, list[tuple[str, str]]]]
    ) -> tuple[str, str, list[tuple[str, str]]]:
        name = self.alias()
        if ctes and self.rng.random() < 0.6:
            cte, columns = self.rng.choice(ctes)
            return f"{cte} AS {name}", name, columns
        if depth > 0 and self.rng.random() < 0.25:
            inner, columns = self.query(depth - 1)
            return f"({inner}) AS {name}", name, columns
        if self.rng.random() < 0.1:
            outer = self.rng.choice(["", "OUTER "])
            view = f"SELECT id, x FROM e LATERAL VIEW {outer}explode(xs) {self.alias()} AS x"
            return f"({view}) AS {name}", name, [("id", "INT"), ("x", "INT")]
        if depth > 0 and self.rng.random() < 0.06:
            return f"({self.one_group(depth - 1)}) AS {name}", name, [("one", "INT")]
        if self.rng.random() < 0.15:
            return self.opened(name)
        table = self.rng.choice(_PLAIN)
        columns = [(c, k) for c, k in SCHEMA[table].items()]
        return f"{table} AS {name}", name, columns

    def opened(self, name: str) -> tuple[str, str, list[tuple[str, str]]]:
        """Lists and structs that are taken apart."""
        one, two = self.alias(), self.alias()
        roll = self.rng.random()
        if roll < 0.2:
            return f"e AS {name}", name, [("id", "INT"), ("xs", _LISTS)]
        if roll < 0.4:
            members = ", ".join(str(self.rng.randint(0, 2)) for _ in range(self.rng.randint(1, 3)))
            return f"explode(array({members})) AS {name}(x)", name, [("x", "INT")]
        if roll < 0.65:
            star = self.rng.choice(["st.*", f"{one}.st.*", f"{one}.st.q, {one}.st.p"])
            inner = f"SELECT {one}.id, {star} FROM g AS {one}"
            return f"({inner}) AS {name}", name, [("id", "INT"), ("q", "STRING"), ("p", "INT")]
        join = self.rng.choice([", LATERAL", " JOIN LATERAL", " LEFT JOIN LATERAL"])
        on = self.rng.choice(["TRUE", f"{two}.x = {one}.id", f"{two}.x > 0"])
        on = "" if join[0] == "," else f" ON {on}"
        made = self.rng.choice(
            [
                f"explode({one}.xs) AS {two}(x)",
                f"(SELECT x FROM explode({one}.xs) AS u(x)) AS {two}",
                f"(SELECT x + {one}.id AS x FROM explode({one}.xs) AS u(x) WHERE x > 0) AS {two}",
            ]
        )
        inner = f"SELECT {one}.id, {two}.x FROM e AS {one}{join} {made}{on}"
        return f"({inner}) AS {name}", name, [("id", "INT"), ("x", "INT")]

    def from_clause(
        self, depth: int, ctes: list[tuple[str, list[tuple[str, str]]]]
    ) -> tuple[str, list[tuple[str, str]]]:
        text, name, columns = self.source(depth, ctes)
        sources = [(f"{name}.{c}", k) for c, k in columns]
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            more, other, other_columns = self.source(depth, ctes)
            there = [(f"{other}.{c}", k) for c, k in other_columns]
            kind = self.rng.choice(_JOINS)
            keys = [c for c, _ in sources if c.endswith(".k")]
            if len(keys) == 1 and (f"{other}.k", "INT") in there and self.rng.random() < 0.3:
                side = self.rng.choice(["", "LEFT ", "RIGHT ", "FULL "])
                text += f" {side}JOIN {more} USING (k)"
                there.append(("k", "INT"))
            elif kind == "CROSS JOIN":
                text += f" CROSS JOIN {more}"
            elif kind == "LEFT JOIN unique":
                key, table = self.rng.choice([("k", "a"), ("id", "b"), ("k", "c"), ("s", "b")])
                left = [c for c, t in sources if t == ("STRING" if key == "s" else "INT")]
                if not left:
                    continue
                value = {"a": "v", "b": "w", "c": "x"}[table]
                unique = self.rng.choice(
                    [
                        f"SELECT {key}, MAX({value}) AS m FROM {table} GROUP BY {key}",
                        f"SELECT DISTINCT {key}, 1 AS m FROM {table}",
                        f"SELECT {key}, {value} AS m FROM {table}",
                        f"SELECT {key}, m FROM (SELECT {key}, {value} AS m, ROW_NUMBER() OVER "
                        f"(PARTITION BY {key} ORDER BY {', '.join(SCHEMA[table])}) AS rn "
                        f"FROM {table}) WHERE rn = 1",
                    ]
                )
                text += (
                    f" LEFT JOIN ({unique}) AS {other} ON {other}.{key} = {self.rng.choice(left)}"
                )
                there = [(f"{other}.m", "INT")]
            else:
                on = self.join_condition(sources, there)
                text += f" {kind} {more} ON {on}"
                if "SEMI" in kind or "ANTI" in kind:
                    there = []
            sources = sources + there
        return text, sources

    def join_condition(self, left: list[tuple[str, str]], right: list[tuple[str, str]]) -> str:
        pairs = [(one, two) for one, a in left for two, b in right if a == b]
        if not pairs:
            return "1 = 1"
        one, two = self.rng.choice(pairs)
        text = f"{one} = {two}"
        if self.rng.random() < 0.3:
            text += f" AND {self.simple_predicate(self.rng.choice([left, right, left + right]))}"
        return text

    def select(
        self, depth: int, ctes: list[tuple[str, list[tuple[str, str]]]]
    ) -> tuple[str, list[tuple[str, str]]]:
        from_, sources = self.from_clause(depth, ctes)
        where = f" WHERE {self.predicate(sources, depth)}" if self.rng.random() < 0.6 else ""
        roll = self.rng.random()
        if roll < 0.3:
            return self.grouped(from_, where, sources)
        items: list[tuple[str, str]] = []
        for _ in range(self.rng.randint(1, 4)):
            kind = self.rng.choice(["INT", "INT", "INT", "STRING", "STRING", "DATE"])
            if roll > 0.85 and self.rng.random() < 0.6:
                items.append((self.window(sources), "INT"))
            elif self.rng.random() < 0.08 and depth > 0:
                items.append((self.scalar_subquery(sources), "INT"))
            else:
                items.append((self.expression(kind, sources), kind))
        text = ", ".join(f"{item} AS u{i}" for i, (item, _) in enumerate(items))
        columns = [(f"u{i}", kind) for i, (_, kind) in enumerate(items)]
        distinct = "DISTINCT " if self.rng.random() < 0.12 else ""
        query = f"SELECT {distinct}{text} FROM {from_}{where}"
        if self.rng.random() < 0.12:
            order = self.rng.sample(range(len(items)), len(items))
            direction = self.rng.choice(["", " DESC"])
            query += f" ORDER BY {', '.join(str(i + 1) + direction for i in order)}"
            query += f" LIMIT {self.rng.randint(1, 4)}"
            if self.rng.random() < 0.3:
                query += " OFFSET 1"
        elif self.rng.random() < 0.1:
            query += self.rng.choice([" ORDER BY 'z'", " LIMIT 1000", " OFFSET 0"])
        return query, columns

    def grouped(
        self, from_: str, where: str, sources: list[tuple[str, str]]
    ) -> tuple[str, list[tuple[str, str]]]:
        keys = self.rng.sample(sources, min(len(sources), self.rng.choice([0, 1, 1, 2])))
        items = [(key, kind) for key, kind in keys]
        for _ in range(self.rng.randint(1, 3)):
            items.append((self.aggregate(sources), "INT"))
        text = ", ".join(f"{item} AS u{i}" for i, (item, _) in enumerate(items))
        query = f"SELECT {text} FROM {from_}{where}"
        if keys:
            names = [key for key, _ in keys]
            style = self.rng.random()
            if style < 0.3:
                query += f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}"
            elif style < 0.4:
                query += f" GROUP BY ROLLUP ({', '.join(names)})"
            elif style < 0.5:
                query += f" GROUP BY GROUPING SETS (({', '.join(names)}), ({names[0]}))"
            else:
                query += f" GROUP BY {', '.join(names)}"
        elif self.rng.random() < 0.2:
            query += f" GROUP BY {NO_KEYS}"
        roll = self.rng.random()
        if roll < 0.3:
            query += f" HAVING {self.aggregate(sources)} {self.rng.choice(['>', '<=', '<>'])} 1"
        elif roll < 0.4:
            query += " HAVING TRUE"
        return query, [(f"u{i}", kind) for i, (_, kind) in enumerate(items)]

    def one_group(self, depth: int) -> str:
        """A constant for all rows together, by a clause that asks nothing of them."""
        from_, sources = self.from_clause(depth, [])
        where = f" WHERE {self.predicate(sources, depth)}" if self.rng.random() < 0.6 else ""
        group = self.rng.choice(["", "", f" GROUP BY {NO_KEYS}", " GROUP BY 'one group'"])
        having = self.rng.choice(["", " HAVING TRUE", " HAVING 1 = 1", " HAVING COUNT(*) >= 0"])
        return f"SELECT 1 AS one FROM {from_}{where}{group}{having}"

    def aggregate(self, sources: list[tuple[str, str]]) -> str:
        column = self.column("INT", sources)
        return self.rng.choice(
            [
                "COUNT(*)",
                "COUNT(1)",
                f"COUNT({column})",
                f"COUNT(DISTINCT {column})",
                f"SUM({column})",
                f"SUM(DISTINCT {column})",
                f"MIN({column})",
                f"MAX({column} + 1)",
                f"SUM(CASE WHEN {self.simple_predicate(sources)} THEN 1 ELSE 0 END)",
                f"SUM({column}) FILTER (WHERE {self.simple_predicate(sources)})",
            ]
        )

    def window(self, sources: list[tuple[str, str]]) -> str:
        column, other = self.column("INT", sources), self.column("INT", sources)
        partition = (
            f"PARTITION BY {self.column('INT', sources)} " if self.rng.random() < 0.6 else ""
        )
        return self.rng.choice(
            [
                f"RANK() OVER ({partition}ORDER BY {column})",
                f"DENSE_RANK() OVER ({partition}ORDER BY {column} DESC)",
                f"SUM({column}) OVER ({partition}ORDER BY {other})",
                f"COUNT(*) OVER ({partition.strip()})",
                f"MAX({column}) OVER ({partition.strip()})",
            ]
        )

    def scalar_subquery(self, sources: list[tuple[str, str]]) -> str:
        name = self.alias()
        lists = [c for c, k in sources if k == _LISTS]
        if lists:
            function = self.rng.choice(["MAX", "SUM", "COUNT"])
            where = f" WHERE {name}.x < {self.column('INT', sources)}"
            return (
                f"(SELECT {function}({name}.x) FROM explode({self.rng.choice(lists)}) AS {name}(x)"
                f"{self.rng.choice(['', where])})"
            )
        table = self.rng.choice(_PLAIN)
        value = {"a": "v", "b": "w", "c": "x"}[table]
        where = (
            f" WHERE {name}.k = {self.column('INT', sources)}" if self.rng.random() < 0.7 else ""
        )
        function = self.rng.choice(["MAX", "SUM", "COUNT"])
        return f"(SELECT {function}({name}.{value}) FROM {table} AS {name}{where})"

    def column(self, kind: str, sources: list[tuple[str, str]]) -> str:
        fitting = [c for c, k in sources if k == kind]
        if fitting:
            return self.rng.choice(fitting)
        none = {"INT": "1", "STRING": "'a'", "BOOLEAN": "TRUE", "DATE": "DATE '2024-02-29'"}
        return none[kind]

    def expression(self, kind: str, sources: list[tuple[str, str]]) -> str:
        column = self.column(kind, sources)
        if self.rng.random() < 0.5:
            return column
        other = self.column(kind, sources)
        if kind == "DATE":
            return self.rng.choice(
                [
                    f"COALESCE({column}, {other})",
                    f"IF({self.simple_predicate(sources)}, {column}, {other})",
                    f"CASE WHEN {column} > {other} THEN {column} END",
                ]
            )
        if kind == "STRING" and self.texts and self.rng.random() < 0.4:
            return f"CAST({self.column('INT', sources)} AS STRING)"
        if kind == "STRING":
            return self.rng.choice(
                [
                    f"UPPER({column})",
                    f"CONCAT({column}, 'x')",
                    f"COALESCE({column}, {other})",
                    f"CASE WHEN {self.simple_predicate(sources)} THEN {column} ELSE 'z' END",
                ]
            )
        return self.rng.choice(
            [
                f"{column} + {other}",
                f"{column} - {other}",
                f"{column} * {self.rng.randint(0, 3)}",
                f"-{column}",
                f"COALESCE({column}, 0)",
                f"COALESCE({column}, {other})",
                f"IF({self.simple_predicate(sources)}, {column}, {other})",
                f"CASE {column} WHEN 1 THEN {other} WHEN 2 THEN 0 END",
                str(self.rng.randint(0, 3)),
                f"{self.rng.randint(0, 2)} + {self.rng.randint(0, 2)}",
            ]
        )

    def simple_predicate(self, sources: list[tuple[str, str]]) -> str:
        one, two = self.column("INT", sources), self.column("INT", sources)
        text, day = self.column("STRING", sources), self.column("DATE", sources)
        n = self.rng.randint(0, 2)
        return self.rng.choice(
            [
                f"{one} {self.rng.choice(['=', '<>', '<', '>', '<=', '>=', '<=>'])} {two}",
                f"{one} {self.rng.choice(['=', '<>', '<', '>', '<=', '>='])} {n}",
                f"{one} IN ({n}, {n + 1})",
                f"{one} NOT IN ({n}, {n + 2})",
                f"{one} BETWEEN {n} AND {two}",
                f"{one} IS NULL",
                f"{text} IS NOT NULL",
                f"{text} LIKE 'a%'",
                f"{text} = 'a'",
                f"NOT ({one} = {two})",
                f"{day} > DATE '2024-02-28'",
                f"{day} <> {self.column('DATE', sources)}",
            ]
        )

    def predicate(self, sources: list[tuple[str, str]], depth: int) -> str:
        roll = self.rng.random()
        if roll < 0.25:
            joint = self.rng.choice([" AND ", " OR "])
            return f"({self.predicate(sources, depth)}{joint}{self.simple_predicate(sources)})"
        if roll < 0.32:
            return f"NOT ({self.predicate(sources, depth)})"
        if roll < 0.45 and depth > 0:
            table, name = self.rng.choice(_PLAIN), self.alias()
            here = self.column("INT", sources)
            lists = [c for c, k in sources if k == _LISTS]
            if lists:
                listed = f"explode({self.rng.choice(lists)}) AS {name}(x)"
                return self.rng.choice(
                    [
                        f"EXISTS (SELECT 1 FROM {listed} WHERE {name}.x = {here})",
                        f"NOT EXISTS (SELECT 1 FROM {listed} WHERE {name}.x > {here})",
                        f"{here} IN (SELECT {name}.x FROM {listed})",
                    ]
                )
            inner = f"{name}.k = {self.column('INT', sources)}"
            column = self.rng.choice([c for c, k in SCHEMA[table].items() if k == "INT"])
            return self.rng.choice(
                [
                    f"{here} IN (SELECT {name}.{column} FROM {table} AS {name})",
                    f"{here} NOT IN (SELECT {name}.{column} FROM {table} AS {name} WHERE {inner})",
                    f"EXISTS (SELECT 1 FROM {table} AS {name} WHERE {inner})",
                    f"EXISTS ({self.one_group(0)})",
                    f"NOT EXISTS (SELECT {name}.{column} FROM {table} AS {name} WHERE {inner})",
                    f"{here} > (SELECT MIN({name}.{column}) FROM {table} AS {name})",
                ]
            )
        return self.simple_predicate(sources)
