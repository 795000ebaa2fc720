"""Columns in files that read models from outside: found, renamed, or the rename is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.programs.editor.lenses import lenses
from vde_dagster.programs.editor.navigation import find_references, rename_symbol
from vde_dagster.programs.editor.session import EditorSession
from vde_dagster.sql.edits import apply_edits
from vde_dagster_tests.cli.conftest import Vde, vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

__all__ = ["vde"]

CUSTOMERS = "models/marts/customers.sql"
SEMANTIC = """
semantic_model:
  name: customers
  node_relation: {schema_name: marts, alias: customers}
  defaults: {agg_time_dimension: since}
  entities:
    - {name: buyer, type: primary, expr: customer}
  dimensions:
    - {name: is_big, type: categorical, expr: revenue > 10}
    - {name: revenue, type: categorical}
    - name: "revenue_text"
      type: categorical
      expr: 'concat(customers.revenue, " revenue")'
    - {name: since, type: time, expr: "current_date()", type_params: {time_granularity: day}}
  measures:
    - {name: spent, agg: sum, expr: "`revenue`", create_metric: true}
---
semantic_model:
  name: more
  node_relation: {schema_name: marts, alias: customers}
  defaults: {agg_time_dimension: since}
  entities:
    - {name: other, type: primary, expr: customer}
  dimensions:
    - {name: since, type: time, expr: "current_date()", type_params: {time_granularity: day}}
    - name: revenue
      type: categorical
---
metric:
  name: paid
  type: simple
  type_params:
    metric_aggregation_params: {semantic_model: customers, agg: sum, agg_time_dimension: since}
    expr: revenue
"""
READERS: dict[str, dict[str, str]] = {
    "exposures": {
        "exposures.yaml": """
            - {name: Sales, reads: [marts.customers.revenue, marts.customers.customer]}
            - name: Two
              reads:
                - "marts.customers.revenue"
                - marts.customers
        """
    },
    "a sync": {
        "syncs.yaml": """
            - name: crm
              source: marts.customers
              sink: http
              key: ['customer', Revenue]
              to: {prod: {url: "https://crm.example"}}
        """
    },
    "descriptions": {
        "models/marts/docs.yml": """
            marts.customers:
              columns:
                revenue: Money
        """
    },
    "a unit test": {
        "tests/test_c.yaml": """
            test_c:
              model: marts.customers
              inputs: {staging.orders: {rows: [{customer: 1, amount: 2.0}]}}
              outputs: {query: [{customer: 1, revenue: 2.0}]}
        """
    },
    "audits": {
        CUSTOMERS: """
            MODEL (name marts.customers, kind FULL,
              audits (positive(column := revenue), sane, not_null(columns := (revenue))));
            SELECT customer, sum(amount) AS revenue FROM staging.orders GROUP BY customer
        """,
        "audits/positive.sql": """
            AUDIT (name positive);
            SELECT * FROM @this_model WHERE @column < 0
        """,
        "audits/sane.sql": """
            AUDIT (name sane, defaults (limit = 1));
            SELECT revenue FROM @this_model AS t WHERE t.revenue < 0 AND revenue < @limit;

            AUDIT (name alone, standalone true);
            SELECT * FROM marts.customers AS c WHERE c.revenue < 0
        """,
    },
    "an audit in the model's file": {
        CUSTOMERS: """
            MODEL (name marts.customers, kind FULL, audits (own));
            SELECT customer, sum(amount) AS revenue FROM staging.orders GROUP BY customer;

            AUDIT (name own);
            SELECT * FROM @this_model WHERE revenue < 0
        """
    },
    "metrics": {"metrics/shop.yaml": SEMANTIC},
}


def place_of(session: EditorSession, path: str, text: str) -> tuple[str, int]:
    """The offset of the last letter of a text that stands once in a file."""
    written = session.read().text(path)
    assert written.count(text) == 1, path
    return path, written.index(text) + len(text) - 1


def renamed(root: Path, path: str, text: str, new: str) -> dict[str, str]:
    """Rename what stands at a text; write and return the files as they are then."""
    session = EditorSession(root)
    place = place_of(session, path, text)
    symbols = session.symbols()
    edits = rename_symbol(session, symbols, *place, new)
    after = {file: apply_edits(symbols.reading.text(file), edits[file]) for file in edits}
    for file, changed in after.items():
        (root / file).write_text(changed)
    session.close()
    return after


@pytest.mark.parametrize("reader", READERS)
def test_a_column_is_renamed_in_every_file_that_reads_it(tmp_path: Path, reader: str) -> None:
    if reader == "metrics":
        pytest.importorskip("metricflow")
    root = tmp_path / "shop"
    ProjectFolder(root, {**SHOP, **READERS[reader]})
    before = [str(one) for one in EditorSession(root).read().problems]
    assert before == []
    after = renamed(root, CUSTOMERS, "AS revenue", "takings")
    assert set(READERS[reader]) - {"audits/positive.sql"} <= set(after)
    for file in READERS[reader]:
        assert "takings" in after.get(file, "takings")
    assert [str(one) for one in EditorSession(root).read().problems] == before
    # From the reader's own word the way back is the same.
    file, text = next((f, t) for f, t in after.items() if f in READERS[reader])
    session = EditorSession(root)
    back = rename_symbol(session, session.symbols(), file, text.index("takings") + 1, "revenue")
    assert set(back) == set(after)


def test_a_dimension_without_an_expression_keeps_its_name(tmp_path: Path) -> None:
    pytest.importorskip("metricflow")
    root = tmp_path / "shop"
    ProjectFolder(root, {**SHOP, "metrics/shop.yaml": SEMANTIC})
    after = renamed(root, CUSTOMERS, "AS revenue", "takings")["metrics/shop.yaml"]
    for line in (
        "{name: is_big, type: categorical, expr: takings > 10}",
        "{name: revenue, expr: takings, type: categorical}",
        "expr: 'concat(customers.takings, \" revenue\")'",
        'expr: "takings"',
        "- name: revenue\n      expr: takings\n      type: categorical",
        "    expr: takings\n",
    ):
        assert line in after.replace('"`takings`"', '"takings"')


def test_a_model_is_renamed_in_the_files_that_read_it(tmp_path: Path) -> None:
    pytest.importorskip("metricflow")
    root = tmp_path / "shop"
    files = {path: text for name, each in READERS.items() for path, text in each.items()}
    files[CUSTOMERS] = READERS["audits"][CUSTOMERS]
    ProjectFolder(root, {**SHOP, **files})
    assert [str(one) for one in EditorSession(root).read().problems] == []
    renamed(root, CUSTOMERS, "marts.customers", "clients")
    assert [str(one) for one in EditorSession(root).read().problems] == []


@pytest.mark.parametrize(
    ("path", "text", "word", "message"),
    [
        (
            "models/marts/top.sql",
            "MODEL (name marts.top);\n\nSELECT revenue FROM marts.customers WHERE (",
            "AS revenue",
            "models/marts/top.sql:3 may name it, too",
        ),
        (
            "exposures.yaml",
            "\n- reads: [marts.customers]\n[",
            "marts.customers",
            "exposures.yaml:2",
        ),
        (
            CUSTOMERS,
            "MODEL (name marts.customers); SELECT 1 AS revenue (",
            "AS revenue",
            "has a mistake",
        ),
    ],
)
def test_a_name_in_a_file_that_cannot_be_read_is_not_passed_over(
    tmp_path: Path, path: str, text: str, word: str, message: str
) -> None:
    root = tmp_path / "shop"
    ProjectFolder(root, {**SHOP, **READERS["exposures"]})
    session = EditorSession(root)
    session.read()
    session.set_text(path, text)
    symbols = session.symbols()
    assert symbols.reading.broken == {path}
    with pytest.raises(UsageError, match=message):
        rename_symbol(session, symbols, *place_of(session, CUSTOMERS, word), "takings")


def test_a_name_that_ends_with_a_sign_is_found_in_a_file_that_cannot_be_read(
    tmp_path: Path,
) -> None:
    ProjectFolder(tmp_path, SHOP)
    session, path = EditorSession(tmp_path), "models/marts/top.sql"
    text = "MODEL (name marts.customers);\n\nSELECT 1 AS `share %`\n"
    session.set_text(CUSTOMERS, text)
    session.read()
    session.set_text(
        path, "MODEL (name marts.top);\n\nSELECT `share %` FROM marts.customers WHERE ("
    )
    with pytest.raises(UsageError, match=f"{path}:3 may name it, too"):
        rename_symbol(session, session.symbols(), CUSTOMERS, text.index("share"), "takings")


def test_words_of_a_file_that_cannot_be_read_have_no_outdated_places(tmp_path: Path) -> None:
    ProjectFolder(tmp_path, SHOP)
    session, path = EditorSession(tmp_path), "models/marts/top.sql"
    before = session.read().text(path)
    session.set_text(path, f"-- A remark\n{before} WHERE (")
    own = {
        symbols.reading.text(one.path)[one.start : one.end].lower()
        for symbols in [session.symbols()]
        for one in find_references(symbols, *place_of(session, CUSTOMERS, "AS revenue"))
    }
    assert own == {"revenue"}


REFUSED = {
    "python": (
        {
            "models/marts/py.py": """
                from vde_dagster import model

                @model("marts.py", columns={"m": "INT"}, depends_on=["marts.customers"])
                def run(context, **kwargs):
                    return context.fetchdf("SELECT revenue AS m FROM marts.customers")
            """
        },
        "takings",
        "models/marts/py.py:5 may name it, too",
    ),
    "a folded text": (
        {"metrics/shop.yaml": SEMANTIC.replace("revenue > 10}", "'revenue\n       > 10'}")},
        "takings",
        "metrics/shop.yaml:8 may name it, too",
    ),
    "a policy": (
        {"policies.yaml": "- {name: p, require: \"!('revenue' in plan.models)\", message: no}\n"},
        "takings",
        "policies.yaml:1 may name it, too",
    ),
    "an audit of two models": (
        {
            CUSTOMERS: READERS["audits"][CUSTOMERS],
            "models/marts/top.sql": """
                MODEL (name marts.top, kind FULL, audits (sane));
                SELECT customer, revenue, rank() OVER (ORDER BY revenue DESC) AS place
                FROM marts.customers
            """,
            **{k: v for k, v in READERS["audits"].items() if k != CUSTOMERS},
        },
        "takings",
        "models/marts/top.sql:1",
    ),
    "an audit with a macro": (
        {
            CUSTOMERS: READERS["an audit in the model's file"][CUSTOMERS].replace(
                "WHERE revenue < 0", "WHERE @IF(1 = 1, revenue < 0, FALSE)"
            )
        },
        "takings",
        "models/marts/customers.sql:5 may name it, too",
    ),
    "a test's query": (
        {
            "tests/test_c.yaml": """
                test_c:
                  model: marts.customers
                  inputs: {staging.orders: {query: "SELECT 1 AS customer, 2.0 AS amount"}}
                  outputs:
                    query:
                      query: SELECT 1 AS customer, 2.0D AS revenue
            """
        },
        "takings",
        "tests/test_c.yaml:6 may name it, too",
    ),
    "a template": (
        {
            "tests/test_c.yaml": """
                test_c:
                  model: marts.customers
                  inputs: {staging.orders: {rows: [{customer: 1, amount: 2.0}]}}
                  outputs: {query: [{customer: {{ 1 }}, revenue: 2.0}]}
            """
        },
        "takings",
        "tests/test_c.yaml",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_rename_that_cannot_be_proved_names_the_place(tmp_path: Path, case: str) -> None:
    files, new, place = REFUSED[case]
    if case == "a folded text":
        pytest.importorskip("metricflow")
    root = tmp_path / "shop"
    ProjectFolder(root, {**SHOP, **files})
    assert [str(one) for one in EditorSession(root).read().problems] == []
    with pytest.raises(UsageError, match=place) as refused:
        renamed(root, CUSTOMERS, "AS revenue", new)
    assert "by hand" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("new", "hint"),
    [
        ("customer", "marts.customers already has a column 'customer'"),
        ("amount", "staging.orders already has a column 'amount'"),
        ("place", "marts.top already has a column 'place'"),
    ],
)
def test_a_name_that_is_taken_is_told_with_its_table(tmp_path: Path, new: str, hint: str) -> None:
    root = tmp_path / "shop"
    top = "MODEL (name marts.top, kind FULL);\nSELECT *, 1 AS place FROM marts.customers"
    ProjectFolder(root, {**SHOP, "models/marts/top.sql": top})
    written = "sum(amount) AS revenue FROM staging.orders GROUP BY customer"
    assert written in (root / CUSTOMERS).read_text()
    try:
        renamed(root, CUSTOMERS, "AS revenue", new)
    except UsageError as refused:
        assert hint in (refused.hint or "")  # noqa: PT017
    else:
        assert new == "amount"  # A column of the table that it reads is free here.


def test_a_reader_of_a_column_that_is_not_there_has_a_diagnostic(tmp_path: Path, vde: Vde) -> None:
    pytest.importorskip("metricflow")
    root = tmp_path / "shop"
    files = {**READERS["exposures"], **READERS["a sync"], **READERS["metrics"]}
    ProjectFolder(root, {**SHOP, **files})
    (root / CUSTOMERS).write_text((root / CUSTOMERS).read_text().replace("AS revenue", "AS income"))
    top = root / "models/marts/top.sql"
    top.write_text(top.read_text().replace("revenue", "income"))
    said = {
        str(one.location).partition(":")[0]
        for one in EditorSession(root).read().problems
        if one.location
    }
    assert said == set(files)
    linted = vde("lint", "--project", root, "--json")
    assert linted.code == 2
    found = {(one["file"], one["severity"]) for one in linted.json["findings"]}
    assert found == {
        ("exposures.yaml", "warning"),
        ("syncs.yaml", "error"),
        ("metrics/shop.yaml", "error"),
    }
    planned = vde("plan", "dev", "--project", root, "--json")
    assert planned.code == 2
    for file in ("metrics/shop.yaml", "syncs.yaml"):
        assert file in str(planned.json["error"])
        (root / file).unlink()
    planned = vde("plan", "dev", "--project", root, "--json")
    assert planned.code == 0
    warnings = [one for one in planned.json["warnings"] if "exposures.yaml" in one]
    assert len(warnings) == 2
    assert "marts.customers.revenue" in warnings[0]


STARS = {
    "models/base.sql": "MODEL (name raw.base, kind FULL);\nSELECT 1 AS id, 2.0D AS price",
    "models/wide.sql": (
        "MODEL (name raw.wide, kind VIEW);\nWITH b AS (SELECT * FROM raw.base) SELECT * FROM b"
    ),
    "models/read.sql": (
        "MODEL (name marts.read, kind FULL);\n"
        "WITH w AS (SELECT * FROM raw.wide), x AS (SELECT w.* FROM w WHERE price > 0)\n"
        "SELECT id, price * 2 AS twice FROM x"
    ),
    "models/other.sql": "MODEL (name marts.other, kind FULL);\nSELECT price AS p FROM raw.base",
}


def test_stars_are_looked_through_from_every_place(tmp_path: Path) -> None:
    root = tmp_path / "stars"
    ProjectFolder(root, STARS)
    session = EditorSession(root)
    symbols = session.symbols()
    places = [(path, text.index("price") + 1) for path, text in STARS.items() if "price" in text]
    places.append(("models/read.sql", STARS["models/read.sql"].rindex("price") + 1))
    found = [find_references(symbols, *place) for place in places]
    assert all(one == found[0] for one in found)
    assert [span.path for span in found[0]] == [
        "models/base.sql",
        "models/other.sql",
        "models/read.sql",
        "models/read.sql",
    ]
    for place in places:
        edits = rename_symbol(session, symbols, *place, "cost")
        assert set(edits) == {"models/base.sql", "models/other.sql", "models/read.sql"}
        read = apply_edits(symbols.reading.text("models/read.sql"), edits["models/read.sql"])
        assert read.strip() == STARS["models/read.sql"].replace("price", "cost")


def test_a_column_of_a_table_of_others_is_not_renamed_through_a_star(tmp_path: Path) -> None:
    root = tmp_path / "stars"
    external = "- name: crm.leads\n  columns: {id: INT, shop: STRING}\n"
    query = "WITH c AS (SELECT * FROM crm.leads) SELECT upper(shop) AS s FROM c"
    model = f"MODEL (name marts.leads, kind VIEW);\n{query}"
    ProjectFolder(root, {"external_models.yaml": external, "models/leads.sql": model})
    with pytest.raises(UsageError, match=r"crm\.leads is an external table"):
        renamed(root, "models/leads.sql", "upper(shop", "store")


def test_the_lens_of_an_added_audit_counts_it(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    ProjectFolder(root, SHOP)
    with open_fake(root) as workspace:
        workspace.apply(workspace.plan("prod"))
    session = EditorSession(root)
    text = session.read().text("models/marts/top.sql")
    session.set_text(
        "models/marts/top.sql",
        text.replace("kind FULL", "kind FULL, audits (not_null(columns := (customer)))"),
    )
    (found,) = lenses(session.read(), session.preview_plan(), "models/marts/top.sql")
    assert found.text == "metadata only: nothing is computed; 1 to audit"
    session.close()


def test_the_folders_state_changes_with_any_of_its_files(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    ProjectFolder(root, {**SHOP, "exposures.yaml": "[]"})
    session = EditorSession(root)
    session.read()
    states = [session.folder_state()]
    assert session.folder_state() == states[0]
    for path in (CUSTOMERS, "exposures.yaml", "seeds/orders.csv"):
        (root / path).write_text((root / path).read_text() + "\n")
        states.append(session.folder_state())
    (root / "models/marts/top.sql").unlink()
    states.append(session.folder_state())
    (root / "target").mkdir()
    (root / "target/manifest.json").write_text("{}")
    states.append(session.folder_state())
    (root / "pyproject.toml").write_text("[tool.vde]\n")
    states.append(session.folder_state())
    assert len(set(states)) == len(states)
