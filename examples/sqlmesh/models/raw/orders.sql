MODEL (
  name raw.orders,
  kind SEED (
    path '../../seeds/orders.csv'
  ),
  columns (
    order_id INT,
    customer_id TEXT,
    ordered_at TIMESTAMP,
    cents INT,
    status TEXT
  ),
  grain order_id
);
