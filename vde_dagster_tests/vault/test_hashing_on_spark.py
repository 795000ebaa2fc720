"""Hashes as Spark makes them, and DuckDB where the SQL goes there."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.vault.hashes import attributes_text, expanded, hashed, key_text, text_of
from vde_dagster_tests.yaml_files import read_yaml

pytestmark = pytest.mark.spark

COMPATIBLE = read_yaml(Path(__file__).with_name("compatible_hashes.yaml"))
TYPES = {
    "s": "STRING",
    "i": "BIGINT",
    "m": "DECIMAL(20,6)",
    "t": "BOOLEAN",
    "d": "DATE",
    "z": "TIMESTAMP",
    "n": "TIMESTAMP_NTZ",
    "b": "BINARY",
    "f": "DOUBLE",
}
TEXTS = st.one_of(
    st.text(st.sampled_from("~|N01=^'\"\\ \u3000eé\u0301Aa\uff21\n\t"), max_size=8),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    st.sampled_from(("", " ", "a|b", "~N", "a~1b", "A", "a", " a", "a\u3000", "é", "e\u0301")),
)
DAYS = st.dates(date(1583, 1, 1), date(9999, 12, 30))
TIMES = st.datetimes(datetime(1583, 1, 1), datetime(9999, 12, 30))
ROWS = st.fixed_dictionaries(
    {
        "s": TEXTS,
        "i": st.integers(-(2**63), 2**63 - 1),
        "m": st.decimals(-(10**13), 10**13, places=6),
        "t": st.booleans(),
        "d": DAYS,
        "z": TIMES.map(lambda one: one.replace(tzinfo=timezone.utc)),
        "n": TIMES,
        "b": st.binary(max_size=6),
        "f": st.integers(-4000, 4000).map(lambda quarters: quarters / 4),
    }
)
SPARSE = st.tuples(ROWS, st.sets(st.sampled_from(sorted(TYPES)))).map(
    lambda drawn: {n: None if n in drawn[1] else v for n, v in drawn[0].items()}
)


@settings(max_examples=6, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(rows=st.lists(SPARSE, min_size=60, max_size=120))
def test_spark_makes_the_hashes_of_the_reference_in_every_time_zone(
    spark_engine: SparkEngine, rows: list[dict[str, object]]
) -> None:
    session = spark_engine.session.newSession()
    schema = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    frame = session.createDataFrame([tuple(row[name] for name in TYPES) for row in rows], schema)
    names = ", ".join(TYPES)
    for zone in ("UTC", "Europe/Berlin"):
        session.conf.set("spark.sql.session.timeZone", zone)
        found = frame.selectExpr(
            f"{expanded('@HASH_KEY(s)')} AS one",
            f"{expanded(f'@HASH_KEY({names})')} AS key",
            expanded("@HASH_KEY(z, s, d, form := 'binary')") + " AS bytes",
            expanded(f"@HASHDIFF({names}, algorithm := 'sha256')") + " AS diff",
        ).collect()
        for row, got in zip(rows, found, strict=True):
            row = {**row, "f": 0.0 if row["f"] == 0 else row["f"]}
            assert got.one == hashed(key_text([row["s"]]))
            assert got.key == hashed(key_text([row[name] for name in TYPES]))
            made = hashed(key_text([row["z"], row["s"], row["d"]]))
            assert got.bytes == (None if made is None else bytes.fromhex(made))
            assert got.diff == hashed(attributes_text(row), "sha256")


VALUES = [
    ("CAST(1.5 AS DECIMAL(38, 18))", "1.5"),
    ("CAST(0.0000001 AS DECIMAL(20, 10))", "0.0000001"),
    ("CAST(100 AS DECIMAL(5, 0))", "100"),
    ("CAST(0 AS DECIMAL(5, 2))", "0"),
    ("-0.0D", "0.0"),
    ("CAST('NaN' AS DOUBLE)", "NaN"),
    ("1e10D", "1.0E10"),
    ("CAST(1.5 AS FLOAT)", "1.5"),
    ("ARRAY('a', NULL, '1,2')", '["a",null,"1,2"]'),
    ("NAMED_STRUCT('a', 1, 'b', CAST(NULL AS INT))", '{"a":1,"b":null}'),
    ("TIMESTAMP '2024-10-27 00:30:00Z'", "2024-10-27 00:30:00.000000"),
    ("DATE '0001-01-01'", "0001-01-01"),
    ("CAST('x' AS VARCHAR(5))", "x"),
]


@pytest.fixture(scope="module")
def made_by_spark(spark_engine: SparkEngine) -> dict[str, str | None]:
    """What Spark makes of all queries of one value of this module, in one of its jobs."""
    queries = [
        f"SELECT {expanded(f'@HASH_KEY({written})')} AS made FROM (SELECT {value} AS v)"
        for value, _ in VALUES
        for written in ("v", value)
    ]
    queries += [
        f"SELECT {expanded(case['call'])} AS made FROM (SELECT {case['row']})"
        for case in COMPATIBLE
    ]
    numbered = (f"SELECT {at} AS at, made FROM ({one})" for at, one in enumerate(queries))
    rows = spark_engine.session.sql(" UNION ALL ".join(numbered)).collect()
    return {queries[row.at]: row.made for row in rows}


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_values_of_every_type_have_their_text(
    made_by_spark: dict[str, str | None], value: str, text: str
) -> None:
    for written in ("v", value):
        query = f"SELECT {expanded(f'@HASH_KEY({written})')} AS made FROM (SELECT {value} AS v)"
        assert made_by_spark[query] == hashed(text)


@pytest.mark.parametrize("case", COMPATIBLE, ids=lambda case: case["name"])
def test_spark_makes_exactly_the_hashes_of_other_tools(
    made_by_spark: dict[str, str | None], case: dict[str, str]
) -> None:
    query = f"SELECT {expanded(case['call'])} AS made FROM (SELECT {case['row']})"
    assert made_by_spark[query] == case["hash"]


def test_the_hash_of_a_set_is_datavault4dbts(spark_engine: SparkEngine) -> None:
    call = "@HASHDIFF(phone, kind, multi_active := (kind), compat := 'datavault4dbt')"
    rows = "VALUES ('2', 'work'), ('1', 'home') AS t(phone, kind)"
    query = f"SELECT {expanded(call)} AS made FROM {rows}"
    assert spark_engine.session.sql(query).first().made == hashed('"1"||"home","2"||"work"')


def test_null_keys_become_zero_keys_where_asked(spark_engine: SparkEngine) -> None:
    query = (
        f"SELECT {expanded('@HASH_KEY(a, b)')} AS plain,"
        f" {expanded('@HASH_KEY(a, b, nulls := $)'.replace('$', repr('zero')))} AS zero"
        " FROM (SELECT CAST(NULL AS STRING) AS a, CAST(NULL AS DATE) AS b)"
    )
    found = spark_engine.session.sql(query).first()
    assert (found.plain, found.zero) == (None, "0" * 32)


def test_hashes_of_casts_are_the_same_on_duckdb() -> None:
    values = ["CAST('a|~b' AS STRING)", "CAST(-7 AS BIGINT)", "CAST(1.50 AS DECIMAL(10, 3))"]
    values += ["CAST('2024-02-29' AS DATE)", "CAST(NULL AS INT)", "CAST(TRUE AS BOOLEAN)"]
    arguments = ", ".join(f"{value} AS c{index}" for index, value in enumerate(values))
    expected = ["a|~b", -7, Decimal("1.5"), date(2024, 2, 29), None, True]
    for algorithm in ("md5", "sha1", "sha256"):
        calls = [
            expanded(f"@HASH_KEY({', '.join(values)}, algorithm := '{algorithm}')"),
            expanded(f"@HASHDIFF({arguments}, algorithm := '{algorithm}')"),
        ]
        (query,) = sqlglot.transpile(f"SELECT {', '.join(calls)}", read="spark", write="duckdb")
        key, diff = duckdb.sql(query).fetchall()[0]
        row = {f"c{index}": value for index, value in enumerate(expected)}
        assert key == hashed(key_text(expected), algorithm)
        assert diff == hashed(attributes_text(row), algorithm)
        assert text_of(expected[2]) == "1.5"
