"""Random small projects in Spark SQL over three small tables, for the oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, IncrementalByUniqueKey, View
from vde_dagster.project.model import Model
from vde_dagster_tests.planning.oracle_data import START, Columns, with_query
from vde_dagster_tests.planning.oracle_parts import Known, Parts


class Projects(Parts):
    """Makes random models, each over what is there already."""

    def model(self, name: str) -> Model:
        """A model over what is there already."""
        roll = self.rng.random()
        kind: Full | View | IncrementalByTimeRange | IncrementalByUniqueKey = Full()
        by_time = False
        if roll < 0.18:
            query, columns = self.by_time()
            # An aggregated day means its own range only when days are filled one by one.
            size = 1 if "MAX(" in query.partition(" AS d")[0] else None
            kind, by_time = IncrementalByTimeRange("d", batch_size=size), True
        elif roll < 0.28:
            query, columns, key = self.by_key()
            kind = IncrementalByUniqueKey((key,), batch_size=1)
        else:
            query, columns = self.query()
            if roll < 0.55:
                kind = View()
        model = with_query(
            Model(ModelName.parse(name), kind, SourceLocation(Path(f"models/{name}.sql"), 1)), query
        )
        model = replace(model, start=START)
        read = {str(parent) for parent in model.depends_on}
        stable = all(known.stable for known in self.known if known.name in read)
        incremental = not isinstance(kind, Full | View)
        self.known.append(Known(name, columns, stable and not incremental, by_time))
        return model

    def query(self) -> tuple[str, Columns]:
        """The query of a whole-table model."""
        shapes = [self.projection, self.projection, self.grouped, self.grouped, self.windowed]
        shapes += [self.union, self.distinct, self.star, self.limited, self.with_cte, self.named]
        return self.rng.choice([*shapes, self.filtered_by_subquery])()

    def projection(self) -> tuple[str, Columns]:
        text, columns = self.joined()
        return self.select(self.some(columns), f"FROM {text}{self.where(columns)}")

    def grouped(self) -> tuple[str, Columns]:
        text, columns = self.joined()
        keys = self.rng.sample(columns, min(len(columns), self.rng.choice([0, 1, 1, 2])))
        items = [*keys, *(self.aggregate(columns) for _ in range(self.rng.randint(1, 3)))]
        rest = f"FROM {text}{self.where(columns)}"
        if keys:
            by = ", ".join(key for key, _ in keys)
            ordinals = ", ".join(str(i + 1) for i in range(len(keys)))
            rest += " GROUP BY " + self.rng.choice([by, by, ordinals, "ALL", f"ROLLUP ({by})"])
        if self.rng.random() < 0.25:
            rest += f" HAVING COUNT(*) > {self.rng.randint(0, 1)}"
        return self.select(items, rest)

    def windowed(self) -> tuple[str, Columns]:
        text, columns = self.joined()
        one, two = self.column("INT", columns), self.column("INT", columns)
        over = self.rng.choice(
            [
                f"RANK() OVER (PARTITION BY {one} ORDER BY {two})",
                f"SUM({one}) OVER (PARTITION BY {two})",
                f"COUNT(*) OVER (PARTITION BY {one})",
                f"MAX({one}) OVER ()",
            ]
        )
        items = [*self.some(columns), (over, "INT")]
        query, out = self.select(items, f"FROM {text}{self.where(columns)}")
        if self.rng.random() < 0.3:
            # A name that no source has, so that it can only mean the output.
            query = query.replace(f"{over} AS {out[-1][0]}", f"{over} AS z9")
            out[-1] = ("z9", "INT")
            by_name = self.rng.random() < 0.5 and not any(".z9" in c for c, _ in columns)
            query += f" QUALIFY {'z9' if by_name else over} <= 2"
        return query, out

    def union(self) -> tuple[str, Columns]:
        types = [self.rng.choice(["INT", "INT", "STRING"]) for _ in range(self.rng.randint(2, 3))]
        sides = []
        for _ in range(2):
            text, columns = self.joined()
            items = [(self.column(type_, columns), type_) for type_ in types]
            listed = ", ".join(f"{item} AS u{i}" for i, (item, _) in enumerate(items))
            sides.append(f"SELECT {listed} FROM {text}{self.where(columns)}")
        operator = self.rng.choice(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        return f" {operator} ".join(sides), [(f"u{i}", type_) for i, type_ in enumerate(types)]

    def distinct(self) -> tuple[str, Columns]:
        text, columns = self.joined()
        return self.select(self.some(columns), f"FROM {text}{self.where(columns)}", "DISTINCT ")

    def star(self) -> tuple[str, Columns]:
        text, alias, columns = self.source()
        plain = [(c.rpartition(".")[2], t) for c, t in columns]
        distinct = self.rng.choice(["", "", "DISTINCT "])
        more, extra = "", []
        if self.rng.random() < 0.4:
            expression, type_ = self.expression(columns)
            name = next(f"p{i}" for i in range(99) if f"p{i}" not in dict(plain))
            more, extra = f", {expression} AS {name}", [(name, type_)]
        listed = self.rng.choice(["*", f"{alias}.*"])
        return f"SELECT {distinct}{listed}{more} FROM {text}{self.where(columns)}", plain + extra

    def limited(self) -> tuple[str, Columns]:
        text, _, columns = self.source()
        items = self.some(columns)
        query, out = self.select(items, f"FROM {text}{self.where(columns)}")
        order = ", ".join(f"{i + 1}{self.rng.choice(['', ' DESC'])}" for i in range(len(items)))
        if "raw.a" in text and self.rng.random() < 0.5:
            alias = columns[0][0].partition(".")[0]
            order = self.rng.choice([f"{alias}.v, {alias}.id", f"v, {alias}.id", f"{alias}.id"])
        return f"{query} ORDER BY {order} LIMIT {self.rng.randint(2, 6)}", out

    def with_cte(self) -> tuple[str, Columns]:
        inner, columns = self.rng.choice([self.projection, self.grouped, self.distinct])()
        there = [(f"c.{name}", type_) for name, type_ in columns]
        body, out = self.select(self.some(there), f"FROM c{self.where(there)}")
        return f"WITH c AS ({inner}) {body}", out

    def named(self) -> tuple[str, Columns]:
        """NATURAL and USING joins, which follow the names of their parents' columns."""
        one, _, columns = self.source()
        two, _, there = self.source()
        mine = {c.rpartition(".")[2]: t for c, t in columns}
        theirs = {c.rpartition(".")[2]: t for c, t in there}
        shared = [n for n, t in mine.items() if theirs.get(n) == t]
        if not shared or any(theirs[n] != t for n, t in mine.items() if n in theirs):
            return self.projection()
        private = [(c, t) for c, t in columns if c.rpartition(".")[2] not in theirs]
        items = [(name, mine[name]) for name in shared[:2]] + private[:2]
        join = self.rng.choice(["NATURAL JOIN", "USING"])
        if join == "USING":
            items = [(shared[0], mine[shared[0]]), *private[:2]]
            rest = f"FROM {one} JOIN {two} USING ({shared[0]})"
        else:
            rest = f"FROM {one} NATURAL JOIN {two}"
        return self.select(items, rest)

    def filtered_by_subquery(self) -> tuple[str, Columns]:
        text, _, columns = self.source()
        other, _, there = self.source()
        one, two = self.column("INT", columns), self.column("INT", there)
        same = f"SELECT 1 FROM {other} WHERE {two} = {one}"
        condition = self.rng.choice(
            [
                f"EXISTS ({same})",
                f"NOT EXISTS ({same} AND {self.predicate(there)})",
                f"{one} IN (SELECT {two} FROM {other} WHERE {two} IS NOT NULL)",
                f"{one} >= (SELECT MIN({two}) FROM {other})",
            ]
        )
        return self.select(self.some(columns), f"FROM {text} WHERE {condition}")

    def by_time(self) -> tuple[str, Columns]:
        """A query that is cut by days: nothing in it crosses from one day to another."""
        days = [k for k in self.known if ("d", "DATE") in k.columns and (k.stable or k.by_time)]
        text, alias, columns = self.source(days)
        if self.rng.random() < 0.4:
            stable = [known for known in self.known if known.stable]
            more, columns = self.join_to(text, columns, stable)
            # Only what keeps the days of the first source.
            text = more.replace(" RIGHT JOIN ", " LEFT JOIN ").replace(" FULL JOIN ", " JOIN ")
        day = f"{alias}.d"
        rest = f"FROM {text} WHERE {day} BETWEEN @start_date AND @end_date"
        if self.rng.random() < 0.4:
            rest += f" AND {self.predicate(columns)}"
        others = [(c, t) for c, t in columns if not c.endswith(".d")]
        if self.rng.random() < 0.5:
            keys = self.rng.sample(others, min(len(others), self.rng.choice([0, 1, 2])))
            style = self.rng.random()
            day_item = (f"MAX({day})" if style < 0.2 and keys else day, "DATE")
            items = [day_item, *keys, *(self.aggregate(others) for _ in range(2))]
            by = [day] if day_item[0] == day else []
            rest += " GROUP BY " + ", ".join([*by, *(key for key, _ in keys)])
        else:
            items = [(day, "DATE"), *self.some(others)]
        query, out = self.select(items, rest)
        if items[0][0] != day:
            query, out = (
                query.replace(f"{items[0][0]} AS {out[0][0]}", f"{items[0][0]} AS d"),
                [
                    ("d", "DATE"),
                    *out[1:],
                ],
            )
        return query, out

    def by_key(self) -> tuple[str, Columns, str]:
        """A query whose rows are merged on a key, day by day."""
        text, alias, columns = self.source([k for k in self.known if k.name in ("raw.a", "raw.b")])
        key = (f"{alias}.k", "INT")
        rest = f"FROM {text} WHERE {alias}.d BETWEEN @start_date AND @end_date"
        others = [(c, t) for c, t in columns if c not in (f"{alias}.d", f"{alias}.k")]
        if self.rng.random() < 0.5:
            items = [key, *(self.aggregate(others) for _ in range(2))]
            rest += f" GROUP BY {key[0]}"
        else:
            items = [key, *self.some(others)]
        query, out = self.select(items, rest)
        return query, out, "k"
