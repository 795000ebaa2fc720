"""A process that gets a real SIGKILL at a named point, set through the test-only variable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.state.store import StateStore
from vde_dagster_tests.faults import VARIABLE
from vde_dagster_tests.lakehouse.oracle import look

CODE = """
import sys
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.state.store import StateStore
from vde_dagster_tests.faults import effects_from_environment
from vde_dagster_tests.state.builders import environment, view
store = StateStore.open(sys.argv[1], effects=effects_from_environment())
lakehouse = Lakehouse(store, "lakehouse", sys.argv[2])
base = store.environments.get("prod")
views = tuple(view(name, f"SELECT {sys.argv[3]} AS a") for name in ("a", "b", "c"))
lakehouse.publish(Publication(environment("prod"), base.version if base else 0, views))
"""


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("point", "mode", "occurrence", "happened"),
    [
        ("publish.intend.commit", "kill_after", 1, False),
        ("publish.file.write", "kill_after", 2, False),
        ("publish.commit", "kill_before", 1, False),
        ("publish.commit", "kill_after", 1, True),
    ],
)
def test_readers_see_old_or_new_after_sigkill(
    point: str, mode: str, occurrence: int, happened: bool, url: str, tmp_path: Path
) -> None:
    warehouse = str(tmp_path / "warehouse")
    command = [sys.executable, "-c", CODE, url, warehouse]
    subprocess.run([*command, "1"], check=True)
    fault = {"point": point, "mode": mode, "occurrence": occurrence}
    killed = subprocess.run(
        [*command, "2"], env={**os.environ, VARIABLE: json.dumps(fault)}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert _shown(url) == ({"SELECT 2 AS a"} if happened else {"SELECT 1 AS a"})
    subprocess.run([*command, "3"], check=True)
    assert _shown(url) == {"SELECT 3 AS a"}


def _shown(url: str) -> set[str]:
    from vde_dagster_tests.lakehouse.oracle import load, query

    found = set()
    rows = query(url, "SELECT metadata_location FROM iceberg_tables WHERE iceberg_type = 'VIEW'")
    for (location,) in rows:
        metadata = load(location)
        current = metadata["current-version-id"]
        (version,) = [v for v in metadata["versions"] if v["version-id"] == current]
        found.add(version["representations"][0]["sql"])
    return found


@pytest.mark.turns(2)
@pytest.mark.server
def test_workers_killed_at_random_lose_nothing(url: str, tmp_path: Path) -> None:
    """Kill a worker again and again wherever it happens to be; what is acknowledged stays."""
    warehouse = tmp_path / "warehouse"
    store = StateStore.open(url)
    Lakehouse(store, "lakehouse", str(warehouse)).catalog.create_namespaces({"vde_physical": {}})
    module = "vde_dagster_tests.lakehouse.worker"
    for number in range(6):
        worker = subprocess.Popen(
            [sys.executable, "-m", module, url, str(warehouse), f"w{number}", "prod", "500"],
            stderr=subprocess.DEVNULL,
        )
        before = _version(store)
        while _version(store) < before + 2:
            assert worker.poll() is None
            time.sleep(0.02)
        time.sleep(0.11 * number)
        worker.kill()
        worker.wait()
        version = store.environments.get("prod")
        seen = look(url)
        if version is not None:
            assert seen.environments["prod"][0] >= version.version
        with store.database.transaction() as conn:  # the dead owner's leases end
            conn.exec_driver_sql("UPDATE vde_leases SET expires_at = 0")
    assert look(url).environments["prod"][0] >= 12
    store.close()


def _version(store: StateStore) -> int:
    current = store.environments.get("prod")
    return current.version if current else 0
