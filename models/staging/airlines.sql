MODEL (
  name staging.airlines,
  kind VIEW,
  description 'Airlines with their type of business',
  owner flights,
  grain carrier,
  column_descriptions (
    carrier = 'Two-character code of the airline',
    airline_name = 'Name of the airline',
    business_model = 'network, low_cost or regional',
    mainline_partner = 'Code of the network airline that a regional airline mainly flies for'
  )
);

SELECT
  a.carrier,
  a.name AS airline_name,
  t.business_model,
  t.mainline_partner
FROM raw.airlines AS a
LEFT JOIN raw.airline_types AS t
  ON t.carrier = a.carrier
