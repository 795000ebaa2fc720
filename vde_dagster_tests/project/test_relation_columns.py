"""`@STAR` and `@UNION`: macros that write out the columns of other models."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.load import ProjectLoad
from vde_dagster.project.loading.loader import Project, load_project

PARENT = "MODEL (name b.parent); SELECT id, UPPER(name) AS name, 1 AS note FROM c.raw AS r"


def load(root: Path, files: dict[str, str]) -> Project:
    """Write files and load the project that they make."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return load_project(root)


def query(project: Project, name: str = "a.m") -> str | None:
    """Return what a model's query became."""
    return project.models[ModelName.parse(name)].query


@pytest.mark.parametrize(
    ("parent", "written", "expanded"),
    [
        (
            PARENT,
            "SELECT @STAR(b.parent) FROM b.parent",
            "SELECT `parent`.`id` AS `id`, `parent`.`name` AS `name`, `parent`.`note` AS `note`"
            " FROM b.parent",
        ),
        (
            PARENT,
            "SELECT @STAR(b.parent, p, exclude := [NOTE], prefix := 'p_') FROM b.parent AS p",
            "SELECT `p`.`id` AS `p_id`, `p`.`name` AS `p_name` FROM b.parent AS p",
        ),
        (
            "MODEL (name b.parent, columns (a INT, b STRING)); SELECT 1 AS a, 'x' AS b",
            "SELECT @STAR(b.parent, quote_identifiers := FALSE) FROM b.parent",
            "SELECT CAST(parent.a AS INT) AS a, CAST(parent.b AS STRING) AS b FROM b.parent",
        ),
        (
            "MODEL (name b.parent); WITH w AS (SELECT 1 AS x, 2 AS y) SELECT * EXCEPT (y), 3 AS z"
            " FROM w",
            "SELECT @STAR(b.parent, suffix := '_1') FROM b.parent",
            "SELECT `parent`.`x` AS `x_1`, `parent`.`z` AS `z_1` FROM b.parent",
        ),
        (
            "MODEL (name b.parent); SELECT p.*, q.k FROM (SELECT 1 AS i) AS p JOIN"
            " (SELECT 2 AS k) AS q ON p.i = q.k",
            "@UNION('distinct', b.parent, b.parent)",
            "SELECT i, k FROM b.parent UNION SELECT i, k FROM b.parent",
        ),
        (
            "MODEL (name b.parent, columns (a INT, b STRING)); SELECT 1 AS a, 'x' AS b",
            "@UNION(1 > 2, 'all', b.parent, b.parent)",
            "SELECT CAST(a AS INT) AS a, CAST(b AS STRING) AS b FROM b.parent",
        ),
        (
            "MODEL (name b.parent, columns (a INT, b STRING)); SELECT 1 AS a, 'x' AS b",
            "@UNION(1 > 0, 'all', b.parent, c.raw2)",
            "SELECT CAST(a AS INT) AS a FROM b.parent UNION ALL SELECT CAST(a AS INT) AS a"
            " FROM c.raw2",
        ),
        (
            "MODEL (name b.parent, columns (a INT, b STRING)); SELECT 1 AS a, 'x' AS b",
            "@UNION(b.parent, c.raw2)",
            "SELECT CAST(a AS INT) AS a FROM b.parent UNION ALL SELECT CAST(a AS INT) AS a"
            " FROM c.raw2",
        ),
        (
            PARENT,
            "SELECT @STAR(c.raw2, r, [b], 'p_', '_s') FROM c.raw2 AS r",
            "SELECT CAST(`r`.`a` AS INT) AS `p_a_s` FROM c.raw2 AS r",
        ),
        (
            PARENT,
            "SELECT @STAR(c.raw2, r, exclude := [b], 'x_'), @STAR(c.raw2, r, except_ := [a]), z"
            " FROM c.raw2 AS r",
            "SELECT CAST(`r`.`a` AS INT) AS `x_a`, CAST(`r`.`b` AS INT) AS `b`, z FROM c.raw2 AS r",
        ),
    ],
)
def test_the_columns_of_a_model_are_written_out(
    tmp_path: Path, parent: str, written: str, expanded: str
) -> None:
    project = load(
        tmp_path,
        {
            "models/a.sql": f"MODEL (name a.m);\n{written}",
            "models/b.sql": parent,
            "models/external_models.yaml": "- name: c.raw\n  columns: {id: INT, name: STRING}\n"
            "- name: c.raw2\n  columns: {a: INT, b: INT}\n",
        },
    )

    assert query(project) == expanded


def test_a_python_macro_may_ask_for_columns(tmp_path: Path) -> None:
    files = {
        "macros/m.py": """
            from vde_dagster import macro

            @macro()
            def texts_of(evaluator, table):
                columns = evaluator.columns_to_types(table)
                return [name for name, type_ in columns.items() if type_.is_type("text")]
            """,
        "models/a.sql": "MODEL (name a.m); SELECT @texts_of(b.n) FROM b.n",
        "models/b.sql": "MODEL (name b.n, columns (a INT, b STRING, c STRING)); SELECT 1, 2, 3",
    }

    assert query(load(tmp_path, files)) == "SELECT b, c FROM b.n"


def test_files_wait_for_each_other_in_whatever_order_they_lie(tmp_path: Path) -> None:
    files = {
        "models/1.sql": "MODEL (name a.m); SELECT @STAR(a.n) FROM a.n",
        "models/2.sql": "MODEL (name a.n); SELECT @STAR(a.o), 2 AS two FROM a.o",
        "models/3.sql": "MODEL (name a.o); SELECT * FROM c.raw",
        "models/external_models.yaml": "- name: c.raw\n  columns: {id: INT}\n",
    }

    assert query(load(tmp_path, files)) == ("SELECT `n`.`id` AS `id`, `n`.`two` AS `two` FROM a.n")


def test_a_new_column_of_a_parent_reads_the_file_again(tmp_path: Path) -> None:
    files = {
        "models/1.sql": "MODEL (name a.m); SELECT @STAR(a.n) FROM a.n",
        "models/2.sql": "MODEL (name a.n); SELECT * FROM a.o",
        "models/3.sql": "MODEL (name a.o); SELECT 1 AS one",
    }
    load(tmp_path, files)
    assert not ProjectLoad(tmp_path, use_cache=True).is_stale()

    changed = load(tmp_path, {"models/3.sql": "MODEL (name a.o); SELECT 1 AS one, 2 AS two"})

    assert query(changed) == "SELECT `n`.`one` AS `one`, `n`.`two` AS `two` FROM a.n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"models/a.sql": "MODEL (name a.m); SELECT @STAR(c.raw) FROM c.raw"},
            "models/a.sql:1:26: the columns of c.raw are not known when the project is loaded",
        ),
        (
            {
                "models/a.sql": "MODEL (name a.m); SELECT @STAR(a.n) FROM a.n",
                "models/b.sql": "MODEL (name a.n); SELECT @STAR(a.m) FROM a.m",
            },
            "models/a.sql:1:26: the columns of a.n are not known when the project is loaded",
        ),
        (
            {
                "models/a.sql": "MODEL (name a.m); SELECT @STAR(a.n, exclude := [x]) FROM a.n",
                "models/b.sql": "MODEL (name a.n); SELECT 1 AS x",
            },
            "@STAR has no columns left",
        ),
        (
            {
                "models/a.sql": "MODEL (name a.m); SELECT @UNION('both', a.n) FROM a.n",
                "models/b.sql": "MODEL (name a.n); SELECT 1 AS x",
            },
            "@UNION does not support kind 'BOTH'",
        ),
        (
            {
                "models/a.sql": "MODEL (name a.m); SELECT * FROM (@UNION(a.n, a.o))",
                "models/b.sql": "MODEL (name a.n, columns (x INT)); SELECT 1 AS x",
                "models/c.sql": "MODEL (name a.o, columns (x STRING)); SELECT 'a' AS x",
            },
            "the tables of @UNION have no column of the same name and type",
        ),
    ],
)
def test_columns_that_nobody_can_tell_are_a_mistake(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        load(tmp_path, files)

    assert message in str(caught.value)


def test_a_name_without_a_schema_is_the_model_that_is_named_with_one(tmp_path: Path) -> None:
    files = {
        "models/b.sql": PARENT,
        "models/c.sql": "MODEL (name d.parent); SELECT 1 AS x",
        "models/a.sql": "MODEL (name a.m); SELECT @STAR(parent, exclude := [note]) FROM b.parent",
    }

    for _ in range(2):
        expanded = "SELECT `parent`.`id` AS `id`, `parent`.`name` AS `name` FROM b.parent"
        assert query(load(tmp_path, files)) == expanded

    for other, asked in (("e.parent", "e"), ("d.parent JOIN b.parent AS p", "default")):
        text = f"MODEL (name a.m); SELECT @STAR(parent) FROM {other}"
        with pytest.raises(ProjectError, match=rf"columns of {asked}\.parent are not known"):
            load(tmp_path, {"models/a.sql": text})
