MODEL (
  name raw.customers,
  kind SEED (path '../seeds/customers.csv'),
  columns (customer_id INT, name STRING, country STRING),
  grain customer_id
);
