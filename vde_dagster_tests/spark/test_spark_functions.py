"""Every function of Spark stands in exactly one list, and Spark agrees that it belongs there."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError, get_return_value

from vde_dagster.semantics import spark_functions
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.registry import EVERYTHING, BuiltIn, analysed, built_ins, settings

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

LISTS = {
    "scalar": spark_functions.SCALAR,
    "session": spark_functions.SESSION,
    "unsteady": spark_functions.UNSTEADY,
    "aggregate": spark_functions.AGGREGATE,
    "ordered aggregate": spark_functions.ORDERED_AGGREGATE,
    "ranking": spark_functions.RANKING,
    "tie-breaking": spark_functions.TIE_BREAKING,
    "generator": spark_functions.GENERATORS,
    "table function": spark_functions.TABLE_FUNCTIONS,
    "grouping": spark_functions.GROUPING,
    "operator": spark_functions.OPERATORS,
}

NOT_LOADED = frozenset(
    {"from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "python_worker_logs"}
)
"""Functions of modules that this session has not got, or that only Python's logging has."""

_ANALYSIS = "org.apache.spark.sql.AnalysisException: "
_MISCOUNTED = (f"{_ANALYSIS}[WRONG_NUM_ARGS.", f"{_ANALYSIS}[REQUIRED_PARAMETER_NOT_FOUND]")
_WITH_A_UNIT = {(name, 3) for name in ("dateadd", "date_add", "datediff", "date_diff")}


@pytest.fixture(scope="module")
def session(spark_engine: SparkEngine) -> Any:
    return spark_engine.session


@pytest.fixture(scope="module")
def registry(session: Any) -> dict[str, BuiltIn]:
    return built_ins(session)


def test_every_function_is_in_exactly_one_list(registry: dict[str, BuiltIn]) -> None:
    listed = Counter(name for names in LISTS.values() for name in names)
    assert [name for name, times in listed.items() if times > 1] == []
    assert sorted(registry.keys() - listed.keys()) == [], "Spark has new functions"
    assert sorted(listed.keys() - registry.keys()) == [], "Spark does not know them"
    for name in registry:
        assert name in LISTS[spark_functions.function_kind(name) or ""], name
    catalog = {name for name, function in registry.items() if function.group == "catalog"}
    assert catalog == spark_functions.CATALOG


UNMARKED = frozenset(
    {
        *("aes_encrypt", "from_protobuf", "to_protobuf"),
        *("kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float"),
        *("kll_sketch_agg_bigint", "kll_sketch_agg_double", "kll_sketch_agg_float"),
        *("kll_sketch_merge_bigint", "kll_sketch_merge_double", "kll_sketch_merge_float"),
    }
)
"""Those of `UNSTEADY` that Spark takes for deterministic.

``aes_encrypt`` draws an initialisation vector where none is given, a KLL sketch tosses coins when
it compacts itself, and the functions of Protocol Buffers read a file.
"""


def test_smaller_lists_name_functions_of_their_kind() -> None:
    known = spark_functions
    assert known.UNSTEADY >= UNMARKED
    assert known.WITHOUT_PARENTHESES <= known.SESSION
    assert known.SESSION_WITHOUT_ARGUMENTS <= known.SCALAR
    assert known.CASTS.keys() <= known.SCALAR
    for alias, canonical in known.ALIASES.items():
        assert known.function_kind(alias) is not None, alias
        assert canonical not in known.ALIASES, "one step leads to the canonical name"
        kinds = {known.function_kind(alias), known.function_kind(canonical)}
        assert len(kinds) == 1 or kinds == {"operator", "scalar"}, alias
    assert known.function_kind("no_such_function") is None


def test_aggregations_are_those_of_spark(session: Any, registry: dict[str, BuiltIn]) -> None:
    """A class that is a subclass of AggregateFunction, Generator or WindowFunction is known so."""
    expected = {
        "aggregate.AggregateFunction": {"aggregate", "ordered aggregate", "unsteady"},
        "Generator": {"generator", "table function"},
        "AggregateWindowFunction": {"ranking", "tie-breaking"},
        "FrameLessOffsetWindowFunction": {"tie-breaking"},
    }
    base = "org.apache.spark.sql.catalyst.expressions."
    loader = session._jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    above = {loader.loadClass(base + short): kinds for short, kinds in expected.items()}
    wrong: list[str] = []
    for name, function in registry.items():
        if not function.class_name:
            continue
        this = loader.loadClass(function.class_name)
        kinds = [allowed for parent, allowed in above.items() if parent.isAssignableFrom(this)]
        own = spark_functions.function_kind(name)
        if not kinds and function.group == "agg_funcs" and own != "grouping":
            kinds = [expected["aggregate.AggregateFunction"]]  # made by a builder
        if not kinds and function.group == "window_funcs":
            kinds = [expected["AggregateWindowFunction"]]
        if not kinds and function.group in ("generator_funcs", "table_funcs"):
            kinds = [expected["Generator"]]
        row = {"scalar", "session", "operator", "unsteady", "grouping", "generator"}
        if own not in (kinds[-1] if kinds else row | {"table function"}):
            wrong.append(f"{name}: {own}, but it is a {this.getSimpleName()}")
    assert wrong == []


def test_spark_marks_the_same_functions_as_not_deterministic(
    session: Any, registry: dict[str, BuiltIn]
) -> None:
    """An example is deterministic for Spark exactly if it calls no function that is marked."""
    marked = spark_functions.UNSTEADY - UNMARKED
    wrong: list[str] = []
    seen: set[str] = set()
    silent: list[str] = []
    with settings(session, EVERYTHING):
        for name, function in registry.items():
            built = False
            for example in function.examples:
                try:
                    steady = bool(analysed(session, example).deterministic())
                except Exception:  # a SET, an example of a failure
                    continue
                built = True
                called = set(re.findall(r"\w+(?=\()", example.lower())) & marked
                seen |= called
                if steady != (not called):
                    wrong.append(f"{example}: deterministic is {steady}")
            if function.examples and not built:
                silent.append(name)
    assert wrong == []
    assert sorted(marked - seen) == [], "no example of theirs can be analysed"
    assert set(silent) <= NOT_LOADED, silent


@pytest.mark.parametrize("sketch", ["bigint", "double", "float"])
def test_kll_sketches_of_the_same_rows_in_the_same_order_differ(session: Any, sketch: str) -> None:
    """Why they are unsteady though Spark does not mark them."""
    rows = "FROM range(0, 100000, 1, 1)"
    query = f"SELECT md5(kll_sketch_agg_{sketch}(CAST(id AS {sketch}))) {rows}"
    assert len({session.sql(query).collect()[0][0] for _ in range(5)}) > 1


def test_encryption_draws_a_vector(session: Any) -> None:
    call = "aes_encrypt('a', '0000111122223333')"
    assert session.sql(f"SELECT {call} = {call}").collect()[0][0] is False


@pytest.mark.parametrize(
    ("aggregation", "differs"),
    [
        ("md5(hll_sketch_agg(x))", True),
        ("percentile_approx(x, 0.5, 100)", True),
        ("CAST(histogram_numeric(x, 5) AS STRING)", True),
        ("first(x)", True),
        ("max_by(x, 1)", True),
        ("approx_count_distinct(x)", False),
        ("md5(bitmap_construct_agg(x % 1000))", False),
        ("percentile(x, 0.3)", False),
        ("median(x)", False),
        ("percentile_cont(0.3) WITHIN GROUP (ORDER BY x)", False),
        ("percentile_disc(0.3) WITHIN GROUP (ORDER BY x)", False),
        ("bit_xor(x)", False),
    ],
)
def test_what_the_order_of_rows_changes(session: Any, aggregation: str, differs: bool) -> None:
    """The rows are the same, once upwards and once downwards."""
    results = [
        session.sql(f"SELECT {aggregation} FROM (SELECT {x} AS x FROM range(0, 100000, 1, 1))")
        for x in ("id", "99999 - id")
    ]
    up, down = (result.collect()[0][0] for result in results)
    assert (up != down) == differs, (up, down)
    name = re.findall(r"\w+(?=\()", aggregation)
    known = {spark_functions.function_kind(n) for n in name} & {"aggregate", "ordered aggregate"}
    assert known == {"ordered aggregate" if differs else "aggregate"}


def test_names_that_stand_without_parentheses(session: Any) -> None:
    alone: set[str] = set()
    with settings(session, EVERYTHING):
        for name in spark_functions.SESSION | spark_functions.UNSTEADY | {"e", "pi", "range"}:
            try:
                analysed(session, f"SELECT {name}")
            except Exception:
                continue
            alone.add(name)
    assert alone == spark_functions.WITHOUT_PARENTHESES


def test_functions_that_only_the_grammar_knows(session: Any, registry: dict[str, BuiltIn]) -> None:
    parser = session._jsparkSession.sessionState().sqlParser()

    def read(text: str) -> str:
        return str(parser.parseExpression(text).getClass().getSimpleName())

    assert not spark_functions.PARSED & registry.keys()
    assert {
        name: read(f"{name}(hour, a, b)") for name in spark_functions.PARSED - {"try_cast"}
    } == {
        "timediff": "TimestampDiff",
        "timestampadd": "TimestampAdd",
        "timestampdiff": "TimestampDiff",
    }
    assert read("try_cast(a AS INT)") == "Cast"
    for name in ("dateadd", "date_add", "datediff", "date_diff"):
        assert read(f"{name}(hour, a, b)").startswith("Timestamp")
        assert read(f"{name}(a, b)") == "UnresolvedFunction"


def test_operators_that_can_be_called(session: Any) -> None:
    refused: set[str] = set()
    arguments = ("(true)", "(1, 2)", "('a', 'b')", "(1)", "(true, false)", "(1, 1, 2)")
    for name in spark_functions.OPERATORS:
        for given in arguments:
            try:
                analysed(session, f"SELECT `{name}`{given}")
                break
            except Exception:
                continue
        else:
            refused.add(name)
    assert refused == {"!=", "<>", "||", "case", "cast"}


def test_functions_are_found_in_any_case(session: Any, registry: dict[str, BuiltIn]) -> None:
    """The lists are in lower case, as Spark finds functions in any case."""
    assert all(name == name.lower() for name in registry)
    assert session.sql("SELECT LeNgTh('ab'), `LENGTH`('ab')").collect()[0] == (2, 2)


LEFT_OUT = {
    "aes_decrypt": "aes_decrypt(CAST(s AS BINARY), CAST(s AS BINARY)",
    "any_value": "any_value(i",
    "approx_count_distinct": "approx_count_distinct(i",
    "approx_percentile": "percentile_approx(d, 0.5",
    "approx_top_k": "approx_top_k(i",
    "approx_top_k_accumulate": "approx_top_k_accumulate(i",
    "approx_top_k_estimate": "approx_top_k_estimate(approx_top_k_accumulate(i)",
    "bround": "bround(d",
    "first": "first(i",
    "from_unixtime": "from_unixtime(k",
    "hll_sketch_agg": "hll_sketch_agg(i",
    "hll_union": "hll_union(CAST(s AS BINARY), CAST(s AS BINARY)",
    "hll_union_agg": "hll_union_agg(CAST(s AS BINARY)",
    "lag": "lag(i",
    "last": "last(i",
    "lead": "lead(i",
    "listagg": "listagg(s",
    "locate": "locate('a', s",
    "make_dt_interval": "make_dt_interval(i",
    "make_interval": "make_interval(i",
    "make_ym_interval": "make_ym_interval(i",
    "mask": "mask(s",
    "mode": "mode(i",
    "months_between": "months_between(p, p",
    "nth_value": "nth_value(i, 2",
    "ntile": "ntile(",
    "overlay": "overlay(s, 'a', i",
    "percentile": "percentile(i, 0.5",
    "regexp_extract": "regexp_extract(s, 'a(b)'",
    "regexp_extract_all": "regexp_extract_all(s, 'a(b)'",
    "regexp_instr": "regexp_instr(s, 'a(b)'",
    "regexp_replace": "regexp_replace(s, 'a', 'b'",
    "replace": "replace(s, 'a'",
    "round": "round(d",
    "sentences": "sentences(s",
    "sort_array": "sort_array(a",
    "split": "split(s, ','",
    "str_to_map": "str_to_map(s",
    "substring": "substring(s, 1",
    "theta_sketch_agg": "theta_sketch_agg(i",
    "theta_union": "theta_union(CAST(s AS BINARY), CAST(s AS BINARY)",
    "theta_union_agg": "theta_union_agg(CAST(s AS BINARY)",
    "to_binary": "to_binary(s",
    "to_unix_timestamp": "to_unix_timestamp(s",
    "try_aes_decrypt": "try_aes_decrypt(CAST(s AS BINARY), CAST(s AS BINARY)",
    "try_make_interval": "try_make_interval(i",
    "try_to_binary": "try_to_binary(s",
    "unix_timestamp": "unix_timestamp(s",
}
"""Calls up to the argument that may be left out."""


def test_arguments_that_are_left_out_are_those_that_spark_takes(session: Any) -> None:
    """Spark's analyser makes one plan of the call with them and of that without."""
    rows = "VALUES (1, 2L, 0.5D, 'x', DATE '2020-01-01', array('x')) AS t(i, k, d, s, p, a)"
    wrong = []
    for name, (_, defaults) in spark_functions.DEFAULTS.items():
        over = " OVER (ORDER BY i)" if name in ("lag", "lead", "nth_value", "ntile") else ""
        plans = []
        for some in (defaults[:n] for n in range(len(defaults) + 1)):
            call = ", ".join([LEFT_OUT[name], *some]).replace("(, ", "(")
            plans.append(analysed(session, f"SELECT {call}){over} AS x FROM {rows}"))
        wrong += [f"{name}: {plan}" for plan in plans[1:] if not plans[0].sameResult(plan)]
    assert wrong == []


NO_CONSTANT = """
aes_encrypt aggregate approx_top_k_combine array_join array_sort assert_true btrim ceil
convert_timezone current_time date_add datediff floor from_avro from_csv from_json from_protobuf
from_xml kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
kll_sketch_agg_double kll_sketch_agg_float levenshtein log lpad ltrim make_timestamp
make_timestamp_ltz make_timestamp_ntz rand randn randstr range rpad rtrim schema_of_avro
schema_of_csv schema_of_json schema_of_xml sequence shuffle to_avro to_csv to_date to_json
to_protobuf to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_xml trim try_make_timestamp
try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp
try_variant_get uniform uuid variant_get window
"""
"""Functions of which no constant stands for what is left out in every call.

It is no value (options, a format, a function, a time zone), decides what is computed, is another
for each type (`lpad`, see `drop_default_arguments`), or of functions that have no version anyway.
"""


def test_every_argument_that_may_be_left_out_has_a_constant_or_none() -> None:
    known = spark_functions
    several = {
        name
        for name in {*known.function_names()}
        - known.ALIASES.keys()
        - known.OPERATORS
        - known.CATALOG
        if sum(known.accepts_argument_count(name, count) for count in range(9)) > 1
        and not known.accepts_argument_count(name, 16)
    }
    assert several - known.PARSED == known.DEFAULTS.keys() | {*NO_CONSTANT.split()}
    assert not known.DEFAULTS.keys() & {*NO_CONSTANT.split()}


def test_functions_take_as_many_arguments_as_spark_says(
    session: Any, registry: dict[str, BuiltIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the ends of each range: the registry makes an expression of NULLs, or counts them."""
    # Spark's own exceptions; PySpark's ask for a dozen things of each.
    monkeypatch.setattr("py4j.java_gateway.get_return_value", get_return_value)
    state, jvm = session._jsparkSession.sessionState(), session._jvm
    registries = (state.functionRegistry(), state.tableFunctionRegistry())
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    null = getattr(getattr(expressions, "Literal$"), "MODULE$").apply(None)
    given = jvm.scala.collection.mutable.ArrayBuffer()
    lists = [given.toList()]
    for _ in range(9):
        given.addOne(null)
        lists.append(given.toList())
    wrong = []
    for name in registry.keys() - spark_functions.OPERATORS - spark_functions.CATALOG - NOT_LOADED:
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
        functions = next(one for one in registries if one.functionExists(identifier))
        takes = [spark_functions.accepts_argument_count(name, count) for count in range(10)]
        ends = [n for n in range(9) if takes[n] != takes[n + 1]]
        for count in sorted({*ends, *(n + 1 for n in ends)}):
            counted = True
            try:
                functions.lookupFunction(identifier, lists[count])
            except Py4JJavaError as error:  # That NULL is none of its values is another matter.
                counted = not str(error.java_exception).startswith(_MISCOUNTED)
            if counted != takes[count] and (name, count) not in _WITH_A_UNIT:
                wrong.append(f"{name} of {count}: {counted}")
    assert wrong == []
