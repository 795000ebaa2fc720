MODEL (
  name marts.daily_revenue,
  kind INCREMENTAL_BY_TIME_RANGE (
    time_column order_date
  ),
  description 'Orders and revenue by day; each day is computed once',
  start '2024-01-01',
  end '2024-01-07',
  cron '@daily',
  audits (not_null(columns := (order_date)), forall(criteria := (revenue > 0)))
);

SELECT
  order_date,
  COUNT(*) AS orders,
  COUNT(DISTINCT customer) AS customers,
  SUM(amount) AS revenue
FROM staging.orders
WHERE
  order_date BETWEEN @start_date AND @end_date
GROUP BY
  order_date
