MODEL (name staging.payments, kind VIEW);

SELECT p.order_id, p.part, CAST(p.share * o.amount AS DECIMAL(10, 2)) AS amount
FROM raw.payments AS p
JOIN raw.orders AS o ON p.order_id = o.order_id
