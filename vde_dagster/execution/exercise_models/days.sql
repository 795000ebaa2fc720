MODEL (name mid.days_{part}, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
  start '2024-01-01', audits (not_null(columns := (id, day)), unique_values(columns := id)));
WITH other AS (SELECT id, day, max(price) AS price FROM raw.facts_{other} GROUP BY id, day)
SELECT x.id, x.day, x.name, x.many, coalesce(other.price, 0) + {part} AS price,
  CASE WHEN x.price > other.price THEN 'up' ELSE 'down' END AS way, upper(x.name) AS shown
FROM raw.facts_{part} AS x LEFT JOIN other ON x.id = other.id AND x.day = other.day
WHERE x.price > -1 AND x.day BETWEEN @start_date AND @end_date
