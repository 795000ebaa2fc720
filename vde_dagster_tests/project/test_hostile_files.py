"""Files that nobody writes on purpose: each is refused in one short message with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import load_project
from vde_dagster.sql.trees import ParsedQueries

MODEL = b"MODEL (name a.m, kind FULL);\n"
SEED = b"MODEL (name a.m, kind SEED (path '../seeds/c.csv'));\n"
PYTHON = b"""from vde_dagster import model


@model("a.m", columns={"a": "INT"})
def execute(context, start, end, execution_time):
    return %s
"""
DEEP = 20_000

REFUSED: dict[str, tuple[dict[str, bytes], str, str]] = {
    "settings not UTF-8": (
        {"pyproject.toml": b'[tool.vde]\nname = "caf\xe9"\n'},
        "pyproject.toml:2",
        "not UTF-8: byte 0xe9",
    ),
    "settings nested": (
        {"pyproject.toml": b"[tool.vde]\nx = " + b"[" * DEEP},
        "pyproject.toml:2",
        "nested too deeply",
    ),
    "settings of another shape": (
        {"pyproject.toml": b"tool = 3\n[tol.vde]", "models/m.sql": MODEL},
        "models/m.sql:1",
        "no query",
    ),
    "sqlmesh's settings not UTF-8": (
        {"config.yaml": b"model_defaults:\n  owner: caf\xe9\n"},
        "config.yaml:2",
        "not UTF-8",
    ),
    "helper not UTF-8": (
        {"models/m.py": b"import helper\n" + PYTHON % b"1", "helper.py": b"# a\n# caf\xe9\n"},
        "helper.py:2",
        "not UTF-8",
    ),
    "Python nested": (
        {"models/m.py": PYTHON % (b"(" * DEEP + b"1" + b")" * DEEP)},
        "models/m.py:6",
        "too many nested parentheses",
    ),
    "Python of operators": (
        {"models/m.py": PYTHON % (b"- " * DEEP + b"1")},
        "models/m.py:6",
        "nested too deeply",
    ),
    "an exception without a message": (
        {
            "macros/m.py": b"class E(Exception):\n    def __str__(self):\n        raise E\nraise E",
            "models/m.sql": MODEL + b"SELECT 1 AS a",
        },
        "macros/m.py",
        "E (its message cannot be read)",
    ),
    "a macro that exits": (
        {
            "macros/m.py": b"from vde_dagster import macro\n\n\n@macro()\ndef f(evaluator):\n"
            b"    raise SystemExit(0)\n",
            "models/m.sql": MODEL + b"SELECT @f() AS a",
        },
        "models/m.sql:2",
        "the macro @f failed",
    ),
    "a materialization of a file without a name": (
        {
            "materializations/m.py": b"from vde_dagster import materialization\n"
            b"__name__ = None\n\n\n@materialization('keep')\n"
            b"def keep(context, rows):\n    return rows\n",
            "models/m.sql": b"MODEL (name a.m,\n  kind CUSTOM (materialization 'kept'));\n"
            b"SELECT 1 AS a",
        },
        "models/m.sql:2:33",
        "uses the materialization 'kept'",
    ),
    "a macro that returns a function": (
        {
            "macros/m.py": b"from vde_dagster import macro\n\n\n@macro()\ndef f(evaluator):\n"
            b"    return print\n",
            "models/m.sql": MODEL + b"SELECT @f() AS a",
        },
        "models/m.sql:2",
        "a macro returned a value of type builtin_function_or_method",
    ),
    "helper of operators": (
        {
            "models/m.py": b"import helper\n" + PYTHON % b"1",
            "helper.py": b"\nX = " + b"not " * DEEP,
        },
        "helper.py:2",
        "nested too deeply",
    ),
    "import of a long name": (
        {"models/m.py": b"import " + b"a" * 5_000 + b"\n" + PYTHON % b"1"},
        "models/m.py:1",
        "No module named",
    ),
    "seed of a long name": (
        {"models/m.sql": SEED.replace(b"c.csv", b"c" * 5_000)},
        "models/m.sql",
        "does not exist",
    ),
    "seed of a name of many lines": (
        {"models/m.sql": SEED.replace(b"c.csv", b"c" + b"\n" * 500 + b".csv")},
        "models/m.sql",
        "does not exist",
    ),
    "brackets": (
        {"models/m.sql": MODEL + b"SELECT\n " + b"(" * DEEP + b"1" + b")" * DEEP + b" AS a"},
        "models/m.sql:3",
        "nested too deeply",
    ),
    "subqueries": (
        {"models/m.sql": MODEL + b"SELECT * FROM (" * DEEP + b"x.t" + b")" * DEEP},
        "models/m.sql:2",
        "nested too deeply",
    ),
    "types": (
        {
            "models/m.sql": MODEL
            + b"SELECT\nCAST(1 AS "
            + b"ARRAY<" * 500
            + b"INT"
            + b">" * 500
            + b")"
        },
        "models/m.sql:3",
        "nested too deeply",
    ),
    "declared types": (
        {"external_models.yaml": b"- name: x.t\n  columns: {a: '" + b"ARRAY<" * 900 + b"'}"},
        "external_models.yaml:1",
        "nested too deeply",
    ),
    "cases": (
        {"models/m.sql": MODEL + b"\nSELECT " + b"CASE WHEN a THEN " * 3_000},
        "models/m.sql:3",
        "nested too deeply",
    ),
    "operators": (
        {"models/m.sql": MODEL + b"\nSELECT\n " + b"NOT " * 3_000 + b"a AS a\nFROM x.t"},
        "models/m.sql:4",
        "nested too deeply",
    ),
    "header": (
        {"models/m.sql": b"MODEL (name a.m,\n audits " + b"(" * DEEP + b");\nSELECT 1 AS a"},
        "models/m.sql:2",
        "nested too deeply",
    ),
    "nested by a macro": (
        {
            "models/m.sql": MODEL + b"SELECT 1 AS a,\n @deep() AS b",
            "macros/m.py": b"from vde_dagster import macro\n\n@macro()\ndef deep(evaluator):\n"
            b"    return '(' * 20000 + '1' + ')' * 20000\n",
        },
        "models/m.sql:3",
        "nested too deeply",
    ),
    "YAML nested": (
        {"external_models.yaml": b"- " * DEEP},
        "external_models.yaml",
        "nested too deeply",
    ),
    "YAML of aliases of aliases": (
        {
            "external_models.yaml": b"- &a0 [x, x]\n"
            + b"".join(b"- &a%d [*a%d, *a%d]\n" % (i + 1, i, i) for i in range(60))
        },
        "external_models.yaml",
        "more than 200000 values",
    ),
    "YAML that has itself": (
        {"external_models.yaml": b"- &a [*a]\n"},
        "external_models.yaml",
        "nested too deeply",
    ),
    "YAML of an impossible date": (
        {"external_models.yaml": b"- name: x.t\n  description: 2024-02-30\n"},
        "external_models.yaml",
        "day is out of range",
    ),
    "CSV of a row too long": (
        {"models/m.sql": SEED, "seeds/c.csv": b"a,b\n1,2\r3\n"},
        "seeds/c.csv:3",
        "malformed",
    ),
    "CSV of a name too long": (
        {"models/m.sql": SEED, "seeds/c.csv": b"a" * 150_000 + b"\n1\n"},
        "seeds/c.csv:1",
        "is invalid: 'aaaa",
    ),
    "CSV of a number of thousands of digits": (
        {
            "models/m.sql": SEED.replace(b"));", b"), columns (a INT));"),
            "seeds/c.csv": b"a\n1\n" + b"1" * 5_000 + b"\n",
        },
        "seeds/c.csv:3",
        "in column 'a' is not a valid INT",
    ),
    "settings of a number of thousands of digits": (
        {"pyproject.toml": b"[tool.vde]\nname = " + b"1" * 5_000},
        "pyproject.toml:2",
        "a number has thousands of digits",
    ),
    "YAML of a number of thousands of digits": (
        {"external_models.yaml": b"- name: x.t\n  description: " + b"1" * 5_000 + b"\n"},
        "external_models.yaml",
        "a value is invalid: Exceeds the limit",
    ),
    "a name with a variable without a name": (
        {"models/m.sql": b"MODEL (\n  name a.m_@{}\n);\nSELECT 1 AS a"},
        "models/m.sql:2",
        "property 'name'",
    ),
    "a name without its schema": (
        {"models/m.sql": MODEL + b"SELECT a\nFROM lake..things"},
        "models/m.sql:3",
        "'lake..things' omits its schema",
    ),
    "CSV of nothing but a mark": (
        {"models/m.sql": SEED, "seeds/c.csv": b"\xef\xbb\xbf"},
        "seeds/c.csv:1",
        "blank",
    ),
    "CSV without names": (
        {"models/m.sql": SEED, "seeds/c.csv": b"\n1\n2\n"},
        "seeds/c.csv:1",
        "blank",
    ),
    "a file too large": (
        {"models/m.sql": MODEL + b"SELECT 1 AS a" + b" " * 2_000_000},
        "models/m.sql",
        "the maximum is 2,000,000",
    ),
    "a message that repeats the file": (
        {"models/m.sql": MODEL + b"SELECT 1 AS a " + b"b" * 140_000 + b" c"},
        "models/m.sql:2",
        "syntax error",
    ),
    "a header that repeats the file": (
        {"models/m.sql": b"MODEL (name a.m, owner " + b"me too " * 20_000 + b");\nSELECT 1 AS a"},
        "models/m.sql:1",
        "takes one value",
    ),
}


def write(root: Path, files: dict[str, bytes]) -> None:
    (root / "models").mkdir()
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.timeout(120)
def test_a_hostile_file_is_refused_shortly_in_every_sense(case: str, tmp_path: Path) -> None:
    files, place, message = REFUSED[case]
    write(tmp_path, files)
    with pytest.raises(ProjectError) as caught:
        load_project(tmp_path, use_cache=False)
    error = caught.value
    assert len(error.mistakes) == 1
    assert message in error.message
    assert str(error.location).startswith(place)
    assert len(str(error)) <= 2_000
    assert str(error).count("\n") < 20


def test_a_carriage_return_alone_ends_a_line_of_a_seed(tmp_path: Path) -> None:
    write(tmp_path, {"models/m.sql": SEED, "seeds/c.csv": b"a,b\r1,x\r2,y\r"})
    (model,) = load_project(tmp_path, use_cache=False).models.values()
    assert [(column.name, column.type) for column in model.columns] == [
        ("a", "INT"),
        ("b", "STRING"),
    ]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT " + " + ".join(["a"] * 3_000) + " AS b FROM x.t",
        " UNION ALL ".join(["SELECT 1 AS a"] * 1_000),
        "SELECT * FROM x.t WHERE a IN (" + ", ".join(map(str, range(20_000))) + ")",
        "SELECT " + "1,\n\n" * 10_000 + "1",
        "SELECT " + "(" * 40 + "1" + ")" * 40 + " AS a",
        "SELECT CAST(NULL AS " + "ARRAY<" * 30 + "INT" + ">" * 30 + ") AS a",
        "SELECT CASE WHEN a < 1 THEN 'end' END AS end_, a > b AS c FROM x.t",
    ],
)
@pytest.mark.timeout(120)
def test_what_is_long_but_not_deep_is_read(query: str, tmp_path: Path) -> None:
    write(tmp_path, {"models/m.sql": MODEL + query.encode()})
    parsed = ParsedQueries()
    project = load_project(tmp_path, use_cache=False, parsed=parsed)
    snapshots = build_snapshots(project.models, lambda name: None, parsed=parsed)
    assert any(str(name) == str(snapshot.name) for name, snapshot in snapshots.items())


def test_all_mistakes_of_all_files_are_told(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "models/one.sql": MODEL + b"SELECT {{ x }}",
            "models/two.sql": b"MODEL (name a.b);\nSELECT @x AS a;\n"
            b"MODEL (name a.c);\nSELECT 1 AS a;\nMODEL (name a.d);\nSELECT @VAR('y') AS a;\n",
            "models/four.py": b"def (",
        },
    )
    with pytest.raises(ProjectError) as caught:
        load_project(tmp_path, use_cache=False)
    assert [str(mistake.location) for mistake in caught.value.mistakes] == [
        "models/one.sql:2:8",
        "models/two.sql:2:8",
        "models/two.sql:6:8",
        "models/four.py:1:5",
    ]
    for mistake in caught.value.mistakes:
        assert str(mistake) in str(caught.value)


def test_all_mistakes_that_versions_show_are_told_once(tmp_path: Path) -> None:
    wrong = "MODEL (name a.{0}, kind FULL);\nSELECT nothing FROM a.base"
    write(
        tmp_path,
        {
            "models/base.sql": b"MODEL (name a.base, kind FULL);\nSELECT 1 AS a",
            "models/one.sql": wrong.format("one").encode(),
            "models/two.sql": wrong.format("two").encode(),
            "models/child.sql": b"MODEL (name a.child);\nSELECT what FROM a.one",
        },
    )
    models = load_project(tmp_path, use_cache=False).models
    with pytest.raises(ProjectError) as caught:
        build_snapshots(models, lambda name: None)
    assert sorted(str(mistake.location) for mistake in caught.value.mistakes) == [
        "models/one.sql:2:8",
        "models/two.sql:2:8",
    ]
