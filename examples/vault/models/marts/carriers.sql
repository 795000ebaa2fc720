MODEL (
  name marts.carriers,
  kind INCREMENTAL_BY_CHANGES (key carrier_hk),
  description 'Departures of each airline; only airlines of which flights came are counted anew',
  grain carrier_hk
);

SELECT
  hub.carrier_hk,
  hub.carrier,
  COUNT(flights.flight_hk) AS flights,
  ROUND(AVG(flights.dep_delay), 1) AS mean_delay
FROM vault.hub_carrier AS hub
LEFT JOIN vault.flights AS flights ON flights.carrier_hk = hub.carrier_hk
GROUP BY hub.carrier_hk, hub.carrier
