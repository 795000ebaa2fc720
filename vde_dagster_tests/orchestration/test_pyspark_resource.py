"""Users' own assets on Spark: the project's session is theirs, or theirs is the project's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_pyspark import LazyPySparkResource, PySparkResource

from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import VdePySparkResource, spark_config, vde_definitions
from vde_dagster.orchestration.resource import WorkspaceResource, lend
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import version_of
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/rates.sql": """
        MODEL (name marts.rates, kind FULL);
        SELECT day, rate * 2 AS doubled FROM finance.rates
    """,
    "external_models.yaml": """
        - name: finance.rates
          columns: {day: date, rate: double}
    """,
}
RATES = dg.AssetKey(["finance", "rates"])
MODEL = dg.AssetKey(["marts", "rates"])


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


class Seen:
    """What the assets of a user saw: in which JVM they ran, and what they read."""

    def __init__(self, rate: float = 1.5) -> None:
        self.rate = rate
        self.applications: list[str] = []
        self.read: list[float] = []

    def note(self, session: Any) -> None:
        """Note the JVM and the Spark application of a session."""
        process = session._jvm.java.lang.ProcessHandle.current().pid()
        self.applications.append(f"{process} {session.sparkContext.applicationId}")

    def assets(self, catalog: str = "lakehouse") -> Sequence[dg.AssetsDefinition]:
        """An asset that writes a table which a model reads, and one that reads the model."""

        @dg.asset(key=RATES)
        def rates(pyspark: LazyPySparkResource) -> None:
            session = pyspark.spark_session
            session.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.finance")
            session.sql(
                f"CREATE OR REPLACE TABLE {catalog}.finance.rates USING iceberg AS "
                f"SELECT DATE'2024-01-01' AS day, CAST({self.rate} AS DOUBLE) AS rate"
            )
            session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
            self.note(session)

        @dg.asset(deps=[MODEL])
        def report(pyspark: LazyPySparkResource) -> None:
            session = pyspark.spark_session
            self.read += [r.doubled for r in session.table(f"{catalog}.marts.rates").collect()]
            self.note(session)

        return [rates, report]


def run(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    assets: Sequence[dg.AssetsDefinition],
    selection: Sequence[dg.AssetKey] | None,
    *,
    spark: PySparkResource | LazyPySparkResource | None = None,
    partition: str | None = None,
) -> dg.ExecuteInProcessResult:
    """Run assets in one run, or without a selection plan and apply the project to prod."""
    defs = vde_definitions(folder.root, assets=assets, spark=spark)
    config: dict[str, Any] = QUIET
    if selection is None:
        prod = {"config": {"environment": "prod"}}
        config = {**QUIET, "ops": {"plan_and_apply": prod}}
        job = defs.resolve_job_def("vde_plan_and_apply")
    else:
        chosen = dg.define_asset_job("chosen", selection=dg.AssetSelection.assets(*selection))
        job = dg.Definitions.merge(defs, dg.Definitions(jobs=[chosen])).resolve_job_def("chosen")
    return job.execute_in_process(instance=instance, run_config=config, partition_key=partition)


def test_it_is_a_lazy_pyspark_resource_that_starts_nothing_by_itself(
    folder: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    found: list[bool] = []

    @dg.asset
    def mine(pyspark: LazyPySparkResource, vde: WorkspaceResource) -> None:
        assert isinstance(pyspark, VdePySparkResource)
        assert pyspark.vde is vde, "one workspace serves a whole run"
        found.append(vde.get().started_engine is not None)

    run(folder, instance, [mine], [mine.key])
    assert found == [False]


def test_a_code_location_loads_without_pyspark(folder: ProjectFolder) -> None:
    code = (
        "import sys; from vde_dagster import vde_definitions; "
        f"vde_definitions({str(folder.root)!r}).resolve_all_job_defs(); "
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_engine_without_spark_has_no_session(
    folder: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    @dg.asset
    def mine(pyspark: LazyPySparkResource) -> None:
        assert pyspark.spark_session

    with (
        open_fake(folder.root) as workspace,
        lend(workspace),
        pytest.raises(Exception, match="FakeSpark has no Spark session"),
    ):
        run(folder, instance, [mine], [mine.key])


def test_ones_own_resource_is_the_one_that_assets_get(folder: ProjectFolder) -> None:
    own = LazyPySparkResource(spark_config=spark_config(folder.root))
    defs = vde_definitions(folder.root, spark=own)
    assert defs.resources is not None
    assert defs.resources["pyspark"] is own
    merged = dg.Definitions.merge(defs, dg.Definitions(resources={"pyspark": own}))
    assert merged.resolve_job_def("vde_run")


def test_the_configuration_to_join_with_is_the_projects(folder: ProjectFolder) -> None:
    config = spark_config(folder.root)
    assert config["spark.sql.catalog.lakehouse.cache-enabled"] == "false"
    assert config["spark.sql.catalog.lakehouse.uri"].startswith(
        f"jdbc:sqlite:{folder.root / '.vde/vde.db'}"
    )
    assert "iceberg-spark-runtime" in config["spark.jars.packages"]


@pytest.mark.spark
def test_users_assets_and_models_share_one_jvm_and_one_catalog(
    folder: ProjectFolder, instance: dg.DagsterInstance, spark_engine: SparkEngine
) -> None:
    seen = Seen()
    run(folder, instance, seen.assets(), [RATES])
    run(folder, instance, seen.assets(), None)
    seen.note(spark_engine.session)

    seen.rate = 4.0
    report = dg.AssetKey("report")
    version = version_of(folder, "marts.rates")
    run(folder, instance, seen.assets(), [RATES, MODEL, report], partition=version)

    assert seen.read == [8.0]
    model = instance.get_latest_materialization_event(MODEL)
    assert model is not None
    assert (model.tags or {})["dagster/code_version"] == version
    assert len(seen.applications) == 4
    assert len(set(seen.applications)) == 1


@pytest.mark.spark
def test_what_an_asset_sets_in_its_session_reaches_no_model(
    folder: ProjectFolder, spark_engine: SparkEngine
) -> None:
    with Workspace.open(folder.root) as workspace:
        engine = workspace.engine()
        assert isinstance(engine, SparkEngine)
        guest = engine.guest_session
        guest.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        guest.sql("SELECT 1 AS n").createOrReplaceTempView("hidden")
        assert engine.guest_session is guest
        assert engine.session.conf.get("spark.sql.session.timeZone") == "UTC"
        assert not engine.session.catalog.tableExists("hidden")
        assert guest.sparkContext is engine.session.sparkContext


@pytest.mark.spark
def test_models_join_the_session_of_a_users_own_resource(
    folder: ProjectFolder, instance: dg.DagsterInstance, spark_engine: SparkEngine
) -> None:
    # Its session loads a catalog once and is shared by the whole process, so the name is its own.
    folder.write("pyproject.toml", '[tool.vde]\ncatalog = "joined"')
    own = LazyPySparkResource(spark_config={**spark_config(folder.root), **SMALL_SPARK})
    seen = Seen()
    assets = seen.assets("joined")
    run(folder, instance, assets, [RATES], spark=own)
    run(folder, instance, assets, None, spark=own)
    run(folder, instance, assets, [dg.AssetKey("report")], spark=own)
    assert seen.read == [3.0]
    assert len(set(seen.applications)) == 1


@pytest.mark.spark
def test_a_session_with_another_catalog_is_refused(
    folder: ProjectFolder, instance: dg.DagsterInstance, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    folder.write("pyproject.toml", '[tool.vde]\ncatalog = "refused"')
    folder.write("models/rates.sql", "MODEL (name marts.rates, kind FULL); SELECT 1 AS n")
    folder.remove("external_models.yaml")
    elsewhere = {"spark.sql.catalog.refused.warehouse": str(tmp_path / "elsewhere")}
    own = LazyPySparkResource(spark_config={**spark_config(folder.root), **elsewhere})
    with pytest.raises(dg.Failure) as failure:
        run(folder, instance, [], None, spark=own)
    assert "configures the catalog 'refused' differently" in str(failure.value.description)
    assert "spark.sql.catalog.refused.warehouse is '" in str(failure.value.description)
    assert ".uri" not in str(failure.value.description)
