MODEL (
  name staging.weather,
  kind VIEW,
  description 'Hourly weather at the three airports of New York',
  owner flights,
  grain (airport, observed_at),
  column_descriptions (
    airport = 'Airport that was observed: EWR, JFK or LGA',
    observed_at = 'Hour of the observation (UTC)',
    temperature_c = 'Temperature in degrees Celsius',
    humidity_percent = 'Relative humidity',
    wind_knots = 'Wind speed in knots; NULL for readings above 200, which are faults of the sensor',
    rain_mm = 'Precipitation of the hour in millimetres',
    visibility_km = 'Visibility in kilometres, at most 16.1'
  )
);

SELECT
  origin AS airport,
  time_hour AS observed_at,
  ROUND((temp - 32) * 5 / 9, 1) AS temperature_c,
  humid AS humidity_percent,
  CASE WHEN wind_speed < 230 THEN ROUND(wind_speed / 1.15078, 1) END AS wind_knots,
  ROUND(precip * 25.4, 2) AS rain_mm,
  ROUND(visib * 1.609344, 1) AS visibility_km
FROM raw.weather
