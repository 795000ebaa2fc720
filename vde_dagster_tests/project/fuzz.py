"""Load projects with a spoilt file, each in a process with limits, and report what goes wrong.

    python -m vde_dagster_tests.project.fuzz --seed 1 --count 300

Loading and versions either work, or raise this package's errors: in bounded time, with a message
of at most a screen. A mutant of a Python file is code that runs: its process may write small files
only, has an empty folder of its own as home and current folder, and is killed after a while.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from vde_dagster_tests.project.mutations import mutate

MOST_SECONDS = 10
MOST_CHARACTERS = 2_000
_MEMORY = 3 << 30
_EXAMPLE = Path(__file__).parents[2]
_SQLMESH = _EXAMPLE / "vde_dagster_tests/fixtures/sqlmesh_project"
_CONFIG = b'''"""The configuration in Python."""

import os

from sqlmesh.core.config import Config, GatewayConfig, LinterConfig, ModelDefaultsConfig
from sqlmesh.core.config import NameInferenceConfig

config = Config(
    project="corners",
    gateways={"local": GatewayConfig(variables={"region": "eu", "least": 0})},
    default_gateway="local",
    model_defaults=ModelDefaultsConfig(dialect="spark", start="2024-01-01", cron="@daily"),
    variables={"schema": "marts", "size": 3, "names": ["orders", "amount"]},
    model_naming=NameInferenceConfig(infer_names=True),
    linter=LinterConfig(enabled=True, warn_rules=["noowner"]),
    environment_ttl=os.environ.get("TTL", "in 1 week"),
)
'''

CORNERS = {
    "pyproject.toml": """
[tool.vde]
name = "corners"
variables = { size = 3, word = "it's" }
concurrency = 2
[tool.vde.spark]
config = { "spark.ui.enabled" = "false" }
""",
    "models/query.sql": """
MODEL (
  name marts.query,
  kind INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 1),
  start '2024-01-01', cron '@daily', tags (a, b), grain (id, day),
  audits (not_null(columns := (id, day)), small(most := @size))
);
@DEF(double, x -> @x * 2);
SET spark.sql.shuffle.partitions = 2;
WITH few AS (
  SELECT id, count(*) AS n /* how many */ FROM raw.things GROUP BY id -- counted

)
SELECT t.id, t.day, @double(t.size) AS twice, @EACH([1, 2], x -> t.size + @x AS plus_@x),
  CASE WHEN t.word = @VAR('word') THEN CAST(t.size AS DECIMAL(10, 2)) ELSE @half(t.size) END AS c,
  row_number() OVER (PARTITION BY t.id ORDER BY t.day DESC) AS place
FROM raw.things AS t
LEFT JOIN few USING (id)

WHERE t.day BETWEEN @start_date AND @end_date AND t.id IN (SELECT id FROM raw.rows WHERE b)
""",
    "models/rows.sql": """
MODEL (name raw.rows, kind SEED (path '../seeds/rows.csv', csv_settings (delimiter = ',')),
  columns (id INT, b BOOLEAN, day DATE, note STRING));
""",
    "seeds/rows.csv": """id,b,day,note,amount
1,true,2024-01-01,"a, ""quoted"" one",1.5
2,false,2024-01-02,,20
3,true,2024-01-03,"two
lines",-3e5
""",
    "external_models.yaml": """
- name: raw.things
  description: Things of others
  columns:
    id: INT
    day: DATE
    size: INT
    word: STRING
""",
    "macros/halves.py": '''
"""A macro."""
from vde_dagster import macro
from helpers.numbers import TWO


@macro()
def half(evaluator, value, by: int = TWO):
    return f"{value} / {by}"
''',
    "helpers/numbers.py": "TWO = 2\n\n\ndef three(x):\n    return [x, (x, {x: 3})]\n",
    "audits/small.sql": """
AUDIT (name small, blocking false, defaults (least = 0));
SELECT * FROM @this_model WHERE size NOT BETWEEN @least AND @most
""",
    "models/code.py": '''
from vde_dagster import model
from helpers.numbers import three


@model(
    "marts.code",
    kind={"name": "INCREMENTAL_BY_TIME_RANGE", "time_column": "day"},
    columns={"id": "INT", "day": "DATE"},
    audits=[("not_null", {"columns": ["id"]})],
)
def execute(context, start, end, execution_time, **kwargs):
    """Rows."""
    things = context.table("raw.things")
    return context.sql("SELECT id, day FROM raw.things").union(things.select(*three("id")[:2]))
''',
    "tests/test_query.yaml": """
test_one:
  model: marts.query
  vars: {start: 2024-01-01, end: 2024-01-02}
  inputs:
    raw.things:
      rows:
        - {id: 1, day: 2024-01-01, size: 3, word: "x"}
    raw.rows: {columns: {id: INT}, query: "SELECT 1 AS id"}
  outputs:
    query:
      partial: true
      rows: [{id: 1, day: 2024-01-01}]
""",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What loading a project with a spoilt file gave.

    Args:
        seed: The mutant's own seed.
        file: The file that was spoilt, and in which ways.
        result: `loaded`, `refused`, or what is wrong: `traceback`, `slow`, `long`, `killed`.
        seconds: CPU time.
        detail: The mistake.
        characters: Length of the longest mistake.
    """

    seed: int
    file: str
    result: str
    seconds: float
    detail: str = ""
    characters: int = 0

    @property
    def good(self) -> bool:
        """Whether it is as it should be."""
        return self.result in ("loaded", "refused")


def bases() -> list[tuple[dict[str, bytes], str]]:
    """Return projects as contents by path, each with the one file of it that is spoilt."""
    corners = {path: text.encode() for path, text in CORNERS.items()}
    found = [(corners, path) for path in corners for _ in range(3)]
    files = {
        path.relative_to(_EXAMPLE).as_posix(): path.read_bytes()
        for path in sorted((_EXAMPLE / "models").rglob("*"))
        if path.suffix in (".sql", ".py", ".csv", ".yaml")
    }
    shared = ("models/macros/", "models/audits/", "models/seeds/")
    for path in files:
        near = {
            other: content
            for other, content in files.items()
            if other == path
            or other.startswith(shared)
            or other == "models/raw/nycflights.py"
            or (path.startswith("models/tests/") and other.startswith("models/marts/"))
        }
        found.append((near, path))
    sqlmesh = {
        path.relative_to(_SQLMESH).as_posix(): path.read_bytes()
        for path in sorted(_SQLMESH.rglob("*.*"))
        if path.suffix in (".sql", ".py", ".csv", ".yaml")
    }
    found += [(sqlmesh, path) for path in sqlmesh for _ in range(3)]
    python = {path: content for path, content in sqlmesh.items() if path != "config.yaml"}
    found += [({**python, "config.py": _CONFIG}, "config.py")] * 3
    return found


def run(seed: int, count: int, file: str = "") -> Iterator[Outcome]:
    """Load that many mutants one after the other; the first has the given seed.

    Args:
        seed: The first mutant's seed.
        count: How many.
        file: Spoil only files whose paths have this in them.
    """
    projects = [base for base in bases() if file in base[1]]
    folder = Path(tempfile.mkdtemp(prefix="vde_fuzz_"))
    try:
        _import_all(folder)
        gc.freeze()  # A fork copies the pages that its garbage collector touches.
        for own in range(seed, seed + count):
            rng = random.Random(own)
            project, path = rng.choice(projects)
            spoilt, ways = mutate(path, project[path], rng)
            root = folder / str(own)
            _write(root, {**project, path: spoilt})
            yield _in_a_process(own, f"{path} {ways}", root)
            shutil.rmtree(root, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _import_all(folder: Path) -> None:
    """Import once what every mutant's process needs, by loading what is not spoilt."""
    import numpy  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.compute
    import pyarrow.csv  # noqa: F401
    import pyspark.sql.functions  # noqa: F401

    whole = {id(project): project for project, _ in bases() if len(project) > 5}
    for number, project in enumerate(whole.values()):
        root = folder / f"whole_{number}"
        _write(root, project)
        _load(root)


def _write(root: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _in_a_process(seed: int, file: str, root: Path) -> Outcome:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _limit(root)
            found = _load(root)
            os.write(writing, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        # No alarm in the child: the limits of the code under test use the one timer that there is.
        if not select.select([pipe], [], [], 60 * MOST_SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        answer = pipe.read()
    _, status, used = os.wait4(child, 0)
    seconds = round(used.ru_utime + used.ru_stime, 2)
    if not answer:
        return Outcome(seed, file, "killed", seconds, f"wait status {status}")
    result, detail, characters = json.loads(answer)
    if result in ("loaded", "refused") and seconds > MOST_SECONDS:
        result = "slow"
    if result == "refused" and characters > MOST_CHARACTERS:
        result = "long"
    return Outcome(seed, file, result, seconds, detail, characters)


def _limit(root: Path) -> None:
    os.chdir(root)
    os.environ["HOME"] = str(root)
    resource.setrlimit(resource.RLIMIT_CPU, (2 * MOST_SECONDS, 2 * MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, 10 << 20))
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)


def _load(root: Path) -> tuple[str, str, int]:
    from vde_dagster.errors import VdeError
    from vde_dagster.planning.build_snapshots import build_snapshots
    from vde_dagster.project.loading.loader import load_project
    from vde_dagster.sql.trees import ParsedQueries

    try:
        parsed = ParsedQueries()
        project = load_project(root, strict=False, use_cache=False, parsed=parsed)
        mistakes = [str(problem) for problem in project.problems]
        build_snapshots(project.models, lambda name: None, parsed=parsed)
    except VdeError as error:
        mistakes = [str(part) for part in getattr(error, "mistakes", ()) or [error]]
    except BaseException as error:
        import traceback

        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "vde_dagster" in frame.filename]
        places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in own[:-4:-1])
        return "traceback", f"{type(error).__name__}: {error}"[:300] + f" [{places}]", 0
    if not mistakes:
        return "loaded", "", 0
    return "refused", mistakes[0][:300], max(len(text) for text in mistakes)


def main() -> int:
    """Print the outcomes that are wrong, and how many there were of each sort."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--file", default="", help="only files with this in their paths")
    parser.add_argument("--json", action="store_true", help="a line of JSON for every mutant")
    args = parser.parse_args()
    began = time.perf_counter()
    counts: dict[str, int] = {}
    slowest: list[Outcome] = []
    for outcome in run(args.seed, args.count, args.file):
        counts[outcome.result] = counts.get(outcome.result, 0) + 1
        slowest = sorted([*slowest, outcome], key=lambda one: -one.seconds)[:5]
        if args.json or not outcome.good:
            print(json.dumps(asdict(outcome)), flush=True)
    if not args.json:
        print(f"seed {args.seed}: {args.count} mutants, {time.perf_counter() - began:.0f} s")
        print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        for outcome in slowest:
            print(f"  {outcome.seconds:.2f} s of CPU: seed {outcome.seed}, {outcome.file}")
    return int(any(name not in ("loaded", "refused") for name in counts))


if __name__ == "__main__":
    sys.exit(main())
