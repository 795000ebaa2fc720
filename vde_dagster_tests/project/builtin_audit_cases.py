"""Every built-in audit over rows (id, name, x, y): the call, the rows, and how many are bad.

The numbers are those of SQLMesh 0.236's queries on DuckDB, but for `unique_values`, which counts
repeated values, and `kl_divergence`, whose query there DuckDB refuses: those were computed by hand.
"""

ABC = "(1, 'a', 1, 1), (2, 'b', 2, 2), (3, 'c', 3, 4)"
NULLS = "(1, 'a', 1, 2), (2, NULL, NULL, 2), (NULL, 'c', NULL, 3)"
TEXTS = "(1, 'ab', 0, 0), (2, 'abc', 0, 0), (3, 'xbcd', 0, 0), (4, NULL, 0, 0), (5, '', 0, 0)"
NONE = "(1, 'a', 1, 1) LIMIT 0"
RANGES = "(1, 'a', 1, 3), (2, 'a', 3, 5), (3, 'b', 4, 6), (4, 'b', 8, 7)"
OUTLIER = "(1, 'a', 1, 1), (2, 'a', 2, 1), (3, 'a', 1, 2), (4, 'b', 2, 2), (5, 'b', 100, 2)"
URLS = "(1, 'https://a.b/c?d=e', 0, 0), (2, 'ftp://x.y', 0, 0), (3, 'a.b', 0, 0), (4, NULL, 0, 0)"
MAILS = "(1, 'a.b+c@d-e.co.uk', 0, 0), (2, 'a@b', 0, 0), (3, 'a b@c.d', 0, 0), (4, NULL, 0, 0)"
UUIDS = (
    "(1, '123e4567-e89b-12d3-a456-426614174000', 0, 0), "
    "(2, '123E4567-E89B-12D3-A456-426614174000', 0, 0), "
    "(3, '123e4567-e89b-62d3-a456-426614174000', 0, 0), (4, 'x', 0, 0)"
)
METHODS = "(1, 'GET', 0, 0), (2, 'get', 0, 0), (3, 'CONNECT', 0, 0), (4, 'SEND', 0, 0)"

CASES = [
    ("not_null(columns := (id, name))", NULLS, 2),
    ("not_null(columns := id)", NULLS, 1),
    ("not_null(columns := [x], condition := name = 'c')", NULLS, 1),
    ("unique_values(columns := (id))", ABC, 0),
    ("unique_values(columns := (name))", RANGES, 2),
    ("unique_values(columns := (name), condition := id > 1)", RANGES, 1),
    ("unique_combination_of_columns(columns := (name, y))", OUTLIER, 2),
    ("unique_combination_of_columns(columns := (id, name))", OUTLIER, 0),
    ("accepted_values(column := name, is_in := ('a', 'b'))", ABC, 1),
    ("accepted_values(column := name, is_in := ('a'))", NULLS, 1),
    ("not_accepted_values(column := name, is_in := ('a', 'b'))", ABC, 2),
    ("number_of_rows(threshold := 3)", ABC, 1),
    ("number_of_rows(threshold := 2)", ABC, 0),
    ("number_of_rows(threshold := 2, condition := id > 1)", ABC, 1),
    ("forall(criteria := (id > 1, name <> 'c'))", ABC, 2),
    ("forall(criteria := (id > 1 OR name = 'a'))", ABC, 0),
    ("forall(criteria := (id > 1))", NULLS, 1),
    ("accepted_range(column := x, min_v := 2, max_v := 2)", ABC, 2),
    ("accepted_range(column := x, min_v := 1, inclusive := false)", ABC, 1),
    ("accepted_range(column := x, max_v := 2, condition := id < 3)", ABC, 0),
    ("at_least_one(column := x)", NULLS, 0),
    ("at_least_one(column := x, condition := id = 2)", NULLS, 1),
    ("at_least_one(column := x)", NONE, 0),
    ("not_constant(column := name)", NULLS, 0),
    ("not_constant(column := x)", NULLS, 1),
    ("not_constant(column := x)", NONE, 1),
    ("not_empty_string(column := name)", TEXTS, 1),
    ("not_null_proportion(column := name, threshold := 0.8)", TEXTS, 1),
    ("not_null_proportion(column := name, threshold := 0.79)", TEXTS, 0),
    ("not_null_proportion(column := name, threshold := 0.5)", NONE, 1),
    ("sequential_values(column := x)", ABC, 0),
    ("sequential_values(column := y)", ABC, 1),
    ("sequential_values(column := x, interval := 2)", ABC, 2),
    (
        "mutually_exclusive_ranges(lower_bound_column := x, upper_bound_column := y)",
        RANGES,
        2,
    ),
    (
        "mutually_exclusive_ranges(lower_bound_column := x, upper_bound_column := y, "
        "condition := id < 3)",
        RANGES,
        0,
    ),
    ("valid_uuid(column := name)", UUIDS, 2),
    ("valid_url(column := name)", URLS, 1),
    ("valid_http_method(column := name)", METHODS, 2),
    ("valid_email(column := name)", MAILS, 2),
    ("match_regex_pattern_list(column := name, patterns := ('^a', 'd$'))", TEXTS, 1),
    ("match_regex_pattern_list(column := name, patterns := ('^a'))", TEXTS, 2),
    ("not_match_regex_pattern_list(column := name, patterns := ('^a', 'd$'))", TEXTS, 3),
    ("match_like_pattern_list(column := name, patterns := ('a%', '%d'))", TEXTS, 1),
    ("not_match_like_pattern_list(column := name, patterns := ('a%', '%d'))", TEXTS, 3),
    ("z_score(column := x, threshold := 1)", OUTLIER, 1),
    ("z_score(column := x, threshold := 3)", OUTLIER, 0),
    ("z_score(column := x, threshold := 3, condition := id < 5)", OUTLIER, 1),
    ("string_length_between(column := name, max_v := 3)", TEXTS, 1),
    ("string_length_between(column := name, min_v := 1, max_v := 4)", TEXTS, 1),
    ("string_length_between(column := name, min_v := 0, max_v := 3, inclusive := false)", TEXTS, 3),
    ("string_length_equal(column := name, v := 3)", TEXTS, 3),
    ("mean_in_range(column := x, min_v := 2, max_v := 2)", ABC, 0),
    ("mean_in_range(column := x, max_v := 2, inclusive := false)", ABC, 1),
    ("mean_in_range(column := x, min_v := 2, condition := id < 3)", ABC, 1),
    ("stddev_in_range(column := x, min_v := 1, max_v := 2)", ABC, 0),
    ("stddev_in_range(column := x, max_v := 0.9)", ABC, 1),
    ("stddev_in_range(column := x, min_v := 1, inclusive := false)", ABC, 1),
    ("kl_divergence(source_column := x, target_column := x, threshold := 0.01)", ABC, 0),
    ("kl_divergence(source_column := x, target_column := y, threshold := 0.08)", OUTLIER, 1),
    ("kl_divergence(source_column := x, target_column := y, threshold := 0.09)", OUTLIER, 0),
    ("kl_divergence(column := x, target_column := y, threshold := 0.08)", OUTLIER, 1),
    ("chi_square(column_a := name, column_b := y, critical_value := 2)", OUTLIER, 1),
    ("chi_square(column := name, target_column := y, critical_value := 2)", OUTLIER, 1),
    (
        "chi_square(column_a := name, column_b := y, critical_value := 0.5)",
        OUTLIER,
        0,
    ),
    (
        "chi_square(column_a := name, column_b := y, critical_value := 2, dependent := false)",
        OUTLIER,
        0,
    ),
    ("not_null_non_blocking(columns := id)", NULLS, 1),
]
