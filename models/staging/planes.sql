MODEL (
  name staging.planes,
  kind VIEW,
  description 'Aircraft as registered, one row each',
  owner flights,
  grain tailnum,
  column_descriptions (
    tailnum = 'Registration painted on the tail',
    built_in = 'Year of manufacture',
    manufacturer = 'Maker; two spellings of Airbus and of McDonnell Douglas are made one',
    model = 'Model as the maker calls it',
    seats = 'Number of seats',
    engines = 'Number of engines',
    engine = 'Type of engine'
  )
);

SELECT
  tailnum,
  year AS built_in,
  CASE
    WHEN manufacturer LIKE 'AIRBUS%' THEN 'AIRBUS'
    WHEN manufacturer LIKE 'MCDONNELL DOUGLAS%' THEN 'MCDONNELL DOUGLAS'
    ELSE manufacturer
  END AS manufacturer,
  model,
  seats,
  engines,
  engine
FROM raw.planes
