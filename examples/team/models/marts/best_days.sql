MODEL (name marts.best_days, kind VIEW, owner ben);

SELECT day, revenue FROM marts.daily_revenue ORDER BY revenue DESC LIMIT 5
