"""Spark that runs out of memory: a batch is halved for the next JVM, what is one fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.lakehouse.oracle import query
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

CONFIG = "\n".join(f'"{key}" = "{value}"' for key, value in SMALL_SPARK.items())
FILES = {
    "pyproject.toml": f"""
        [tool.vde.spark]
        master = "local[2]"
        [tool.vde.spark.config]
        {CONFIG.replace(chr(10), chr(10) + "        ")}
    """,
    "models/small.sql": "MODEL (name db.small, kind FULL); SELECT 1 AS n",
    "models/halved.sql": """
        MODEL (name db.halved, start '2024-01-01', end '2024-01-02',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST(@start_ds AS DATE) AS day,
          length(repeat('x', IF(@start_ds = @end_ds, 2, 2000000000))) AS n
    """,
    # Two GB at once, more than the JVM has. Spark computes it while it optimises, where it would
    # tell Python of the error and go on; in a task it would end in its own way.
    "models/big.sql": """
        MODEL (name db.big, kind FULL);
        SELECT length(repeat('x', 2000000000)) AS n FROM db.small
    """,
    "models/after.sql": "MODEL (name db.after, kind FULL); SELECT count(*) AS n FROM db.big",
}
PROCESS = """
import json, sys
from pathlib import Path
from vde_dagster.errors import VdeError
from vde_dagster.execution.events import MemoryLacked
from vde_dagster.execution.workspace import Workspace

told = []

def heard(event):
    if isinstance(event, MemoryLacked):
        told.append(event.text)

def apply(said):
    workspace = Workspace.open(Path(sys.argv[1]))
    try:
        workspace.apply(workspace.plan("prod"), on_event=heard, concurrency=1)
        for name in ("db.after", "db.halved"):
            said.append(sorted(workspace.queries.read("prod", name).to_pylist(), key=str))
    except VdeError as error:
        said.append([type(error).__name__, error.message, error.failures[0].hint])
    finally:
        workspace.close()

said = []
apply(said)
big = Path(sys.argv[1]) / "models" / "big.sql"
big.write_text(big.read_text().replace("2000000000", "2"))
apply(said)
print(json.dumps([told, *said], default=str))
"""


@pytest.mark.turns(6, "processes with Spark that die")
def test_two_days_out_of_memory_are_done_a_day_at_a_time_and_one_table_fails_with_what_to_set(
    tmp_path: Path,
) -> None:
    """In a process of its own, as the JVM goes, twice; the second apply fills what failed alone."""
    folder = ProjectFolder(tmp_path / "project", FILES)
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS, str(folder.root)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    told, failed, *rows = json.loads(ended.stdout)
    kind, message, hint = failed
    assert len(told) == 1
    assert told[0].startswith("db.halved (2024-01-01 … 2024-01-02): Spark ran out of memory")
    assert told[0].endswith("; retrying alone, at most 1 interval at a time")
    assert kind == "ExecutionError"
    assert "1 model failed" in message
    assert "db.big, computed alone: Spark ran out of memory" in message
    assert "skipped because of them: db.after" in message
    assert f"has {SMALL_SPARK['spark.driver.memory']}" in message
    assert "spark.driver.memory under [tool.vde.spark.config]" in hint
    assert "Traceback" not in ended.stderr
    assert rows == [
        [{"n": 1}],
        [{"day": "2024-01-01", "n": 2}, {"day": "2024-01-02", "n": 2}],
    ]
    url = f"sqlite:///{folder.root / '.vde' / 'vde.db'}"
    assert list(query(url, "SELECT count(*) FROM vde_leases WHERE owner IS NOT NULL")) == [(0,)]
