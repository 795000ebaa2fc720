"""Names of models in statements that run over an environment's views."""

from __future__ import annotations

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.rendering.views import replace_models_by_views

SHOWN = {ModelName("raw", "orders"), ModelName("crm__raw", "orders")}


def view_of(name: ModelName) -> str | None:
    """Tell the view of a model, as `dev` has it."""
    return f"V_{name.namespace}" if name in SHOWN else None


@pytest.mark.parametrize(
    ("statement", "over"),
    [
        ("GRANT SELECT ON raw.orders TO x", "GRANT SELECT ON V_raw TO x"),
        ("REFRESH TABLE lake.`raw`.Orders", "REFRESH TABLE V_raw"),
        ("REFRESH TABLE crm.raw.orders", "REFRESH TABLE V_crm__raw"),
        ("REFRESH TABLE other.raw.orders", "REFRESH TABLE other.raw.orders"),
        ("SELECT raw.orders.*, raw.orders(1)", "SELECT raw.orders.*, raw.orders(1)"),
        ("SELECT a.lake.raw.orders, 'raw.orders'", "SELECT a.lake.raw.orders, 'raw.orders'"),
        ("SELECT f(x).raw.orders /* raw.orders */", "SELECT f(x).raw.orders /* raw.orders */"),
    ],
)
def test_names_of_models_mean_their_views(statement: str, over: str) -> None:
    assert replace_models_by_views(statement, view_of, "lake") == over
