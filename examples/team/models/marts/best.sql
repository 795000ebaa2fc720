MODEL (name marts.best, kind FULL, grain place);
SELECT name, revenue, rank() OVER (ORDER BY revenue DESC) AS place FROM marts.customers
