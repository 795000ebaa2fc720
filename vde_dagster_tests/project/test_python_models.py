from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, IncrementalByUniqueKey
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster.project.model import Column
from vde_dagster.project.python.arguments import match_arguments
from vde_dagster.project.python.files import run_source

NAME = ModelName("a", "m")

MODEL = '''
from __future__ import annotations

from datetime import date

from vde_dagster import model
from helpers.numbers import double
from helpers import texts
from .near import NEAR


@model(
    "a.m",
    kind={"name": "INCREMENTAL_BY_TIME_RANGE", "time_column": "ds", "lookback": 1},
    columns={"ds": "date", "m": "map<string, int>"},
    cron="@hourly",
    start=date(2013, 1, 1),
    owner="me",
    tags=["x", "y"],
    partitioned_by=["days(ds)"],
    physical_properties={"a.b": 1},
    depends_on=["b.declared"],
    column_descriptions={"m": "it's"},
    audits=[
        "many_rows",
        ("not_null", {"columns": ["ds"]}),
        ("accepted_values", {"column": "ds", "is_in": ["x", "y"]}),
        ("number_of_rows", {"threshold": 3, "blocking": False}),
    ],
)
def execute(context, start, end, execution_time, **kwargs):
    """Rows of the day."""
    rows = context.table("b.t")
    other = context.sql("WITH x AS (SELECT * FROM b.u) SELECT * FROM x JOIN c")
    return double(4), texts.MARK, NEAR
'''

FILES = {
    "models/m.py": MODEL,
    "models/near.py": "NEAR = 'near'\n",
    "helpers/__init__.py": "",
    "helpers/numbers.py": "from .deep import TWO\n\ndef double(x):\n    return x * TWO\n",
    "helpers/deep.py": "TWO = 2\n",
    "helpers/texts.py": "MARK = '#'\n",
    "helpers/unused.py": "raise RuntimeError\n",
    "audits/m.sql": "AUDIT (name many_rows);\nSELECT * FROM @this_model WHERE FALSE\n",
}


@pytest.fixture
def project(load: Callable[[Mapping[str, str]], Project]) -> Project:
    return load(FILES)


def test_the_decorator_s_arguments_are_a_model(project: Project) -> None:
    model = project.models[NAME]

    assert model.kind == IncrementalByTimeRange("ds", lookback=1)
    assert model.columns == (Column("ds", "DATE"), Column("m", "MAP<STRING, INT>", "it's"))
    assert (model.cron, model.owner, model.tags) == ("0 * * * *", "me", ("x", "y"))
    assert model.start is not None
    assert model.description == "Rows of the day."
    assert model.partitioned_by == ("days(ds)",)
    assert model.table_properties == (("a.b", "1"),)
    assert [str(name) for name in model.depends_on] == ["b.declared", "b.t", "b.u", "default.c"]
    assert [(audit.label, audit.blocking) for audit in model.audits] == [
        ("many_rows()", True),
        ("not_null(columns=(ds))", True),
        ("accepted_values(column=ds, is_in=('x', 'y'))", True),
        ("number_of_rows(threshold=3)", False),
    ]
    assert (str(model.location), model.query) == ("models/m.py:11", None)


def test_the_source_holds_what_the_module_imports_and_no_more(project: Project) -> None:
    python = project.models[NAME].python

    assert python is not None
    assert python.entrypoint == "models/m.py:execute"
    assert sorted(python.files) == [
        "helpers/__init__.py",
        "helpers/deep.py",
        "helpers/numbers.py",
        "helpers/texts.py",
        "models/m.py",
        "models/near.py",
    ]


class Context:
    """Stands for the context of a run: these tests run no Spark."""

    def table(self, name: str) -> str:
        return name

    sql = table


def test_the_source_runs_without_a_working_copy(project: Project) -> None:
    python = project.models[NAME].python
    assert python is not None
    before = set(sys.modules)

    function = run_source(python)

    assert function(Context(), None, None, None) == (8, "#", "near")
    assert "helpers" not in sys.modules
    assert "helpers" not in {name.split(".")[0] for name in set(sys.modules) - before}


def test_two_versions_run_side_by_side_in_threads(project: Project) -> None:
    from vde_dagster.project.model import PythonSource

    python = project.models[NAME].python
    assert python is not None
    changed = PythonSource(python.entrypoint, {**python.files, "helpers/deep.py": "TWO = 20\n"})
    results: dict[int, object] = {}

    def work(number: int) -> None:
        source = changed if number % 2 else python
        results[number] = run_source(source)(Context(), None, None, None)[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {number: 80 if number % 2 else 8 for number in range(16)}


def test_functions_travel_to_workers_by_value(project: Project) -> None:
    from pyspark import cloudpickle

    python = project.models[NAME].python
    assert python is not None

    copied = pickle.loads(cloudpickle.dumps(run_source(python)))

    assert copied(Context(), None, None, None) == (8, "#", "near")


def test_local_modules_hide_no_installed_ones_of_other_names(
    load: Callable[[Mapping[str, str]], Project],
) -> None:
    text = """
    import collections.abc
    import json as j
    import os.path
    from dataclasses import dataclass
    from vde_dagster import model

    @dataclass
    class Row:
        a: int

    @model("a.m", columns={"a": "int"})
    def build(context):
        return j.dumps([os.path.join("a", "b"), Row(1).a, isinstance([], collections.abc.Sequence)])
    """
    model = load({"models/m.py": text}).models[NAME]

    assert model.kind == Full()
    assert model.python is not None
    assert run_source(model.python)(None) == '["a/b", 1, true]'


def test_a_python_file_without_models_is_none(
    load: Callable[[Mapping[str, str]], Project],
) -> None:
    assert load({"models/util.py": "X = 1\n"}).models == {}


def test_a_file_written_for_sqlmesh_loads_unchanged(
    load: Callable[[Mapping[str, str]], Project],
) -> None:
    text = """
    import typing as t
    from sqlmesh import ExecutionContext, model
    from sqlmesh.core.model.kind import ModelKindName

    @model(
        "a.m",
        kind=dict(name=ModelKindName.INCREMENTAL_BY_UNIQUE_KEY, unique_key=["id"]),
        columns={"id": "int"},
    )
    def execute(context: ExecutionContext, start, end, execution_time, **kwargs: t.Any):
        table = context.resolve_table("b.t")
        return context.fetchdf(f"SELECT * FROM {table}")
    """
    model = load({"models/m.py": text}).models[NAME]

    assert model.kind == IncrementalByUniqueKey(("id",))
    assert [str(name) for name in model.depends_on] == ["b.t"]
    assert model.python is not None
    assert callable(run_source(model.python))


def test_a_project_in_this_package_s_own_checkout_uses_the_package_itself(
    load: Callable[[Mapping[str, str]], Project],
) -> None:
    files = {
        "vde_dagster/__init__.py": "raise RuntimeError\n",
        "models/m.py": "from vde_dagster import model\n\n@model('a.m', columns={'a': 'int'})\n"
        "def m(context):\n    return 1\n",
    }
    python = load(files).models[NAME].python

    assert python is not None
    assert list(python.files) == ["models/m.py"]


def test_files_beside_a_model_are_found_by_its_own_place(
    write_project: Callable[[Mapping[str, str]], Path],
) -> None:
    text = """
    from pathlib import Path
    from vde_dagster import model

    WORDS = (Path(__file__).parent / "words.txt").read_text().split()

    @model("a.m", columns={"a": "int"})
    def build(context):
        return WORDS, (Path(__file__).parent.parent / "more.txt").read_text()
    """
    root = write_project({"models/m.py": text, "models/words.txt": "a b", "more.txt": "c"})
    model = load_project(root).models[NAME]

    assert model.python is not None
    assert sorted(model.python.outside) == ["file models/words.txt", "file more.txt"]
    assert run_source(model.python, root)(None) == (["a", "b"], "c")


def test_a_model_file_may_import_another_one(load: Callable[[Mapping[str, str]], Project]) -> None:
    head = "from vde_dagster import model\n"
    body = "@model('s.{0}', columns={{'x': 'int'}})\ndef build(context):\n    return {1}\n"
    files = {
        "models/a.py": head + "from shared import THREE\n" + body.format("a", "THREE"),
        "models/b.py": head + "from models.a import THREE\n" + body.format("b", "THREE + 1"),
        "shared.py": head + "THREE = 3\n" + body.format("c", "THREE + 2"),
    }
    with pytest.raises(ProjectError, match=r"s\.c is defined twice"):
        load(files)

    models = load({**files, "shared.py": "THREE = 3\n"}).models
    made = {name.name: run_source(one.python)(Context()) for name, one in models.items()}
    assert made == {"a": 3, "b": 4}


def test_functions_of_one_name_are_models_of_their_own(
    load: Callable[[Mapping[str, str]], Project],
) -> None:
    text = """
    from vde_dagster import model

    @model("a.m", columns={"a": "int"})
    def build(context):
        return context.table("x.one")

    @model(
        "a.n", columns={"a": "int"})
    def build(context):
        return context.table("x.two")
    """
    models = load({"models/m.py": text}).models
    first, second = models[NAME], models[ModelName("a", "n")]

    for model, table in ((first, "one"), (second, "two")):
        assert model.python is not None
        assert run_source(model.python)(Context()) == f"x.{table}"
        assert model.depends_on == (ModelName("x", table),)


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("", ([], [])),
        ("context", (["context"], [])),
        ("ctx", (["context"], [])),
        ("ctx, begin, until", (["context", "start", "end"], [])),
        ("context, end, start", (["context"], ["end", "start"])),
        ("context, country, end=None, more=1", (["context"], ["country", "end"])),
        ("*args", (["context", "start", "end", "execution_time"], [])),
        ("context, *, latest", (["context"], ["latest"])),
        ("*, context, end", ([], ["context", "end"])),
        ("context, start, end, /", (["context", "start", "end"], [])),
        ("ctx, **kwargs", (["context"], ["country", "end", "execution_time", "latest", "start"])),
        (
            "**kwargs",
            ([], ["context", "country", "end", "execution_time", "latest", "start"]),
        ),
    ],
)
def test_arguments_are_passed_by_name_or_in_their_order(
    signature: str, expected: tuple[list[str], list[str]]
) -> None:
    function = eval(f"lambda {signature}: None")  # a test's own text
    assert match_arguments(function, ("country",)) == expected


@pytest.mark.parametrize(
    ("signature", "wrong"),
    [
        ("start, context", "'start' of run would get the value of 'context'"),
        ("end, **kwargs", "'end' of run would get the value of 'context'"),
        ("latest", "'latest' of run would get the value of 'context'"),
        ("spark, context", "'context' of run would get the value of 'start'"),
        ("spark, context=None", "'context' of run would get the value of 'start'"),
        ("spark, *, context", "'context' of run would get no value"),
        ("context, end, other", "'end' of run would get the value of 'start'"),
        ("context, country, other", "'country' of run would get the value of 'start'"),
        ("context, execution_time, *args", "'execution_time' of run would get the value"),
        ("context, end, start, /", "'end' of run would get the value of 'start'"),
    ],
)
def test_a_parameter_that_would_get_another_value_is_refused(
    signature: str, wrong: str, load: Callable[[Mapping[str, str]], Project]
) -> None:
    files = {
        "pyproject.toml": "[tool.vde]\nname = 'shop'\nvariables = { country = 'de' }\n",
        "models/m.py": "from vde_dagster import model\n\n@model('b.m', columns={'n': 'INT'})\n"
        f"def run({signature}):\n    return None\n",
    }
    with pytest.raises(ProjectError, match=wrong) as caught:
        load(files)
    assert str(caught.value.location) == "models/m.py:3"
    assert caught.value.hint is not None
