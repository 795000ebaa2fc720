"""Magics in IPython's shell, on real tables without Spark: pins, new models, mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell

from vde_dagster.errors import VdeError
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.programs.notebook.results import Rows, as_arrow
from vde_dagster.spark.models.python_models import _to_arrow
from vde_dagster_tests.projects import Prepared, ProjectFolder
from vde_dagster_tests.serve.shops import publish, publish_twice

pytestmark = pytest.mark.long
TWO_MODELS = "MODEL (name marts.one); SELECT 1 AS a;\nMODEL (name marts.two); SELECT 1 AS a\n"


def _published(root: Path) -> None:
    publish_twice(root)


@pytest.fixture
def shop(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """Three versions of production."""
    folder = prepared(_published)
    monkeypatch.chdir(folder.root / "models")
    return folder


@pytest.fixture
def shell(shop: ProjectFolder) -> Iterator[InteractiveShell]:
    """A shell in a folder of the project."""
    made = InteractiveShell.instance()
    try:
        ended = made.run_cell("%load_ext vde_dagster")
        assert ended.success
        yield made
    finally:
        made.run_cell("%unload_ext vde_dagster")
        InteractiveShell.clear_instance()


def _run(shell: InteractiveShell, cell: str) -> Any:
    ended = shell.run_cell(cell)
    ended.raise_error()
    return ended.result


def _refused(shell: InteractiveShell, cell: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert not shell.run_cell(cell).success, "who runs a notebook sees that the cell failed"
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return " ".join(err.split())


@pytest.mark.proof
def test_rows_stay_those_of_the_first_time_until_the_pin_is_moved(
    shell: InteractiveShell, shop: ProjectFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    read = "workspace.read('raw.orders', order_by=['amount'], limit=1)"
    assert _run(shell, read).arrow.column_names == ["tenant", "number", "amount"]
    text = (shop.root / "models/orders.sql").read_text()
    shop.write("models/orders.sql", text.replace("4, NULL, 1.0", "4, NULL, 0.5"))
    publish(shop, 4)
    again = _run(shell, read)
    assert again.environment == "prod@3"
    assert str(again.arrow["amount"][0]) == "1.00"
    assert "1 row of prod@3" in repr(again)
    capsys.readouterr()
    _run(shell, "%vde pin prod")
    assert capsys.readouterr().out == "pinned: prod@4\n"
    assert str(_run(shell, read).arrow["amount"][0]) == "0.50"
    assert len(_run(shell, "workspace.read('raw.orders', 'prod@1')").arrow.column_names) == 4
    _run(shell, "%vde pin prod@2")
    assert "word" in _run(shell, read).arrow.column_names


def test_rows_are_of_arrow_pandas_polars_and_whoever_knows_arrow(shell: InteractiveShell) -> None:
    rows = _run(shell, "workspace.read('raw.orders', 'prod@1', ['id', 'word'], order_by=['id'])")
    assert rows.to_arrow().schema.field("id").type == pa.int32()
    assert rows.to_pandas()["id"].tolist() == [1, 2, 3, 4]
    assert rows.to_polars()["word"].to_list() == ["a", None, "ü", "d"]
    assert duckdb.sql("SELECT sum(id) FROM rows").fetchall() == [(10,)]
    html = rows._repr_html_()
    assert "NULL</td>" in html
    assert "4 rows of prod@1" in html


def test_pandas_has_the_integers_of_the_rows() -> None:
    big = 2**53 + 1
    rows = Rows(pa.table({"a": [big, None], "b": [1, None], "c": [big, 1]}), "prod@1")
    frame = rows.to_pandas()
    assert frame["a"].tolist() == [big, pandas.NA]
    assert list(map(str, frame.dtypes)) == ["Int64", "float64", "int64"]
    assert as_arrow(frame)["a"].to_pylist() == [big, None]


@pytest.mark.parametrize("convert", [as_arrow, _to_arrow])
def test_texts_of_polars_have_types_that_spark_reads(convert: Callable[[Any], pa.Table]) -> None:
    rows = convert(polars.DataFrame({"a": ["ü"], "b": [["x"]]}))
    assert rows.schema.types == [pa.large_string(), pa.large_list(pa.large_string())]


def test_what_rows_say_is_no_html(shell: InteractiveShell, shop: ProjectFolder) -> None:
    text = (shop.root / "models/orders.sql").read_text()
    shop.write(
        "models/orders.sql",
        text.replace("AS amount", "AS amount, '<script>alert(1)</script>' AS `<b>`"),
    )
    publish(shop, 4)
    html = _run(shell, "workspace.read('raw.orders')")._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;" in html


def test_a_cell_becomes_a_model_and_shows_what_would_come_of_it(
    shell: InteractiveShell, shop: ProjectFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = "%%model marts.large --kind FULL\nSELECT number FROM raw.orders WHERE amount > 5;\n"
    plan = _run(shell, cell)
    assert capsys.readouterr().out.startswith("wrote models/marts/large.sql\n")
    assert [str(model.name) for model in plan.builds] == ["marts.large"]
    assert plan.environment == "dev"
    written = (shop.root / "models/marts/large.sql").read_text()
    assert written == (
        "MODEL (\n  name marts.large,\n  kind FULL\n);\n\n"
        "SELECT number FROM raw.orders WHERE amount > 5\n"
    )
    assert "marts.large already exists" in _refused(shell, cell, capsys)
    _run(shell, cell.replace("large --", "large --replace --").replace("> 5", "> 6"))
    assert "> 6" in (shop.root / "models/marts/large.sql").read_text()
    _run(shell, "%%model raw.orders --replace\nSELECT 1 AS number, 2 AS amount, 3 AS tenant")
    assert not (shop.root / "models/raw").exists(), "a model stays in its file"
    assert "2 AS amount" in (shop.root / "models/orders.sql").read_text()


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("models/both.sql", TWO_MODELS, "models/both.sql, which also has marts.two"),
        (
            "external_models.yaml",
            "- {name: marts.one, columns: {a: INT}}\n",
            "external_models.yaml, not a SQL file",
        ),
        ("models/marts/one.sql", TWO_MODELS.replace("one", "three"), "has marts.three, marts.two"),
    ],
)
def test_a_cell_replaces_no_other_model(
    path: str,
    text: str,
    message: str,
    shell: InteractiveShell,
    shop: ProjectFolder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop.write(path, text)
    said = _refused(shell, "%%model marts.one --kind FULL --replace\nSELECT 2 AS a", capsys)
    assert message in said
    assert (shop.root / path).read_text() == text


def test_a_model_is_written_into_the_projects_folder_of_models(
    shell: InteractiveShell, shop: ProjectFolder
) -> None:
    (shop.root / "models").rename(shop.root / "sql")
    shop.write("pyproject.toml", '[tool.vde]\nmodels_dir = "sql"\n')
    plan = _run(shell, "%%model marts.large\nSELECT number FROM raw.orders")
    assert (shop.root / "sql/marts/large.sql").is_file()
    assert "marts.large" in [str(model.name) for model in plan.models]


def test_a_cell_that_was_refused_becomes_a_model_once_it_is_mended(
    shell: InteractiveShell, shop: ProjectFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = "%%model marts.mended\nSELECT nummer FROM raw.orders"
    assert "nummer" in _refused(shell, cell, capsys)
    assert _run(shell, cell.replace("nummer", "number")).environment == "dev"
    assert (shop.root / "models/marts/mended.sql").exists()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%model marts.wrong\nSELECT nummer FROM raw.orders", "nummer"),
        ("%%model marts.wrong --kind FUL\nSELECT 1 AS a", "FUL"),
        ("%%model marts.wrong\nSELEC 1", "marts/wrong.sql"),
        ("%%model\nSELECT 1 AS a", "%%model: the following arguments are required: name"),
        ("%vde pim prod", "invalid choice: 'pim'"),
        ("%vde pin qa", "environment 'qa' does not exist"),
        ("%vde pin prod@77", "no version 77"),
        (
            "workspace.read('marts.sums')",
            "marts.sums has no table and can only be read by an engine",
        ),
        ("workspace.read('raw.orders', limit=-1)", "the limit -1 is negative"),
        ('%%vde prod "\nSELECT 1', "No closing quotation"),
        ("%%vde\nSELECT 1", "the following arguments are required: environment"),
        ("workspace = 1\n%vde pin", "the variable 'workspace' was overwritten"),
        ("%%vde prod --into 1st\nSELECT 1", "--into '1st' is not a valid name of a variable"),
        ("%%vde prod --into class\nSELECT 1", "--into 'class' is not a valid name of a variable"),
        ("%%vde prod --into=\nSELECT 1", "--into '' is not a valid name of a variable"),
        (
            "%%vde prod\nSELECT :nobody",
            "the notebook has no variable for the query's parameter :nobody",
        ),
    ],
)
def test_a_mistake_is_one_message_and_nothing_is_written(
    cell: str,
    message: str,
    shell: InteractiveShell,
    shop: ProjectFolder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in _refused(shell, cell, capsys)
    assert not (shop.root / "models/marts").exists()


def test_a_plan_shows_as_tables(shell: InteractiveShell, shop: ProjectFolder) -> None:
    shop.write("models/late.sql", "MODEL (name marts.late, kind FULL); SELECT 1 AS a")
    text = (shop.root / "models/orders.sql").read_text()
    shop.write("models/orders.sql", text.replace("AS amount", "AS amount, '<b>' AS b"))
    plan = _run(shell, "workspace.plan('dev')")
    assert shell.display_formatter is not None
    shown, _ = shell.display_formatter.format(plan)
    html = ElementTree.fromstring(f"<body>{shown['text/html']}</body>")
    tables = [["".join(cell.itertext()) for cell in one.iter("td")] for one in html.iter("table")]
    assert any("marts.late" in cells for cells in tables)
    edits = ["".join(one.itertext()) for one in html.iter("pre")]
    assert any("'<b>' AS b" in edit for edit in edits)
    assert "marts.late" in shown["text/plain"]


def test_what_was_loaded_leaves_nothing_behind(shell: InteractiveShell) -> None:
    def state() -> tuple[object, ...]:
        assert shell.display_formatter is not None
        kept = {name: set(found) for name, found in shell.magics_manager.magics.items()}
        formatters = shell.display_formatter.formatters.values()
        classes = [set(one.type_printers) for one in formatters]
        return kept, classes, shell.custom_exceptions, shell.CustomTB

    loaded = state()
    _run(shell, "%unload_ext vde_dagster")
    before = state()
    assert "workspace" not in shell.user_ns
    assert VdeError not in shell.custom_exceptions
    assert Plan not in before[1][0] | before[1][1]
    assert not {"vde", "model"} & (before[0]["line"] | before[0]["cell"])
    _run(shell, "%load_ext vde_dagster")
    assert state()[:3] == loaded[:3]
    _run(shell, "%reload_ext vde_dagster\n%unload_ext vde_dagster")
    assert state() == before


def test_handlers_of_others_stay_with_them(shell: InteractiveShell) -> None:
    told = []
    _run(shell, "%unload_ext vde_dagster")
    shell.set_custom_exc((KeyError,), lambda self, kind, error, trace, **how: told.append(kind))
    _run(shell, "%load_ext vde_dagster\n%unload_ext vde_dagster")
    assert not shell.run_cell("{}['a']").success
    assert told == [KeyError]


def test_a_folder_without_a_project_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = InteractiveShell.instance()
    try:
        assert not made.run_cell("%load_ext vde_dagster").success
        assert "nor a folder above it has a project" in "".join(capsys.readouterr())
    finally:
        InteractiveShell.clear_instance()
