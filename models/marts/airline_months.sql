MODEL (
  name marts.airline_months,
  kind VIEW,
  description 'Airlines by month with their place among the others; a view, so it is never out of date',
  owner flights,
  grain (month, carrier),
  column_descriptions (
    month = 'First day of the month',
    carrier = 'Code of the airline',
    airline_name = 'Name of the airline',
    flights = 'Scheduled flights',
    delayed_flights = 'Flights that arrived 15 minutes or more after schedule',
    cancelled_flights = 'Flights that never left',
    punctuality_rank = 'Place by share of flights neither delayed nor cancelled; 1 is the best'
  )
);

WITH months AS (
  SELECT
    CAST(DATE_TRUNC('MONTH', flight_date) AS DATE) AS month,
    carrier,
    airline_name,
    SUM(flights) AS flights,
    SUM(delayed_flights) AS delayed_flights,
    SUM(cancelled_flights) AS cancelled_flights
  FROM marts.airline_days
  GROUP BY
    CAST(DATE_TRUNC('MONTH', flight_date) AS DATE),
    carrier,
    airline_name
)
SELECT
  month,
  carrier,
  airline_name,
  flights,
  delayed_flights,
  cancelled_flights,
  RANK() OVER (
    PARTITION BY month
    ORDER BY (delayed_flights + cancelled_flights) / flights
  ) AS punctuality_rank
FROM months
