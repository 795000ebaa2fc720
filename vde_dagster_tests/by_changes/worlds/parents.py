"""Tables of all kinds that a random query may read in place of a table of `SCHEMA`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vde_dagster_tests.kinds.lives import ADD

_ORDERS = "SELECT id, c, n, d FROM raw.o"
_ONE_ROW = (
    "SELECT id, max(c) AS c, max(n) AS n, max(d) AS d{more} FROM raw.o WHERE id IS NOT NULL "
    "GROUP BY id"
)
_UPDATED = ", timestamp_seconds(max(n) * 86400) AS at"
_DAY = "CAST(@start_ds AS DATE) AS day"
_START = "start '2024-01-02'"
_PYTHON = """
    from vde_dagster import model


    @model("m.python", kind="FULL", depends_on=["m.whole"],
           columns={"id": "INT", "c": "INT", "n": "INT", "d": "INT"})
    def execute(context):
        return context.table("m.whole").select("id", "c", "n", "d").where("n > 1")
"""


@dataclass(frozen=True, slots=True)
class Parent:
    """A model between the tables of other programs and a random query.

    Args:
        label: The name for counting: its kind.
        like: The table of `SCHEMA` whose columns it has.
        kind: The kind with its properties, followed by other properties of the header.
        query: Its query, in which `{more}` is another column or nothing.
        files: Other files of the project.
        reads: Other parents that it needs.
        in_place: Whether its definition can change in place.
    """

    label: str
    like: str
    kind: str
    query: str
    files: Mapping[str, str] = field(default_factory=dict)
    reads: Sequence[str] = ()
    in_place: bool = False

    def file(self, name: str, more: str = "") -> dict[str, str]:
        """Return the project's files of the model; `more` is a further column."""
        if not self.query:
            return dict(self.files)
        query = self.query.format(more=f", {more} AS more" if more else "")
        header = f"MODEL (name m.{name}, kind {self.kind});"
        return {f"models/{name}.sql": f"{header} {query}", **self.files}


PARENTS: dict[str, Parent] = {
    "whole": Parent("FULL", "o", "FULL", "SELECT id, c, n, d{more} FROM raw.o"),
    "large": Parent("VIEW", "o", "VIEW", f"{_ORDERS} WHERE n > 1"),
    "part": Parent("EMBEDDED", "o", "EMBEDDED", f"{_ORDERS} WHERE n IS NOT NULL"),
    "nested": Parent(
        "VIEW of a VIEW", "o", "VIEW", "SELECT * FROM m.large WHERE d IS NOT NULL", reads=["large"]
    ),
    "keyed": Parent(
        "INCREMENTAL_BY_UNIQUE_KEY",
        "o",
        "INCREMENTAL_BY_UNIQUE_KEY (unique_key id)",
        "SELECT id, c, n, d{more} FROM raw.o WHERE id IS NOT NULL",
        in_place=True,
    ),
    "keyed_changes": Parent(
        "INCREMENTAL_BY_UNIQUE_KEY, refreshed",
        "o",
        "INCREMENTAL_BY_UNIQUE_KEY (unique_key id, refresh changes)",
        f"{_ORDERS} WHERE id IS NOT NULL",
    ),
    "daily": Parent(
        "INCREMENTAL_BY_TIME_RANGE",
        "o",
        f"INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 1), {_START}",
        f"SELECT id, c, n, d, {_DAY}{{more}} FROM raw.o",
        in_place=True,
    ),
    "parted": Parent(
        "INCREMENTAL_BY_PARTITION",
        "o",
        f"INCREMENTAL_BY_PARTITION (disable_restatement false), partitioned_by c, {_START}",
        "SELECT id, c, n, d{more} FROM raw.o WHERE n > 1",
        in_place=True,
    ),
    "added": Parent(
        "INCREMENTAL_UNMANAGED",
        "o",
        f"INCREMENTAL_UNMANAGED (disable_restatement false), {_START}",
        f"{_ORDERS} WHERE n = 1",
    ),
    "versions": Parent(
        "SCD_TYPE_2_BY_COLUMN",
        "o",
        "SCD_TYPE_2_BY_COLUMN (unique_key id, columns (n, c), invalidate_hard_deletes true, "
        "disable_restatement false)",
        _ONE_ROW.format(more=""),
    ),
    "versions_changes": Parent(
        "SCD_TYPE_2_BY_COLUMN, refreshed",
        "o",
        "SCD_TYPE_2_BY_COLUMN (unique_key id, columns (n, d), invalidate_hard_deletes true, "
        "refresh changes)",
        _ONE_ROW.format(more=""),
    ),
    "updated": Parent(
        "SCD_TYPE_2_BY_TIME",
        "o",
        "SCD_TYPE_2_BY_TIME (unique_key id, updated_at_name at)",
        _ONE_ROW.format(more=_UPDATED),
    ),
    "chained": Parent(
        "FULL (refresh changes)", "o", "FULL (refresh changes)", f"{_ORDERS} WHERE d IS NOT NULL"
    ),
    "by_changes": Parent(
        "INCREMENTAL_BY_CHANGES", "o", "INCREMENTAL_BY_CHANGES (key id)", f"{_ORDERS} WHERE n < 4"
    ),
    "custom": Parent(
        "CUSTOM",
        "o",
        f"CUSTOM (materialization 'add', batch_size 1), {_START}",
        f"{_ORDERS} WHERE n = 2",
        {"materializations/add.py": ADD},
    ),
    "python": Parent("Python", "o", "", "", {"models/python.py": _PYTHON}, ["whole"]),
    "seeded": Parent(
        "SEED",
        "o",
        "",
        "",
        {
            "models/seeded.sql": "MODEL (name m.seeded, kind SEED (path '../seeds/seeded.csv'), "
            "columns (id INT, c INT, n INT, d INT));",
            "seeds/seeded.csv": "id,c,n,d\n1,1,1,1\n2,1,3,\n3,2,2,4\n",
        },
    ),
    "seen": Parent(
        "FIRST_SEEN",
        "o",
        f"FIRST_SEEN (key id, time day), {_START}",
        f"SELECT id, c, n, d, {_DAY} FROM raw.o WHERE id IS NOT NULL",
    ),
    "kept": Parent(
        "CHANGES",
        "o",
        f"CHANGES (key id, time day), {_START}",
        _ONE_ROW.format(more=f", {_DAY}"),
    ),
    "customers": Parent(
        "FULL (refresh changes)",
        "c",
        "FULL (refresh changes)",
        "SELECT id, name, region FROM raw.c WHERE id > 0",
    ),
    "customer_versions": Parent(
        "SCD_TYPE_2_BY_COLUMN, refreshed",
        "c",
        "SCD_TYPE_2_BY_COLUMN (unique_key id, columns (name, region), refresh changes)",
        "SELECT id, max(name) AS name, max(region) AS region FROM raw.c GROUP BY id",
    ),
    "events": Parent("FULL", "e", "FULL", "SELECT DISTINCT c, day FROM raw.e"),
    "days": Parent(
        "VIEW", "e", "VIEW", "SELECT c, day FROM raw.e UNION ALL SELECT n, d FROM raw.o"
    ),
}
"""All kinds that can be read; external tables are the tables of `SCHEMA` themselves."""


def deal_parents(seed: int, count: int) -> list[str]:
    """Return the parents of a world, so that worlds with consecutive seeds have each of them."""
    names = list(PARENTS)
    dealt = ["whole", *(names[(seed * count + n) * 7 % len(names)] for n in range(count))]
    needed = [*dealt, *(other for name in dealt for other in PARENTS[name].reads)]
    return list(dict.fromkeys(needed))
