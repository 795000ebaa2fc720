MODEL (name raw.orders, kind SEED (path '../../seeds/orders.csv'),
  columns (id INT, customer INT, product STRING, amount DOUBLE, day DATE));
