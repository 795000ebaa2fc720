MODEL (name raw.facts_{part}, kind FULL);
SELECT x.id, x.day, x.name, x.price, x.many, array(x.name, 'a') AS tags
FROM (VALUES {rows}) AS x(id, day, name, price, many)
