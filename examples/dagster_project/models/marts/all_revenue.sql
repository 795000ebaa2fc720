-- All revenue so far
MODEL (name marts.all_revenue, kind FULL);

SELECT sum(revenue) AS revenue FROM marts.daily_revenue
