"""Temporary views that statements make are a part of what the query means."""

from __future__ import annotations

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster_tests.project.conftest import LoadModel

EXTERNAL = """
- name: raw.orders
  columns: {id: INT, day: DATE, amount: DOUBLE}
- name: raw.customers
  columns: {id: INT, name: STRING}
"""


def versions(model: object, others: dict[ModelName, object]) -> object:
    snapshot = build_snapshots({**others, model.name: model}, lambda _: None)[model.name]  # type: ignore
    return snapshot.version.rows, {c.name: c.version for c in snapshot.columns}


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMPORARY VIEW recent AS SELECT id, amount FROM raw.orders WHERE day > '2024'",
        "CREATE OR REPLACE TEMP VIEW Recent COMMENT 'AS' AS"
        " SELECT id, amount FROM raw.orders WHERE day > '2024' -- so\n",
        "CREATE TEMPORARY VIEW recent (id COMMENT 'key', amount) AS"
        " SELECT id, amount FROM raw.orders WHERE day > '2024'",
        "CACHE TABLE recent AS SELECT id, amount FROM raw.orders WHERE day > '2024'",
        "CACHE LAZY TABLE recent OPTIONS ('storageLevel' 'DISK_ONLY')"
        " SELECT id, amount FROM raw.orders WHERE day > '2024'",
    ],
)
def test_a_temporary_view_means_what_a_common_table_expression_means(
    load_model: LoadModel, statement: str
) -> None:
    model = load_model(
        f"MODEL (name a.m, kind FULL);\n{statement};\nSELECT id, sum(amount) AS s FROM recent"
        " GROUP BY id;\nUNCACHE TABLE IF EXISTS recent",
        {"external_models.yaml": EXTERNAL},
    )
    written_out = load_model(
        "MODEL (name a.m, kind FULL);\nWITH recent AS (SELECT id, amount FROM raw.orders"
        " WHERE day > '2024') SELECT id, sum(amount) AS s FROM recent GROUP BY id",
        {"external_models.yaml": EXTERNAL},
    )
    others = {}

    assert model.depends_on == (ModelName("raw", "orders"),)
    assert model.pre_statements == model.post_statements == ()
    assert versions(model, others) == versions(written_out, others)


def test_views_are_known_to_later_ones_and_stand_before_the_querys_own(
    load_model: LoadModel,
) -> None:
    model = load_model(
        """
        MODEL (name a.m, kind FULL);
        @DEF(least, 3);
        CREATE TEMP VIEW big AS SELECT * FROM raw.orders WHERE amount > @least;
        SET spark.sql.shuffle.partitions = 3;
        CREATE TEMP VIEW named AS SELECT big.*, name FROM big JOIN raw.customers USING (id);
        WITH named_ones AS (SELECT * FROM named WHERE day = @start_date) SELECT * FROM named_ones
        """
    )

    assert model.query == (
        "WITH big AS (SELECT * FROM raw.orders WHERE amount > 3), named AS (SELECT big.*, name "
        "FROM big JOIN raw.customers USING (id)), named_ones AS (SELECT * FROM named WHERE "
        "day = @start_date) SELECT * FROM named_ones"
    )
    assert model.depends_on == (ModelName("raw", "customers"), ModelName("raw", "orders"))
    assert model.pre_statements == ("SET spark.sql.shuffle.partitions = 3",)


def test_a_view_that_other_statements_read_is_made_in_the_session_too(
    load_model: LoadModel,
) -> None:
    model = load_model(
        """
        MODEL (name a.m, kind FULL);
        CREATE TEMP VIEW big AS SELECT * FROM orders;
        SELECT id FROM big;
        INSERT INTO a.log SELECT count(*) FROM big;
        DROP VIEW big;
        """
    )

    assert model.pre_statements == (
        "CREATE OR REPLACE TEMPORARY VIEW `big` AS SELECT * FROM default.orders",
    )
    assert model.post_statements == ("INSERT INTO a.log SELECT count(*) FROM big",)


def test_a_view_that_the_query_does_not_read_stays_a_statement(load_model: LoadModel) -> None:
    model = load_model(
        "MODEL (name a.m);\nCREATE TEMP VIEW x AS SELECT 1;\nSELECT x.a FROM b.x AS y, y.x"
    )

    assert model.pre_statements == ()  # The name stands in the query: nothing is lost by it.
    model = load_model("MODEL (name a.m);\nCREATE TEMP VIEW x AS SELECT 1;\nSELECT a FROM b.x")
    assert model.pre_statements == ("CREATE TEMP VIEW x AS SELECT 1",)
    assert model.query == "SELECT a FROM b.x"


def test_a_view_may_hide_a_table_of_its_own_name(load_model: LoadModel) -> None:
    model = load_model(
        "MODEL (name a.m);\nCREATE TEMP VIEW t AS SELECT * FROM t WHERE b;\nSELECT * FROM t"
    )

    assert model.depends_on == (ModelName("default", "t"),)
