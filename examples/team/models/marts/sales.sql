MODEL (name marts.sales, kind FULL, grain id, audits (unique_values(columns := (id))));
SELECT o.id, o.day, o.product, o.amount, c.name, c.country
FROM staging.orders AS o JOIN staging.customers AS c ON c.customer = o.customer
