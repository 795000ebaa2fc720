"""One file, several models: blueprints of SQL and Python models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import Project
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import from_bytes, to_bytes

Load = Callable[[Mapping[str, str]], Project]


def test_a_blueprint_gives_values_to_header_query_and_statements(load: Load) -> None:
    project = load(
        {
            "models/orders.sql": """
            MODEL (
              name @customer.orders_@{region},
              kind INCREMENTAL_BY_UNIQUE_KEY (unique_key @key),
              description @'Orders of @{customer}',
              owner @owner,
              cron '@daily',
              audits (forall(criteria := (@key > 0))),
              blueprints (
                (customer := Acme, region := eu, key := id, owner := 'it''s me', least := 3),
                (customer := zeta, region := us, key := code, owner := 'you', least := 1 + 1)
              )
            );
            SET spark.app.customer = @customer;
            SELECT @key, '@customer' AS plain, @'@{customer}!' AS name, @owner AS who
            FROM raw.orders_@{region} WHERE @key > @least AND region = @BLUEPRINT_VAR('region');
            ON_VIRTUAL_UPDATE_BEGIN;
            GRANT SELECT ON VIEW @this_model TO ROLE @{customer}_readers;
            ON_VIRTUAL_UPDATE_END;
            """
        }
    )
    acme = project.models[ModelName("acme", "orders_eu")]
    zeta = project.models[ModelName("zeta", "orders_us")]

    assert acme.description == "Orders of Acme"
    assert zeta.owner == "you"
    assert acme.kind.named_columns == ("id",)
    assert acme.depends_on == (ModelName("raw", "orders_eu"),)
    assert acme.query == (
        "SELECT id, '@customer' AS plain, 'Acme!' AS name, 'it''s me' AS who "
        "FROM raw.orders_eu WHERE id > 3 AND region = eu"
    )
    assert "code > 1 + 1" in (zeta.query or "")
    assert zeta.pre_statements == ("SET spark.app.customer = zeta",)
    assert zeta.on_virtual_update == ("GRANT SELECT ON VIEW @this_model TO ROLE zeta_readers",)
    assert zeta.audits[0].arguments == (("criteria", "(code > 0)"),)
    assert acme.location == zeta.location


def test_a_macro_may_make_the_list(load: Load) -> None:
    project = load(
        {
            "models/orders.sql": """
            MODEL (name @customer.orders, kind FULL,
              blueprints @EACH(@customers(), x -> (customer := shop_@x, number := @x)));
            SELECT @number AS n
            """,
            "models/one.sql": """
            MODEL (name one.@what, kind FULL, blueprints @single());
            SELECT 1 AS n
            """,
            "macros/lists.py": """
            from vde_dagster import macro

            @macro()
            def customers(evaluator):
                return [1, 2]

            @macro()
            def single(evaluator):
                return "((what := orders))"
            """,
        }
    )

    assert sorted(map(str, project.models)) == ["one.orders", "shop_1.orders", "shop_2.orders"]
    assert project.models[ModelName("shop_2", "orders")].query == "SELECT 2 AS n"


@pytest.mark.parametrize(
    ("header", "place", "message"),
    [
        ("name @customer.m, kind @what", "1:31", "property 'kind': unknown variable '@what'"),
        ("name @customer.m, kid FULL", "1:26", "unknown property 'kid'"),
        ("name m.m", "1:1", "m.m"),
    ],
)
def test_places_of_mistakes_are_those_of_the_file(
    load: Load, header: str, place: str, message: str
) -> None:
    blueprints = "blueprints ((customer := a_long_name), (customer := b))"
    with pytest.raises(ProjectError) as caught:
        load({"models/m.sql": f"MODEL ({header}, {blueprints});\nSELECT 1 AS a\n"})
    first = caught.value.mistakes[0]
    assert str(first.location).endswith(f"m.sql:{place}")
    assert message in first.message


def test_a_mistake_behind_the_header_points_at_its_line(load: Load) -> None:
    with pytest.raises(ProjectError) as caught:
        load(
            {
                "models/m.sql": "MODEL (name @c.m,\n blueprints ((c := a_long_name), (c := b)));\n"
                "SELECT @c.x,\n  @nobody AS y FROM c.t\n"
            }
        )
    assert str(caught.value.location) == "models/m.sql:4:3"


def test_models_of_one_file_have_versions_of_their_own(load: Load) -> None:
    models = load(
        {
            "models/m.sql": "MODEL (name @c.m, kind FULL, blueprints ((c := a, n := 1), "
            "(c := b, n := 2), (c := c, n := 1)));\nSELECT @n AS n\n"
        }
    ).models
    rows = {
        name.namespace: snapshot.columns[0].version
        for name, snapshot in build_snapshots(models, lambda _: None).items()
    }
    assert rows["a"] == rows["c"] != rows["b"]


def test_python_models_have_blueprints_too(load: Load) -> None:
    models = load(
        {
            "models/m.py": """
            from vde_dagster import model

            @model(
                "@{customer}.rows",
                kind={"name": "INCREMENTAL_BY_UNIQUE_KEY", "unique_key": "@key"},
                columns={"@{key}": "INT"},
                depends_on=["raw.@{customer}"],
                description="Rows of @customer",
                pre_statements=["SET spark.app.customer = @customer"],
                blueprints=[{"customer": "a", "key": "id"}, {"customer": "b", "key": "code"}],
            )
            def execute(context, **kwargs):
                return context.table("raw." + context.blueprint_var("customer"))
            """,
        }
    ).models
    a, b = models[ModelName("a", "rows")], models[ModelName("b", "rows")]

    assert a.python is not None
    assert a.python.variables == {"customer": "a", "key": "id"}
    assert b.depends_on == (ModelName("raw", "b"),)
    assert [column.name for column in b.columns] == ["code"]
    assert b.kind.named_columns == ("code",)
    assert b.description == "Rows of b"
    assert b.pre_statements == ("SET spark.app.customer = b",)
    assert from_bytes(Model, to_bytes(b)) == b

    snapshots = build_snapshots(models, lambda _: None)
    assert len({snapshot.version.rows for snapshot in snapshots.values()}) == 4


def test_variables_of_a_blueprint_may_be_lists_and_tables(load: Load) -> None:
    models = load(
        {
            "models/m.py": """
            from vde_dagster import model

            @model("shop.@{name}", is_sql=True, kind="VIEW",
                   blueprints=[{"name": "a", "keys": ("x", "y"), "of": [{"table": "raw.t"}]},
                               {"name": "b", "keys": ["z"], "of": [{"table": "raw.u"}]}])
            def execute(evaluator):
                [one] = evaluator.blueprint_var("of")
                return f"SELECT {', '.join(evaluator.blueprint_var('keys'))} FROM {one['table']}"
            """,
        }
    ).models

    a, b = models[ModelName("shop", "a")], models[ModelName("shop", "b")]
    assert a.query == "SELECT x, y FROM raw.t"
    assert b.query == "SELECT z FROM raw.u"
    assert from_bytes(Model, to_bytes(a)) == a


@pytest.mark.parametrize(
    ("condition", "there"),
    [("(1 = 1)", True), ("( 0 = 1 )", False), ("(1 = 2)", False), ("('a' IN ('a', 'b'))", True)],
)
def test_a_condition_of_constants_leaves_a_model_out(
    load: Load, condition: str, there: bool
) -> None:
    text = f"MODEL (name a.m, enabled {condition});\nSELECT 1 AS a"

    assert bool(load({"models/m.sql": text}).models) is there


def test_a_macro_may_make_a_python_models_list(load: Load) -> None:
    models = load(
        {
            "models/m.py": """
            from vde_dagster import model

            @model("shop_@{x}.rows", is_sql=True, kind="VIEW",
                   blueprints="@EACH([1, 2], n -> (x := @n))")
            def execute(evaluator):
                return f"SELECT {evaluator.blueprint_var('x')} AS x, @x + 1 AS more"
            """,
        }
    ).models

    assert sorted(map(str, models)) == ["shop_1.rows", "shop_2.rows"]
    assert models[ModelName("shop_2", "rows")].query == "SELECT 2 AS x, 2 + 1 AS more"
