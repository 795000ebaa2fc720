MODEL (
  name marts.weather_delays,
  kind FULL,
  description 'What wind, rain and poor sight do to departures: one row per airport and kind of weather',
  owner flights,
  grain (origin, weather),
  column_descriptions (
    origin = 'Airport of departure: EWR, JFK or LGA',
    weather = 'fair, rain, wind, low_visibility, or unknown where no observation was made',
    flights = 'Scheduled flights in such weather',
    cancelled_share = 'Share of the flights that never left',
    mean_departure_delay = 'Mean delay at departure in minutes',
    delay_against_fair = 'Minutes that the mean delay is above that of fair weather at this airport'
  ),
  audits (
    not_null(columns := (origin, weather)),
    accepted_values(
      column := weather,
      is_in := ('fair', 'rain', 'wind', 'low_visibility', 'unknown')
    ),
    is_a_share(column := cancelled_share)
  )
);

WITH flights AS (
  SELECT
    f.origin,
    CASE
      WHEN w.airport IS NULL THEN 'unknown'
      WHEN w.visibility_km < 5 THEN 'low_visibility'
      WHEN w.wind_knots >= 20 THEN 'wind'
      WHEN w.rain_mm > 0 THEN 'rain'
      ELSE 'fair'
    END AS weather,
    f.status,
    f.departure_delay
  FROM staging.flights AS f
  LEFT JOIN staging.weather AS w
    ON w.airport = f.origin
    AND w.observed_at = DATE_TRUNC('HOUR', f.scheduled_departure)
), per_weather AS (
  SELECT
    origin,
    weather,
    COUNT(*) AS flights,
    COUNT_IF(status = 'cancelled') / COUNT(*) AS cancelled_share,
    AVG(departure_delay) AS mean_departure_delay
  FROM flights
  GROUP BY
    origin,
    weather
)
SELECT
  p.origin,
  p.weather,
  p.flights,
  p.cancelled_share,
  p.mean_departure_delay,
  p.mean_departure_delay - fair.mean_departure_delay AS delay_against_fair
FROM per_weather AS p
LEFT JOIN per_weather AS fair
  ON fair.origin = p.origin
  AND fair.weather = 'fair'
