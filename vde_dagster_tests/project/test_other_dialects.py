"""Expressions of other dialects: what they become in Spark SQL, and what is refused."""

from __future__ import annotations

import logging
import re
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlglot import exp, parse_one

from benchmarks.dialect_page import PAGE, page_with_tables
from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, ProjectError
from vde_dagster.planning.build_snapshots import CatalogColumns, build_snapshots
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.properties.model_properties import canonical_type
from vde_dagster.spark.models.python_models import ModelContext
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql
from vde_dagster.sql.other_dialects.verified import signature, verified_functions
from vde_dagster.sql.reading import parse_plain
from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.project.conftest import WriteProject
from vde_dagster_tests.yaml_files import read_yaml

UTC = timezone.utc
CASES: dict[str, list[dict[str, Any]]] = read_yaml(
    Path(__file__).parent.parent / "fixtures" / "other_dialects.yaml"
)


DOCUMENTED: list[dict[str, Any]] = read_yaml(
    Path(__file__).parent.parent / "fixtures" / "documented_dialects.yaml"
)["documented"]


def written(case: dict[str, Any]) -> str:
    query = f"SELECT {case['written']} AS v FROM x.t"
    listed = verified_functions(case["dialect"]) and not case.get("trusted")
    trusted: frozenset[str] = frozenset(() if listed else ("*",))
    return write_spark_sql(parse_plain(query, case["dialect"]), case["dialect"], trusted)


@each_of("case", CASES["written"])
def test_an_expression_is_written_as_spark_has_it(case: dict[str, Any]) -> None:
    text = written(case)

    assert "is" not in case or text == f"SELECT {case['is']} AS v FROM x.t"


@each_of("case", CASES["refused"])
def test_an_expression_that_spark_has_not_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(Unwritable, match=re.escape(case["says"])) as caught:
        written(case)

    assert not str(caught.value).endswith(",")


@pytest.mark.parametrize(
    ("dialect", "expression", "name"),
    [
        ("duckdb", "hash(a)", "hash"),
        ("duckdb", "levenshtein(a, b)", "levenshtein"),
        ("duckdb", "flatten(a)", "flatten"),
        ("duckdb", "upper(soundex(a))", "soundex"),
        ("postgres", "soundex(a)", "soundex"),
    ],
)
def test_function_that_no_grid_verified_is_refused_unless_it_is_trusted(
    dialect: str, expression: str, name: str
) -> None:
    def tree() -> exp.Expr:
        return parse_one(f"SELECT {expression} FROM x.t", dialect=dialect)

    message = f"{name}() of {dialect} is not known to mean the same on Spark"
    with pytest.raises(Unwritable, match=re.escape(message)) as caught:
        write_spark_sql(tree(), dialect)
    assert caught.value.start == f"SELECT {expression}".index(f"{name}(")
    assert caught.value.function == name

    assert name.upper() in write_spark_sql(tree(), dialect, frozenset({name})).upper()
    assert write_spark_sql(tree(), dialect, frozenset({"*"}))


@pytest.mark.parametrize("dialect", ["snowflake", "redshift", "tsql", "mysql"])
def test_functions_of_a_dialect_without_an_engine_are_those_of_its_documentation(
    dialect: str,
) -> None:
    cases = [case for case in DOCUMENTED if case["dialect"] == dialect]
    trees = [parse_one(f"SELECT {case['written']}", dialect=dialect) for case in cases]
    keys = {key for tree in trees for node in tree.walk() if (key := signature(node))}

    assert keys == verified_functions(dialect)
    assert all(case["source"].split()[0] in _PAGES[dialect] for case in cases)


_PAGES = {
    "snowflake": ("snowpark", "snowflake"),
    "redshift": ("redshift",),
    "tsql": ("tsql",),
    "mysql": ("mysql",),
}


@pytest.mark.parametrize(
    "dialect", ["clickhouse", "hive", "presto", "sqlite", "oracle", "teradata", "doris"]
)
def test_no_function_of_a_dialect_without_a_list_is_known(dialect: str) -> None:
    with pytest.raises(Unwritable, match=f"of {dialect} is not known to mean the same on Spark"):
        write_spark_sql(parse_one("SELECT UPPER(a) FROM x.t", dialect=dialect), dialect)

    tree = parse_one("SELECT UPPER(a) FROM x.t", dialect=dialect)
    assert write_spark_sql(tree, dialect, frozenset({"upper"})) == "SELECT UPPER(a) FROM x.t"


@pytest.mark.parametrize("dialect", ["databricks", "spark2"])
def test_functions_of_databricks_are_those_of_spark(dialect: str) -> None:
    tree = parse_one("SELECT SOUNDEX(a), DATE_ADD(b, 1) FROM x.t", dialect=dialect)

    assert write_spark_sql(tree, dialect) == "SELECT SOUNDEX(a), DATE_ADD(b, 1) FROM x.t"


@pytest.mark.parametrize(
    ("dialect", "same", "unknown"),
    [("athena", "trino", "FLATTEN(a)"), ("fabric", "tsql", "SOUNDEX(a)")],
)
def test_dialects_of_one_family_share_a_list(dialect: str, same: str, unknown: str) -> None:
    for other in (dialect, same):
        assert write_spark_sql(parse_one("SELECT UPPER(a) FROM x.t", dialect=other), other)
        with pytest.raises(Unwritable, match="is not known to mean the same"):
            write_spark_sql(parse_one(f"SELECT {unknown} FROM x.t", dialect=other), other)


def test_refusal_has_its_place_and_the_model_or_the_settings_can_trust(
    write_project: WriteProject,
) -> None:
    model = "MODEL (name m.a, kind FULL, dialect duckdb{});\nSELECT upper(s) AS u,\n  hash(s) AS h"
    model += " FROM x.t"
    project = write_project({"models/a.sql": model.format("")})
    with pytest.raises(ProjectError) as caught:
        load_project(project)
    assert str(caught.value).startswith("models/a.sql:3:3: ")
    assert "dialect_trust (hash)" in (caught.value.hint or "")

    trusting = write_project({"models/a.sql": model.format(", dialect_trust (hash)")})
    loaded = load_project(trusting).models[ModelName("m", "a")]
    assert loaded.dialect_trust == ("hash",)

    settings = '[tool.vde]\ndialect_trust = ["hash"]\n'
    by_settings = write_project({"models/a.sql": model.format(""), "pyproject.toml": settings})
    loaded = load_project(by_settings).models[ModelName("m", "a")]
    assert "HASH(s)" in (loaded.query or "")


@pytest.mark.parametrize(
    "property_",
    [
        "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key hash(s))",
        "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key s, merge_filter hash(target.s) > 1)",
        "kind FULL, audits (forall(criteria := (hash(s) > 1)))",
        "kind SCD_TYPE_2_BY_TIME (unique_key (s, hash(s)), updated_at_name s)",
    ],
)
def test_functions_in_properties_are_refused_unless_they_are_trusted(
    write_project: WriteProject, property_: str
) -> None:
    model = f"MODEL (name m.a, dialect duckdb, {property_}{{}});\nSELECT s, s AS t FROM x.t"
    with pytest.raises(ProjectError) as caught:
        load_project(write_project({"models/a.sql": model.format("")}))
    assert "hash() of duckdb is not known to mean the same on Spark" in str(caught.value)
    assert str(caught.value).startswith("models/a.sql:1:")

    trusting = write_project({"models/a.sql": model.format(", dialect_trust (Hash)")})
    assert ModelName("m", "a") in load_project(trusting).models


def test_queries_of_python_follow_the_list_of_their_model(write_project: WriteProject) -> None:
    code = "from sqlmesh import macro, model\n\n@model('m.a', is_sql=True, kind='FULL', "
    code += "dialect='duckdb'{})\ndef entry(evaluator):\n    return 'SELECT hash(s) AS h FROM x.t'"
    with pytest.raises(ProjectError, match=re.escape("hash() of duckdb is not known to mean")):
        load_project(write_project({"models/a.py": code.format("")}))

    trusting = write_project({"models/a.py": code.format(", dialect_trust=['hash']")})
    loaded = load_project(trusting).models[ModelName("m", "a")]
    assert (loaded.dialect, loaded.dialect_trust) == ("duckdb", ("hash",))


def test_query_that_python_code_runs_follows_the_list() -> None:
    context = ModelContext(
        spark=cast(Any, SimpleNamespace(sql=str)),
        interval=Interval(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)),
        execution_time=datetime(2024, 1, 2, tzinfo=UTC),
        logger=logging.getLogger("test"),
        model=ModelName("m", "a"),
        dialect="duckdb",
        _sources={},
    )

    with pytest.raises(ExecutionError, match=re.escape("hash() of duckdb is not known")) as caught:
        context.sql("SELECT hash(1)")
    assert "dialect_trust=['hash']" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("dialect", "query", "spark"),
    [
        (
            "duckdb",
            "SELECT * FROM a JOIN b USING (k)",
            "SELECT a.*, b.* EXCEPT (k) FROM a JOIN b ON a.k = b.k",
        ),
        (
            "duckdb",
            "SELECT *, K + 1 AS n FROM s.a AS m LEFT JOIN b USING (k, j) WHERE k > 1",
            "SELECT m.*, b.* EXCEPT (k, j), m.K + 1 AS n FROM s.a AS m LEFT JOIN b "
            "ON m.k = b.k AND m.j = b.j WHERE m.k > 1",
        ),
        (
            "duckdb",
            "SELECT 1 UNION ALL SELECT * FROM a JOIN b USING (k) JOIN c USING (k)",
            "SELECT 1 UNION ALL SELECT a.*, b.* EXCEPT (k), c.* EXCEPT (k) FROM a "
            "JOIN b ON a.k = b.k JOIN c ON a.k = c.k",
        ),
        (
            "postgres",
            "SELECT a.* FROM a JOIN b USING (k)",
            "SELECT a.* FROM a JOIN b ON a.k = b.k",
        ),
        *(
            (dialect, query, query)
            for dialect, query in [
                ("duckdb", "SELECT x, k FROM a JOIN b USING (k)"),
                ("duckdb", "SELECT * FROM a WHERE EXISTS(SELECT * FROM b JOIN c USING (k))"),
                ("postgres", "SELECT * FROM a JOIN b USING (k)"),
                ("trino", "SELECT * FROM a FULL JOIN b USING (k)"),
                ("databricks", "SELECT a.* FROM a JOIN b USING (k)"),
            ]
        ),
    ],
)
def test_star_over_using_keeps_the_order_of_its_columns(
    dialect: str, query: str, spark: str
) -> None:
    assert write_spark_sql(parse_one(query, dialect=dialect), dialect) == spark


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("duckdb", "SELECT * FROM a FULL JOIN b USING (k)"),
        ("duckdb", "SELECT * FROM a RIGHT JOIN b USING (k)"),
        ("duckdb", "SELECT * FROM a NATURAL JOIN b"),
        ("duckdb", "SELECT * FROM a JOIN b ON a.i = b.i JOIN c USING (k)"),
        ("duckdb", "SELECT * FROM a JOIN b USING (k) JOIN c USING (j)"),
        ("duckdb", "SELECT * EXCLUDE (x) FROM a JOIN b USING (k)"),
        ("duckdb", "SELECT * FROM a JOIN b USING (k) WHERE x IN (SELECT y FROM c WHERE z = k)"),
        ("duckdb", "SELECT 1 UNION ALL SELECT * FROM (SELECT 1) JOIN b USING (k)"),
        ("postgres", "SELECT a.*, * FROM a JOIN b USING (k)"),
        ("trino", "SELECT a.* FROM a JOIN b USING (k)"),
    ],
)
def test_star_over_using_whose_order_is_unknown_is_refused(dialect: str, query: str) -> None:
    with pytest.raises(Unwritable, match="a star over this JOIN") as caught:
        write_spark_sql(parse_one(query, dialect=dialect), dialect)

    assert caught.value.start


@pytest.mark.parametrize(
    ("dialect", "query", "problem"),
    [
        ("postgres", "SELECT v FROM t RIGHT JOIN unnest(l) AS u(v) ON TRUE", "RIGHT JOIN with"),
        ("duckdb", "SELECT v FROM t LEFT JOIN unnest(l) AS u(v) ON v > 1", "by a condition"),
        ("trino", "SELECT v FROM t LEFT JOIN UNNEST(l, k) AS u(v, w) ON TRUE", "with this UNNEST"),
        ("bigquery", "SELECT v FROM t, t.l AS v JOIN s ON s.id = v", "that reads its elements"),
        ("postgres", "SELECT v FROM t, unnest(l) AS u(v) FULL JOIN s ON s.id = t.id", "join after"),
        ("duckdb", "SELECT a FROM t ASOF JOIN u USING (k, ts)", "ASOF JOIN"),
        ("snowflake", "SELECT a FROM t ASOF JOIN u MATCH_CONDITION (t.a >= u.a)", "ASOF JOIN"),
        ("duckdb", "SELECT a FROM t POSITIONAL JOIN u", "POSITIONAL JOIN"),
        ("postgres", "SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES", "WITH TIES"),
        ("tsql", "SELECT TOP 10 PERCENT a FROM t", "PERCENT"),
        ("duckdb", "SELECT a FROM t LIMIT 50%", "PERCENT"),
        ("postgres", "SELECT -a AS a FROM t ORDER BY a + 0 LIMIT 3", "ORDER BY of an expression"),
        ("duckdb", "SELECT -a AS a FROM t ORDER BY a + 0 LIMIT 3", "ORDER BY of an expression"),
        ("tsql", "SELECT TOP 3 -a AS a FROM t ORDER BY a + 0", "ORDER BY of an expression"),
    ],
)
def test_join_or_limit_that_would_lose_a_part_is_refused(
    dialect: str, query: str, problem: str
) -> None:
    with pytest.raises(Unwritable, match=problem):
        write_spark_sql(parse_plain(query, dialect), dialect)


@pytest.mark.parametrize(
    ("dialect", "written", "iceberg"),
    [
        ("duckdb", "days(ts), bucket(8, id)", ("days(ts)", "bucket(8, id)")),
        ("duckdb", '"a b", id', ("`a b`", "id")),
        ("trino", "month(ts), bucket(id, 8)", ("month(ts)", "bucket(id, 8)")),
        ("athena", "truncate(name, 5)", ("truncate(name, 5)",)),
        ("bigquery", "DATE_TRUNC(ts, MONTH)", ("months(ts)",)),
        ("bigquery", "TIMESTAMP_TRUNC(ts, HOUR)", ("hours(ts)",)),
        ("snowflake", "date_trunc('day', ts)", ("days(ts)",)),
        ("mysql", "year(ts)", ("year(ts)",)),
        ("spark", "month(ts)", ("month(ts)",)),
    ],
)
def test_partitions_of_another_dialect_are_icebergs(
    write_project: WriteProject, dialect: str, written: str, iceberg: tuple[str, ...]
) -> None:
    header = f"MODEL (name m.a, kind FULL, dialect {dialect}, partitioned_by ({written}));"
    project = write_project({"models/a.sql": f"{header}\nSELECT id, ts, name FROM x.t"})

    assert load_project(project).models[ModelName("m", "a")].partitioned_by == iceberg


@pytest.mark.parametrize(
    ("dialect", "written", "says"),
    [
        ("duckdb", "month(ts)", "month() of duckdb returns a part of a date, unlike Iceberg's"),
        ("tsql", "day(ts)", "day() of tsql returns a part of a date"),
        ("bigquery", "DATE_TRUNC(ts, WEEK)", "date_trunc() is not a transform of Iceberg"),
        ("bigquery", "RANGE_BUCKET(id, [1])", "range_bucket() is not a transform of Iceberg"),
        ("bigquery", "TIMESTAMP_TRUNC(ts, DAY, 'Asia/Tokyo')", "is not a transform of Iceberg"),
        ("postgres", "extract(year FROM ts)", "extract() is not a transform of Iceberg"),
        ("duckdb", "hash(id)", "hash() is not a transform of Iceberg"),
    ],
)
def test_partition_with_another_meaning_is_refused_at_its_place(
    write_project: WriteProject, dialect: str, written: str, says: str
) -> None:
    header = f"MODEL (name m.a, kind FULL, dialect {dialect}{{}},\n  partitioned_by ({written}));"
    query = "\nSELECT id, ts FROM x.t"
    with pytest.raises(ProjectError, match=re.escape(says)) as caught:
        load_project(write_project({"models/a.sql": header.format("") + query}))
    assert str(caught.value).startswith("models/a.sql:2:")

    if dialect == "duckdb" and "month" in written:
        trusting = {"models/a.sql": header.format(", dialect_trust (month)") + query}
        model = load_project(write_project(trusting)).models[ModelName("m", "a")]
        assert model.partitioned_by == ("month(ts)",)


def test_operator_of_unknown_types_is_refused_once_the_catalog_was_asked(
    write_project: WriteProject,
) -> None:
    model = "MODEL (name m.a, kind FULL, dialect trino);\nSELECT a / 2 AS half FROM x.t"
    child = "MODEL (name m.b, kind FULL, dialect trino);\nSELECT half / 3 AS part FROM m.a"
    files = {"models/a.sql": model, "models/b.sql": child}
    models = load_project(write_project(files)).models

    def plan(columns: CatalogColumns) -> list[str]:
        warnings: list[Problem] = []
        build_snapshots(models, columns, warnings=warnings)
        return [f"{one.location}: {one.message}" for one in warnings if one.untyped]

    assert plan(lambda name: [("a", "DOUBLE")]) == []
    with pytest.raises(
        ProjectError, match=re.escape("models/a.sql:2:8: m.a: on Trino, a division may")
    ):
        plan(lambda name: [("a", "UNKNOWN")])
    with pytest.raises(ProjectError, match="the type of a is unknown"):
        plan(lambda name: None)  # No such table.
    not_asked = plan(lambda name: ())
    assert [text.split(": on Trino, a division")[0] for text in not_asked] == [
        "models/a.sql:2:8: m.a",
        "models/b.sql:2:8: m.b",
    ]


@pytest.mark.parametrize(
    ("declared", "value", "is_refused"),
    [
        ("", "COALESCE(a, 0)", True),
        ("", "a", False),
        (", columns (k INT, v DECIMAL(10, 3))", "COALESCE(a, 0)", False),
    ],
)
def test_text_of_a_column_that_a_parent_chose_from_decimals_is_refused(
    write_project: WriteProject, declared: str, value: str, is_refused: bool
) -> None:
    header = "MODEL (name m.{}, kind FULL, dialect postgres{});\n"
    files = {
        "models/a.sql": header.format("a", declared) + f"SELECT k, {value} AS v FROM x.t",
        "models/b.sql": header.format("b", "") + "SELECT a.v + 1 AS w FROM m.a",
        "models/c.sql": header.format("c", "") + "SELECT w::TEXT AS x FROM m.b",
    }
    models = load_project(write_project(files)).models

    def plan() -> None:
        build_snapshots(models, lambda name: [("k", "INT"), ("a", "DECIMAL(10, 3)")], warnings=[])

    if not is_refused:
        return plan()
    with pytest.raises(
        ProjectError, match=re.escape("models/c.sql:2:8: m.c: on PostgreSQL, the text of a dec")
    ):
        plan()


@pytest.mark.proof
def test_page_has_the_counts_of_the_list() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert page_with_tables(text) == text


@pytest.mark.parametrize(
    ("dialect", "declared", "spark"),
    [
        ("bigquery", "INT", "BIGINT"),
        ("bigquery", "STRUCT<a INTEGER, b ARRAY<SMALLINT>>", "STRUCT<a: BIGINT, b: ARRAY<BIGINT>>"),
        ("snowflake", "INT", "BIGINT"),
        ("duckdb", "INT", "INT"),
    ],
)
def test_declared_types_are_what_they_are_in_their_dialect(
    dialect: str, declared: str, spark: str
) -> None:
    def fail(message: str, hint: str | None) -> ProjectError:
        return ProjectError(message, hint=hint)

    assert canonical_type(declared, dialect, fail) == spark
