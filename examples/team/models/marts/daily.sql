MODEL (name marts.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day), cron '@daily',
  start '2024-01-01', end '2024-01-05', grain day);
SELECT day, count(*) AS orders, sum(amount) AS revenue
FROM staging.orders WHERE day BETWEEN @start_date AND @end_date GROUP BY day
