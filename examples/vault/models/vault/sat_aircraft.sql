MODEL (
  name vault.sat_aircraft,
  kind SATELLITE (key aircraft_hk, compare hashdiff, batch_size 7),
  description 'What the registry says of an aircraft',
  start '2013-01-01',
  end '2013-01-07',
  grain (aircraft_hk, ldts)
);

SELECT aircraft_hk, hashdiff, manufacturer, model, seats, ldts, rsrc FROM staging.registry
WHERE ldts BETWEEN @start_date AND @end_date
