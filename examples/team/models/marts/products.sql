MODEL (name marts.products, kind FULL, grain product);
SELECT product, sum(amount) AS revenue, count(*) AS orders FROM marts.sales GROUP BY product
