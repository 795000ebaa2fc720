-- Revenue per day
MODEL (
  name marts.daily_revenue,
  kind INCREMENTAL_BY_TIME_RANGE (time_column day),
  start '2024-01-01',
  retry_policy (max_retries = 2, delay = '10 seconds'),
  automation_condition eager
);

SELECT day, count(*) AS orders, sum(amount) AS revenue
FROM raw.orders
WHERE day BETWEEN @start_date AND @end_date
GROUP BY day
