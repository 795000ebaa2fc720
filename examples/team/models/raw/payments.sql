MODEL (
  name raw.payments,
  kind FULL,
  description 'Payments; every fourth order is paid in two parts.'
);

SELECT CAST(id AS INT) AS order_id, CAST(part AS INT) AS part, IF(id % 4 = 0, 0.5, 1.0) AS share
FROM RANGE(280)
LATERAL VIEW EXPLODE(IF(id % 4 = 0, ARRAY(1, 2), ARRAY(1))) AS part
