MODEL (name staging.customers, kind VIEW);
SELECT id AS customer, name, country FROM raw.customers
