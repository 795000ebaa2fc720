MODEL (name marts.customers, kind FULL, grain name,
  audits (unique_values(columns := (name)), not_null(columns := (revenue))));
SELECT name, sum(amount) AS revenue FROM marts.sales GROUP BY name
