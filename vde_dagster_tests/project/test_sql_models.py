"""The MODEL header and query of SQLMesh's format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.base.names import ModelName, quote
from vde_dagster.project.kinds import (
    Embedded,
    Full,
    IncrementalByTimeRange,
    IncrementalByUniqueKey,
    View,
)
from vde_dagster.project.loading.loader import Project
from vde_dagster.project.model import Column
from vde_dagster_tests.project.conftest import LoadModel

HEADER = """
-- a comment before
MODEL (
  name a.m, /* inside */
  kind INCREMENTAL_BY_TIME_RANGE (
    time_column (ds, '%Y-%m-%d'),
    lookback 2,
    batch_size 30,
    on_destructive_change allow
  ),
  cron '@hourly',
  start '2013-01-01',
  end '2013-12-31',
  owner me,
  description 'It''s ours',
  tags [x, "y"],
  columns (ds DATE, amount DECIMAL(10, 2), m MAP<STRING, INT>, s STRUCT<a: INT, b: STRING>),
  column_descriptions (amount = 'how much'),
  grain (ds, amount),
  partitioned_by (days(ds), bucket(4, amount)),
  clustered_by amount,
  physical_properties ('write.format.default' = 'orc', x.y = 3),
  storage_format parquet,
  stamp '1',
  depends_on ['b.other'],
  allow_partials false,
  formatting false,
);

SELECT ds, amount, m, s FROM b.t WHERE ds BETWEEN @start_ds AND @end_ds;
"""


def test_every_property_of_a_header_is_read(load_model: LoadModel) -> None:
    model = load_model(HEADER)

    assert model.kind == IncrementalByTimeRange(
        "ds", "%Y-%m-%d", 2, 30, on_destructive_change="allow"
    )
    assert model.cron == "0 * * * *"
    assert model.start == datetime(2013, 1, 1, tzinfo=timezone.utc)
    assert model.end == datetime(2014, 1, 1, tzinfo=timezone.utc)
    assert (model.owner, model.description, model.tags) == ("me", "It's ours", ("x", "y"))
    assert model.columns == (
        Column("ds", "DATE"),
        Column("amount", "DECIMAL(10, 2)", "how much"),
        Column("m", "MAP<STRING, INT>"),
        Column("s", "STRUCT<a: INT, b: STRING>"),
    )
    assert model.grains == (("ds", "amount"),)
    assert model.partitioned_by == ("days(ds)", "bucket(4, amount)")
    assert model.clustered_by == ("amount",)
    assert model.table_properties == (("write.format.default", "orc"), ("x.y", "3"))
    assert model.stamp == "1"
    assert model.depends_on == (ModelName("b", "other"), ModelName("b", "t"))
    assert model.location.line == 2
    assert model.source.startswith("-- a comment before")
    assert model.query == (
        "SELECT ds, amount, m, s FROM b.t WHERE ds BETWEEN @start_ds AND @end_ds"
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", View()),
        (", kind VIEW", View()),
        (", kind full", Full()),
        (", kind EMBEDDED", Embedded()),
        (
            ", kind INCREMENTAL_BY_UNIQUE_KEY (unique_key (id, `n`))",
            IncrementalByUniqueKey(("id", "n")),
        ),
        (
            ", kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id, lookback 1)",
            IncrementalByUniqueKey(("id",), 1),
        ),
    ],
)
def test_kinds(load_model: LoadModel, kind: str, expected: object) -> None:
    assert load_model(f"MODEL (name a.m{kind}); SELECT 1 AS id, 2 AS n").kind == expected


def test_the_query_is_one_line_in_its_authors_words_with_its_hints(load_model: LoadModel) -> None:
    model = load_model(
        """
        MODEL (name a.m);
        select /*+ BROADCAST(c) */ `Odd Name`, -- the odd one
          x /* block */ :: int as y, 'a -- b' as text
        from b.t as c
        where ts >= @start_ts and d < @end_date - interval 1 day
        """
    )

    assert model.query == (
        "select /*+ BROADCAST(c) */ `Odd Name`, x::int as y, 'a -- b' as text "
        "from b.t as c where ts >= @start_ts and d < @end_date - interval 1 day"
    )
    assert model.depends_on == (ModelName("b", "t"),)
    assert model.column_descriptions == {"Odd Name": "the odd one"}


def test_statements_around_the_query_are_kept_in_order(load_model: LoadModel) -> None:
    model = load_model(
        """
        MODEL (name a.m);
        @DEF(n, 3);
        SET spark.sql.shuffle.partitions = 3;
        CACHE TABLE x;
        WITH a AS (SELECT @n AS n) SELECT n FROM a;
        ANALYZE TABLE @this_model COMPUTE STATISTICS;
        """
    )

    assert len(model.pre_statements) == 2
    assert model.query == "WITH a AS (SELECT 3 AS n) SELECT n FROM a"
    assert model.post_statements == ("ANALYZE TABLE @this_model COMPUTE STATISTICS",)


@pytest.mark.parametrize(
    ("query", "reads"),
    [
        ("SELECT * FROM lakehouse.b.t", ["b.t"]),
        ("SELECT * FROM T", ["default.t"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["default.t"]),
        ("WITH t AS (SELECT * FROM b.t) SELECT * FROM t JOIN T AS u", ["b.t"]),
        ("WITH x AS (SELECT 1), y AS (SELECT * FROM x) SELECT * FROM y", []),
        ("WITH y AS (SELECT * FROM x), x AS (SELECT 1 AS a) SELECT * FROM y", ["default.x"]),
        (
            "SELECT * FROM (WITH x AS (SELECT * FROM b.t) SELECT * FROM x) JOIN x",
            ["b.t", "default.x"],
        ),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", []),
        (
            "SELECT 1 AS a WHERE EXISTS (SELECT 1 FROM b.t) AND 1 IN (SELECT a FROM b.u)",
            ["b.t", "b.u"],
        ),
        ("SELECT * FROM range(10) UNION ALL SELECT * FROM b.t", ["b.t"]),
        ("SELECT /*+ BROADCAST(u) */ * FROM b.t AS u", ["b.t"]),
        ("SELECT * FROM b.t VERSION AS OF 3", ["b.t"]),
        ("SELECT b.x FROM b.t LATERAL VIEW EXPLODE(xs) AS x", ["b.t"]),
        ("SELECT a FROM a.m", []),
        ("SELECT * FROM `b`.`odd.name`", ["b.odd.name"]),
    ],
)
def test_the_tables_read_are_those_that_are_no_ctes(
    load_model: LoadModel, query: str, reads: list[str]
) -> None:
    model = load_model(f"MODEL (name a.m); {query}")

    assert [str(name) for name in model.depends_on] == reads


def test_names_without_a_namespace_are_qualified_in_the_query(load_model: LoadModel) -> None:
    query = "WITH x AS (SELECT 1 AS a) SELECT t.a FROM t JOIN lakehouse.b.u JOIN x"

    assert load_model(f"MODEL (name a.m); {query}").query == (
        "WITH x AS (SELECT 1 AS a) SELECT t.a FROM default.t JOIN b.u JOIN x"
    )


def test_another_dialect_becomes_spark(load_model: LoadModel) -> None:
    model = load_model(
        """
        MODEL (name a.m, dialect duckdb);
        SELECT x::VARCHAR AS x, '\\' AS backslash, "Q y" FROM b.t WHERE d >= @start_date - 1
        """
    )

    assert model.query == (
        "SELECT CAST(x AS STRING) AS x, '\\\\' AS backslash, `Q y` FROM b.t "
        "WHERE d >= @start_date - 1"
    )


def test_one_file_may_define_several_models_and_an_audit(load: object) -> None:
    text = """
    MODEL (name a.x, audits (small));
    SELECT 1 AS n;
    AUDIT (name small);
    SELECT * FROM @this_model WHERE n > 9;
    MODEL (name a.y);
    SELECT * FROM a.x;
    """
    project = load({"models/all.sql": text})  # type: ignore[operator]

    assert [str(name) for name in project.models] == ["a.x", "a.y"]
    (audit,) = project.models[ModelName("a", "x")].audits
    assert audit.query == "SELECT * FROM @this_model WHERE n > 9"


def test_a_disabled_model_is_left_out(load: object) -> None:
    project = load({"models/m.sql": "MODEL (name a.m, enabled false); SELECT 1 AS a"})  # type: ignore[operator]

    assert project.models == {}


@pytest.mark.proof
@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Z")), min_size=1, max_size=12
    )
)
def test_any_quoted_identifier_survives_rendering(name: str) -> None:
    from pathlib import Path

    from vde_dagster.project.macros.expansion import Expander
    from vde_dagster.project.macros.scope import MacroScope
    from vde_dagster.project.reading.rendering import render
    from vde_dagster.project.table_names import TableNames
    from vde_dagster.sql.scanner import SourceText

    text = f"SELECT t.{quote(name)} AS {quote(name)}, @start_ds FROM b.{quote(name)} AS t"
    expander = Expander(SourceText(Path("m.sql"), text), MacroScope({}, {}))

    rendered = render(expander, expander.expand(0, len(text)), TableNames("c", "d"))

    assert rendered.sql == text
    tree = sqlglot.parse_one(rendered.sql, dialect="spark")
    assert tree.expressions[0].alias == name
    assert [n.name for n in rendered.reads] == [name.lower()]


@pytest.mark.parametrize(
    ("written", "grains"),
    [
        ("grain [b, c]", (("b", "c"),)),
        ("grain ARRAY[b, c]", (("b", "c"),)),
        ("grain (b AS other, c)", (("b", "c"),)),
        ("grains (b, (b, c))", (("b",), ("b", "c"))),
        ("grains ARRAY[b, c]", (("b",), ("c",))),
    ],
)
def test_every_form_of_a_grain_is_read(
    load_model: LoadModel, written: str, grains: tuple[tuple[str, ...], ...]
) -> None:
    model = load_model(f"MODEL (name a.m, {written}); SELECT 1 AS b, 2 AS c")
    assert model.grains == grains


def test_a_comment_before_the_header_is_the_description_where_none_is_given(
    load: Callable[[Mapping[str, str]], Project],
) -> None:
    project = load(
        {
            "models/m.sql": """
            -- What customers
            /* pay. */
            MODEL (name a.one);
            SELECT 1 AS x;
            -- Of the query's end.
            MODEL (name a.two, description 'Two.');
            SELECT 1 AS x -- a number
            """
        }
    )
    assert project.models[ModelName("a", "one")].description == "What customers\npay."
    assert project.models[ModelName("a", "two")].description == "Two."


def test_properties_of_other_engines_are_read_over(load_model: LoadModel) -> None:
    model = load_model(
        "MODEL (name a.m, gateway big, session_properties (a = 1), grants ('select' = ['me'])); "
        "SELECT 1 AS b"
    )
    assert model.name == ModelName("a", "m")


@pytest.mark.parametrize(
    ("written", "is_there"),
    [
        ("enabled (1 = 1)", True),
        ("enabled (\n 0 = 1)", False),
        ("enabled : true", True),
        ("enabled @IF(@stage = 'dev', true, false)", False),
        ("enabled (@stage = 'live')", True),
        ("enabled false, enabled true", True),
        ("owner a, enabled true, enabled false", False),
    ],
)
def test_a_condition_of_constants_enables_a_model_and_the_last_of_two_counts(
    written: str, is_there: bool, load: Callable[[Mapping[str, str]], Project]
) -> None:
    settings = '[tool.vde.variables]\nstage = "live"\n'
    files = {
        "models/m.sql": f"MODEL (name a.m, {written}); SELECT 1 AS a",
        "pyproject.toml": settings,
    }
    assert bool(load(files).models) is is_there


def test_properties_that_other_engines_have_stay_texts(load_model: LoadModel) -> None:
    model = load_model(
        "MODEL (name a.m, kind FULL, physical_properties (order_by = (a, b), days = 7,"
        " engine = Merge('/x', 'y')), virtual_properties (labels = [('k', 'v')]));\nSELECT 1 AS a"
    )

    assert dict(model.table_properties) == {
        "order_by": "(a, b)",
        "days": "7",
        "engine": "Merge('/x', 'y')",
    }
    assert dict(model.virtual_properties) == {"labels": "[('k', 'v')]"}
