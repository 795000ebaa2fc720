MODEL (
  name vault.flights,
  kind NON_HISTORIZED_LINK (key flight_hk),
  description 'Departures, which happen once',
  start '2013-01-01',
  end '2013-01-07',
  grain flight_hk
);

SELECT flight_hk, aircraft_hk, carrier_hk, origin, dest, dep_delay, ldts, rsrc
FROM staging.operations
WHERE ldts BETWEEN @start_date AND @end_date
