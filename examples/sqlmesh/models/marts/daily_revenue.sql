MODEL (
  name marts.daily_revenue,
  kind INCREMENTAL_BY_TIME_RANGE (
    time_column order_date
  ),
  end '2024-01-07',
  audits (revenue_is_positive)
);

SELECT
  order_date,
  COUNT(*) AS orders,
  SUM(amount) AS revenue
FROM staging.orders
WHERE
  order_date BETWEEN @start_date AND @end_date
GROUP BY
  order_date
