"""Eight processes plan and apply at once: nobody is lost, nothing is computed twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.state.store import StateStore
from vde_dagster_tests.lakehouse.oracle import look

pytestmark = pytest.mark.server


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "environments",
    [["prod"] * 8, [f"dev{i}" for i in range(8)], ["prod"] * 4 + ["dev0", "dev0", "dev1", "dev2"]],
    ids=["one environment", "eight environments", "mixed"],
)
def test_eight_processes_share_without_loss(
    environments: list[str], store: StateStore, url: str, tmp_path: Path
) -> None:
    Lakehouse(store, "lakehouse", str(tmp_path / "warehouse")).catalog.create_namespaces(
        {"vde_physical": {}}
    )
    module = "vde_dagster_tests.lakehouse.worker"
    workers = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", module, url, str(tmp_path / "warehouse")),
                *(f"w{number}", environment, "2"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, environment in enumerate(environments)
    ]
    published: dict[str, list[int]] = {}
    for worker, environment in zip(workers, environments, strict=True):
        out, err = worker.communicate(timeout=240)
        assert worker.returncode == 0, err
        published.setdefault(environment, []).extend(json.loads(out)["published"])
    seen = look(url)
    for environment, versions in published.items():
        assert sorted(versions) == list(range(1, len(versions) + 1)), "a publication was lost"
        assert seen.environments[environment][0] == len(versions)
    shared = {models["db.shared"] for _, models in seen.environments.values()}
    assert len(shared) == 1, "all environments need the same table, and share it"
