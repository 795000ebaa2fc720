"""Audits, queries, Python models, cancellation and the session itself."""

from __future__ import annotations

import signal
import threading
import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.planning.engine_tasks import AuditTask
from vde_dagster.project.kinds import Full, IncrementalByTimeRange
from vde_dagster.project.model import PythonSource
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.session import start_session, stop_session
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.spark.tasks import START, Warehouse, days, make_snapshot

pytestmark = pytest.mark.spark


def audit(engine: SparkEngine, query: str, plan_id: str = "plan-1") -> object:
    task = AuditTask(plan_id, ModelName("marts", "m"), "check(x=1)", query, True, days(1, 2))
    return engine.audit(task)


def jobs_started(engine: SparkEngine) -> int:
    """The number of the next Spark job."""
    return int(engine.session.sparkContext._jsc.sc().dagScheduler().nextJobId())


def executions_started(engine: SparkEngine) -> int:
    """The number of queries that Spark has begun, of which its status store keeps the newest."""
    context = engine.session.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    kept = engine.session._jsparkSession.sharedState().statusStore().executionsList()
    return max((int(kept.apply(n).executionId()) for n in range(kept.length())), default=-1)


def test_an_audit_counts_all_and_samples_twenty(spark_engine: SparkEngine) -> None:
    result = audit(
        spark_engine, "SELECT id, id AS id, array(id) AS a, NULL AS n FROM range(0, 5000, 1, 7)"
    )
    assert result.failed_rows == 5000
    assert len(result.sample) == 20
    assert result.sample[0] == {"id": "0", "a": "[0]", "n": None}


def test_an_audit_that_finds_nothing(spark_engine: SparkEngine) -> None:
    result = audit(spark_engine, "SELECT id FROM range(10) WHERE id < 0")
    assert (result.failed_rows, result.sample) == (0, ())


def test_an_audit_is_one_job(spark_engine: SparkEngine) -> None:
    spark_engine.session.conf.set("spark.sql.adaptive.enabled", "false")
    before = jobs_started(spark_engine)
    audit(spark_engine, "SELECT id FROM range(0, 5000, 1, 7)")
    spark_engine.session.conf.set("spark.sql.adaptive.enabled", "true")
    assert jobs_started(spark_engine) - before == 1


def test_audits_that_find_nothing_are_one_query_together_and_others_have_their_own_rows(
    spark_engine: SparkEngine,
) -> None:
    queries = {
        "many": "SELECT id, 'x' AS text FROM range(0, 5000, 1, 7)",
        "none": "SELECT id FROM range(10) WHERE id < 0",
        "two": "SELECT CAST(NULL AS DATE) AS day, id AS day FROM range(2)",
    }
    tasks = [
        AuditTask("plan-1", ModelName("marts", "m"), label, query, True, days(1, 2))
        for label, query in queries.items()
    ]
    before = executions_started(spark_engine)
    clean = list(spark_engine.audit_all([tasks[1]] * 3))
    assert executions_started(spark_engine) - before == 1
    assert [(result.failed_rows, result.sample) for result in clean] == [(0, ())] * 3
    results = list(spark_engine.audit_all(tasks))
    assert [result.failed_rows for result in results] == [5000, 0, 2]
    assert [len(result.sample) for result in results] == [20, 0, 2]
    assert results[0].sample[0] == {"id": "0", "text": "x"}
    alone = [spark_engine.audit(task) for task in tasks]
    assert [(one.failed_rows, one.sample) for one in alone] == [
        (one.failed_rows, one.sample) for one in results
    ]


def test_of_several_audits_those_before_a_broken_one_have_their_results(
    spark_engine: SparkEngine,
) -> None:
    results = spark_engine.audit_all(
        [
            AuditTask("plan-1", ModelName("marts", "m"), label, query, True, days(1, 2))
            for label, query in {
                "good": "SELECT id FROM range(3)",
                "bad": "SELECT assert_true(id < 0) FROM range(1)",
                "never": "SELECT id FROM range(1)",
            }.items()
        ]
    )
    assert next(results).failed_rows == 3
    with pytest.raises(ExecutionError, match=r"marts\.m .* audit bad failed"):
        next(results)


def test_a_broken_audit_names_model_and_audit(spark_engine: SparkEngine) -> None:
    with pytest.raises(ExecutionError, match=r"marts\.m .* audit check\(x=1\) failed: \[UNRES"):
        audit(spark_engine, "SELECT nothing FROM range(1)")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT raise_error('ran')",
        "-- check\nWITH a AS (SELECT id FROM range(3)) SELECT 1 AS x, assert_true(id < 2, 'ran'), "
        "1 AS x, named_struct() FROM a",
        "(VALUES (raise_error('ran')))",
    ],
)
def test_queries_among_statements_are_run(spark_engine: SparkEngine, statement: str) -> None:
    with pytest.raises(ExecutionError, match="ran"):
        spark_engine.run_statement(statement)
    for other in (
        "SELECT NULL AS x, map('a', 1), 1 AS x",
        "WITH a AS (SELECT 1) FROM a",
        "SET a=b",
    ):
        spark_engine.run_statement(other)


def test_analysis_gives_types_and_runs_nothing(spark_engine: SparkEngine) -> None:
    before = jobs_started(spark_engine)
    columns = spark_engine.analyze(
        "WITH a AS (SELECT 1 AS x) SELECT x, 1.5 AS d,"
        " named_struct('a b', 1, 'c', array('s')) AS s,"
        " map('k', DATE '2013-01-01') AS m, TIMESTAMP '2013-01-01' AS t, NULL AS n"
        " FROM a ORDER BY x -- the end"
    )
    assert columns == (
        ("x", "int"),
        ("d", "decimal(2,1)"),
        ("s", "struct<`a b`:int,c:array<string>>"),
        ("m", "map<string,date>"),
        ("t", "timestamp"),
        ("n", "void"),
    )
    assert jobs_started(spark_engine) == before


def test_a_query_returns_values_in_utc(
    spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        columns, rows = spark_engine.query(
            "SELECT id, TIMESTAMP '2013-07-01 12:00:00Z' AS t, array(named_struct('d', "
            "TIMESTAMP '2013-01-01 00:00:00Z')) AS s, DATE '2013-01-01' AS d FROM range(9) "
            "ORDER BY id DESC;",
            limit=2,
        )
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [name for name, _ in columns] == ["id", "t", "s", "d"]
    noon = datetime(2013, 7, 1, 12, tzinfo=timezone.utc)
    assert rows == (
        (8, noon, [{"d": START}], date(2013, 1, 1)),
        (7, noon, [{"d": START}], date(2013, 1, 1)),
    )


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/New_York"])
def test_a_query_returns_the_first_and_last_instants_and_intervals(
    spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    first = datetime(1, 1, 1, tzinfo=timezone.utc)
    last = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)
    try:
        columns, rows = spark_engine.query(
            "SELECT TIMESTAMP '0001-01-01 00:00:00Z' AS t, "
            "map(TIMESTAMP '9999-12-31 23:59:59.999999Z', "
            "array(TIMESTAMP '0001-01-01 00:00:00Z')) AS t, "
            "INTERVAL '1-2' YEAR TO MONTH AS i, array(INTERVAL '3' MONTH) AS i, "
            "make_interval(1) AS c, "
            "INTERVAL '1 02:00:00' DAY TO SECOND AS d, "
            "named_struct('a', TIMESTAMP_NTZ '0001-01-01') AS s, map(struct(1 AS k), 2) AS m"
        )
        with pytest.raises(UsageError, match="cannot be represented: date value out of range"):
            spark_engine.query("SELECT TIMESTAMP '+10000-01-01 00:00:00Z' AS t")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [kind for _, kind in columns][2:5] == [
        "interval year to month",
        "array<interval month>",
        "interval",
    ]
    assert rows == (
        (
            first,
            {last: [first]},
            "INTERVAL '1-2' YEAR TO MONTH",
            "[INTERVAL '3' MONTH]",
            "1 years",
            timedelta(days=1, hours=2),
            {"a": first.replace(tzinfo=None)},
            [[{"k": 1}, 2]],
        ),
    )


@pytest.mark.parametrize(
    "statement", ["DROP TABLE x", "CREATE NAMESPACE evil", "SELECT 1) UNION (SELECT", "SELEC 1"]
)
def test_a_query_cannot_be_a_statement(spark_engine: SparkEngine, statement: str) -> None:
    with pytest.raises(UsageError, match="the query cannot be run"):
        spark_engine.query(statement)
    assert ("evil",) not in spark_engine.session.sql("SHOW NAMESPACES").collect()


def python_model(spark_engine: SparkEngine, code: str, kind: object = None) -> Warehouse:
    columns = {"id": "bigint", "ts": "timestamp", "v": "string"}
    source = PythonSource("models/m.py:execute", {"models/m.py": code})
    return Warehouse(spark_engine, kind or Full(), columns, python=source)


PARENT = {ModelName("raw", "events"): "SELECT id, 'x' AS v FROM range(3)"}


def test_a_python_model_returns_a_spark_dataframe(spark_engine: SparkEngine) -> None:
    table = python_model(
        spark_engine,
        "from pyspark.sql import functions as F\n"
        "def double(n):\n    return n * 2\n"
        "def execute(context, start, end, execution_time, **kwargs):\n"
        "    udf = F.udf(double, 'bigint')\n"
        "    context.logger.info('%s', context.interval)\n"
        "    rows = context.table('raw.events').withColumn('ts', F.lit(start))\n"
        "    more = context.sql('select max(id) + 100 as id, v from raw.events group by v')\n"
        "    more = more.withColumn('ts', F.lit(end))\n"
        "    return rows.unionByName(more).withColumn('id', udf('id'))\n",
    )
    assert table.fill(None, days(1, 2), sources=PARENT).rows == 4
    assert table.rows("id, v") == [(0, "x"), (2, "x"), (204, "x"), (4, "x")]


def test_a_python_model_returns_pandas_and_its_interval_is_kept(
    spark_engine: SparkEngine,
) -> None:
    table = python_model(
        spark_engine,
        "import pandas as pd\n"
        "def execute(context, start, end):\n"
        "    yield pd.DataFrame({'V': ['a', None], 'ID': [1.0, None], 'TS': [start, end]})\n"
        "    yield pd.DataFrame({'ts': [start], 'id': [2], 'v': ['b'], 'surplus': [1]})\n",
        IncrementalByTimeRange("ts"),
    )
    assert table.fill(None, days(1, 2)).rows == 2
    assert table.rows() == [(1, START, "a"), (2, START, "b")]


def test_an_empty_pandas_result_is_an_empty_interval(spark_engine: SparkEngine) -> None:
    table = python_model(
        spark_engine,
        "import pandas as pd\n"
        "def execute(context):\n"
        "    return pd.DataFrame(columns=['id', 'ts', 'v'])\n",
    )
    assert table.fill(None, days(1, 2)).rows == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return context.spark.range(2)", "returned no column 'ts', 'v'.*Hint: it returned id"),
        ("return [1]", "returned list.*Hint: return a pandas or a Spark DataFrame"),
        ("return context.table('raw.other')", "does not declare.*Hint: add 'raw.other'"),
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return context.sql('select nothing')", "UNRESOLVED_COLUMN"),
    ],
)
def test_a_python_model_that_fails_says_why(
    spark_engine: SparkEngine, body: str, reason: str
) -> None:
    table = python_model(spark_engine, f"def execute(context, **kwargs):\n    {body}\n")
    with pytest.raises(ExecutionError, match=reason) as caught:
        table.fill(None, days(1, 2), sources=PARENT)
    assert str(table.snapshot.name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_failing_udf_shows_pythons_own_error(spark_engine: SparkEngine) -> None:
    table = python_model(
        spark_engine,
        "from pyspark.sql import functions as F\n"
        "def bad(n):\n    raise ValueError(f'bad number {n}')\n"
        "def execute(context):\n"
        "    return context.spark.range(1).select('id', F.current_timestamp().alias('ts'),"
        " F.udf(bad)('id').alias('v'))\n",
    )
    with pytest.raises(ExecutionError, match=r"ValueError: bad number 0$"):
        table.fill(None, days(1, 2))


def test_a_python_model_runs_without_a_table(spark_engine: SparkEngine) -> None:
    source = PythonSource(
        "m.py:execute",
        {"m.py": "def execute(context):\n    return context.table('raw.events')\n"},
    )
    snapshot = make_snapshot(Full(), {"v": "string", "id": "bigint"}, python=source)
    columns, rows = spark_engine.run_python(snapshot, PARENT, days(1, 2), START)
    assert columns == (("v", "string"), ("id", "bigint"))
    assert sorted(rows) == [("x", 0), ("x", 1), ("x", 2)]


LONG = (
    "SELECT a.id FROM range(0, 3000000, 1, 8) a JOIN range(0, 3000000, 1, 8) b ON a.id <> b.id + 1"
)


def active_jobs(engine: SparkEngine) -> int:
    return len(engine.session.sparkContext.statusTracker().getActiveJobsIds())


def test_cancelling_a_plan_stops_all_of_its_jobs_and_no_other(spark_engine: SparkEngine) -> None:
    tables = [Warehouse(spark_engine, Full(), {"id": "bigint"}) for _ in range(2)]
    other = Warehouse(spark_engine, Full(), {"id": "bigint"})
    errors: list[Exception] = []

    def run(table: Warehouse, plan_id: str) -> None:
        try:
            table.fill(LONG, days(1, 2), plan_id=plan_id)
        except Exception as error:
            errors.append(error)

    work = [(tables[0], "plan-long"), (tables[1], "plan-long"), (other, "plan-other")]
    threads = [threading.Thread(target=run, args=job) for job in work]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 60
    while active_jobs(spark_engine) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    assert spark_engine.cancel("plan-long")
    for thread in threads[:2]:
        thread.join(10)
        assert not thread.is_alive()
    assert active_jobs(spark_engine) == 1
    assert threads[2].is_alive()
    assert spark_engine.cancel("plan-other")
    threads[2].join(10)
    assert active_jobs(spark_engine) == 0
    assert [str(error).partition(". Hint")[0] for error in errors] == [
        "the apply of plan plan-long was canceled",
        "the apply of plan plan-long was canceled",
        "the apply of plan plan-other was canceled",
    ]
    assert all(table.rows() == [] for table in tables)

    assert other.fill("SELECT id FROM range(3)", days(1, 2)).rows == 3
    with pytest.raises(ExecutionError, match="was canceled"):
        other.fill("SELECT id FROM range(3)", days(1, 2), plan_id="plan-long")
    spark_engine.begin("plan-long")
    assert other.fill("SELECT id FROM range(4)", days(1, 2), plan_id="plan-long").rows == 4


def test_cancelling_before_spark_started_starts_nothing(tmp_path: Path) -> None:
    engine = SparkEngine(small_spark(tmp_path))
    assert engine.cancel("plan-1")
    engine.close()
    assert not (tmp_path / "spark.log").exists()


def test_the_callers_interrupt_handler_stays(spark_engine: SparkEngine) -> None:
    assert spark_engine.session is not None
    # PySpark would put a function of its own there; a background job starts with SIG_IGN.
    assert signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN)


def test_projects_share_the_jvm_but_nothing_else(spark_engine: SparkEngine, tmp_path: Path) -> None:
    table = Warehouse(spark_engine, Full(), {"id": "bigint"})
    session = start_session(small_spark(tmp_path))
    assert session.sparkContext is spark_engine.session.sparkContext
    assert session.sql("SHOW NAMESPACES").collect() == []
    stop_session(session)
    table.fill("SELECT id FROM range(3)", days(1, 2))
    assert (tmp_path / "vde.db").exists()


def test_spark_writes_nothing_to_this_processs_streams(
    spark_engine: SparkEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    table = Warehouse(spark_engine, Full(), {"id": "bigint"})
    table.fill("SELECT id FROM range(3)", days(1, 2))
    with pytest.raises(ExecutionError):
        table.fill("SELECT nothing", days(1, 2))
    assert capfd.readouterr() == ("", "")
