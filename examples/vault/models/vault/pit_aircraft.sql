MODEL (
  name vault.pit_aircraft,
  kind INCREMENTAL_BY_TIME_RANGE (time_column as_of),
  description 'The rows of both satellites that held at the end of a day',
  start '2013-01-01',
  end '2013-01-07',
  grain (as_of, aircraft_hk)
);

@PIT(
  vault.hub_aircraft,
  aircraft_hk,
  (SELECT EXPLODE(SEQUENCE(@start_date, @end_date)) AS as_of),
  vault.sat_aircraft,
  vault.sat_whereabouts,
  time_type := 'date'
)
