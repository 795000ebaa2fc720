MODEL (
  name staging.airports,
  kind VIEW,
  description 'Airports of the United States, with names that say what they hold',
  owner flights,
  grain airport,
  column_descriptions (
    airport = 'Three-character FAA code',
    airport_name = 'Name of the airport',
    latitude = 'Degrees north',
    longitude = 'Degrees east; negative in the Americas',
    altitude_feet = 'Height above the sea in feet',
    time_zone = 'Name of the time zone, as in America/New_York; NULL where it is not known'
  )
);

SELECT
  faa AS airport,
  name AS airport_name,
  lat AS latitude,
  lon AS longitude,
  alt AS altitude_feet,
  tzone AS time_zone
FROM raw.airports
