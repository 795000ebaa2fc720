MODEL (
  name raw.orders,
  kind SEED (
    path '../seeds/orders.csv'
  ),
  description 'Orders as the shop exported them',
  columns (
    order_id INT,
    customer STRING,
    status STRING,
    ordered_at TIMESTAMP,
    amount DECIMAL(10, 2)
  ),
  audits (
    not_null(columns := (order_id, ordered_at)),
    unique_values(columns := (order_id)),
    accepted_values(column := status, is_in := ('paid', 'cancelled')),
    not_negative(column := amount)
  )
);
