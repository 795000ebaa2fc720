MODEL (
  name marts.daily_revenue,
  kind FULL,
  owner ben,
  grain day,
  audits (unique_values(columns := day), not_null(columns := (day, revenue)))
);

SELECT ordered_on AS day, COUNT(*) AS orders, SUM(amount) AS revenue
FROM staging.orders
GROUP BY ordered_on
