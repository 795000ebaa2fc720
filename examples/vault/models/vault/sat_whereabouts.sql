MODEL (
  name vault.sat_whereabouts,
  kind SATELLITE (key aircraft_hk, batch_size 7),
  description 'Where an aircraft went last on a day; a row only where that differs from before',
  start '2013-01-01',
  end '2013-01-07',
  grain (aircraft_hk, ldts)
);

SELECT aircraft_hk, MAX(STRUCT(hour, flight, dest)).dest AS airport, ldts, 'operations' AS rsrc
FROM staging.operations
WHERE tailnum IS NOT NULL AND ldts BETWEEN @start_date AND @end_date
GROUP BY aircraft_hk, ldts
