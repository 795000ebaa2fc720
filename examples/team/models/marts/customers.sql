MODEL (name marts.customers, kind FULL, owner ada, grain customer_id);

SELECT c.customer_id, c.name, COUNT(p.order_id) AS orders, SUM(p.paid) AS paid
FROM staging.customers AS c
LEFT JOIN marts.order_payments AS p ON c.customer_id = p.customer_id
GROUP BY c.customer_id, c.name
