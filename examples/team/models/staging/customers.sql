MODEL (name staging.customers, kind VIEW, grain customer_id);

SELECT customer_id, UPPER(name) AS name, country FROM raw.customers
