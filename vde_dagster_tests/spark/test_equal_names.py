"""Names of functions, units and types that count as equal are equal on Spark, value by value."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pytest

from vde_dagster.semantics import spark_functions
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.awkward import (
    CLOCK,
    EVERY_VALUE,
    POOLS,
    TIMES,
    argument_lists,
    pool,
)
from vde_dagster_tests.spark.outcomes import computed, outcomes, resolved
from vde_dagster_tests.spark.registry import EVERYTHING, analysed, built_ins, settings

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

MAIN_ZONE = "America/New_York"
ZONES = (MAIN_ZONE, "UTC", "Asia/Kathmandu")
SEED = 1
"""Which pairs are taken where there are too many for every day."""

Pair = tuple[str, str]

INFIX = frozenset(["||", "%", "<<", ">>", ">>>", "=", "==", "!=", "<>", "<=>"])
"""Names between their operands; ``!`` stands before its own."""

OPERANDS: dict[str, list[tuple[str, ...]]] = {
    "concat": [("'a'", "'b'"), ("X'61'", "X'62'"), ("array(1)", "array(2)"), ("'a'", "1")],
    "mod": [("7", "3"), ("7L", "3L"), ("7.5D", "2D"), ("7.5BD", "2BD"), ("1F", "2F")],
    "shiftleft": [("1", "2"), ("1L", "2")],
    "shiftright": [("-8", "2"), ("-8L", "2")],
    "shiftrightunsigned": [("-8", "2"), ("-8L", "2")],
    "not": [("true",)],
    "rlike": [("'abc'", "'a.c'")],
    **{
        name: [
            ("1", "2L"), ("1.0D", "1"), ("1.0F", "1.0F"), ("'a'", "'b'"), ("1BD", "1"),
            ("DATE '2020-01-01'", "'2020-01-01'"), ("TIMESTAMP '2020-01-01'", "DATE '2020-01-01'"),
            ("array(1)", "array(2)"), ("struct(1)", "struct(2)"), ("X'00'", "X'00'"),
            ("true", "true"), ("INTERVAL 1 DAY", "INTERVAL 24 HOURS"),
        ]
        for name in ("=", "!=", "<=>")
    },
    "nvl": [("1", "2"), ("1", "'a'"), ("'a'", "X'61'"), ("1BD", "2D")],
    "day": [("DATE '2020-01-01'",), ("TIMESTAMP '2020-01-01'",), ("INTERVAL 1 DAY",)],
}  # fmt: skip
"""Arguments by canonical name, besides those of the documented examples."""

COLUMNS = {
    "b": ("true", "false", "NULL"),
    "y": ("127Y", "-128Y", "NULL"),
    "i": ("2147483647", "-2147483648", "NULL"),
    "l": ("9223372036854775807L", "-3L", "NULL"),
    "f": ("FLOAT('NaN')", "1.5F", "NULL"),
    "d": ("DOUBLE('-0.0')", "1.7976931348623157E308D", "NULL"),
    "z": ("0.0D", "DOUBLE('-0.0')", "0.1D"),
    "e": ("99999999.99BD", "-0.01BD", "NULL"),
    "s": ("'b'", "''", "NULL"),
    "x": ("X'00FF'", "X''", "NULL"),
    "dt": ("DATE '2020-02-29'", "DATE '0001-01-01'", "NULL"),
    "ts": ("TIMESTAMP '2021-03-14 02:30:00'", "TIMESTAMP '1883-11-18 12:00:00'", "NULL"),
    "ym": ("INTERVAL '2-3' YEAR TO MONTH", "INTERVAL '-1' MONTH", "NULL"),
    "dm": ("INTERVAL '1' DAY", "INTERVAL '-1' DAY", "NULL"),
    "a": ("array(1, NULL)", "array()", "NULL"),
}
"""Three rows to aggregate."""

OVER = "{f}({c}) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t"
PLAIN = "{f}({c}) FROM t"
FORMS_OF_ALL = (
    PLAIN, OVER, "{f}(DISTINCT {c}) FROM t", "{f}({c}) FILTER (WHERE b) FROM t",
    "{f}({c}) FROM t WHERE false",
)  # fmt: skip
FORMS_OF_SOME = {
    "first": ("{f}({c}, true) FROM t", "{f}({c}) IGNORE NULLS FROM t"),
    "last": ("{f}({c}, true) FROM t", "{f}({c}) IGNORE NULLS FROM t"),
    "listagg": ("{f}({c}, ', ') FROM t", "{f}({c}) WITHIN GROUP (ORDER BY {c} DESC) FROM t"),
    "approx_percentile": ("{f}({c}, 0.5) FROM t", "{f}({c}, array(0.1, 0.9), 10) FROM t"),
}
"""More forms of some functions by canonical name; the last has no form of all."""


@pytest.fixture(scope="module")
def session(spark_engine: SparkEngine) -> Iterator[Any]:
    assert spark_engine.session is not None
    with settings(spark_engine.session, EVERYTHING):
        yield spark_engine.session


@pytest.fixture(params=ZONES)
def zone(session: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    with settings(session, {"spark.sql.session.timeZone": request.param}):
        yield request.param


def assert_equal(session: Any, pairs: list[Pair], *, jobs: int = 0) -> None:
    """Assert that both sides of each pair have one type and one value, or fail alike.

    Args:
        session: A Spark session.
        pairs: Two expressions each, which read no table.
        jobs: How many of the expressions to compute by jobs too, which takes longer.
    """
    found = outcomes(session, [side for pair in pairs for side in pair])
    if jobs:
        good = [e for e, result in found.items() if not isinstance(result, str)]
        good = random.Random(SEED).sample(good, min(jobs, len(good)))
        by_job = computed(session, good)
        wrong = [f"{e}: {found[e][1]!r}, by a job {by_job[e]!r}" for e in good
                 if by_job[e] != found[e][1]]  # fmt: skip
        assert wrong == [], "\n".join(wrong[:50])
    wrong = [f"{a}: {found[a]!r}\n  {b}: {found[b]!r}" for a, b in pairs if found[a] != found[b]]
    values = sum(not isinstance(found[a], str) for a, _ in pairs)
    print(f"{len(pairs)} pairs, {values} of them with a value; seed {SEED}")
    assert wrong == [], f"{len(wrong)} of {len(pairs)} differ:\n" + "\n".join(wrong[:50])
    assert values * 4 >= len(pairs), "most of these say nothing"


def call(name: str, arguments: tuple[str, ...]) -> str:
    if name == "!":
        return f"(! {arguments[0]})"
    if name in INFIX and len(arguments) == 2:
        return f"({arguments[0]} {name} {arguments[1]})"
    return f"{name}({', '.join(arguments)})"


def per_row_aliases() -> list[Pair]:
    kinds = ("scalar", "operator")
    return [
        (alias, canonical)
        for alias, canonical in spark_functions.ALIASES.items()
        if spark_functions.function_kind(canonical) in kinds
    ]


def sampled(pairs: Sequence[Pair], zone: str, most: int) -> list[Pair]:
    """So many of the pairs, always the same ones; a quarter as many in the zones but one."""
    most = most if zone == MAIN_ZONE else most // 4
    return random.Random(f"{SEED} {zone}").sample(pairs, min(most, len(pairs)))


def alias_pairs(session: Any) -> dict[str, list[Pair]]:
    """Two calls with the same arguments, by alias."""
    registry = built_ins(session)
    pairs: dict[str, list[Pair]] = {}
    for alias, canonical in per_row_aliases():
        lists: list[tuple[str, ...]] = []
        for name in (alias, canonical):
            function = registry[name]
            lists += argument_lists(session, name, function.examples, OPERANDS.get(canonical, []))
        pairs[alias] = [
            (call(alias, arguments), call(canonical, arguments))
            for arguments in dict.fromkeys(lists)
            if len(arguments) == 2 or not {alias, canonical} & INFIX
        ]
    return pairs


def test_aliases(session: Any, zone: str) -> None:
    pairs = alias_pairs(session)
    assert [alias for alias, calls in pairs.items() if not calls] == []
    chosen = [pair for calls in pairs.values() for pair in sampled(calls, zone, 40)]
    assert_equal(session, chosen, jobs=500 if zone == MAIN_ZONE else 0)


def test_aliases_of_aggregations(session: Any) -> None:
    """The analysed plans are the same; some are computed too, where the order of rows is fixed."""
    rows = ", ".join(f"({i}, {', '.join(c[i] for c in COLUMNS.values())})" for i in range(3))
    table = f"FROM VALUES {rows} AS t(n, {', '.join(COLUMNS)})"
    # Two plans with a map among their constants are never the same.
    table = f"(SELECT *, IF(n = 0, map('a', 1), NULL) AS m {table}) AS t"
    columns = (*COLUMNS, "m")
    aliases = [
        (alias, canonical)
        for alias, canonical in spark_functions.ALIASES.items()
        if spark_functions.function_kind(canonical) in ("aggregate", "ordered aggregate")
    ]
    seen = 0
    for form in dict.fromkeys((*FORMS_OF_ALL, *chain(*FORMS_OF_SOME.values()))):
        expression, _, rest = form.partition(" FROM t")
        source = f"FROM {table}{rest}"
        sides: list[Pair] = []
        for alias, canonical in aliases:
            if form not in forms_of(canonical):
                continue
            texts = [
                [expression.format(f=name, c=column) for column in columns]
                for name in (alias, canonical)
            ]
            good = [resolved(session, side, source) for side in texts]
            pairs = [(a, b) for a, b in zip(*texts, strict=True) if a in good[0]]
            assert [b for _, b in pairs] == good[1], "one side only can be analysed"
            if pairs:
                plans = [
                    analysed(session, f"SELECT {', '.join(side)} {source}")
                    for side in zip(*pairs, strict=True)
                ]
                assert plans[0].sameResult(plans[1]), (alias, form)
            sides += pairs
        if form in (PLAIN, OVER):
            some = sampled(sides, MAIN_ZONE, 30)
            values = computed(session, [side for pair in some for side in pair], source)
            assert [(a, values[a], values[b]) for a, b in some if values[a] != values[b]] == []
        seen += len(sides)
    print(f"{seen} aggregations")
    assert seen > 500


def forms_of(canonical: str) -> tuple[str, ...]:
    """How a function is called with one column."""
    some = FORMS_OF_SOME.get(canonical, ())
    return some if canonical == "approx_percentile" else (*FORMS_OF_ALL, *some)


STANDING = {
    "random": ["", "0", "NULL", "5L"],
    "java_method": ["'java.util.UUID', 'fromString', 'a5cf6c42-0c85-418f-af6c-3e4e5b1328f2'"],
    **{
        alias: [""]
        for alias, canonical in spark_functions.ALIASES.items()
        if spark_functions.function_kind(canonical) == "session"
    },
}
"""Arguments of functions whose value is not the same each time, by alias."""


@pytest.mark.parametrize("alias", sorted(STANDING))
def test_aliases_without_a_steady_value(session: Any, alias: str) -> None:
    """Both sides are the same plan for Spark, or the same value wherever they stand."""
    canonical = spark_functions.ALIASES[alias]
    for given in STANDING[alias]:
        query = "SELECT {}({}) AS c FROM range(3)"
        plans = [analysed(session, query.format(name, given)) for name in (alias, canonical)]
        assert plans[0].schema().json() == plans[1].schema().json()
        if not given and alias != "random":
            both = f"SELECT {alias}() = {canonical}() AS c"
            assert session.sql(both).collect()[0][0] is True
        elif given:
            assert plans[0].sameResult(plans[1])


def test_random_numbers_of_a_seed_depend_on_the_partition(session: Any) -> None:
    """Why a seed makes nothing steady."""
    rows = [
        sorted(r[0] for r in session.sql(f"SELECT rand(7) FROM range(0, 8, 1, {n})").collect())
        for n in (1, 2)
    ]
    assert rows[0] != rows[1]


def spellings(literal: str, generator: random.Random) -> list[str]:
    """A literal in small letters, in large ones and in both."""
    mixed = "".join(generator.choice((c.upper(), c)) for c in literal)
    return [literal, literal.upper(), mixed]


FORMS = {
    "date_trunc": "date_trunc('{u}', {x})",
    "trunc": "trunc({x}, '{u}')",
    "time_trunc": "time_trunc('{u}', {x})",
    "time_diff": "time_diff('{u}', TIME '01:02:03.456', {x})",
    "extract": "extract({u} FROM {x})",
    "date_part": "date_part('{u}', {x})",
    "datepart": "datepart('{u}', {x})",
    "next_day": "next_day({x}, '{u}')",
    **dict.fromkeys(("timestampadd", "dateadd", "date_add"), "{f}({u}, {n}, {x})"),
    **dict.fromkeys(
        ("timestampdiff", "timediff", "datediff", "date_diff"),
        "{f}({u}, TIMESTAMP '2020-02-29 01:02:03.456', {x})",
    ),
}


FIELDS = {
    "time": ("hour", "minute", "second"),
    "interval year to month": ("year", "month"),
    "interval day to second": ("day", "hour", "minute", "second"),
    "interval": ("year", "month", "day", "hour", "minute", "second"),
}
"""Which fields the types have that are no date or timestamp."""


def unit_pairs(function: str, index: int) -> Iterator[Pair]:
    generator = random.Random(SEED)
    values = [value for kind in TIMES for value in POOLS[kind]]
    if function in ("time_trunc", "time_diff"):
        values = pool(CLOCK)
    form = FORMS[function]
    for literal, canonical in spark_functions.UNITS[function][index].items():
        more: list[str] = []
        if function in ("extract", "date_part", "datepart"):
            for kind, parts in FIELDS.items():
                # Where a type has no such field, one value shows that all names for it fail.
                more += POOLS[kind] if canonical in parts else POOLS[kind][:1]
        for i, x in enumerate(values + more):
            for n in (1, -3, 0) if "{n}" in form else (0,):
                right = form.format(f=function, u=canonical, x=x, n=n)
                # The spelling matters when a query is read, whatever the value is.
                for spelling in spellings(literal, generator) if i % 8 == 0 else [literal]:
                    left = form.format(f=function, u=spelling, x=x, n=n)
                    if left != right:
                        yield left, right
                    if function == "extract" and i % 8 == 0:
                        yield f"extract('{spelling}', {x})", right


@pytest.mark.parametrize(
    ("function", "index"),
    [(name, index) for name, units in spark_functions.UNITS.items() for index in units],
)
def test_units(session: Any, zone: str, function: str, index: int) -> None:
    # The grammar reads the other names just as these, and `datepart` is an alias.
    first = function in ("date_trunc", "extract", "date_part", "timestampadd", "timestampdiff")
    pairs = sampled(list(unit_pairs(function, index)), zone, 500 if first else 100)
    assert_equal(session, pairs, jobs=100 if zone == MAIN_ZONE and first else 0)


def test_units_that_are_not_equal(session: Any) -> None:
    """What the groups must keep apart, and why letters outside ASCII count as written."""
    canonical = spark_functions.canonical_unit
    assert canonical("date_trunc", 0, "MON") == canonical("date_trunc", 0, "Month") == "month"
    assert canonical("date_trunc", 0, "wee\u212a") is None
    assert canonical("date_trunc", 0, "dow") is None
    assert canonical("date_trunc", 1, "mon") is None
    assert canonical("lower", 0, "mon") is None
    x = "TIMESTAMP '2020-05-17 10:00:00'"
    found = outcomes(session, [f"date_trunc('{u}', {x})" for u in ("wee\u212a", "week", "weeks")])
    assert [value[1] for value in found.values()] == [None, b"2020-05-11 00:00:00", None]


_UNITS = ("year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
INTERVAL_UNITS = {f"{unit}{plural}": unit for unit in _UNITS for plural in ("", "s")}
"""Units of ``INTERVAL 2 HOURS``; ``grammar.tokens`` has the first name for both."""
TYPES = {
    "long": "bigint",
    "dec": "decimal",
    "numeric": "decimal",
    "real": "float",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
}
"""Names of types that SQLGlot makes one of; parameters follow unchanged."""


def interval_pairs() -> Iterator[Pair]:
    generator = random.Random(SEED)
    amounts = ("0", "1", "-1", "'2'", "'-3'", "'1.5'", "' 2 '", "1.5", "'x'", "99999999999999")
    for literal, canonical in INTERVAL_UNITS.items():
        for spelling in spellings(literal, generator):
            for amount in amounts if spelling == literal else ("1", "'-2'"):
                yield f"INTERVAL {amount} {spelling}", f"INTERVAL {amount} {canonical}"
            for form in ("INTERVAL '3 {}'", "INTERVAL 2 {} 3 SECONDS", "INTERVAL -2 {} 4 MONTHS",
                         "DATE '2020-02-29' + INTERVAL 1 {}"):  # fmt: skip
                yield form.format(spelling), form.format(canonical)


def test_units_of_intervals(session: Any) -> None:
    assert_equal(session, sampled(list(interval_pairs()), MAIN_ZONE, 400), jobs=200)


def type_pairs() -> Iterator[Pair]:
    sizes = ("", "(5)", "(38, 38)", "(10, 2)", "(39, 0)")
    names = [
        (alias + size, canonical + size)
        for alias, canonical in TYPES.items()
        for size in (sizes if canonical == "decimal" else ("",))
    ]
    names += [("DECIMAL", "DECIMAL(10, 0)"), ("DECIMAL(7)", "DECIMAL(7, 0)"), ("TIME", "TIME(6)")]
    for alias, canonical in names:
        for form in ("CAST(NULL AS ARRAY<{}>)", "CAST(NULL AS STRUCT<a: {}, b: {}>)",
                     "CAST(NULL AS MAP<{}, {}>)", "CAST(array(1, NULL) AS ARRAY<{}>)",
                     "TRY_CAST('x' AS {})", "'12'::{}"):  # fmt: skip
            yield form.format(alias, alias), form.format(canonical, canonical)
        for value in EVERY_VALUE if alias[-1] != ")" or "10" in alias else ("12", "'1e4'"):
            yield f"CAST({value} AS {alias.upper()})", f"CAST({value} AS {canonical})"


def test_names_of_types(session: Any) -> None:
    assert_equal(session, sampled(list(type_pairs()), MAIN_ZONE, 800), jobs=200)


@pytest.mark.parametrize("timestamp", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_functions_that_are_casts(session: Any, zone: str, timestamp: str) -> None:
    pairs = [
        (f"{name}({value})", f"CAST({value} AS {kind})")  # timestamp(x) follows no setting
        for name, kind in spark_functions.CASTS.items()
        for value in EVERY_VALUE
    ]
    with settings(session, {"spark.sql.timestampType": timestamp}):
        assert_equal(session, sampled(pairs, zone, 400))


@pytest.mark.parametrize("timestamp", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_what_a_timestamp_is(session: Any, timestamp: str) -> None:
    """Which names follow the setting and which do not."""
    names = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIMESTAMP WITHOUT TIME ZONE")
    with settings(session, {"spark.sql.timestampType": timestamp}):
        found = outcomes(session, [f"CAST(NULL AS {name})" for name in names])
    kinds = {name: kind[0] for name, kind in zip(names, found.values(), strict=True)}
    ltz, ntz = '"timestamp"', '"timestamp_ntz"'
    assert kinds == {
        "TIMESTAMP": ltz if timestamp == "TIMESTAMP_LTZ" else ntz,
        "TIMESTAMP_LTZ": ltz,
        "TIMESTAMP_NTZ": ntz,
        "TIMESTAMP WITHOUT TIME ZONE": ntz,
    }
