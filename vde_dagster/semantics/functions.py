"""Which functions are understood: a function that is in no list makes a query opaque.

Two kinds of names: the classes into which SQLGlot parses a function, and, in lower case, Spark
builtins that SQLGlot passes through by name (https://spark.apache.org/docs/latest/api/sql/).
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SCALAR_CLASSES = _names("""
Abs Acos Acosh AddMonths Array ArrayAll ArrayAny ArrayAppend ArrayCompact ArrayConcat
ArrayContainedBy ArrayContains ArrayContainsAll ArrayDistinct ArrayExcept ArrayFilter ArrayFirst
ArrayInsert ArrayIntersect ArrayLast ArrayMax ArrayMin ArrayOverlaps ArrayPosition ArrayPrepend
ArrayRemove ArrayRemoveAt ArrayReverse ArraySize ArraySlice ArraySort ArraySum ArrayToString
ArraysZip Ascii Asin Asinh Atan Atan2 Atanh Base64DecodeBinary Base64DecodeString Base64Encode
BitLength BitwiseCount ByteLength Cbrt Ceil Chr Coalesce Concat ConcatWs Contains Convert
ConvertTimezone Cos Cosh Cot Csc Date DateAdd DateDiff DateFromParts DateFromUnixDate
DateStrToDate DateSub DateToDateStr DateToDi DateTrunc Datetime DatetimeAdd DatetimeDiff
DatetimeSub DatetimeTrunc Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear Dayname Decode
DecodeCase Degrees DiToDate Elt Encode EndsWith EqualNull Exp Extract Factorial Flatten Floor
Format FromBase64 FromJson Getbit Greatest Hex Hour Initcap IsInf IsNan IsNullValue JSONArray
JSONArrayContains JSONBExtract JSONBExtractScalar JSONExists JSONExtract JSONExtractArray
JSONExtractScalar JSONFormat JSONKeys JSONObject JSONType LastDay Least Left Length Levenshtein
Ln Log Lower LowerHex MakeInterval Map MapCat MapContainsKey MapFromEntries MapKeys MapSize MD5
MD5Digest Minute Month Monthname MonthsBetween Nanvl NextDay Nullif NumberToStr Nvl2 Overlay Pad
ParseJSON ParseUrl Pi Pow Quarter Radians Reduce RegexpCount RegexpExtract RegexpExtractAll
RegexpFullMatch RegexpILike RegexpInstr RegexpLike RegexpReplace RegexpSplit RegexpSubstr Repeat
Replace Reverse Right Rint Round RtrimmedLength SafeAdd SafeDivide SafeMultiply SafeNegate
SafeSubtract Sec Second SHA SHA1Digest SHA2 SHA2Digest Sign Sin Sinh Soundex Space Split
SplitPart Sqrt StartsWith StrPosition StrToDate StrToMap StrToTime StrToUnix StringToArray Struct
StructExtract Substring SubstringIndex Tan Tanh Time TimeAdd TimeDiff TimeFromParts TimeStrToDate
TimeStrToTime TimeStrToUnix TimeSub TimeToStr TimeToTimeStr TimeToUnix TimeTrunc Timestamp
TimestampAdd TimestampDiff TimestampFromParts TimestampSub TimestampTrunc ToArray ToBase64 ToBinary
ToBoolean ToChar ToDouble ToMap ToNumber Transform Translate Trim Trunc Try TsOrDiToDi TsOrDsAdd
TsOrDsDiff TsOrDsToDate TsOrDsToDateStr TsOrDsToTime TsOrDsToTimestamp Typeof Unhex Unicode
UnixDate UnixMicros UnixMillis UnixSeconds UnixToStr UnixToTime UnixToTimeStr Upper VarMap Week
WeekOfYear WidthBucket Xor Year YearOfWeek YearOfWeekIso Exists GenerateSeries GenerateDateArray
GenerateTimestampArray
""")

SESSION_CLASSES = _names("""
CurrentCatalog CurrentDatabase CurrentDate CurrentDatetime CurrentSchema CurrentTime
CurrentTimestamp CurrentTimestampLTZ CurrentTimezone CurrentUser Localtime Localtimestamp
SessionUser UtcDate UtcTime UtcTimestamp
""")
"""The same value wherever it stands in one query: a fixed symbol."""

SYNTAX_CLASSES = _names("""
Add Sub Mul Div IntDiv Mod Neg BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift
BitwiseRightShift DPipe Like ILike SimilarTo RegexpLike RegexpILike Glob Escape Is Bracket Slice
Interval Tuple Var Boolean Null Literal AtTimeZone FromTimeZone PropertyEQ Lambda DataType
DataTypeParam ColumnDef HexString BitString ByteString RawString National JSONPath JSONPathRoot
JSONPathKey JSONPathSubscript JSONPathWildcard JSONPathRecursive JSONPathSlice JSONPathUnion
JSONPathSelector JSONPathFilter JSONPathScript Identifier UnicodeString IntervalSpan
""")

SCALAR_NAMES = _names("""
pmod hash xxhash64 crc32 bround make_date make_timestamp make_timestamp_ntz make_timestamp_ltz
make_dt_interval make_ym_interval date_part datepart nanvl cardinality size mod power pow bin conv
e expm1 log1p log10 log2 hypot rint signum sec csc degrees radians factorial
positive negative try_add try_subtract try_multiply try_divide try_mod try_element_at try_to_number
try_to_timestamp try_to_binary try_to_date try_to_time try_avg_of to_unix_timestamp to_utc_timestamp
from_utc_timestamp unix_date unix_micros unix_millis unix_seconds timestamp_seconds
timestamp_millis timestamp_micros date_from_unix_date weekday dayname monthname to_char to_varchar
to_number to_binary char chr octet_length bit_length char_length character_length ltrim rtrim
btrim lpad rpad locate instr position substring_index overlay sentences soundex levenshtein
format_number format_string printf elt find_in_set luhn_check mask regexp_count regexp_instr
regexp_substr regexp_extract_all split_part startswith endswith contains left right
encode decode unbase64 base64 url_encode url_decode parse_url try_parse_url
array_append array_prepend array_compact array_except array_insert array_intersect array_join
array_max array_min array_position array_remove array_repeat array_size array_union arrays_overlap
arrays_zip get flatten forall zip_with slice sort_array array_sort map_concat map_contains_key
map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with
transform_keys transform_values str_to_map named_struct schema_of_json schema_of_csv from_csv
to_csv to_json from_json json_array_length json_object_keys get_json_object to_xml from_xml
schema_of_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
xpath_short xpath_string parse_json try_parse_json variant_get try_variant_get is_variant_null
schema_of_variant to_variant_object bit_count bit_get getbit shiftleft shiftright
shiftrightunsigned equal_null isnan isnull isnotnull isnull_ nullifzero zeroifnull nvl nvl2
is_valid_utf8 make_valid_utf8 validate_utf8 try_validate_utf8 collate typeof sha sha1 sha2 md5
window window_time session_window days months years hours bucket inline_array date_diff
convert_timezone extract to_timestamp_ntz to_timestamp_ltz to_timestamp to_time make_time
time_trunc time_diff hour minute second next_day last_day add_months months_between trunc
date_trunc randn_of aes_decrypt try_aes_decrypt st_point bitmap_count bitmap_bit_position
bitmap_bucket_number hll_sketch_estimate hll_union width_bucket cot asinh acosh atanh sequence
ucase lcase sign ceiling len date_sub datediff from_unixtime day year month quarter concat_ws
""") - _names("try_avg_of isnull_ randn_of inline_array window session_window")
"""`window` and `session_window` make rows, so they are not among them."""

SESSION_NAMES = _names("now current_catalog current_database user current_timezone version curdate")

AGGREGATE_CLASSES = _names("""
Sum Avg Count CountIf Min Max Stddev StddevPop StddevSamp Variance VariancePop Corr CovarPop
CovarSamp Kurtosis Skewness LogicalAnd LogicalOr BitwiseAndAgg BitwiseOrAgg BitwiseXorAgg Median
PercentileCont PercentileDisc Quantile ApproxDistinct Hll RegrAvgx RegrAvgy RegrCount
RegrIntercept RegrR2 RegrSlope RegrSxx RegrSxy RegrSyy BitmapConstructAgg BitmapOrAgg Grouping
GroupingId
""")
"""Aggregations whose result does not depend on the order of the rows."""

ORDERED_AGGREGATE_CLASSES = _names("""
AnyValue First Last FirstValue LastValue NthValue ArgMax ArgMin ArrayAgg ArrayUniqueAgg
ArrayConcatAgg GroupConcat Mode ApproxQuantile ApproxQuantiles ApproxTopK JSONArrayAgg
JSONObjectAgg
""")

AGGREGATE_NAMES = _names("""
mean std every some bit_and bit_or bit_xor percentile try_sum try_avg bool_and
regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
hll_sketch_agg hll_union_agg bitmap_construct_agg bitmap_or_agg product
""")

ORDERED_AGGREGATE_NAMES = _names("""
histogram_numeric percentile_approx approx_percentile count_min_sketch string_agg listagg
collect_list collect_set array_agg first last any_value max_by min_by mode schema_of_variant_agg
""")

RANKING_CLASSES = _names("Rank DenseRank PercentRank CumeDist")
"""Window functions that give equal rows equal values."""

TIE_BREAKING_CLASSES = _names("RowNumber Lag Lead Ntile")
"""Window functions that tell equal rows apart."""

RANKING_NAMES = _names("rank dense_rank percent_rank cume_dist")
TIE_BREAKING_NAMES = _names("row_number lag lead ntile first_value last_value nth_value")

GENERATOR_CLASSES = {
    "Explode": ("explode", False),
    "_ExplodeOuter": ("explode", True),
    "ExplodeOuter": ("explode", True),
    "Posexplode": ("posexplode", False),
    "PosexplodeOuter": ("posexplode", True),
    "Inline": ("inline", False),
    "Stack": ("stack", False),
    "Unnest": ("unnest", False),
}
GENERATOR_NAMES = {
    "explode": ("explode", False),
    "explode_outer": ("explode", True),
    "posexplode": ("posexplode", False),
    "posexplode_outer": ("posexplode", True),
    "inline": ("inline", False),
    "inline_outer": ("inline", True),
    "stack": ("stack", False),
    "json_tuple": ("json_tuple", False),
}
