MODEL (
  name marts.aircraft,
  kind INCREMENTAL_BY_UNIQUE_KEY (
    unique_key tailnum
  ),
  description 'Aircraft seen in New York with where they were seen last; a new day updates their rows',
  owner flights,
  start '2013-01-01',
  end '2013-12-31',
  cron '@daily',
  grain tailnum,
  column_descriptions (
    tailnum = 'Registration painted on the tail',
    last_departure = 'Instant of its last scheduled departure from New York',
    last_carrier = 'Airline of that flight',
    last_origin = 'Airport that it left',
    last_destination = 'Airport that it flew to',
    manufacturer = 'Maker; NULL when the aircraft is not in the register',
    model = 'Model; NULL when the aircraft is not in the register',
    seats = 'Number of seats; NULL when the aircraft is not in the register'
  ),
  audits (
    not_null(columns := (tailnum, last_departure)),
    unique_values(columns := (tailnum))
  )
);

WITH seen AS (
  SELECT
    tailnum,
    scheduled_departure,
    carrier,
    origin,
    destination,
    ROW_NUMBER() OVER (
      PARTITION BY tailnum
      ORDER BY scheduled_departure DESC, carrier, flight_number, origin
    ) AS newest_first
  FROM staging.flights
  WHERE
    flight_date BETWEEN @start_date AND @end_date
    AND NOT tailnum IS NULL
    AND status <> 'cancelled'
)
SELECT
  s.tailnum,
  s.scheduled_departure AS last_departure,
  s.carrier AS last_carrier,
  s.origin AS last_origin,
  s.destination AS last_destination,
  p.manufacturer,
  p.model,
  p.seats
FROM seen AS s
LEFT JOIN staging.planes AS p
  ON p.tailnum = s.tailnum
WHERE
  s.newest_first = 1
