from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest

from vde_dagster.project.model import Audit
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
    table = f"SELECT * FROM (VALUES {rows}) AS m(id, name)"
    return len(duckdb.sql(f"WITH m AS ({table}) {query}").fetchall())


@pytest.mark.parametrize(
    ("call", "rows", "expected"),
    [
        ("not_null(columns := (id, name))", "(1, 'a'), (NULL, 'b'), (2, NULL)", 2),
        ("not_null(columns := id)", "(1, 'a'), (2, NULL)", 0),
        ("not_null(columns := [id], condition := name = 'b')", "(NULL, 'a'), (NULL, 'b')", 1),
        ("unique_values(columns := (id))", "(1, 'a'), (1, 'b'), (2, 'c')", 1),
        ("unique_values(columns := (id, name))", "(1, 'a'), (1, 'b'), (2, 'b')", 2),
        ("unique_combination_of_columns(columns := (id, name))", "(1, 'a'), (1, 'b')", 0),
        ("unique_combination_of_columns(columns := (id, name))", "(1, 'a'), (1, 'a')", 1),
        ("accepted_values(column := name, is_in := ('a', 'b'))", "(1, 'a'), (2, 'c')", 1),
        ("not_accepted_values(column := name, is_in := ('a'))", "(1, 'a'), (2, 'c')", 1),
        ("forall(criteria := (id > 0, name <> 'x'))", "(1, 'a'), (0, 'a'), (1, 'x')", 2),
        ("forall(criteria := (id > 0 OR name = 'x'))", "(0, 'x'), (0, 'y')", 1),
        ("number_of_rows(threshold := 2)", "(1, 'a'), (2, 'b')", 1),
        ("number_of_rows(threshold := 1)", "(1, 'a'), (2, 'b')", 0),
        ("not_empty_string(column := name)", "(1, ''), (2, 'b')", 1),
        ("not_constant(column := name)", "(1, 'a'), (2, 'a')", 1),
        ("at_least_one(column := name)", "(1, NULL), (2, NULL)", 1),
        ("not_null_proportion(column := name, threshold := 0.5)", "(1, 'a'), (2, NULL)", 0),
        ("not_null_proportion(column := name, threshold := 0.6)", "(1, 'a'), (2, NULL)", 1),
        ("accepted_range(column := id, min_v := 1, max_v := 2)", "(0, 'a'), (1, 'b'), (3, 'c')", 2),
        ("accepted_range(column := id, min_v := 1, inclusive := false)", "(1, 'a'), (2, 'b')", 1),
        ("string_length_between(column := name, max_v := 2)", "(1, 'a'), (2, 'abc')", 1),
        ("match_regex_pattern_list(column := name, patterns := ('^a'))", "(1, 'ab'), (2, 'b')", 1),
        ("sequential_values(column := id)", "(1, 'a'), (2, 'b'), (4, 'c')", 1),
    ],
)
def test_built_in_audits_find_the_failing_rows(
    audits_of: AuditsOf, call: str, rows: str, expected: int
) -> None:
    (audit,) = audits_of(call)

    assert failing(audit, rows) == expected


@pytest.mark.parametrize(
    ("call", "blocking"),
    [
        ("not_null(columns := (a))", True),
        ("not_null(columns := (a), blocking := false)", False),
        ("not_null_non_blocking(columns := (a))", False),
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
    assert [str(name) for name in model.depends_on] == ["b.keys"]
