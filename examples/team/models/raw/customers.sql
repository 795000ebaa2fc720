MODEL (name raw.customers, kind SEED (path '../../seeds/customers.csv'),
  columns (id INT, name STRING, country STRING));
