MODEL (
  name marts.customers,
  kind FULL,
  grain customer_id
);

SELECT
  customer_id,
  MIN(order_date) AS first_order,
  SUM(amount) AS revenue
FROM staging.orders
GROUP BY
  customer_id
