-- unique_combination
SELECT {columns}, COUNT(*) AS row_count FROM @this_model{where}
GROUP BY {columns} HAVING COUNT(*) > 1

-- number_of_rows
SELECT COUNT(*) AS row_count FROM @this_model{where} HAVING COUNT(*) <= {threshold}

-- at_least_one
SELECT 1 AS failed FROM @this_model{where} HAVING COUNT({column}) = 0 AND COUNT(*) > 0

-- not_constant
SELECT COUNT(DISTINCT {column}) AS distinct_values FROM @this_model{where}
HAVING COUNT(DISTINCT {column}) <= 1

-- not_null_proportion
SELECT COUNT({column}) AS not_null, COUNT(*) AS row_count FROM @this_model{where}
HAVING COUNT({column}) <= {threshold} * COUNT(*)

-- sequential_values
SELECT * FROM (SELECT {column} AS audited_value,
LAG({column}) OVER (ORDER BY {column}) AS previous FROM @this_model{where}) AS steps
WHERE NOT (audited_value = previous + {interval})

-- mutually_exclusive_ranges: ranges that end before they begin, or overlap the next; ends may touch
SELECT * FROM (SELECT *,
COALESCE(lower_bound <= upper_bound, FALSE) AS lower_bound_lte_upper_bound,
COALESCE(upper_bound <= next_lower_bound, is_last_record, FALSE)
AS upper_bound_lte_next_lower_bound
FROM (SELECT {lower_bound_column} AS lower_bound, {upper_bound_column} AS upper_bound,
LEAD({lower_bound_column}) OVER ({partition}ORDER BY {lower_bound_column},
{upper_bound_column}) AS next_lower_bound,
ROW_NUMBER() OVER ({partition}ORDER BY {lower_bound_column} DESC, {upper_bound_column} DESC)
= 1 AS is_last_record FROM @this_model{where}) AS ranges) AS compared
WHERE NOT (lower_bound_lte_upper_bound AND upper_bound_lte_next_lower_bound)

-- z_score: values more than `threshold` standard deviations from the mean of the checked rows
SELECT *, ({column} - audited_mean) / NULLIF(audited_deviation, 0) AS z_score
FROM @this_model CROSS JOIN (SELECT AVG({column}) AS audited_mean,
STDDEV({column}) AS audited_deviation FROM @this_model{where}) AS stats
WHERE ABS(({column} - audited_mean) / NULLIF(audited_deviation, 0)) > {threshold}

-- kl_divergence: symmetric Kullback-Leibler divergence of two columns' values above a threshold
SELECT * FROM (SELECT SUM((p - q) * LN(p / q)) AS kl_divergence
FROM (SELECT {source_column} AS value, COUNT(*) / SUM(COUNT(*)) OVER () AS p
FROM @this_model{where} GROUP BY {source_column}) AS a
JOIN (SELECT {target_column} AS value, COUNT(*) / SUM(COUNT(*)) OVER () AS q
FROM @this_model{where} GROUP BY {target_column}) AS b
ON a.value = b.value) AS divergence WHERE kl_divergence > {threshold}

-- chi_square: chi-square of two columns that contradicts the claimed dependence
SELECT * FROM (SELECT
(COUNT(DISTINCT value_a) - 1) * (COUNT(DISTINCT value_b) - 1) AS degrees_of_freedom,
SUM((observed - expected) * (observed - expected) / expected) AS chi_square
FROM (SELECT value_a, value_b, observed,
SUM(observed) OVER (PARTITION BY value_a) * SUM(observed) OVER (PARTITION BY value_b)
/ SUM(observed) OVER () AS expected
FROM (SELECT {column_a} AS value_a, {column_b} AS value_b, COUNT(*) AS observed
FROM @this_model WHERE {column_a} IS NOT NULL AND {column_b} IS NOT NULL{also}
GROUP BY {column_a}, {column_b}) AS cells) AS tested) AS figures
WHERE NOT (chi_square {wanted} {critical_value})
