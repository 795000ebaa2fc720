MODEL (
  name vault.link_operation,
  kind LINK (key operation_hk),
  description 'Which airline was first seen to operate which aircraft, and when',
  start '2013-01-01',
  end '2013-01-07',
  grain operation_hk
);

SELECT operation_hk, aircraft_hk, carrier_hk, ldts, rsrc FROM staging.operations
WHERE tailnum IS NOT NULL AND ldts BETWEEN @start_date AND @end_date
