MODEL (
  name vault.hub_aircraft,
  kind HUB (key aircraft_hk, loaders BY_SOURCE),
  description 'Aircraft that flew or were registered; each source loads on its own',
  start '2013-01-01',
  end '2013-01-07',
  grain aircraft_hk,
  audits (not_null(columns := (aircraft_hk)), unique_values(columns := (aircraft_hk)))
);

SELECT aircraft_hk, tailnum, ldts, rsrc FROM staging.operations
WHERE tailnum IS NOT NULL AND ldts BETWEEN @start_date AND @end_date
UNION ALL
SELECT aircraft_hk, tailnum, ldts, rsrc FROM staging.registry
WHERE ldts BETWEEN @start_date AND @end_date
