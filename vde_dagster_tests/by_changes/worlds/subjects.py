"""Random models that a world compares with their queries, or with a twin that computes all rows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.semantics.refresh.keys import KeySteps, find_key_steps
from vde_dagster.semantics.refresh.linear import RowSteps
from vde_dagster.semantics.refresh.merged import GroupSteps
from vde_dagster.semantics.refresh.methods import Refresh, find_refresh
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, qualify
from vde_dagster.sql.reading import parse_plain
from vde_dagster_tests.by_changes.random_queries import SCHEMA, RandomQuery
from vde_dagster_tests.by_changes.worlds.parents import PARENTS

_LABELS = ("FULL",) * 12 + ("auto", "key", "merged", "scd") * 2 + ("scd",)
_TABLE = re.compile(r"\b([oce]) AS (s\d+)")
_READ = re.compile(r"\b(?:raw|m)\.\w+")
_PARTITIONED = ", partitioned_by k0"
_WRAPPERS = (
    "'x' AS mark",
    "CAST(k0 AS DOUBLE) AS f",
    "-CAST(k0 AS DOUBLE) AS f",
    "CAST(k0 AS DECIMAL(10, 3)) / 3 AS third",
    "CAST(k0 AS DECIMAL(38, 10)) AS wide",
    "array(k0, 1) AS both",
    "named_struct('a', k0, 'b', 'x') AS s",
    "date_add(DATE '2024-01-01', k0) AS day",
    "CAST(k0 AS STRING) AS text, 1.5 AS rate, CAST(NULL AS BIGINT) AS empty",
    "map('k', k0) AS m",
)
"""Columns of other types, and constants, that are added to a random query."""
FIXED = (
    "SELECT c, count(*) AS rows, sum(CAST(n AS DECIMAL(12, 2))) AS total, "
    "max(CAST(n AS DOUBLE)) AS top, min(date_add(DATE '2024-01-01', d)) AS first_day FROM o AS s1 "
    "GROUP BY c",
    "SELECT c, count(*) AS rows, count(n) AS m, sum(CAST(n AS DECIMAL(12, 2))) AS total, "
    "count(CASE WHEN d > 1 THEN 1 END) AS late FROM o AS s1 GROUP BY c",
    "SELECT id, CAST(n AS DECIMAL(10, 3)) / 3 AS third, array(n, d) AS both FROM o AS s1 "
    "WHERE c > 1",
    "SELECT s1.id, v, pos, 'x' AS mark FROM o AS s1 "
    "LATERAL VIEW OUTER posexplode(array(n, d)) t AS pos, v",
    "SELECT s1.id, s2.name, s3.day, 1 AS one FROM o AS s1 JOIN c AS s2 ON s1.c = s2.id "
    "JOIN e AS s3 ON s3.c = s2.id",
    "SELECT s1.c, s2.name, count(s3.day) AS days FROM o AS s1 LEFT JOIN c AS s2 ON s1.c = s2.id "
    "LEFT JOIN e AS s3 ON s3.c = s1.c GROUP BY s1.c, s2.name",
    "SELECT s1.id, s1.c, row_number() OVER (PARTITION BY s1.c ORDER BY s1.n, s1.id, s1.d) AS at, "
    "sum(s1.n) OVER (PARTITION BY s1.c) AS total FROM o AS s1",
    "SELECT id, n FROM o AS s1 UNION ALL SELECT c, day FROM e AS s2 UNION ALL "
    "SELECT id, region FROM c AS s3",
    "SELECT s1.id, s1.n FROM o AS s1 WHERE EXISTS (SELECT 1 FROM c AS s2 JOIN e AS s3 "
    "ON s2.id = s3.c WHERE s2.id = s1.c) AND s1.n NOT IN (1)",
)
FORMS = {
    "join of three or more": r"(?:JOIN .*){2}",
    "LEFT, RIGHT or FULL JOIN": r"\b(?:LEFT|RIGHT|FULL) JOIN",
    "SEMI or ANTI JOIN": r"\b(?:SEMI|ANTI) JOIN",
    "window": r"\bOVER \(",
    "EXISTS or IN": r"\b(?:EXISTS|IN) \(SELECT",
    "scalar subquery": r"> \(SELECT",
    "generator": r"explode\(",
    "UNION ALL": r"\bUNION ALL\b",
    "UNION, EXCEPT or INTERSECT": r"\b(?:UNION(?! ALL)|EXCEPT|INTERSECT)\b",
    "GROUP BY": r"\bGROUP BY\b",
    "aggregate of all rows": r"^SELECT \w+\([^)]*\)(?: FILTER \([^)]*\))? AS t0",
    "HAVING": r"\bHAVING\b",
    "DISTINCT": r"\bDISTINCT\b",
    "constant or other types": r"'x'|DECIMAL|DOUBLE|array\(|map\(|DATE '",
}
"""Parts of a query that the final table counts, as patterns."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that refreshes from changes.

    Args:
        label: Its kind, for counting.
        kind: Its kind in the header, in which `{refresh}` stands for the method.
        query: Its query over raw tables and models.
        properties: Other properties of the header.
        layout: The table's write mode and format, for counting.
        shown: Columns to compare with the twin; empty for a comparison with the query.
    """

    label: str
    kind: str
    query: str
    properties: str
    layout: str
    shown: tuple[str, ...] = ()

    @property
    def reads(self) -> list[str]:
        """The tables that its query reads."""
        return sorted(set(_READ.findall(self.query)))

    @property
    def forms(self) -> Iterator[str]:
        """The parts of its query that are counted."""
        return (name for name, form in FORMS.items() if re.search(form, self.query))

    def files(self, name: str) -> dict[str, str]:
        """Return the project's files of the model, and of its twin if it has one."""
        found = {f"models/{name}.sql": self._model(name, self.kind, self.query)}
        if self.shown:
            # A constant more, so that both have tables of their own.
            query = f"SELECT *, 1 AS twin FROM ({self.query}) AS rows"
            kind = self.kind.replace(", refresh changes", "")
            found[f"models/{name}_whole.sql"] = self._model(f"{name}_whole", kind, query)
        return found

    def _model(self, name: str, kind: str, query: str) -> str:
        return f"MODEL (name m.{name}, kind {kind}, start '2024-01-02', {self.properties}); {query}"


class Subjects:
    """Draws random models of a world.

    Args:
        parents: The models that their queries may read in place of raw tables.
    """

    def __init__(self, dice: random.Random, parents: Sequence[str]) -> None:
        self._dice = dice
        self._relations: Mapping[str, list[str]] = {
            table: [f"raw.{table}"]
            + [f"m.{name}" for name in parents if PARENTS[name].like == table]
            for table in SCHEMA
        }

    def draw(self) -> Subject:
        """Return a model; the changes of at least one of its tables are followed in most cases."""
        dice = self._dice
        label = dice.choice(_LABELS)
        if label == "key":
            return self._with_key()
        if label in ("FULL", "auto"):
            query = self._query()
            if dice.random() < 0.3 and "k0" in _outputs(query):
                query = f"SELECT *, {dice.choice(_WRAPPERS)} FROM ({query}) AS named"
            kind = f"FULL (refresh {'changes' if label == 'FULL' else 'auto'})"
            return self._subject(kind, kind, query)
        query = self._query_with_key()
        if label == "merged":
            kind = "INCREMENTAL_BY_UNIQUE_KEY (unique_key k0, refresh changes)"
            return self._subject("INCREMENTAL_BY_UNIQUE_KEY", kind, query, ("k0", "k1"))
        deletes = f"invalidate_hard_deletes {dice.choice(['true', 'false'])}"
        shown = ("k0", "k1", "valid_from", "valid_to")
        if dice.random() < 0.5:
            kind = f"SCD_TYPE_2_BY_COLUMN (unique_key k0, columns (k1), {deletes}, refresh changes)"
            return self._subject("SCD_TYPE_2_BY_COLUMN", kind, query, shown)
        at = "timestamp_seconds(coalesce(k1, 0) * 86400) AS at"
        query = f"SELECT *, {at} FROM ({query}) AS named"
        kind = f"SCD_TYPE_2_BY_TIME (unique_key k0, updated_at_name at, {deletes}, refresh changes)"
        return self._subject("SCD_TYPE_2_BY_TIME", kind, query, shown)

    def redraw(self, old: Subject) -> Subject:
        """Return a model of the same kind with another query."""
        new = self._with_key() if "key" in old.kind else None
        query = new.query if new else self._query()
        kind = new.kind if new else old.kind
        properties = old.properties
        if "k0" not in _outputs(query):
            properties = properties.removesuffix(_PARTITIONED)
        return Subject(old.label, kind, query, properties, old.layout)

    def _with_key(self) -> Subject:
        while True:
            query = self._plain_query()
            with suppress(NotRefreshableError, SqlglotError):
                steps = find_key_steps(qualify(query, SCHEMA), _tables(query))
                kind = f"INCREMENTAL_BY_CHANGES (key ({', '.join(steps.key)}))"
                placed = self._placed(query, views=False)
                return self._subject("INCREMENTAL_BY_CHANGES", kind, placed)

    def _query_with_key(self) -> str:
        """Return a query of at least two columns; all tables determine the first one."""
        while True:
            query = self._plain_query()
            if "k1" in _outputs(query):
                with suppress(NotRefreshableError, SqlglotError):
                    find_key_steps(qualify(query, SCHEMA), _tables(query), key=["k0"])
                    return self._placed(query, views=False)

    def _query(self) -> str:
        """Return a query that refreshes by a method, which is chosen first."""
        dice = self._dice
        method = dice.choice([None, KeySteps, RowSteps, RowSteps, GroupSteps, GroupSteps])
        only_added = dice.random() < 0.4
        while True:
            query = self._plain_query(method)
            if method is None or _refreshes_by(query, method, only_added=only_added):
                return self._placed(query)

    def _plain_query(self, method: type[Refresh] | None = None) -> str:
        dice = self._dice
        if dice.random() < 0.2:
            return dice.choice(FIXED)
        drawn = RandomQuery(dice, linear=method in (RowSteps, GroupSteps))
        return drawn.totals() if method is GroupSteps else drawn.text

    def _placed(self, query: str, *, views: bool = True) -> str:
        """Return a query over the world's tables; keys may be unknown through views."""

        def place(match: re.Match[str]) -> str:
            relations = self._relations[match[1]]
            if not views:
                relations = [one for one in relations if not _is_view(one)]
            return f"{self._dice.choice(relations)} AS {match[2]}"

        return _TABLE.sub(place, query)

    def _subject(self, label: str, kind: str, query: str, shown: tuple[str, ...] = ()) -> Subject:
        mode = self._dice.choice(["copy-on-write", "merge-on-read"])
        version = self._dice.choice("23")
        listed = f"'format-version' = '{version}'"
        for statement in ("delete", "update", "merge"):
            listed += f", 'write.{statement}.mode' = '{mode}'"
        properties = f"physical_properties ({listed})"
        if "k0" in _outputs(query) and self._dice.random() < 0.15:
            properties += _PARTITIONED
        return Subject(label, kind, query, properties, f"{mode}, format {version}", shown)


def _is_view(relation: str) -> bool:
    parent = PARENTS.get(relation.removeprefix("m."))
    return parent is not None and parent.label.startswith(("VIEW", "EMBEDDED"))


def _outputs(query: str) -> list[str]:
    tree = parse_plain(query)
    assert isinstance(tree, exp.Query)
    return tree.named_selects


def _tables(query: str) -> list[str]:
    return sorted({match[1] for match in _TABLE.finditer(query)})


def _refreshes_by(query: str, method: type[Refresh], *, only_added: bool) -> bool:
    """Return whether changes of a table that a query reads are followed by a method."""
    for table in _tables(query):
        with suppress(NotRefreshableError, SqlglotError):
            found = find_refresh(query, SCHEMA, [table], only_added=only_added)
            if isinstance(found, method):
                return True
    return False
