MODEL (
  name staging.flights,
  kind INCREMENTAL_BY_TIME_RANGE (
    time_column flight_date
  ),
  description 'Flights that were to leave New York: typed, named, and with one status each',
  owner flights,
  start '2013-01-01',
  end '2013-12-31',
  cron '@daily',
  grain (scheduled_departure, carrier, flight_number, origin),
  partitioned_by months(flight_date),
  column_descriptions (
    flight_date = 'Day of the scheduled departure, in New York',
    scheduled_departure = 'Instant of the scheduled departure',
    scheduled_minute = 'Scheduled departure in minutes after midnight, in New York',
    departure_minute = 'Actual departure in minutes after midnight, in New York; NULL when cancelled',
    carrier = 'Code of the airline',
    flight_number = 'Flight number',
    tailnum = 'Registration of the aircraft; NULL for some cancelled flights',
    origin = 'Airport of departure: EWR, JFK or LGA',
    destination = 'Airport of arrival',
    status = 'arrived, diverted or cancelled',
    departure_delay = 'Minutes of delay at departure; negative when early, NULL when cancelled',
    arrival_delay = 'Minutes of delay at arrival; negative when early, NULL unless arrived',
    air_minutes = 'Minutes in the air; NULL unless arrived',
    distance_miles = 'Distance between the airports in miles'
  ),
  audits (
    not_null(columns := (flight_date, scheduled_departure, carrier, origin, destination)),
    unique_combination_of_columns(
      columns := (scheduled_departure, carrier, flight_number, origin)
    ),
    accepted_values(column := origin, is_in := ('EWR', 'JFK', 'LGA')),
    accepted_values(column := status, is_in := ('arrived', 'diverted', 'cancelled')),
    cancelled_flights_have_no_delay
  )
);

SELECT
  MAKE_DATE(year, month, day) AS flight_date,
  time_hour + MAKE_DT_INTERVAL(0, 0, minute) AS scheduled_departure,
  @minutes_of_day(sched_dep_time) AS scheduled_minute,
  @minutes_of_day(dep_time) AS departure_minute,
  carrier,
  flight AS flight_number,
  tailnum,
  origin,
  dest AS destination,
  CASE
    WHEN dep_time IS NULL THEN 'cancelled'
    WHEN arr_delay IS NULL THEN 'diverted'
    ELSE 'arrived'
  END AS status,
  dep_delay AS departure_delay,
  arr_delay AS arrival_delay,
  air_time AS air_minutes,
  distance AS distance_miles
FROM raw.flights
WHERE
  MAKE_DATE(year, month, day) BETWEEN @start_date AND @end_date
