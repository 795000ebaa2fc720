MODEL (
  name marts.airline_days,
  kind INCREMENTAL_BY_TIME_RANGE (
    time_column flight_date
  ),
  description 'How punctual each airline was on each day, per airport of departure',
  owner flights,
  start '2013-01-01',
  end '2013-12-31',
  cron '@daily',
  grain (flight_date, carrier, origin),
  partitioned_by months(flight_date),
  column_descriptions (
    flight_date = 'Day of the scheduled departure, in New York',
    carrier = 'Code of the airline',
    airline_name = 'Name of the airline',
    business_model = 'network, low_cost or regional',
    origin = 'Airport of departure: EWR, JFK or LGA',
    flights = 'Scheduled flights',
    cancelled_flights = 'Flights that never left',
    delayed_flights = 'Flights that arrived 15 minutes or more after schedule',
    on_time_share = 'Share of the arrived flights that were not delayed; NULL when none arrived',
    mean_departure_delay = 'Mean delay at departure in minutes; NULL when none left',
    mean_arrival_delay = 'Mean delay at arrival in minutes; NULL when none arrived'
  ),
  audits (
    not_null(columns := (flight_date, carrier, airline_name, origin)),
    accepted_values(column := business_model, is_in := ('network', 'low_cost', 'regional')),
    forall(criteria := (flights > 0, cancelled_flights <= flights)),
    is_a_share(column := on_time_share)
  )
);

SELECT
  f.flight_date,
  f.carrier,
  a.airline_name,
  a.business_model,
  f.origin,
  COUNT(*) AS flights,
  COUNT_IF(f.status = 'cancelled') AS cancelled_flights,
  COUNT_IF(f.arrival_delay >= 15) AS delayed_flights,
  1 - COUNT_IF(f.arrival_delay >= 15) / NULLIF(COUNT(f.arrival_delay), 0) AS on_time_share,
  AVG(f.departure_delay) AS mean_departure_delay,
  AVG(f.arrival_delay) AS mean_arrival_delay
FROM staging.flights AS f
LEFT JOIN staging.airlines AS a
  ON a.carrier = f.carrier
WHERE
  f.flight_date BETWEEN @start_date AND @end_date
GROUP BY
  f.flight_date,
  f.carrier,
  a.airline_name,
  a.business_model,
  f.origin
