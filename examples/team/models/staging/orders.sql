MODEL (name staging.orders, kind VIEW);
SELECT id, customer, product, amount, day FROM raw.orders WHERE amount > 0
