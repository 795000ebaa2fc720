MODEL (
  name staging.orders,
  kind VIEW,
  audits (
    not_null(columns := (order_id, customer_id)),
    unique_values(columns := (order_id))
  )
);

SELECT
  order_id,
  customer_id,
  ordered_at::DATE AS order_date,
  @money(cents) AS amount
FROM raw.orders
WHERE
  status = 'paid'
