MODEL (
  name staging.orders,
  kind VIEW,
  description 'Paid orders with the day of the order'
);

SELECT
  order_id,
  customer,
  CAST(ordered_at AS DATE) AS order_date,
  amount
FROM raw.orders
WHERE
  status = 'paid'
