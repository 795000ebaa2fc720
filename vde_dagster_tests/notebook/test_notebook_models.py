"""Notebooks read as models: what they read, what their versions cover, and mistakes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.programs.notebook import cells
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.project.python.versions import python_version
from vde_dagster_tests.notebook.files import Cells, write_notebook
from vde_dagster_tests.projects import SHOP, ProjectFolder

PATH = "models/marts/spenders.ipynb"
HEADER = "MODEL (\n  name marts.spenders,\n  columns (customer INT, spent DOUBLE)\n);"
HELPERS = "def top(rows):\n    return rows\n\n\ndef unused():\n    return 1\n"
CELLS: Cells = [
    ("raw", HEADER),
    ("markdown", "# Spenders"),
    ("code", "%load_ext vde_dagster\nfrom helpers import top"),
    ("code", "limit = 3", "parameters"),
    ("code", "rows = workspace.read('marts.customers', limit=limit)  # the best\nrows"),
    ("code", "%%vde prod --into days\nSELECT day FROM marts.daily WHERE orders > :limit"),
    ("code", "workspace.yields(top(rows))"),
    ("code", "workspace.read('marts.top')", "skip-execution"),
]


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "shop", {**SHOP, "helpers.py": HELPERS})
    write_notebook(folder, PATH, CELLS)
    return folder


def _loaded(folder: ProjectFolder) -> Model:
    return load_project(folder.root).models[ModelName("marts", "spenders")]


def _version(folder: ProjectFolder) -> tuple[str, dict[str, object]]:
    python = _loaded(folder).python
    assert python is not None
    module, function, _ = python.place
    version = python_version(module, function, python.files, python.outside)
    return version, dict(python.settings)


def test_a_notebook_is_a_python_model_of_the_models_that_its_cells_name(
    shop: ProjectFolder,
) -> None:
    model = _loaded(shop)
    assert model.kind.name == "FULL"
    assert [column.name for column in model.columns] == ["customer", "spent"]
    assert list(map(str, model.depends_on)) == ["marts.customers", "marts.daily"]
    assert model.source.startswith(HEADER + "\n\n# %% [markdown]\n# # Spenders\n\n# %%\n%load_ext")
    assert model.location.line == 1


def test_without_columns_its_table_is_its_page(shop: ProjectFolder) -> None:
    header = "MODEL (name marts.spenders)"
    write_notebook(shop, PATH, [("markdown", header), ("code", "1 + 1")])
    assert [(one.name, one.type) for one in _loaded(shop).columns] == [("page", "STRING")]


def _outputs(folder: ProjectFolder) -> None:
    document = json.loads((folder.root / PATH).read_text())
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            stream = {"output_type": "stream", "name": "stdout", "text": ["3\n"]}
            cell |= {"outputs": [stream], "execution_count": 7}
    (folder.root / PATH).write_text(json.dumps(document))


def _cells(place: int, old: str, new: str) -> Callable[[ProjectFolder], None]:
    def edit(folder: ProjectFolder) -> None:
        found = [list(cell) for cell in CELLS]
        assert old in found[place][1]
        found[place][1] = found[place][1].replace(old, new)
        write_notebook(folder, PATH, found)  # type: ignore[arg-type]

    return edit


def _helpers(old: str, new: str) -> Callable[[ProjectFolder], None]:
    return lambda folder: folder.edit("helpers.py", old, new)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("edit", "same"),
    [
        (_outputs, True),
        (_cells(1, "Spenders", "Who spends"), True),
        (_cells(4, "the best", "the first"), True),
        (_cells(4, "limit=limit", "limit = limit"), True),
        (_cells(7, "marts.top", "marts.daily"), True),
        (_helpers("return 1", "return 2"), True),
        (_helpers("return rows", "return rows[:1]"), False),
        (_cells(4, "limit=limit", "limit=2"), False),
        (_cells(5, "orders >", "orders >="), False),
        (_cells(3, "3", "4"), False),
    ],
    ids=lambda value: None,
)
def test_its_version_is_that_of_its_code(
    edit: Callable[[ProjectFolder], None], same: bool, shop: ProjectFolder
) -> None:
    before = _version(shop)
    edit(shop)
    assert (_version(shop) == before) is same


@pytest.mark.parametrize(
    "cell",
    [
        "%%time\nfrom helpers import top",
        "%%capture out\n%time from helpers import top",
        "%time import helpers; helpers.top(1)",
        "%run helpers.py",
        "%run -i helpers",
        "!python helpers.py > out",
        "%%bash\ncd .\npython helpers.py",
    ],
)
def test_its_version_covers_what_a_magic_runs(cell: str, shop: ProjectFolder) -> None:
    write_notebook(shop, PATH, [("raw", HEADER), ("code", cell)])
    before = _version(shop)
    shop.edit("helpers.py", "return rows", "return rows[:1]")
    assert _version(shop) != before


@pytest.mark.parametrize(
    "cell",
    [
        "%config InlineBackend.figure_format = 'retina'",
        "!pip install -q x==1.2",
        "%%time\nrows = workspace.read('marts.customers')",
        "%%time\nimport decimal\ndecimal.Decimal(1)",
        "%run helpers.py",
    ],
)
def test_magics_that_reach_no_further_code_leave_its_version(
    cell: str, shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An upgrade to a version that reads the code in magics must compute nothing.
    write_notebook(shop, PATH, [*CELLS, ("code", cell)])
    found = _version(shop)
    monkeypatch.setattr(cells, "_code_of_magics", lambda statements: [])
    shutil.rmtree(shop.root / ".vde", ignore_errors=True)
    assert _version(shop) == found


def test_files_of_a_magic_are_no_parameters(shop: ProjectFolder) -> None:
    shop.write("pyproject.toml", "[tool.vde.variables]\nfiles = 5\n")
    write_notebook(shop, PATH, [("raw", HEADER), ("code", "!cat ./a.txt", "parameters")])
    assert _version(shop)[1] == {}


def test_it_reads_what_a_magic_reads(shop: ProjectFolder) -> None:
    cell = "%%time\nrows = workspace.read('marts.customers')"
    write_notebook(shop, PATH, [("raw", HEADER), ("code", cell)])
    assert list(map(str, _loaded(shop).depends_on)) == ["marts.customers"]


def test_variables_of_the_project_count_where_the_cell_of_parameters_names_them(
    shop: ProjectFolder,
) -> None:
    shop.write("pyproject.toml", "[tool.vde.variables]\nlimit = 5\nother = 6\n")
    assert _version(shop)[1] == {"limit": 5}


@pytest.mark.parametrize(
    ("first", "cell", "message"),
    [
        ("MODEL (name marts.spenders, kind VIEW)", "1", "a notebook cannot be of kind VIEW"),
        ("MODEL (name marts.spenders, kin FULL)", "1", "unknown property 'kin'"),
        ("MODEL (name marts.spenders); SELECT 1", "1", "first cell must contain only the header"),
        ("MODEL (name marts.spenders, depends_on (marts.spenders))", "1", "reads itself"),
        (HEADER, "workspace.read(name)", "cell 2: cannot determine which models"),
        (HEADER, "a = (", "cell 2, line 1: syntax error"),
        (HEADER, "%%vde prod\nSELEC 1", "cell 2: "),
        (HEADER, "nonlocal a", "the cells' code is not valid Python"),
    ],
)
def test_a_mistake_is_told_with_its_file(
    first: str, cell: str, message: str, shop: ProjectFolder
) -> None:
    write_notebook(shop, PATH, [("raw", first), ("code", cell)])
    with pytest.raises(ProjectError) as told:
        load_project(shop.root)
    assert message in told.value.message
    assert told.value.location is not None
    assert told.value.location.path.as_posix() == PATH


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the notebook is not valid JSON"),
        ('{"nbformat": 3}', "not a notebook of format 4"),
        ('{"nbformat": 4, "metadata": {}, "cells": [{}]}', "the notebook is not valid: "),
        ("[]", "not a notebook of format 4"),
    ],
)
def test_what_is_no_notebook_is_told(text: str, message: str, shop: ProjectFolder) -> None:
    shop.write(PATH, text)
    with pytest.raises(ProjectError, match=message):
        load_project(shop.root)


def test_a_header_among_code_and_another_language_are_refused(shop: ProjectFolder) -> None:
    write_notebook(shop, PATH, [("code", HEADER)])
    with pytest.raises(ProjectError, match="make the first cell a raw cell"):
        load_project(shop.root)
    write_notebook(shop, PATH, [("raw", HEADER)])
    text = (shop.root / PATH).read_text().replace('"language": "python"', '"language": "julia"')
    (shop.root / PATH).write_text(text)
    with pytest.raises(ProjectError, match="the notebook is in julia"):
        load_project(shop.root)


def test_a_notebook_without_a_header_is_no_model(shop: ProjectFolder) -> None:
    write_notebook(shop, PATH, [("markdown", "Notes"), ("code", "workspace.read(name)")])
    assert ModelName("marts", "spenders") not in load_project(shop.root).models


def test_what_runs_notebooks_is_asked_for_by_those_that_are_models(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vde_dagster.programs.notebook.model_file.find_spec", lambda name: None)
    with pytest.raises(ProjectError, match="not installed") as told:
        load_project(shop.root)
    assert "[notebook]'" in str(told.value.hint)
