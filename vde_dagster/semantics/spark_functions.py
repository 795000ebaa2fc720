"""Spark 4.1's built-in functions: the kind of each name, and synonyms.

Every name that ``SHOW FUNCTIONS`` lists is in exactly one of the lists below;
``vde_dagster_tests/spark/test_spark_functions.py`` compares them with Spark's registry and proves
which names, units and types are equal. Names without such a proof are compared as written, and a
name in no list makes a query opaque. Names and literals are in lower case.
(https://spark.apache.org/docs/latest/api/sql/)
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in text.strip().splitlines():
        canonical, _, aliases = line.partition(":")
        pairs.update(dict.fromkeys(aliases.split(), canonical.strip()))
    return pairs


SCALAR = _names("""
abs acos acosh add_months aes_decrypt aggregate approx_top_k_estimate array array_append
array_compact array_contains array_distinct array_except array_insert array_intersect array_join
array_max array_min array_position array_prepend array_remove array_repeat array_size array_sort
array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh
base64 bigint bin binary bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number
bitmap_count boolean bround btrim bucket
cardinality cbrt ceil ceiling char char_length character_length chr coalesce collate collation
concat concat_ws contains conv convert_timezone cos cosh cot crc32 csc
date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd
datediff datepart day dayname dayofmonth dayofweek dayofyear days decimal decode degrees double
e element_at elt encode endswith equal_null exists exp expm1 extract
factorial filter find_in_set flatten float floor forall format_number format_string from_avro
from_csv from_json from_unixtime from_utc_timestamp from_xml
get get_json_object getbit greatest hash hex hll_sketch_estimate hll_union hour hours hypot
if ifnull initcap instr int is_valid_utf8 is_variant_null isnan isnotnull isnull
json_array_length json_object_keys
kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
last_day lcase least left len length levenshtein ln locate log log10 log1p log2 lower lpad ltrim
luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries
map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute mod
month monthname months months_between
named_struct nanvl negative next_day nullif nullifzero nvl nvl2 octet_length overlay
parse_json parse_url pi pmod position positive pow power printf quarter quote
radians raise_error reduce regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like
regexp_replace regexp_substr repeat replace reverse right rint round rpad rtrim
schema_of_avro schema_of_csv schema_of_json schema_of_variant schema_of_xml sec second sentences
sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice
smallint sort_array soundex space split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb
st_setsrid st_srid startswith str_to_map string struct substr substring substring_index
tan tanh theta_difference theta_intersection theta_sketch_estimate theta_union time time_diff
time_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_avro to_binary
to_char to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform transform_keys
transform_values translate trim trunc truncate try_add try_aes_decrypt try_divide try_element_at
try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod
try_multiply try_parse_json try_parse_url try_subtract try_to_binary try_to_date try_to_number
try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_get typeof
ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode
url_encode validate_utf8 variant_get weekday weekofyear width_bucket window_time
xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
xpath_string xxhash64 year years zeroifnull zip_with
""")
"""Functions with one value per row, which depends only on the arguments and the session.

``raise_error`` and ``assert_true`` are included, because equal arguments raise the same error, like
``1 / 0``. So is ``window_time``, which reads a field of its argument.
"""

SESSION = _names("""
curdate current_catalog current_database current_date current_schema current_time
current_timestamp current_timezone current_user iceberg_version localtimestamp now session_user
user version
""")
"""Functions with one value per query, which differs between sessions or over time."""

SESSION_WITHOUT_ARGUMENTS = _names("unix_timestamp")
"""Scalar functions that, without arguments, behave like functions of `SESSION`."""

WITHOUT_PARENTHESES = _names("""
current_date current_time current_timestamp current_user session_user user
""")
"""Names that call the function even without parentheses, unless a column has the name."""

UNSTEADY = _names("""
aes_encrypt from_protobuf input_file_block_length input_file_block_start input_file_name
java_method kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
kll_sketch_agg_double kll_sketch_agg_float kll_sketch_merge_bigint kll_sketch_merge_double
kll_sketch_merge_float monotonically_increasing_id rand randn random randstr reflect shuffle
spark_partition_id to_protobuf try_reflect uniform uuid
""")
"""Functions whose value may differ for equal arguments, or depends on a row's position.

A seed does not help: it is combined with the number of the row's partition. Spark marks most of
these itself, but not all.
"""

AGGREGATE = _names("""
any approx_count_distinct avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
bitmap_or_agg bool_and bool_or corr count count_if covar_pop covar_samp every kurtosis max mean
median min percentile percentile_cont percentile_disc regr_avgx regr_avgy regr_count
regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop
stddev_samp sum try_avg try_sum var_pop var_samp variance
""")
"""Aggregations whose result does not depend on the order of the rows.

By convention, the last bits of float sums, and the sign of a zero as minimum or maximum, do not
count.
"""

ORDERED_AGGREGATE = _names("""
any_value approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine array_agg
collect_list collect_set count_min_sketch first first_value histogram_numeric hll_sketch_agg
hll_union_agg last last_value listagg max_by min_by mode percentile_approx schema_of_variant_agg
string_agg theta_intersection_agg theta_sketch_agg theta_union_agg
""")
"""Aggregations whose result may depend on the order of the rows.

Sketches are included: the bytes of an HLL sketch, and estimates from it, differ.
"""

RANKING = _names("cume_dist dense_rank percent_rank rank")
"""Window functions with equal values for rows with equal sort keys."""

TIE_BREAKING = _names("lag lead nth_value ntile row_number")
"""Window functions that distinguish rows with equal sort keys."""

GENERATORS = _names("""
explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack
""")
"""Functions that return rows, allowed in SELECT, LATERAL VIEW and FROM."""

TABLE_FUNCTIONS = _names("""
collations python_worker_logs range sql_keywords variant_explode variant_explode_outer
""")
"""Functions that return rows, allowed only in FROM."""

GROUPING = _names("grouping grouping_id session_window window")
"""Functions whose value belongs to a grouped row.

``window`` also drops rows whose time is NULL, and repeats rows if windows overlap.
"""

OPERATORS = _names("""
! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ and between case cast div ilike in like not or
regexp rlike when | || ~
""")
"""Symbols and keywords. All but ``!= <> || case cast`` can also be called: ``div(7, 2)``."""

PARSED = _names("timediff timestampadd timestampdiff try_cast")
"""Functions that exist only in Spark's grammar, not in ``SHOW FUNCTIONS``.

``dateadd date_add date_diff datediff`` are included if three arguments begin with a unit.
"""

CATALOG = _names("bucket days hours iceberg_version months truncate years")
"""Iceberg's functions, available while an Iceberg catalog is the current catalog."""

_KINDS = {
    name: kind
    for kind, names in (
        ("scalar", SCALAR),
        ("session", SESSION),
        ("unsteady", UNSTEADY),
        ("aggregate", AGGREGATE),
        ("ordered aggregate", ORDERED_AGGREGATE),
        ("ranking", RANKING),
        ("tie-breaking", TIE_BREAKING),
        ("generator", GENERATORS),
        ("table function", TABLE_FUNCTIONS),
        ("grouping", GROUPING),
        ("operator", OPERATORS),
        ("parsed", PARSED),
    )
    for name in names
}


def kind(name: str) -> str | None:
    """Return the kind (see `_KINDS`) of a function; None if Spark does not have it."""
    return _KINDS.get(name)


def names() -> Iterable[str]:
    """Return the names of all functions that can be called."""
    return (name for name in _KINDS if name.isidentifier())


ALIASES = _pairs("""
aggregate: reduce
approx_percentile: percentile_approx
avg: mean
bit_get: getbit
bool_and: every
bool_or: any some
ceil: ceiling
char: chr
collect_list: array_agg
concat: ||
current_database: current_schema
current_date: curdate
current_timestamp: now
current_user: session_user user
date_add: dateadd
date_part: datepart
datediff: date_diff
day: dayofmonth
first: first_value
format_string: printf
last: last_value
length: char_length character_length len
listagg: string_agg
locate: position
lower: lcase
mod: %
not: !
nvl: ifnull
pow: power
rand: random
reflect: java_method
rlike: regexp regexp_like
sha1: sha
shiftleft: <<
shiftright: >>
shiftrightunsigned: >>>
sign: signum
size: cardinality
stddev: std stddev_samp
substring: substr
to_char: to_varchar
upper: ucase
variance: var_samp
xpath_double: xpath_number
=: ==
!=: <>
<=>: equal_null
""")
"""Synonyms with the same arguments, each with the name that represents them.

A column without an alias is named after the function's spelling, so two queries that differ only in
a synonym may differ in their column names.
"""

CASTS = {
    **{name: name.upper() for name in _names("bigint binary boolean date double float int")},
    **{name: name.upper() for name in _names("smallint string tinyint")},
    "decimal": "DECIMAL(10, 0)",
    "time": "TIME(6)",
    "timestamp": "TIMESTAMP_LTZ",
}
"""Functions of one argument that are casts to a type.

``timestamp(x)`` always casts to ``TIMESTAMP_LTZ``, while ``CAST(x AS TIMESTAMP)`` depends on the
setting ``spark.sql.timestampType``.
"""

_TRUNCATIONS = _pairs("""
year: year yyyy yy
quarter: quarter
month: month mon mm
week: week
""")
_FIELDS = _pairs("""
year: year y years yr yrs
yearofweek: yearofweek
quarter: quarter qtr
month: month mon mons months
week: week w weeks
day: day d days
dayofweek: dayofweek dow
dayofweek_iso: dayofweek_iso dow_iso
doy: doy
hour: hour h hours hr hrs
minute: minute m min mins minutes
second: second s sec seconds secs
""")
_CLOCK_UNITS = {name: name for name in ("microsecond", "millisecond", "second", "minute", "hour")}
_DIFFERENCES = _CLOCK_UNITS | {name: name for name in ("day", "week", "month", "quarter", "year")}
_ADDITIONS = _DIFFERENCES | {"dayofyear": "day"}
_DAYS = _pairs("""
sunday: sunday sun su
monday: monday mon mo
tuesday: tuesday tue tu
wednesday: wednesday wed we
thursday: thursday thu th
friday: friday fri fr
saturday: saturday sat sa
""")

UNITS: dict[str, dict[int, dict[str, str]]] = {
    "date_trunc": {0: _TRUNCATIONS | _CLOCK_UNITS | _pairs("day: day dd")},
    "trunc": {1: _TRUNCATIONS},
    "next_day": {1: _DAYS},
    **{name: {0: _CLOCK_UNITS} for name in ("time_trunc", "time_diff")},
    **{name: {0: _FIELDS} for name in ("extract", "date_part", "datepart")},
    **{name: {0: _ADDITIONS} for name in ("timestampadd", "dateadd", "date_add")},
    **{name: {0: _DIFFERENCES} for name in ("timestampdiff", "timediff", "datediff", "date_diff")},
}
"""Arguments that name a unit: function, index of the argument, literal, canonical literal.

A literal in no group counts as written. Spark ignores case. The unit is a string, but a bare word
in ``extract(F FROM x)``, for ``timestampadd`` and for what follows it here; of these, ``dateadd
date_add datediff date_diff`` have one only with three arguments.
"""

_PATTERN = "'yyyy-MM-dd HH:mm:ss'"
DEFAULTS: dict[str, tuple[int, tuple[str, ...]]] = {
    name: (first, values)
    for named, first, values in (
        ("any_value first last", 1, ("false",)),
        ("months_between", 2, ("true",)),
        ("sort_array", 1, ("true",)),
        ("bround round", 1, ("0",)),
        ("regexp_instr", 2, ("0",)),
        ("locate regexp_extract regexp_extract_all", 2, ("1",)),
        ("regexp_replace", 3, ("1",)),
        ("split", 2, ("-1",)),
        ("overlay", 3, ("-1",)),
        ("hll_sketch_agg theta_sketch_agg theta_union_agg", 1, ("12",)),
        ("theta_union", 2, ("12",)),
        ("hll_union_agg mode", 1, ("false",)),
        ("hll_union nth_value", 2, ("false",)),
        ("approx_top_k", 1, ("5", "10000")),
        ("approx_top_k_accumulate", 1, ("10000",)),
        ("approx_top_k_estimate", 1, ("5",)),
        ("percentile", 2, ("1L",)),
        ("listagg", 1, ("null",)),
        ("make_dt_interval", 1, ("0", "0")),
        ("make_interval try_make_interval", 1, ("0",) * 5),
        ("make_ym_interval", 1, ("0",)),
        ("ntile", 0, ("1",)),
        ("substring", 2, ("2147483647",)),
        ("to_binary try_to_binary", 1, ("'hex'",)),
        ("approx_percentile", 2, ("10000",)),
        ("approx_count_distinct", 1, ("0.05D",)),
        ("lag lead", 1, ("1", "null")),
        ("mask", 1, ("'X'", "'x'", "'n'", "null")),
        ("replace", 2, ("''",)),
        ("sentences", 1, ("''", "''")),
        ("str_to_map", 1, ("','", "':'")),
        ("aes_decrypt try_aes_decrypt", 2, ("'GCM'", "'DEFAULT'", "''")),
        ("from_unixtime to_unix_timestamp unix_timestamp", 1, (_PATTERN,)),
    )
    for name in named.split()
}
"""Spark's defaults for omitted arguments: the first one's index, and literals."""

CONSTANTS: dict[str, tuple[int, ...]] = {
    name: places
    for named, places in (
        ("current_time ntile schema_of_csv schema_of_json schema_of_xml", (0,)),
        ("any_value approx_top_k_accumulate bround ceil first floor from_csv from_json", (1,)),
        ("from_xml histogram_numeric lag last lead listagg mode percentile round", (1,)),
        ("sort_array to_number try_to_binary try_to_number xpath xpath_boolean", (1,)),
        ("xpath_double xpath_float xpath_int xpath_long xpath_short xpath_string", (1,)),
        ("approx_percentile approx_top_k nth_value", (1, 2)),
        ("mask", (1, 2, 3, 4)),
    )
    for name in named.split()
}
"""Indexes of arguments that Spark takes as constants only, not as columns."""

ARGUMENTS = _pairs("""
0: collations cume_dist current_catalog current_database current_date current_timestamp
0: current_timezone current_user e input_file_block_length input_file_block_start input_file_name
0: localtimestamp monotonically_increasing_id pi row_number spark_partition_id sql_keywords
0: version
0+: array arrays_zip coalesce concat concat_ws count dense_rank elt format_string greatest
0+: grouping_id hash json_tuple least map map_concat named_struct parse_url percent_rank
0+: python_worker_logs rank reflect stack struct try_parse_url try_reflect xxhash64
0-1: current_time ntile rand randn uuid
0-2: make_ym_interval mode unix_timestamp
0-4: lag lead make_dt_interval
0-7: make_interval
1+: hour minute second
1-2: any_value approx_count_distinct approx_top_k_accumulate approx_top_k_combine
1-2: approx_top_k_estimate array_sort assert_true bround btrim ceil first floor from_unixtime
1-2: hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
1-2: kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float last listagg log ltrim
1-2: randstr round rtrim schema_of_avro schema_of_csv schema_of_json schema_of_xml shuffle
1-2: sort_array theta_sketch_agg theta_union_agg to_avro to_binary to_csv to_date to_json to_time
1-2: to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_xml trim try_to_binary
1-2: try_to_date try_to_time try_to_timestamp
1-3: approx_top_k sentences str_to_map
1-3,6-7: make_timestamp try_make_timestamp
1-4: range
1-5: mask
1-7: try_make_interval
2: add_months array_append array_contains array_except array_intersect array_position
2: array_prepend array_remove array_repeat array_union arrays_overlap atan2 bit_get collate
2: contains corr covar_pop covar_samp date_format date_part date_sub date_trunc element_at encode
2: endswith exists extract filter find_in_set forall format_number from_utc_timestamp get
2: get_json_object histogram_numeric hypot instr kll_sketch_get_quantile_bigint
2: kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
2: kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
2: kll_sketch_merge_double kll_sketch_merge_float left map_contains_key map_filter map_from_arrays
2: max_by min_by mod nanvl next_day nullif nvl pmod pow regexp_count regexp_substr regr_avgx
2: regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat right
2: session_window sha2 shiftleft shiftright shiftrightunsigned st_setsrid startswith
2: theta_difference theta_intersection time_trunc to_char to_number to_utc_timestamp transform
2: transform_keys transform_values trunc try_add try_divide try_element_at try_mod try_multiply
2: try_subtract try_to_number xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long
2: xpath_short xpath_string
2+: decode
2,6: make_timestamp_ntz try_make_timestamp_ntz
2-3: approx_percentile array_join convert_timezone date_add datediff from_avro from_csv from_json
2-3: from_xml hll_union levenshtein locate lpad months_between nth_value percentile regexp_extract
2-3: regexp_extract_all regexp_instr replace rpad sequence split substring theta_union
2-3: try_variant_get uniform variant_get
2-3,6-7: make_timestamp_ltz try_make_timestamp_ltz
2-4: from_protobuf to_protobuf window
2-5: aes_decrypt try_aes_decrypt
2-6: aes_encrypt
3: array_insert conv if make_date make_time map_zip_with nvl2 slice split_part substring_index
3: time_diff translate zip_with
3-4: aggregate overlay regexp_replace
4: count_min_sketch width_bucket
""")
"""Numbers of arguments: ``2-3`` is two or three; unlisted functions take one.

Made by asking Spark 4.1's `functionRegistry.lookupFunction` for each name with 0 to 16 NULLs,
which answers WRONG_NUM_ARGS; `dateadd` and its like have a third one with a unit.
"""
_UNCOUNTED = OPERATORS | PARSED | CATALOG


def takes(name: str, count: int) -> bool:
    """Return whether a function accepts this number of arguments; true where unknown.

    >>> takes("date_trunc", 2), takes("date_trunc", 1), takes("my_function", 5)
    (True, False, True)
    """
    name = ALIASES.get(name, name)
    if name not in _KINDS or name in _UNCOUNTED:
        return True
    for part in _counts(name):
        least, _, most = part.rstrip("+").partition("-")
        if int(least) <= count <= (inf if part.endswith("+") else int(most or least)):
            return True
    return False


def arguments_text(name: str) -> str:
    """Return the number of arguments that a function takes, as "2 to 3"."""
    counts = " or ".join(_counts(ALIASES.get(name, name)))
    return {"0": "none"}.get(counts, counts.replace("-", " to ").replace("+", " or more"))


def argument_counts(name: str) -> tuple[int, int | None]:
    """Return the minimum and maximum number of arguments; None for an unlimited maximum."""
    counts = _counts(ALIASES.get(name, name))
    ends = [one.partition("-") for one in counts]
    least = min(int(first.rstrip("+")) for first, _, _ in ends)
    if any(one.endswith("+") for one in counts):
        return least, None
    return least, max(int(last or first) for first, _, last in ends)


def _counts(name: str) -> list[str]:
    return ARGUMENTS.get(name, "1").split(",")


def unit(function: str, index: int, literal: str) -> str | None:
    """Return the canonical text of a literal that names a unit; None if it counts as written."""
    if not literal.isascii():  # the Kelvin sign is a "k" in lower case here, but not for Spark
        return None
    return UNITS.get(function, {}).get(index, {}).get(literal.lower())


SYNTAX_CLASSES = frozenset(
    {"Div", "IntDiv", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Like"}
    | {"ILike", "Escape", "Is", "Tuple", "Var", "Kwarg"}
)
"""Classes of SQLGlot's trees whose name and arguments determine their meaning."""

GENERATOR_KINDS = {
    name: (name.removesuffix("_outer"), name.endswith("_outer")) for name in GENERATORS
}
"""Functions that return rows, with their generator and whether they are OUTER."""
