"""The parts that random queries are made of: sources, expressions, conditions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from vde_dagster_tests.planning.oracle_data import EXTERNAL, Columns


@dataclass(frozen=True, slots=True)
class Known:
    """A table or model that a new model can read."""

    name: str
    columns: Columns
    stable: bool
    by_time: bool = False


class Parts:
    """Makes random parts of queries over what is known so far.

    Args:
        rng: The source of chance.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.aliases = 0
        self.known = [Known(name, list(cs), True) for name, cs in EXTERNAL.items()]

    def source(self, among: Sequence[Known] | None = None) -> tuple[str, str, Columns]:
        """Text, alias and columns (qualified) of one source; later models are likelier."""
        pool = list(among or self.known)
        known = pool[max(self.rng.randrange(len(pool)), self.rng.randrange(len(pool)))]
        self.aliases += 1
        alias = f"q{self.aliases}"
        return f"{known.name} AS {alias}", alias, [(f"{alias}.{c}", t) for c, t in known.columns]

    def names(self, items: Sequence[tuple[str, str]]) -> list[str]:
        """Output names: the columns' own where free."""
        out: list[str] = []
        for text, _ in items:
            own = text.rpartition(".")[2]
            if not own.isidentifier() or own in out:
                own = next(f"e{i}" for i in range(99) if f"e{i}" not in out)
            out.append(own)
        return out

    def select(
        self, items: Sequence[tuple[str, str]], rest: str, distinct: str = ""
    ) -> tuple[str, Columns]:
        """`SELECT items rest` with names, and its columns."""
        names = self.names(items)
        listed = ", ".join(f"{text} AS {n}" for (text, _), n in zip(items, names, strict=True))
        columns = [(n, type_) for (_, type_), n in zip(items, names, strict=True)]
        return f"SELECT {distinct}{listed} {rest}", columns

    def column(self, type_: str, columns: Columns) -> str:
        """A column of a type, or a literal when there is none."""
        fitting = [c for c, t in columns if t == type_]
        if fitting:
            return self.rng.choice(fitting)
        return {"INT": "1", "STRING": "'a'", "DATE": "DATE '2024-01-02'"}[type_]

    def some(self, columns: Columns) -> Columns:
        """Some columns, and expressions over them."""
        picked = self.rng.sample(columns, min(len(columns), self.rng.randint(2, 4)))
        if self.rng.random() < 0.5:
            picked.append(self.expression(columns))
        return picked

    def expression(self, columns: Columns) -> tuple[str, str]:
        """An expression and its type."""
        one, two = self.column("INT", columns), self.column("INT", columns)
        text = self.column("STRING", columns)
        return self.rng.choice(
            [
                (f"{one} + {two}", "INT"),
                (f"{one} * 2", "INT"),
                (f"COALESCE({one}, {two}, 0)", "INT"),
                (f"CASE WHEN {self.predicate(columns)} THEN {one} ELSE {two} END", "INT"),
                (f"UPPER({text})", "STRING"),
                (f"COALESCE({text}, 'z')", "STRING"),
            ]
        )

    def predicate(self, columns: Columns) -> str:
        """A condition."""
        one, two = self.column("INT", columns), self.column("INT", columns)
        text, n = self.column("STRING", columns), self.rng.randint(0, 3)
        simple = self.rng.choice(
            [
                f"{one} {self.rng.choice(['=', '<>', '<', '>', '<=', '>='])} {n}",
                f"{one} <= {two}",
                f"{one} BETWEEN 0 AND {n}",
                f"{one} IN ({n}, {n + 1})",
                f"{one} IS NOT NULL",
                f"{text} <> 'a'",
                f"{text} IN ('a', 'b', '')",
                f"NOT {one} = {n}",
            ]
        )
        if self.rng.random() < 0.25:
            return f"({simple} {self.rng.choice(['AND', 'OR'])} {self.predicate(columns)})"
        return simple

    def aggregate(self, columns: Columns) -> tuple[str, str]:
        """An aggregate that does not depend on the order of rows."""
        one = self.column("INT", columns)
        text = self.rng.choice(
            [
                "COUNT(*)",
                f"COUNT({one})",
                f"COUNT(DISTINCT {one})",
                f"SUM({one})",
                f"MIN({one})",
                f"MAX({one})",
            ]
        )
        return text, "INT"

    def where(self, columns: Columns, chance: float = 0.6) -> str:
        """A WHERE clause, or nothing."""
        return f" WHERE {self.predicate(columns)}" if self.rng.random() < chance else ""

    def joined(self, among: Sequence[Known] | None = None) -> tuple[str, Columns]:
        """A FROM clause with one or two sources and their columns."""
        text, _, columns = self.source(among)
        if self.rng.random() < 0.35:
            return text, columns
        return self.join_to(text, columns, among)

    def join_to(
        self, text: str, columns: Columns, among: Sequence[Known] | None = None
    ) -> tuple[str, Columns]:
        """Another source joined to a FROM clause."""
        other, alias, there = self.source(among)
        side = self.rng.choice(
            ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
        )
        key = self.column("INT", there)
        if side == "LEFT JOIN" and self.rng.random() < 0.6 and key.startswith(alias):
            # Unique on the key by construction.
            short, value = key.rpartition(".")[2], self.column("INT", there)
            table = other.rpartition(" AS ")[0]
            inner = f"SELECT {key} AS {short}, MAX({value}) AS top FROM {table} AS {alias} "
            other = f"({inner}GROUP BY {key}) AS {alias}"
            there = [(f"{alias}.{short}", "INT"), (f"{alias}.top", "INT")]
        on = f"{self.column('INT', columns)} = {key}"
        if self.rng.random() < 0.3:
            on += f" AND {self.predicate(there)}"
        return f"{text} {side} {other} ON {on}", columns + there
