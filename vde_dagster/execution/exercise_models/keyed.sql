MODEL (name mid.keyed_{part}, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id),
  start '2024-01-01');
SELECT id, name, CAST(price * 1.5 AS DECIMAL(18, 2)) AS price, date_trunc('month', day) AS month,
  current_timestamp() IS NULL AS never
FROM raw.facts_{part} WHERE name LIKE 'n%'
