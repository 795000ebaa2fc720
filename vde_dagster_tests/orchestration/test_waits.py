"""A fill from a model's page waits for the parents that `vde run` waits for."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.resource import lend
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import partitions_of, version_of
from vde_dagster_tests.orchestration.test_new_plan import refusal
from vde_dagster_tests.projects import ProjectFolder

DAYS = "start '2024-01-01', end '2024-01-03', kind INCREMENTAL_BY_TIME_RANGE (time_column day)"
WHOLE = "MODEL (name db.base, kind FULL); SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n"
VIEW = "MODEL (name db.shown, kind VIEW); SELECT day, n FROM db.base"
READER = f"MODEL (name db.reader, {DAYS}); SELECT day, n FROM db.{{}} WHERE day >= @start_date"


@pytest.mark.parametrize("parent", ["base", "shown"])
@pytest.mark.parametrize("base", [WHOLE, WHOLE.replace("kind FULL", DAYS)])
def test_a_day_is_refused_while_a_table_that_it_reads_has_no_rows(
    tmp_path: Path, instance: dg.DagsterInstance, base: str, parent: str
) -> None:
    files = {"base": base, "shown": VIEW, "reader": READER.format(parent)}
    texts = {f"models/{name}.sql": text for name, text in files.items()}
    folder = ProjectFolder(tmp_path / "project", texts)

    def materialize(model: str, time: str) -> dg.ExecuteInProcessResult:
        job = vde_definitions(folder.root).resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(["db", model])],
            partition_key=version_of(folder, f"db.{model}") + time,
            run_config=QUIET,
            raise_on_error=False,
        )

    with open_fake(folder.root) as workspace, lend(workspace):
        workspace.apply(workspace.plan("prod", skip_backfill=True))
        refused = refusal(materialize("reader", "|2024-01-02"))
        assert "db.reader cannot be filled: no data for 2024-01-02 in db.base yet" in refused
        assert partitions_of(instance, "db/reader") == set()
        materialize("base", "" if base == WHOLE else "|2024-01-02")
        assert materialize("reader", "|2024-01-02").success
        assert len(partitions_of(instance, "db/reader")) == 1
