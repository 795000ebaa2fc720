MODEL (
  name raw.orders,
  kind FULL,
  grain order_id,
  description 'Orders as the shop writes them; made of numbers here, so that nothing is fetched.'
);

SELECT
  CAST(id AS INT) AS order_id,
  CAST(1 + id % 7 AS INT) AS customer_id,
  DATE_ADD(DATE '2026-01-01', CAST(id % 28 AS INT)) AS ordered_on,
  CAST(10 + id * 37 % 90 AS DECIMAL(10, 2)) AS amount,
  CASE WHEN id % 11 = 0 THEN 'returned' ELSE 'sent' END AS status
FROM RANGE(280)
