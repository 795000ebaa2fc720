MODEL (
  name staging.orders,
  kind INCREMENTAL_BY_TIME_RANGE (time_column ordered_on),
  start '2026-01-01',
  end '2026-01-28',
  grain order_id,
  audits (not_null(columns := (order_id, customer_id)), unique_values(columns := order_id))
);

SELECT order_id, customer_id, ordered_on, amount, status = 'returned' AS returned
FROM raw.orders
WHERE ordered_on BETWEEN @start_date AND @end_date
