"""Random queries of few words, so that many of them mean the same: for rules that rewrite queries.

Joins of every kind on few columns, conditions that imply or contradict each other, groupings in
groupings, unions and windows, each with conditions inside and outside of it.
"""

from __future__ import annotations

import random

from vde_dagster_tests.semantics.random_expressions import Expressions

TABLES = {"a": ("id", "k", "v"), "b": ("id", "k", "w"), "c": ("k", "x", "y")}
_TEXTS = {"a": "s", "b": "s"}
_JOINS = ["JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
NO_KEYS = "GROUPING SETS (())"
"""Keys of one group, where Spark makes none of no rows; DuckDB makes one, unlike by a constant."""
_TOTALS = ["COUNT(*)", "SUM({})", "MAX({})", "MIN({})", "COUNT({})"]


class DenseQueries:
    """Makes the queries.

    Args:
        rng: Decides.
        texts: Whether some write numbers as texts, which tells equal ones apart.
    """

    def __init__(self, rng: random.Random, *, texts: bool = False) -> None:
        self._rng = rng
        self._shapes = [
            *(self.joined, self.joined, self.grouped, self.filtered_grouping, self.united),
            *(self.windowed, self.totals_of_totals, self.limited, self.semi_joined, self.distinct),
            *(self.computed, self.computed, self.computed_totals),
            *(self.looked_up, self.looked_up, self.unmatched, self.totals_of_joins, self.nested),
            *(self.read_twice, self.read_twice, self.emptied, self.emptied, self.asked_totals),
            *(self.idle, self.idle, self.idle),
            *([self.written] * 6 if texts else []),
        ]
        self._expressions = Expressions(rng, ["k", "v"], ["s"], ["f"])

    def query(self) -> str:
        """One query of few columns."""
        return self._rng.choice(self._shapes)()

    def _pick(self, *options: str) -> str:
        return self._rng.choice(options)

    def written(self) -> str:
        """Keys as texts, of rows or of groups of them."""
        rows = self._pick(
            *("(SELECT k, v, 1 AS n FROM a)", "(SELECT DISTINCT k, v, 1 AS n FROM a)"),
            *("(SELECT k, v, COUNT(*) AS n FROM a GROUP BY k, v)", "(SELECT k, 1 AS n FROM a)"),
            *("(SELECT DISTINCT k, 1 AS n FROM a)", "(SELECT k, COUNT(*) AS n FROM a GROUP BY k)"),
            "(SELECT k, 1 AS n FROM a UNION SELECT k, 1 FROM b)",
            "(SELECT k, 1 AS n FROM a UNION ALL SELECT k, 1 FROM b)",
        )
        text = self._pick("CAST(x.k AS STRING)", "CAST(x.k AS STRING)", "1 / x.k", "x.k")
        return self._pick(
            f"SELECT DISTINCT {text} AS u FROM {rows} AS x",
            f"SELECT MAX({text}) AS u FROM {rows} AS x",
            f"SELECT {text} AS u, SUM(x.n) AS n FROM {rows} AS x GROUP BY {text}",
            f"SELECT {text} AS u, COUNT(*) AS n FROM {rows} AS x GROUP BY {text}",
            f"SELECT c.y FROM c WHERE EXISTS (SELECT 1 FROM {rows} AS x WHERE {text} = c.x)",
            f"SELECT {text} AS u FROM {rows} AS x INTERSECT SELECT {text} FROM {rows} AS x",
        )

    def condition(self, columns: list[str], texts: list[str]) -> str:
        """A condition on one or two columns."""
        rng = self._rng
        one, two, n = rng.choice(columns), rng.choice(columns), rng.randint(0, 2)
        made = [
            *(f"{one} = {n}", f"{one} = {n}", f"{one} > {n}", f"{one} >= {n}", f"{one} < {n}"),
            *(f"{one} <= {n}", f"{one} <> {n}", f"{one} IS NULL", f"{one} IS NOT NULL"),
            *(f"{one} = {two}", f"{one} = {two}", f"{one} IN ({n}, 2)", f"{one} <=> {n}"),
            *(f"({one} = {n} OR {two} > 1)", f"NOT ({one} > {n})", f"{one} + 1 > {n}"),
            *(f"({one} > {n} OR {one} IS NULL)", f"COALESCE({one}, 0) = {n}", f"{one} < {two}"),
        ]
        if texts:
            text = rng.choice(texts)
            made += [f"{text} = 'a'", f"{text} = 'b'", f"{text} IS NOT NULL", f"{text} = ''"]
        return rng.choice(made)

    def where(
        self, word: str, columns: list[str], texts: list[str], most: int = 2, least: int = 0
    ) -> str:
        """A clause of several conditions, or nothing."""
        n = self._rng.randint(least, most)
        if not n:
            return ""
        return f" {word} " + " AND ".join(self.condition(columns, texts) for _ in range(n))

    def _from(self) -> tuple[str, list[str], list[str]]:
        """One table, or two or three that are joined on their `k`."""
        names = [self._rng.choice(list(TABLES)) for _ in range(self._rng.choice([1, 2, 2, 2, 3]))]
        text, columns, texts = "", list[str](), list[str]()
        for i, table in enumerate(names):
            alias = f"t{i}"
            own = [f"{alias}.k", *(f"{alias}.{c}" for c in TABLES[table] if c != "k")][:2]
            inner = self._pick(table, table, table, f"(SELECT * FROM {table} WHERE k > 0)")
            if i:
                on = f"{self._rng.choice(columns[:2])} = {alias}.k"
                more = self.where("AND", [*columns[:2], *own], [], most=1)
                text += f" {self._rng.choice(_JOINS)} {inner} AS {alias} ON {on}{more}"
            else:
                text = f"{inner} AS {alias}"
            columns += own
            texts += [f"{alias}.{_TEXTS[table]}"] if table in _TEXTS else []
        return text, columns, texts

    def joined(self) -> str:
        text, columns, texts = self._from()
        out = self._pick("1", columns[0], columns[-1], str(self._rng.randint(0, 2)))
        if self._rng.random() < 0.2:
            out = f"{self._rng.choice(columns)} + 1"
        elif texts and self._rng.random() < 0.2:
            out = self._rng.choice([*texts, "'a'"])
        return f"SELECT {out} AS u FROM {text}{self.where('WHERE', columns, texts)}"

    def grouped(self) -> str:
        """A grouping with conditions before and after it, and keys that may be fixed."""
        text, columns, texts = self._from()
        keys = self._rng.sample(columns, self._rng.choice([0, 1, 1, 2]))
        if self._rng.random() < 0.15:
            keys.append("'z'")
        total = self._rng.choice(_TOTALS).format(columns[-1])
        where = self.where("WHERE", columns, texts)
        having = self.where("HAVING", [*keys[:1], total], [], most=1) if keys else ""
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        if keys and self._rng.random() < 0.1:
            group = f" GROUP BY ROLLUP ({', '.join(keys)})"
        out = self._rng.choice([*keys, total, "1"]) if keys else total
        return f"SELECT {out} AS u, {total} AS v FROM {text}{where}{group}{having}"

    def _grouping(self) -> str:
        table = self._rng.choice(["a", "b"])
        columns = ["k", TABLES[table][2]]
        where = self.where("WHERE", columns, [], most=1)
        keys = self._pick("k", "k", "k, id")
        having = self.where("HAVING", ["k", "COUNT(*)"], [], most=1)
        total = self._rng.choice(_TOTALS).format(columns[1])
        return f"SELECT k, {total} AS n FROM {table}{where} GROUP BY {keys}{having}"

    def filtered_grouping(self) -> str:
        """Conditions on a grouping from outside, through joins."""
        text, columns = f"({self._grouping()}) AS g", ["g.k", "g.n"]
        if self._rng.random() < 0.5:
            join = self._rng.choice(_JOINS)
            text += f" {join} c AS d ON g.k = d.k{self.where('AND', ['g.k', 'd.k'], [], most=1)}"
            columns.append("d.k")
        out = self._rng.choice([*columns, "1"])
        return f"SELECT {out} AS u FROM {text}{self.where('WHERE', columns, [])}"

    def united(self) -> str:
        """Conditions inside and outside of a set operation."""
        op = self._pick("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT")
        sides = [
            f"SELECT k, {TABLES[t][2]} AS n FROM {t}"
            f"{self.where('WHERE', ['k', TABLES[t][2]], [], most=1)}"
            for t in (self._rng.choice(["a", "b"]) for _ in range(2))
        ]
        where = self.where("WHERE", ["k", "n"], [])
        out = self._pick("k", "n", "k, n", "1", "COUNT(*)", "DISTINCT k")
        return f"SELECT {out} FROM ({f' {op} '.join(sides)}) AS u{where}"

    def windowed(self) -> str:
        """Conditions before and after a window function, of a table or of a grouping."""
        inner = self._pick("a", "a", f"({self._grouping()})")
        value = "v" if inner == "a" else "n"
        where = self.where("WHERE", ["k", value], [], most=1)
        over = self._pick("PARTITION BY k", "", "ORDER BY k")
        total = self._pick(f"SUM({value})", "COUNT(*)", f"MAX({value})")
        rows = f"SELECT k, {value} AS n, {total} OVER ({over}) AS t FROM {inner} AS w{where}"
        outer = self.where("WHERE", ["k", "n", "t"], [])
        return f"SELECT {self._pick('k', 'n', 't', '1')} AS u FROM ({rows}) AS x{outer}"

    def totals_of_totals(self) -> str:
        """A grouping, in one step or in two, of a table or of a union."""
        tables = [self._rng.choice(["a", "b"]) for _ in range(self._rng.choice([1, 2, 2]))]
        kind = self._rng.choice(["SUM", "MIN", "MAX", "COUNT", "COUNT(*)"])
        key = self._pick("k", "k", "")
        wheres = [self.where("WHERE", ["k"], [], most=1) for _ in tables]
        if self._rng.random() < 0.5:
            sides = [
                f"SELECT k, {TABLES[t][2]} AS n FROM {t}{w}"
                for t, w in zip(tables, wheres, strict=True)
            ]
            total = kind if kind == "COUNT(*)" else f"{kind}(n)"
        else:
            of = self._pick("k", "k", "k, id", "id, k")
            sides = [
                f"SELECT k, {kind if kind == 'COUNT(*)' else f'{kind}({TABLES[t][2]})'} AS n "
                f"FROM {t}{w} GROUP BY {of}"
                for t, w in zip(tables, wheres, strict=True)
            ]
            total = self._pick("SUM(n)", "MIN(n)", "MAX(n)", "COUNT(n)")
            if self._rng.random() < 0.7:
                total = f"{kind}(n)" if kind in ("SUM", "MIN", "MAX") else "SUM(n)"
        rows = " UNION ALL ".join(sides)
        group = f" GROUP BY {key}" if key else ""
        return f"SELECT {key or 1} AS u, {total} AS v FROM ({rows}) AS x{group}"

    def limited(self) -> str:
        """Conditions inside and outside of a LIMIT."""
        inside = self.where("WHERE", ["k", "v"], [], most=1)
        outside = self.where("WHERE", ["k", "v"], [], most=1)
        rows = f"SELECT k, v FROM a{inside} ORDER BY k, v LIMIT {self._rng.randint(1, 2)}"
        return f"SELECT {self._pick('k', 'v', '1', '2')} AS u FROM ({rows}) AS x{outside}"

    def computed(self) -> str:
        """Expressions and conditions of one table's columns."""
        where = self._pick("", f" WHERE {self._expressions.condition(1)}")
        return f"SELECT {self._expressions.any(self._rng.choice([1, 1, 2]))} AS u FROM a{where}"

    def computed_totals(self) -> str:
        """Totals of expressions, of all rows or of those of a condition."""
        condition, number = self._expressions.condition(1), self._expressions.number(1)
        total = self._pick(
            *(f"COUNT(*) FILTER (WHERE {condition})", f"COUNT(CASE WHEN {condition} THEN 1 END)"),
            *(f"SUM({number})", f"SUM(v) FILTER (WHERE {condition})", f"COUNT({number})"),
            *(f"SUM(CASE WHEN {condition} THEN v END)", f"MAX(DISTINCT {number})"),
            *(f"MAX({number})", "COUNT(*)"),
        )
        where = self._pick("", f" WHERE {self._expressions.condition(0)}")
        group = self._pick("", " GROUP BY k", " GROUP BY COALESCE(k, 0)")
        return f"SELECT {total} AS u FROM a{where}{group}"

    def semi_joined(self) -> str:
        """IN, EXISTS and joins with distinct keys."""
        inner = self.where("WHERE", ["b.k", "b.w"], [], most=1)
        also = inner.replace(" WHERE ", " AND ", 1)
        joined = self._pick(
            f"a WHERE a.k IN (SELECT b.k FROM b{inner})",
            f"a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k{also})",
            f"a LEFT SEMI JOIN b ON a.k = b.k{also} WHERE 1 = 1",
            f"a JOIN (SELECT DISTINCT b.k FROM b{inner}) AS d ON a.k = d.k WHERE 1 = 1",
            f"a JOIN (SELECT b.k FROM b{inner} GROUP BY b.k) AS d ON d.k = a.k WHERE 1 = 1",
            f"a JOIN (SELECT b.k FROM b{inner}) AS d ON d.k = a.k WHERE 1 = 1",
            f"a WHERE a.k NOT IN (SELECT b.k FROM b{inner})",
            f"a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k{also})",
        )
        return f"SELECT a.v FROM {joined}{self.where('AND', ['a.k', 'a.v'], [], most=1)}"

    def distinct(self) -> str:
        """DISTINCT over rows that are distinct already, or are not."""
        inner = self._pick(
            f"SELECT k, COUNT(*) AS n FROM a{self.where('WHERE', ['k'], [], 1)} GROUP BY k",
            "SELECT DISTINCT k, v AS n FROM a",
            "SELECT k, v AS n FROM a",
        )
        word = self._pick("DISTINCT ", "")
        out = self._pick("k, n", "k", "n", "k, 1 AS one")
        return f"SELECT {word}{out} FROM ({inner}) AS x{self.where('WHERE', ['k', 'n'], [], 1)}"

    def looked_up(self) -> str:
        """Joins to a table with a key (`u.id`), used or not, once or twice, and of whole keys."""
        first = self._pick("a", "a", "u", f"(SELECT * FROM u{self.where('WHERE', ['k'], [], 1)})")
        column = self._pick("k", "k", "id", "v")
        inner = self._pick("u", "u", "u", "(SELECT * FROM u WHERE k > 0)", "b")
        on = f"x.{column} = y.{self._pick('id', 'id', 'id', 'k')}"
        also = self.where("AND", ["y.id", "x.k"], [], most=1)
        asked = f"EXISTS (SELECT 1 FROM {inner} AS y WHERE {on}{also})"
        join = self._pick("JOIN", "JOIN", "LEFT JOIN")
        more, names = "", ["x.k", "x.v"]
        if self._rng.random() < 0.5:
            text = f"{first} AS x WHERE {asked}"
        else:
            names += self._rng.choice([[], [], ["y.id", "y.k"]])
            if self._rng.random() < 0.5:
                third = self._pick("u", "u", "c")
                key = "id" if third == "u" else "k"
                more = f" JOIN {third} AS z ON z.{key} = {self._pick('y.id', 'x.k', 'y.k')}"
                more += self.where("AND", ["z.k", "y.k"], [], most=1)
            text = f"{first} AS x {join} {inner} AS y ON {on}{also}{more} WHERE 1 = 1"
        word = self._pick("", "", "DISTINCT ")
        out = self._rng.choice([*names, "x.id, x.v", "1", "COUNT(*)"])
        return f"SELECT {word}{out} FROM {text}{self.where('AND', names, [], most=1)}"

    def unmatched(self) -> str:
        """Rows without a match, and rows with a flag of whether there is one."""
        inner = self._pick("b", "u", "(SELECT DISTINCT k, TRUE AS yes FROM b)")
        column = "id" if inner == "u" else "k"
        also = self.where("AND", [f"y.{column}", "a.v"], [], most=1)
        on = f"a.k = y.{column}{also}"
        tested = f"y.{self._pick(column, column, column, 'k')}"
        null = self._pick("IS NULL", "IS NULL", "IS NOT NULL")
        of = f"SELECT 1 FROM {inner} AS y WHERE {on}"
        rows = self._pick(
            f"a LEFT JOIN {inner} AS y ON {on} WHERE {tested} {null}",
            f"a LEFT JOIN {inner} AS y ON {on} WHERE ({tested} {null} OR a.v > 1)",
            f"{inner} AS y RIGHT JOIN a ON {on} WHERE {tested} {null}",
            f"a FULL JOIN {inner} AS y ON {on} WHERE {tested} {null}",
            f"a LEFT ANTI JOIN {inner} AS y ON {on} WHERE 1 = 1",
            f"a WHERE NOT EXISTS ({of})",
            f"a WHERE EXISTS ({of})",
            f"a WHERE (EXISTS ({of}) OR a.v > 1)",
            f"a WHERE (NOT EXISTS ({of}) OR a.v > 1)",
            f"a WHERE a.k NOT IN (SELECT y.k FROM {inner} AS y WHERE y.k IS NOT NULL)",
            f"a WHERE a.k IN (SELECT y.k FROM {inner} AS y)",
        )
        return f"SELECT a.v, a.k FROM {rows}{self.where('AND', ['a.k', 'a.v'], [], most=1)}"

    def totals_of_joins(self) -> str:
        """Totals of a joined grouping, or of the join of what it groups."""
        kind = self._pick("SUM(b.w)", "MIN(b.w)", "MAX(b.w)", "COUNT(b.w)", "COUNT(*)")
        outer = self._pick("SUM(g.n)", "SUM(g.n)", "MIN(g.n)", "MAX(g.n)", "COUNT(*)")
        where = self.where("WHERE", ["b.k"], [], most=1)
        keys = self._pick("b.k", "b.k, b.id", "b.id, b.k")
        grouped = f"(SELECT b.k, {kind} AS n FROM b{where} GROUP BY {keys}) AS g"
        by = self._pick("c.x", "c.x", "c.y", "")
        on = self._pick("c.k = {}.k", "c.k = {}.k AND c.x > 0")
        rows, total, alias = f"c JOIN {grouped}", outer, "g"
        if self._rng.random() < 0.5:
            rows, total, alias = f"c JOIN (SELECT * FROM b{where}) AS b", kind, "b"
        group = f" GROUP BY {by}" if by else ""
        return f"SELECT {by or 1} AS u, {total} AS t FROM {rows} ON {on.format(alias)}{group}"

    def nested(self) -> str:
        """Set operations in set operations."""
        op = self._pick("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT")
        one, two, three = (
            f"SELECT {self._pick('', 'DISTINCT ')}k, {TABLES[t][2]} AS n FROM {t}"
            f"{self.where('WHERE', ['k'], [], most=1)}"
            for t in (self._pick("a", "b") for _ in range(3))
        )
        inner = self._pick(op, op, op, "UNION ALL", "UNION")
        out = self._pick("*", "*", "k", "k, n + 1 AS n", "n AS k, k AS n")
        where = self.where("WHERE", ["k"], [], most=1)
        return self._pick(
            f"{one} {op} {two} {op} {three}",
            f"SELECT {out} FROM ({one} {inner} {two}) AS x{where} {op} {three}",
            f"{one} {op} SELECT {out} FROM ({two} {inner} {three}) AS x{where}",
        )

    def read_twice(self) -> str:
        """A table joined with itself, by its key or by another column, or read once."""
        table, key = self._pick("u", "u", "u", "a"), self._pick("id", "id", "id", "k")
        on = f"x.{key} {self._pick('=', '=', '=', '<=>')} y.{self._pick(key, key, key, 'v')}"
        also = self.where("AND", ["y.v", "x.k"], [], most=1)
        inner = f"(SELECT * FROM {table}{self.where('WHERE', ['k'], [], most=1)})"
        outs = ["x.k", "x.v", "x.k, x.v", "x.id", "1", "COUNT(*)"]
        both = [*outs, "y.k", "x.k, y.v", "y.k, x.v", "y.id", "x.k + y.v"]
        asked = f"EXISTS (SELECT 1 FROM {table} AS y WHERE {on}{also})"
        rows, some = self._rng.choice(
            [
                (f"{table} AS x JOIN {table} AS y ON {on}{also} WHERE 1 = 1", both),
                (f"{table} AS x JOIN {table} AS y ON {on}{also} WHERE 1 = 1", both),
                (f"{table} AS y CROSS JOIN {table} AS x WHERE {on}{also}", both),
                (f"{table} AS x JOIN {inner} AS y ON {on}{also} WHERE 1 = 1", both),
                (f"{table} AS x FULL JOIN {table} AS y ON {on} WHERE 1 = 1", both),
                (f"{table} AS y FULL JOIN {table} AS x ON {on} WHERE 1 = 1", both),
                (f"{table} AS x LEFT JOIN {table} AS y ON {on}{also} WHERE 1 = 1", both),
                (f"{table} AS x WHERE {asked}", outs),
                (f"{table} AS x WHERE NOT {asked}", outs),
                (f"{table} AS x WHERE x.{key} IN (SELECT y.{key} FROM {inner} AS y)", outs),
                (f"{table} AS x WHERE x.{key} IS NOT NULL{also.replace('y.', 'x.')}", outs),
                (f"{table} AS x WHERE 1 = 1{also.replace('y.', 'x.')}", outs),
            ]
        )
        more = self.where("AND", ["x.k", "x.v"], [], most=1)
        return f"SELECT {self._pick('', '', 'DISTINCT ')}{self._rng.choice(some)} FROM {rows}{more}"

    def emptied(self) -> str:
        """Queries of which a part has no rows, and those without that part."""
        none = self._pick(
            *("(SELECT * FROM b WHERE FALSE)", "(SELECT * FROM b LIMIT 0)"),
            *("(SELECT * FROM b WHERE k > 1 AND k < 1)", "(SELECT * FROM b WHERE NULL)"),
            *("(SELECT DISTINCT * FROM b WHERE 1 = 2)", "(SELECT * FROM b WHERE w = 1 AND w = 2)"),
            "(SELECT x.* FROM b AS x JOIN (SELECT k AS n FROM c LIMIT 0) AS z ON x.k = z.n)",
            "(SELECT * FROM b WHERE FALSE UNION ALL SELECT * FROM b WHERE 1 > 2)",
        )
        join = self._rng.choice(_JOINS)
        where = self.where("WHERE", ["k"], [], most=1)
        one, no = f"SELECT k, v AS n FROM a{where}", f"SELECT k, w AS n FROM {none} AS y"
        op = self._pick("UNION ALL", "UNION", "EXCEPT", "INTERSECT")
        total = self._pick("COUNT(*)", "SUM(k)", "MAX(w)")
        return self._pick(
            f"SELECT a.k, y.w FROM a {join} {none} AS y ON a.k = y.k",
            f"SELECT a.k, y.w FROM {none} AS y {join} a ON a.k = y.k",
            f"SELECT a.k, y.w FROM a JOIN b AS y ON a.k = y.k WHERE {self._pick('FALSE', 'NULL')}",
            "SELECT k, CAST(NULL AS INT) AS w FROM a",
            f"SELECT k FROM a WHERE {self._pick('', 'NOT ')}EXISTS (SELECT 1 FROM {none} AS y)",
            f"SELECT k FROM a WHERE k {self._pick('', 'NOT ')}IN (SELECT y.k FROM {none} AS y)",
            f"SELECT k FROM a WHERE v > 1 OR EXISTS (SELECT 1 FROM {none} AS y WHERE y.k = a.k)",
            f"SELECT k, k IN (SELECT y.k FROM {none} AS y) AS n FROM a",
            f"SELECT k, (SELECT MAX(y.w) FROM {none} AS y) AS n FROM a",
            f"SELECT k FROM a{self._pick('', ' WHERE v > 1', ' LIMIT 0', ' WHERE FALSE')}",
            *(f"{one} {op} {no}", f"{no} {op} {one}", f"{no} {op} {no}", one, f"{one} {op} {one}"),
            *(f"SELECT DISTINCT k, n FROM ({one}) AS x", f"{one} {op} {no} UNION ALL {no}"),
            f"SELECT {total} AS t FROM {none} AS y",
            f"SELECT {total} AS t FROM {none} AS y GROUP BY k",
            f"SELECT k, {total} OVER (PARTITION BY k) AS t FROM {none} AS y",
        )

    def asked_totals(self) -> str:
        """Totals of the groups, or of the rows, for which there is something in another table."""
        inner = self._pick("u", "u", "b", "(SELECT * FROM u WHERE k > 0)")
        column = "id" if inner == "u" else self._pick("k", "id")
        also = self.where("AND", [f"y.{column}", "x.k"], [], most=1)
        key = self._pick("k", "k", "k", "v")
        asked = self._pick(
            f"EXISTS (SELECT 1 FROM {inner} AS y WHERE y.{column} = x.{key}{also})",
            f"NOT EXISTS (SELECT 1 FROM {inner} AS y WHERE y.{column} = x.{key}{also})",
            f"x.{key} IN (SELECT y.{column} FROM {inner} AS y)",
        )
        total = self._pick("COUNT(*)", "SUM(v)", "MAX(v)")
        where = self.where("WHERE", ["k"], [], most=1)
        more = self.where("AND", ["x.k"], [], most=1)
        out = self._pick("k, n", "k", "n", "1")
        grouped = f"(SELECT k, v, {total} AS n FROM a{where} GROUP BY k, v)"
        by_one = f"(SELECT k, k AS v, {total} AS n FROM a{where} GROUP BY k)"
        return self._pick(
            f"SELECT {out} FROM {grouped} AS x WHERE {asked}{more}",
            f"SELECT {out} FROM {by_one} AS x WHERE {asked}{more}",
            f"SELECT {out} FROM (SELECT x.k, {total.replace('v', 'x.v')} AS n FROM "
            f"(SELECT * FROM a{where}) AS x WHERE {asked}{more} GROUP BY x.k) AS z",
            f"SELECT DISTINCT k FROM (SELECT DISTINCT k, v FROM a{where}) AS x WHERE {asked}{more}",
            f"SELECT DISTINCT x.k FROM (SELECT * FROM a{where}) AS x WHERE {asked}{more}",
        )

    def idle(self) -> str:
        """Clauses that are there and ask nothing, though some of them make one group of all."""
        where = self._pick("", " WHERE TRUE", " WHERE 1 = 1", " WHERE FALSE", " WHERE k = 1")
        rows = self._pick("a", "b", "(SELECT * FROM a WHERE k > 1 AND k < 1) AS x") + where
        group = self._pick(
            *("", "", "", f" GROUP BY {NO_KEYS}", f" GROUP BY {NO_KEYS}", " GROUP BY 'z'"),
            *(" GROUP BY k", " GROUP BY GROUPING SETS ((k))"),
            " GROUP BY GROUPING SETS (('z'))",
        )
        having = self._pick(
            *("", "", " HAVING TRUE", " HAVING TRUE", " HAVING 1 = 1", " HAVING NOT FALSE"),
            *(" HAVING COUNT(*) >= 0", " HAVING FALSE"),
        )
        tail = self._pick(
            *("", "", "", " ORDER BY 'z'", " LIMIT 1000", " OFFSET 0", " LIMIT 1000 OFFSET 0")
        )
        what = self._pick("1 AS u", "1 AS u", "COUNT(*) AS u", "SUM(k) AS u", "MAX(k) AS u")
        one = f"SELECT {self._pick('', '', 'DISTINCT ')}{what} FROM {rows}{group}{having}{tail}"
        frame = self._pick("", "", "PARTITION BY k", "ORDER BY k") + self._pick(
            *("", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"),
            *(" RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",) * 2,
            " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        )
        total = self._pick("SUM(v)", "COUNT(*)", "MAX(v)")
        join = self._pick("CROSS JOIN ({}) AS y", "LEFT JOIN ({}) AS y ON y.u = c.k", ", ({}) AS y")
        return self._pick(
            *(one, one, one),
            f"SELECT c.k FROM c WHERE {self._pick('', 'NOT ')}EXISTS ({one})",
            f"SELECT c.k FROM c {join.format(one)}",
            f"SELECT c.k, y.u FROM c {join.format(one)}",
            f"SELECT c.k FROM c WHERE c.x IN ({one})",
            f"SELECT c.k, ({one}) AS n FROM c",
            f"{one} UNION ALL SELECT k FROM c",
            f"SELECT k, {total} OVER ({frame.strip()}) AS t FROM a{where}",
            f"SELECT k FROM a{self._pick('', '', ' TABLESAMPLE (100 PERCENT)')}{tail}",
            f"SELECT {self._pick('', 'DISTINCT ')}id FROM u{where}{tail}",
        )
