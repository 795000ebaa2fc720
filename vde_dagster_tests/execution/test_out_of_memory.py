"""A driver that runs out of memory ends with one message, and whoever applies next goes on."""

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
from vde_dagster.execution.workspace import Workspace

def apply(said):
    workspace = Workspace.open(Path(sys.argv[1]))
    try:
        workspace.apply(workspace.plan("prod"), concurrency=1)
        said.append(workspace.read("prod", "db.after").to_pylist())
    except VdeError as error:
        said.append([type(error).__name__, error.message, error.hint])
    finally:
        workspace.close()

said = []
apply(said)
big = Path(sys.argv[1]) / "models" / "big.sql"
big.write_text(big.read_text().replace("2000000000", "2"))
apply(said)
print(json.dumps(said))
"""


def test_a_driver_out_of_memory_ends_with_one_message_and_the_next_apply_finishes(
    tmp_path: Path,
) -> None:
    """In a process of its own, as the JVM goes; the second apply in it starts another one."""
    folder = ProjectFolder(tmp_path / "project", FILES)
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS, str(folder.root)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    failed, rows = json.loads(ended.stdout)
    kind, message, hint = failed
    assert kind == "StoreError"
    assert "ran out of memory" in message
    assert f"has {SMALL_SPARK['spark.driver.memory']}" in message
    assert "spark.driver.memory under [tool.vde.spark.config]" in hint
    assert "Traceback" not in ended.stderr
    assert rows == [{"n": 1}]
    url = f"sqlite:///{folder.root / '.vde' / 'vde.db'}"
    assert list(query(url, "SELECT count(*) FROM vde_leases WHERE owner IS NOT NULL")) == [(0,)]
