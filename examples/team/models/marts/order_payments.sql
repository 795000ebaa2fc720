MODEL (name marts.order_payments, kind FULL, owner ada, grain order_id);

SELECT o.order_id, o.customer_id, o.ordered_on, o.returned, SUM(p.amount) AS paid
FROM staging.orders AS o
JOIN staging.payments AS p ON o.order_id = p.order_id
GROUP BY o.order_id, o.customer_id, o.ordered_on, o.returned
