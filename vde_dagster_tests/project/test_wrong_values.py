"""Every property of every kind refuses wrong values: one message, its line, its name, a hint.

The properties are those of `vde schema`, so that a new one is tested without being named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.failures import Problem
from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.properties.model_properties import model_schema
from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.projects import ProjectFolder

QUERY = """
SELECT 1 AS id, 2 AS x, DATE'2024-01-01' AS day, CAST(NULL AS TIMESTAMP) AS updated_at
FROM db.src WHERE d BETWEEN @start_date AND @end_date
"""
FILES = {
    "seeds/s.csv": "id,x\n1,2",
    "materializations/keep.py": """
        from vde_dagster import materialization

        @materialization("keep")
        def keep(context, rows):
            return rows
    """,
    "external_models.yaml": "- name: db.src\n  columns: {d: DATE}",
}
VAULT = {"key": "id", "time": "day", "source": "x"}
NEEDED = {
    "SEED": {"path": "'../seeds/s.csv'"},
    "INCREMENTAL_BY_TIME_RANGE": {"time_column": "day"},
    "INCREMENTAL_BY_UNIQUE_KEY": {"unique_key": "id"},
    "SCD_TYPE_2_BY_TIME": {"unique_key": "id"},
    "SCD_TYPE_2_BY_COLUMN": {"unique_key": "id", "columns": "(x)"},
    "CUSTOM": {"materialization": "'keep'"},
    "FIRST_SEEN": {"key": "id", "time": "day"},
    "CHANGES": {"key": "id", "time": "day", "absent": "DELETE"},
    **dict.fromkeys(("HUB", "LINK", "NON_HISTORIZED_LINK", "REFERENCE"), VAULT),
    **dict.fromkeys(("RECORD_TRACKING", "SATELLITE", "STATUS_TRACKING"), VAULT),
    "MULTI_ACTIVE_SATELLITE": {**VAULT, "set_key": "x"},
    "EFFECTIVITY_SATELLITE": {**VAULT, "set_key": "x"},
}
"""What a kind is nothing without."""

OF_MODELS = {
    "cron": ("'every day'", "()", "''", "7"),
    "cron_tz": ("'Nowhere'", "()", "''"),
    "freshness": ("soon", "()", "7", "'-2 hours'", "'1 minute'"),
    "retry_policy": (
        *("()", "0", "soon", "(max_retries)", "(max_retries = -1)", "(retries = 3)"),
        *("(delay = soon)", "(backoff = exponential)", "(delay = '5 s', jitter = some)"),
    ),
    "op_tags": ("x", "(x)", "(x = )", "('a b' = c)", "('dagster/concurrency_key' = one)"),
    "pool": ("()", "''", "'a b'", "(a, b)"),
    "automation_condition": (
        *("hourly", "()", "''", "eager(1)", "on_cron", "on_cron('every day')", "on_cron(@daily)"),
        *("on_cron('@daily', 'Nowhere')", "on_cron(1)", "on_cron('@daily', 'UTC', 'UTC')"),
    ),
    "interval_unit": ("dayz", "()", "7"),
    "allow_partials": ("maybe", "3", "()", "''"),
    "start": ("'soon'", "()", "''", "-1"),
    "end": ("'soon'", "()"),
    "owner": ("()", "(a, b)", "a b"),
    "description": ("()", "a b"),
    "stamp": ("()",),
    "physical_version": ("()",),
    "columns": ("(id NOTYPE)", "(id INT, id INT)", "(id ARRAY<)"),
    "column_descriptions": ("id", "(id)", "(id = )"),
    "audits": ("7", "(nosuch)"),
    "signals": ("7", "(nosuch())"),
    "partitioned_by": ("nosuch", "(days(nosuch))", "(nosuch(id))", "(bucket(id))", "7"),
    "clustered_by": ("nosuch", "7", "(id, 7)"),
    "table_properties": ("x", "(x)", "(x = )"),
    "physical_properties": ("x", "(x)"),
    "virtual_properties": ("x", "(x)"),
    "depends_on": ("(a.b.c.d)", "''"),
    "dialect": ("klingon", "()", "7"),
    "enabled": ("maybe", "3"),
    "skip_unchanged": ("maybe", "3"),
    "table_format": ("paper", "()"),
    "storage_format": ("papyrus", "()"),
}


NO_KEY = dict.fromkeys(("unique_key", "columns", "key", "compare", "set_key"), "()")
"""Lists that may not be empty."""


def wrong_values(name: str, schema: dict[str, Any]) -> tuple[str, ...]:
    """Return values that cannot be meant by a property of a kind."""
    if name in NO_KEY:
        return (NO_KEY[name],)
    if name in ("time", "source"):
        return ("()",)
    if name in ("valid_from_name", "valid_to_name", "updated_at_name"):
        return "7", "()", "''", "a b"
    if name == "merge_filter":
        return "7", "()", "(nosuch > 1)"
    if "enum" in schema:
        return f"{schema['enum'][0]}q", "()", "7", "''"
    if schema.get("type") == "integer":
        below = ("0",) if schema.get("minimum") else ()
        return "much", "-1", "1.5", "()", "''", "(1, 2)", "true", "9" * 12, *below
    if schema.get("type") == "boolean":
        return "maybe", "3", "()", "''", "(true, false)"
    return ()


def of_kinds() -> Iterator[tuple[str, str, str]]:
    for one in model_schema()["properties"]["kind"]["anyOf"]:
        if "enum" in one:
            continue
        kind = one["properties"]["name"]["const"]
        for name, schema in one["properties"].items():
            if name != "name":
                values = wrong_values(name, schema)
                yield from ((kind, name, value) for value in values)
                yield kind, f"{name[:-1]}zz", "1"


CASES = [
    *of_kinds(),
    *(("", name, value) for name, values in OF_MODELS.items() for value in values),
    *(("", f"{name[:-1]}zz", "1") for name in OF_MODELS),
]


def header(kind: str, name: str, value: str) -> str:
    own = NEEDED.get(kind, {})
    inner = [f"    {key} {text}" for key, text in own.items() if key != name]
    lines = ["MODEL (", "  name db.m,", f"  {name} {value},", "  kind FULL", ");"]
    if kind:
        inner.append(f"    {name} {value}")
        lines = ["MODEL (", "  name db.m,", f"  kind {kind} (", ",\n".join(inner), "  )", ");"]
    return "\n".join(lines) + ("" if kind == "SEED" else QUERY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    return ProjectFolder(tmp_path_factory.mktemp("wrong") / "shop", FILES)


@each_of("kind, name, value", CASES)
def test_a_wrong_value_gives_one_message_with_line_name_and_hint(
    kind: str, name: str, value: str, folder: ProjectFolder
) -> None:
    text = header(kind, name, value)
    folder.write("models/m.sql", text)
    with pytest.raises(ProjectError) as caught:
        look_at(folder)
    line = 1 + next(i for i, one in enumerate(text.split("\n")) if one.strip().startswith(name))
    one_clear_message(caught.value, "models/m.sql", line, name)


COLUMNS = {
    "INCREMENTAL_BY_TIME_RANGE": ("time_column nosuch",),
    "INCREMENTAL_BY_PARTITION": ("partitioned_by (nosuch)", "partitioned_by (id, months(nosuch))"),
    "INCREMENTAL_BY_UNIQUE_KEY": (
        "unique_key nosuch",
        "unique_key (id, COALESCE(nosuch, 1))",
        "merge_filter (source.nosuch > 1)",
        "when_matched (WHEN MATCHED THEN UPDATE SET target.nosuch = source.x)",
        "when_matched (WHEN MATCHED THEN UPDATE SET target.x = source.nosuch)",
    ),
    "SCD_TYPE_2_BY_TIME": ("unique_key nosuch", "updated_at_name nosuch"),
    "SCD_TYPE_2_BY_COLUMN": ("unique_key (id, nosuch)", "columns (x, nosuch)"),
    "": (
        "partitioned_by (nosuch)",
        "clustered_by (id, nosuch)",
        "grain (id, nosuch)",
        "grains ((id, x), nosuch)",
        "column_descriptions (nosuch = 'nothing')",
        "columns (id INT, x INT, day DATE, updated_at TIMESTAMP, nosuch INT)",
        "audits (not_null(columns := (id, nosuch)))",
        "audits (accepted_range(column := nosuch, min_v := 1))",
    ),
}
"""Properties that name a column which the query has not."""


@each_of("kind, written", [(kind, one) for kind, several in COLUMNS.items() for one in several])
def test_an_unknown_column_is_told_at_its_own_line(
    kind: str, written: str, folder: ProjectFolder
) -> None:
    name, value = written.split(" ", 1)
    text = header(kind if name != "partitioned_by" else "", name, value)
    text = text.replace("  name db.m,", "  name db.m,\n  cron '@daily',")
    if kind and name == "partitioned_by":
        text = text.replace("kind FULL", f"kind {kind}")
    folder.write("models/m.sql", text)

    found = told(folder)

    line = 1 + next(i for i, one in enumerate(text.split("\n")) if "nosuch" in one)
    assert [(one.location.path, one.location.line) for one in found if one.location] == [
        (Path("models/m.sql"), line)
    ]
    assert "nosuch" in found[0].message
    assert found[0].hint


def told(folder: ProjectFolder) -> list[ProjectError | Problem]:
    """Return what planning says of a project: one error, or warnings."""
    warnings: list[Problem] = []
    project = load_project(folder.root)
    try:
        build_snapshots(project.models, lambda _: None, warnings=warnings)
    except ProjectError as error:
        return [*error.mistakes]
    return [*warnings]


def look_at(folder: ProjectFolder) -> None:
    project = load_project(folder.root)
    build_snapshots(project.models, lambda _: None, warnings=[])


def one_clear_message(error: ProjectError, path: str, line: int, name: str) -> None:
    assert error.location is not None
    assert (error.location.path, error.location.line) == (Path(path), line)
    assert name in f"{error.message} {error.hint}"
    assert error.hint
    assert "\n" not in error.message
    assert error.exit_code == 2


def of_python() -> Iterator[tuple[str, str, Any]]:
    wrong = {"integer": ("much", -1, 1.5, [], True), "boolean": ("maybe", 3, [])}
    for one in model_schema()["properties"]["kind"]["anyOf"]:
        if "enum" in one:
            continue
        kind = one["properties"]["name"]["const"]
        for name, schema in one["properties"].items():
            values = ("errorq", 7) if "enum" in schema else wrong.get(str(schema.get("type")), ())
            if name != "name":
                yield from ((kind, name, value) for value in (*values,))
                yield kind, f"{name[:-1]}zz", 1


@each_of("kind, name, value", of_python())
def test_a_wrong_value_in_a_decorator_gives_one_message_too(
    kind: str, name: str, value: Any, folder: ProjectFolder
) -> None:
    (folder.root / "models/m.sql").unlink(missing_ok=True)
    plain = {key: text.strip("'()") for key, text in NEEDED.get(kind, {}).items()}
    given = {"name": kind, **plain, name: value}
    lines = [
        "from vde_dagster import model",
        "",
        f"@model('db.p', columns={{'id': 'INT', 'x': 'INT', 'day': 'DATE'}}, kind={given!r})",
        "def execute(context, **kwargs):",
        "    return None",
    ]
    path = folder.write("models/p.py", "\n".join(lines))
    try:
        with pytest.raises(ProjectError) as caught:
            look_at(folder)
    finally:
        path.unlink()
    one_clear_message(caught.value, "models/p.py", 3, name)


def test_every_property_of_the_schema_is_tried() -> None:
    tried = {name for kind, name, _ in CASES if not kind}
    no_wrong_value = {"name", "kind", "tags", "grain", "grains", "default_catalog", "blueprints"}
    no_wrong_value |= {"ignored_rules", "dialect_trust"}
    read_over = {"references", "validate_query", "formatting", "project"}
    read_over |= {"optimize_query", "assertions", "gateway", "session_properties"}
    read_over |= {"grants", "grants_target_layer"}
    assert set(model_schema()["properties"]) - tried - no_wrong_value - read_over == set()
