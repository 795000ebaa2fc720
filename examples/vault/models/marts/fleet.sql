MODEL (
  name marts.fleet,
  kind FULL,
  description 'Where aircraft were at the end of each day, and how many seats they have',
  grain (as_of, airport)
);

WITH aircraft AS (
  @WITH_GHOST(vault.sat_aircraft, aircraft_hk, time_type := 'date')
), whereabouts AS (
  @WITH_GHOST(vault.sat_whereabouts, aircraft_hk, time_type := 'date')
)
SELECT
  pit.as_of,
  COALESCE(whereabouts.airport, 'not seen') AS airport,
  COUNT(*) AS aircraft,
  SUM(aircraft.seats) AS seats
FROM vault.pit_aircraft AS pit
JOIN vault.hub_aircraft AS hub
  ON hub.aircraft_hk = pit.aircraft_hk AND hub.ldts <= pit.as_of
JOIN aircraft
  ON aircraft.aircraft_hk = pit.sat_aircraft_aircraft_hk AND aircraft.ldts = pit.sat_aircraft_ldts
JOIN whereabouts
  ON whereabouts.aircraft_hk = pit.sat_whereabouts_aircraft_hk
  AND whereabouts.ldts = pit.sat_whereabouts_ldts
GROUP BY pit.as_of, COALESCE(whereabouts.airport, 'not seen')
