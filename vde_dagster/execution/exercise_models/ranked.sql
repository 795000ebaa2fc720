MODEL (name out.ranked_{part}, kind FULL, audits (not_null(columns := (id))));
SELECT id, day, name, price, many,
  row_number() OVER (PARTITION BY day ORDER BY price, id) AS place,
  sum(price) OVER (PARTITION BY day, name) AS of_name, concat(name, '_{part}') AS tag
FROM mid.both_{part} WHERE exists(array(id, 1), one -> one > 0)
