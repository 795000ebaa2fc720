MODEL (
  name raw.airline_types,
  kind SEED (
    path '../seeds/airline_types.csv'
  ),
  description 'How each airline does business; kept by hand, because the flight data does not say it',
  owner flights,
  columns (
    carrier STRING,
    business_model STRING,
    mainline_partner STRING
  ),
  column_descriptions (
    carrier = 'Two-character code of the airline',
    business_model = 'network, low_cost or regional',
    mainline_partner = 'Code of the network airline that a regional airline mainly flies for'
  ),
  audits (
    not_null(columns := (carrier, business_model)),
    unique_values(columns := (carrier)),
    accepted_values(column := business_model, is_in := ('network', 'low_cost', 'regional'))
  )
);
