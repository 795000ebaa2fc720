from __future__ import annotations

from collections.abc import Callable

import pytest

from vde_dagster.project.model import Audit
from vde_dagster.project.reading.builtin_audits import BUILTIN_AUDITS
from vde_dagster_tests.duck import empty_duckdb
from vde_dagster_tests.project.builtin_audit_cases import CASES
from vde_dagster_tests.project.conftest import LoadModel

AuditsOf = Callable[..., tuple[Audit, ...]]


@pytest.fixture
def audits_of(load_model: LoadModel) -> AuditsOf:
    def read(call: str, **other: str) -> tuple[Audit, ...]:
        files = {"audits/custom.sql": other["custom"]} if other else {}
        return load_model(f"MODEL (name a.m, audits ({call})); SELECT 1 AS a", files).audits

    return read


def failing(audit: Audit, rows: str) -> int:
    """Count the failing rows by running the audit's query over VALUES."""
    import sqlglot

    query = sqlglot.transpile(
        audit.query.replace("@this_model", "m"), read="spark", write="duckdb"
    )[0]
    with empty_duckdb() as connection:
        connection.execute(f"CREATE TABLE m AS {values(rows)}")
        return len(connection.execute(query).fetchall())


def values(rows: str) -> str:
    listed, limit, number = rows.partition(" LIMIT ")
    return f"SELECT * FROM (VALUES {listed}) AS m(id, name, x, y){limit}{number}"


@pytest.mark.parametrize(("call", "rows", "expected"), CASES)
def test_built_in_audits_find_the_failing_rows(
    audits_of: AuditsOf, call: str, rows: str, expected: int
) -> None:
    (audit,) = audits_of(call)

    assert failing(audit, rows) == expected


def test_every_built_in_audit_has_cases() -> None:
    names = {call.partition("(")[0].removesuffix("_non_blocking") for call, _, _ in CASES}

    assert names == set(BUILTIN_AUDITS)
    assert len(names) == 29


@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("accepted_values(column := \"a b\", is_in := ('x'))", "`a b` NOT IN ('x')"),
        ("not_null(columns := (a), condition := b::DATE > '2024-01-01')", "CAST(b AS DATE)"),
        (r"match_regex_pattern_list(column := a, patterns := ('^\d+$'))", r"RLIKE '^\\d+$'"),
        ("not_null(columns := (a), condition := ds = @start_ds)", "(ds = @start_ds)"),
    ],
)
def test_arguments_are_in_the_models_dialect(load_model: LoadModel, call: str, where: str) -> None:
    (audit,) = load_model(
        f"MODEL (name a.m, dialect duckdb, audits ({call})); SELECT 1 AS a"
    ).audits

    assert where in audit.query


@pytest.mark.parametrize(
    ("clause", "partitioned"),
    [
        ("", ""),
        (", partition_clause := PARTITION BY name", "PARTITION BY name "),
        (", partition_clause := 'partition by name, id'", "PARTITION BY name, id "),
        (", partition_clause := (name, id)", "PARTITION BY name, id "),
    ],
)
def test_ranges_of_several_things(audits_of: AuditsOf, clause: str, partitioned: str) -> None:
    (audit,) = audits_of(
        f"mutually_exclusive_ranges(lower_bound_column := x, upper_bound_column := y{clause})"
    )

    assert f"OVER ({partitioned}ORDER BY x, y)" in audit.query


@pytest.mark.parametrize(
    ("call", "blocking"),
    [
        ("not_null(columns := (a))", True),
        ("not_null(columns := (a), blocking := false)", False),
        ("not_null_non_blocking(columns := (a))", False),
        ("not_null(columns := (a)), not_null_non_blocking(columns := (a))", True),
        ("not_null_non_blocking(columns := (a)), not_null(columns := (a))", True),
        ("not_null(columns := (a), blocking := false), not_null(columns := (a))", True),
    ],
)
def test_blocking(audits_of: AuditsOf, call: str, blocking: bool) -> None:
    (audit,) = audits_of(call)

    assert (audit.name, audit.blocking) == ("not_null", blocking)
    assert audit.label == "not_null(columns=(a))"


CUSTOM = """
AUDIT (name at_most, blocking false, defaults (limit = 10, column = id));
SELECT * FROM @this_model AS t
WHERE @column > @limit AND ds BETWEEN @start_ds AND @end_ds AND k IN (SELECT k FROM b.keys);

AUDIT (name switched_off, skip true);
SELECT * FROM @this_model;
"""


def test_custom_audits_take_arguments_and_defaults(load_model: LoadModel) -> None:
    model = load_model(
        """
        MODEL (
          name a.m,
          audits (at_most(column := price), at_most(limit := 3, blocking := true), switched_off)
        );
        SELECT 1 AS a
        """,
        {"models/audits/custom.sql": CUSTOM},
    )
    rest = "AND ds BETWEEN @start_ds AND @end_ds AND k IN (SELECT k FROM b.keys)"

    assert [(audit.query, audit.blocking) for audit in model.audits] == [
        (f"SELECT * FROM @this_model AS t WHERE price > 10 {rest}", False),
        (f"SELECT * FROM @this_model AS t WHERE id > 3 {rest}", True),
    ]
    assert [[str(name) for name in audit.reads] for audit in model.audits] == [["b.keys"]] * 2
    assert model.depends_on == ()


def test_an_audit_may_define_macros_before_its_query(load_model: LoadModel) -> None:
    text = "AUDIT (name a); @DEF(most, 3 * @factor); SELECT * FROM @this_model WHERE id > @most;"
    model = load_model(
        "MODEL (name a.m, audits (a(factor := 2))); SELECT 1 AS id", {"audits/a.sql": text}
    )

    assert [audit.query for audit in model.audits] == ["SELECT * FROM @this_model WHERE id > 3 * 2"]


def test_arguments_of_own_audits_may_be_variables_and_macros(load_model: LoadModel) -> None:
    text = "AUDIT (name a); SELECT * FROM @this_model WHERE id > @most AND day = @on"
    model = load_model(
        "MODEL (name a.m, audits (a(most := @size + @EVAL(1 + 1), on := @start_date)));\n"
        "SELECT 1 AS id, DATE '2024-01-01' AS day",
        {"audits/a.sql": text, "pyproject.toml": "[tool.vde.variables]\nsize = 3"},
    )
    assert [audit.query for audit in model.audits] == [
        "SELECT * FROM @this_model WHERE id > 3 + 2 AND day = @start_date"
    ]


def test_an_argument_may_have_the_name_of_a_keyword(load_model: LoadModel) -> None:
    text = "AUDIT (name among); SELECT * FROM @this_model WHERE @column IN @values;"
    model = load_model(
        'MODEL (name a.m, dialect duckdb, audits (among(column := x, "values" := (1, 2))));\n'
        "SELECT 1 AS x",
        {"audits/a.sql": text},
    )
    assert [audit.query for audit in model.audits] == [
        "SELECT * FROM @this_model WHERE x IN (1, 2)"
    ]


def test_an_audit_may_name_its_model(load_model: LoadModel) -> None:
    text = "AUDIT (name priced, dialect spark); SELECT * FROM a.m WHERE ds = @start_ds AND x < 0"
    model = load_model(
        "MODEL (name a.m, audits (priced)); SELECT 1 AS x, '' AS ds", {"audits/a.sql": text}
    )
    assert [audit.query for audit in model.audits] == [
        "SELECT * FROM a.m WHERE ds = @start_ds AND x < 0"
    ]
    assert model.audited_against == ()
