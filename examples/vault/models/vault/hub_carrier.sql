MODEL (
  name vault.hub_carrier,
  kind HUB (key carrier_hk, loaders BY_SOURCE),
  description 'Airlines that flew or were registered',
  start '2013-01-01',
  end '2013-01-07',
  grain carrier_hk,
  audits (unique_values(columns := (carrier_hk)))
);

SELECT carrier_hk, carrier, ldts, rsrc FROM staging.operations
WHERE ldts BETWEEN @start_date AND @end_date
UNION ALL
SELECT carrier_hk, carrier, ldts, rsrc FROM staging.airlines
WHERE ldts BETWEEN @start_date AND @end_date
