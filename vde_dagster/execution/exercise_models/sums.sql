MODEL (name out.sums_{part}, kind FULL);
SELECT b.name, b.day, count(*) AS facts, count(DISTINCT b.id) AS ids, sum(b.price) AS price,
  CAST(sum(b.many) AS INT) AS many, min(k.month) AS first, avg(b.price) AS mean
FROM mid.both_{part} AS b JOIN mid.keyed_{part} AS k ON b.id = k.id
GROUP BY b.name, b.day HAVING count(*) < 100
