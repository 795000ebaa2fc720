"""Random histories of models of many kinds, of odd values, in production and development."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.change_copies import Copies
from vde_dagster_tests.execution.spark_history import HOW
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

DAY = "day(CAST(@end_ds AS DATE))"
FILES = {
    "odd": """MODEL (name wide.odd, kind FULL, {grain} physical_properties ({how}));
SELECT CAST(IF(id % 3 = 0, NULL, id % 2) AS INT) AS a, CAST(id AS INT) AS b, {floats} AS f,
  named_struct('x', {floats}, 'y', array(coalesce({floats}, 7.0D), -0.0D)) AS s,
  map('k', {floats}) AS m,
  CAST(id + {day} / 10.0 AS DECIMAL(10, 2)) AS d, unhex(hex(id)) AS raw,
  CAST(IF(id = 1, NULL, concat('it''s \\\\ ', id)) AS STRING) AS t,
  TIMESTAMP '2024-10-27 02:30:00' + make_dt_interval(0, id) AS at
FROM (SELECT id FROM range(6) UNION ALL SELECT 2 FROM range({day} % 3))""",
    "dimension": """MODEL (name wide.dimension, start '2024-01-01',
  kind SCD_TYPE_2_BY_COLUMN (unique_key k, columns [v], invalidate_hard_deletes true,
    disable_restatement false), physical_properties ({how}));
SELECT CAST(id AS INT) AS k, CAST(({day} DIV (id + 1)) % 3 AS INT) AS v FROM range({rows})
WHERE (id + {day}) % 4 <> 0""",
    "parted": """MODEL (name wide.parted, start '2024-01-01', partitioned_by p,
  kind INCREMENTAL_BY_PARTITION (disable_restatement false), physical_properties ({how}));
SELECT CAST((id + {day}) % 3 AS INT) AS p, CAST(id AS INT) AS id, CAST({day} % 2 AS INT) AS v
FROM range({rows}) WHERE (id + {day}) % 3 <> 1""",
    "added": """MODEL (name wide.added, start '2024-01-01',
  kind INCREMENTAL_UNMANAGED (disable_restatement false), physical_properties ({how}));
SELECT CAST(id % 2 AS INT) AS n, CAST({day} % 2 AS INT) AS v FROM range(3)""",
    "merged": """MODEL (name wide.merged, start '2024-01-01',
  kind INCREMENTAL_BY_UNIQUE_KEY (unique_key (k, j),
    when_matched (WHEN MATCHED AND source.v < 0 THEN DELETE
      WHEN MATCHED THEN UPDATE SET target.v = target.v + source.v)),
  physical_properties ({how}));
SELECT CAST(IF(id = 0, NULL, id) AS INT) AS k, CAST(id % 2 AS STRING) AS j,
  CAST(IF((id + {day}) % 4 = 0, -1, id + {rows}) AS INT) AS v FROM range(4)""",
    "forward": """MODEL (name wide.forward, start '2024-01-01', partitioned_by ({parts}),
  kind INCREMENTAL_BY_TIME_RANGE (time_column day, forward_only true, lookback 1,
    on_destructive_change allow),
  physical_properties ({how}));
SELECT CAST(@start_ds AS DATE) AS day, CAST(id AS {type}) AS id{forward} FROM range(3)""",
    "shaped": """MODEL (name wide.shaped, kind FULL, {grain_id} physical_properties ({how}));
SELECT {shape} FROM (SELECT id AS one, id + 10 AS two, {day} % 3 AS three FROM range({rows}))""",
    "listed": "MODEL (name wide.listed, kind SEED (path '../seeds/listed.csv'));",
    "top": """MODEL (name wide.top, kind VIEW);
SELECT o.f, o.s.x AS x, count(*) AS n, {top} FROM wide.odd AS o
LEFT JOIN wide.merged AS m ON o.b = m.k GROUP BY o.f, o.s.x""",
}
MODELS = tuple(f"wide.{name}" for name in FILES)
SHAPES = (
    "CAST(one AS INT) AS id, CAST(two AS INT) AS x, CAST(three AS INT) AS y",
    "CAST(three AS INT) AS y, CAST(two AS INT) AS x, CAST(one AS INT) AS id",
    "CAST(one AS INT) AS id, CAST(three AS INT) AS x, CAST(two AS INT) AS y",
    "CAST(one AS BIGINT) AS id, CAST(two AS BIGINT) AS x, CAST(three AS INT) AS z",
    "CAST(one AS BIGINT) AS id, CAST(two AS STRING) AS x",
    "CAST(two AS INT) AS x, CAST(two AS INT) AS y, CAST(one AS INT) AS id",
)
FORWARD = ("", ", 'x' AS more", ", CAST(id AS INT) AS more", ", 1 AS other, 'x' AS more")
TOPS = ("max(m.v) AS v", "min(m.j) AS v", "max(m.v) AS v, 1 AS w")
SETTINGS = """[tool.vde]
virtual_environment_mode = "{mode}"
change_views = ['wide.*']
change_view_versions = 4
history_versions = 6
history_days = 5
janitor_grace_hours = 1
orphan_grace_hours = 1
snapshot_retention_days = 1
"""
STEPS = (
    *("run", "run", "run", "shape", "shape", "forward", "top", "rows", "parts", "seed"),
    *("restate", "restate", "rollback", "rollback", "definitions", "freeze", "back and freeze"),
    *("preview", "preview", "deploy", "development runs", "development back", "anew", "janitor"),
)


@dataclass
class WideHistory:
    """A project of many kinds that is edited, run, restated, rolled back and cleaned up at random.

    Args:
        folder: Where it is.
        opened: Opens it as a new process would, with a clock.
        how: How tables are written.
        seed: Says which history.
    """

    folder: ProjectFolder
    opened: Callable[[ProjectFolder, FakeClock], Workspace]
    how: str
    seed: int
    did: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.copies = {name: Copies(lambda: self.workspace, name) for name in ("prod", "dev")}
        self.clock = FakeClock(datetime.now(timezone.utc))
        self.day, self.frozen = 3, 0
        self.now: dict[str, Any] = {
            "shape": SHAPES[0],
            "forward": "",
            "top": TOPS[0],
            "rows": 4,
            "type": "INT",
            "parts": "day",
            "listed": 3,
        }
        mode = "dev_only" if self.seed % 4 == 3 else "full"
        self.folder.write("pyproject.toml", SETTINGS.format(mode=mode))
        self._publish("prod")
        self.day += 1
        self._publish("prod", run=True)

    def _write(self) -> None:
        floats = (
            f"CASE (id + {DAY}) % 5 WHEN 0 THEN DOUBLE('NaN') WHEN 1 THEN -0.0D "
            "WHEN 2 THEN 0.0D WHEN 3 THEN NULL ELSE id + 0.5D END"
        )
        odd = self.seed % 2
        said = {**self.now, "how": HOW[self.how], "day": DAY, "floats": floats}
        said |= {"grain": "grains (a, b)," * odd, "grain_id": "grain id," * odd}
        for name, text in FILES.items():
            self.folder.write(f"models/{name}.sql", text.format(**said))
        rows = [f"{i},{'' if i % 2 else i * self.now['listed']}" for i in (1, 1, 2, 3)]
        self.folder.write("seeds/listed.csv", "\n".join(["id,v", *rows, ""]))

    def step(self) -> list[str]:
        """Do something; return the environments that have a new version."""
        what = self.dice.choice(STEPS)
        self.did.append(what)
        self.clock.advance(hours=self.dice.choice([1, 5, 20]))
        edits: dict[str, tuple[str, tuple[Any, ...]]] = {
            "shape": ("shape", SHAPES),
            "forward": ("forward", FORWARD),
            "top": ("top", TOPS),
            "rows": ("rows", (3, 4, 5)),
            "parts": ("parts", ("day", "day, bucket(2, id)", "bucket(2, id)")),
            "seed": ("listed", (2, 3, 5)),
        }
        if what in edits:
            self._edit(*edits[what])
            return self._publish("prod")
        if what == "run":
            self.day += 1
            return self._publish("prod", run=True)
        if what == "restate":
            first = self.dice.randint(1, self.day - 1)
            models = self.dice.sample(["wide.forward", "wide.odd", "wide.added", "wide.merged"], 2)
            start = datetime(2024, 1, first, tzinfo=timezone.utc)
            return self._publish("prod", restate=models, start=start, end=start + timedelta(days=1))
        if what in ("rollback", "definitions", "back and freeze"):
            found = self._back("prod", definitions_only=what == "definitions")
            if what == "back and freeze":
                self._freeze(str(self.copies["prod"].last))
            return found
        if what == "freeze":
            self._freeze(self.dice.choice(self._kept("prod")))
            return []
        if what == "preview":
            which = self.dice.choice(list(edits))
            self._edit(*edits[which])
            return self._publish("dev")
        if what == "deploy":
            return self._publish("prod")
        if not self._lives("dev"):
            return self._publish("dev")
        if what == "development runs":
            self.day += 1
            return self._publish("dev", run=True)
        if what == "development back":
            return self._back("dev")
        if what == "anew":
            self.workspace.environments.drop("dev")
            if self.dice.random() < 0.5:
                self.workspace.maintenance.janitor()
            return self._publish("dev")
        self.clock.advance(days=2)
        assert self.workspace.maintenance.janitor().failures == ()
        self.copies["prod"].note()
        return ["prod"]

    def _lives(self, environment: str) -> bool:
        return self.workspace.store.environments.get(environment) is not None

    def _edit(self, name: str, values: tuple[Any, ...]) -> None:
        self.now[name] = self.dice.choice([one for one in values if one != self.now[name]])
        if name == "forward" and self.dice.random() < 0.5:
            self.now["type"] = "BIGINT"

    def _kept(self, environment: str) -> list[str]:
        found = self.workspace.store.versions.history(environment)
        return [str(one.version) for one in found]

    def _freeze(self, version: str) -> None:
        self.frozen += 1
        try:
            self.workspace.environments.freeze(f"prod@{version}", f"kept_{self.frozen}")
        except UsageError as error:
            self.did.append(error.message)

    def _back(self, environment: str, **said: Any) -> list[str]:
        version = int(self.dice.choice(self._kept(environment)))
        try:
            self.workspace.environments.rollback(environment, version, **said)
        except UsageError as error:
            self.did.append(error.message)
            return []
        self.copies[environment].note()
        return [environment]

    def _publish(self, environment: str, *, run: bool = False, **said: Any) -> list[str]:
        self._write()
        self.workspace = self.opened(self.folder, self.clock)
        now = datetime(2024, 1, self.day, 12, tzinfo=timezone.utc)
        make = self.workspace.plans.due if run else self.workspace.plan
        try:
            plan = make(environment, now=now, **said)
        except UsageError as error:
            self.did.append(error.message)
            return []
        self.workspace.apply(plan)
        self.copies[environment].note()
        return [environment]
