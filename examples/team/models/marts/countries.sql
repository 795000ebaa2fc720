MODEL (name marts.countries, kind FULL, grain country);
SELECT country, sum(amount) AS revenue FROM marts.sales GROUP BY country
