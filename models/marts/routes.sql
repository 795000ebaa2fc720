MODEL (
  name marts.routes,
  kind FULL,
  description 'Routes out of New York, ranked by their number of flights within each airport of departure',
  owner flights,
  grain (origin, destination),
  column_descriptions (
    origin = 'Airport of departure: EWR, JFK or LGA',
    destination = 'Airport of arrival',
    destination_name = 'Name of the airport of arrival; NULL for the four outside the register',
    distance_miles = 'Distance in miles',
    airlines = 'Number of airlines that flew the route',
    flights = 'Scheduled flights in the year',
    cancelled_share = 'Share of the flights that never left',
    median_arrival_delay = 'Median delay at arrival in minutes; NULL when none arrived',
    rank_in_origin = 'Place among the routes of this airport of departure; 1 has the most flights',
    share_of_origin = 'Share of this airport''s flights'
  ),
  audits (
    not_null(columns := (origin, destination, flights)),
    is_a_share(column := cancelled_share),
    is_a_share(column := share_of_origin),
    number_of_rows(threshold := 200)
  )
);

WITH per_route AS (
  SELECT
    origin,
    destination,
    MAX(distance_miles) AS distance_miles,
    COUNT(DISTINCT carrier) AS airlines,
    COUNT(*) AS flights,
    COUNT_IF(status = 'cancelled') / COUNT(*) AS cancelled_share,
    PERCENTILE(arrival_delay, 0.5) AS median_arrival_delay
  FROM staging.flights
  GROUP BY
    origin,
    destination
)
SELECT
  r.origin,
  r.destination,
  d.airport_name AS destination_name,
  r.distance_miles,
  r.airlines,
  r.flights,
  r.cancelled_share,
  r.median_arrival_delay,
  RANK() OVER (PARTITION BY r.origin ORDER BY r.flights DESC) AS rank_in_origin,
  r.flights / SUM(r.flights) OVER (PARTITION BY r.origin) AS share_of_origin
FROM per_route AS r
LEFT JOIN staging.airports AS d
  ON d.airport = r.destination
