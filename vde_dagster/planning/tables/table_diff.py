"""Row-by-row comparison of two tables under a key, as Spark SQL and the meaning of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vde_dagster.base.names import quote
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError

Types = Mapping[str, str]
"""Spark SQL types by column, in order."""


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """Differences between the columns of two tables.

    Args:
        added: Types of columns that only the target has.
        removed: Types of columns that only the source has.
        changed: Types in the source and in the target.
    """

    added: Types
    removed: Types
    changed: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, source: Types, target: Types) -> SchemaDiff:
        """Compare columns, whose names have no case.

        >>> SchemaDiff.of({"a": "int", "b": "int"}, {"A": "bigint", "c": "int"})
        SchemaDiff(added={'c': 'int'}, removed={'b': 'int'}, changed={'a': ('int', 'bigint')})
        """
        before = {name.lower(): type_ for name, type_ in source.items()}
        after = {name.lower(): type_ for name, type_ in target.items()}
        return cls(
            {name: type_ for name, type_ in target.items() if name.lower() not in before},
            {name: type_ for name, type_ in source.items() if name.lower() not in after},
            {
                name: (type_, after[name.lower()])
                for name, type_ in source.items()
                if after.get(name.lower(), type_) != type_
            },
        )


class TableDiff:
    """Writes the queries of a comparison.

    Args:
        source: The one table, quoted.
        target: The other one.
        keys: Columns that tell rows apart; NULL equals NULL.
        where: Spark SQL that rows of both have to meet, or None.

    Raises:
        UsageError: A key is no column of both.
    """

    def __init__(
        self,
        source: str,
        target: str,
        keys: Sequence[str],
        source_types: Types,
        target_types: Types,
        where: str | None = None,
    ) -> None:
        self._tables = (source, target)
        self._where = f" WHERE {where}" if where else ""
        there = {name.lower() for name in target_types}
        both = {name.lower(): name for name in source_types if name.lower() in there}
        for key in keys:
            if key.lower() not in both:
                raise UsageError(
                    f"'{key}' is no column of both tables",
                    hint=suggest(key, list(both.values()), "columns"),
                )
        self.keys = tuple(dict.fromkeys(both[key.lower()] for key in keys))
        others = [name for name in both.values() if name not in self.keys]
        self.columns = tuple(name for name in others if _comparable(source_types[name]))
        self.not_compared = tuple(name for name in others if name not in self.columns)

    def counts(self) -> str:
        """Write the query that counts; its one row is for `read_counts`."""
        differs = [f"NOT (s.c{i} <=> t.c{i})" for i in range(len(self.columns))]
        both = "s.there AND t.there"
        whole = f"{both} AND ({' OR '.join(differs)})" if differs else "false"
        said = [
            f"count_if({both})",
            f"count_if({whole})",
            "count_if(t.there IS NULL)",
            "count_if(s.there IS NULL)",
            *(f"count_if({both} AND {one})" for one in differs),
        ]
        named = ", ".join(f"{text} AS n{i}" for i, text in enumerate(said))
        return f"SELECT {named} FROM {self._joined()}"

    def sizes(self, side: int) -> str:
        """Write the query of the number of rows, and of keys, of the source (0) or target (1)."""
        keys = ", ".join(map(quote, self.keys))
        table = self._tables[side]
        return (
            f"SELECT count(*) AS rows, count(DISTINCT struct({keys})) AS keys "
            f"FROM {table}{self._where}"
        )

    def read_counts(self, row: Sequence[Any]) -> tuple[dict[str, int], dict[str, int]]:
        """Return the numbers of rows, and of differing values by column."""
        joined, differing, only_source, only_target, *values = row
        rows = {
            "joined": joined,
            "identical": joined - differing,
            "differing": differing,
            "only_source": only_source,
            "only_target": only_target,
        }
        return rows, dict(zip(self.columns, values, strict=True))

    def differing(self, columns: Sequence[str]) -> str:
        """Write the query of rows whose values differ: keys, then source and target by column."""
        places = [self.columns.index(name) for name in columns]
        keys = [f"s.k{i} AS {quote(name)}" for i, name in enumerate(self.keys)]
        values = [
            f"{side}.c{i} AS {quote(f'{self.columns[i]} ({word})')}"
            for i in places
            for side, word in (("s", "source"), ("t", "target"))
        ]
        differs = " OR ".join(f"NOT (s.c{i} <=> t.c{i})" for i in places)
        return (
            f"SELECT {', '.join([*keys, *values])} FROM {self._joined()} "
            f"WHERE s.there AND t.there AND ({differs}) ORDER BY {self._order('s')}"
        )

    def only(self, side: int) -> str:
        """Write the query of rows that only the source (0) or the target (1) has."""
        own, other = ("s", "t") if side == 0 else ("t", "s")
        shown = [f"{own}.k{i} AS {quote(name)}" for i, name in enumerate(self.keys)]
        shown += [f"{own}.c{i} AS {quote(name)}" for i, name in enumerate(self.columns)]
        return (
            f"SELECT {', '.join(shown)} FROM {self._joined()} WHERE {other}.there IS NULL "
            f"ORDER BY {self._order(own)}"
        )

    def _order(self, side: str) -> str:
        return ", ".join(f"{side}.k{i}" for i in range(len(self.keys)))

    def _joined(self) -> str:
        on = " AND ".join(f"s.k{i} <=> t.k{i}" for i in range(len(self.keys)))
        source, target = map(self._side, self._tables)
        return f"({source}) AS s FULL OUTER JOIN ({target}) AS t ON {on}"

    def _side(self, table: str) -> str:
        named = [f"{quote(name)} AS k{i}" for i, name in enumerate(self.keys)]
        named += [f"{quote(name)} AS c{i}" for i, name in enumerate(self.columns)]
        return f"SELECT {', '.join(named)}, true AS there FROM {table}{self._where}"


def _comparable(type_: str) -> bool:
    """Say whether Spark compares values of a type: maps and variants have no equality."""
    lowered = type_.lower()
    return "map<" not in lowered and "variant" not in lowered
