MODEL (
  name marts.delay_bands,
  kind FULL,
  description 'Arrived flights of each airline by how late they were',
  owner flights,
  grain (carrier, band),
  column_descriptions (
    carrier = 'Code of the airline',
    airline_name = 'Name of the airline',
    band = 'Name of the range of delay, see raw.delay_bands',
    position = 'Order of the bands, from the best to the worst',
    flights = 'Flights that arrived with such a delay',
    share_of_airline = 'Share of the airline''s arrived flights',
    share_up_to_here = 'Share of the airline''s arrived flights in this band or a better one'
  ),
  audits (
    not_null(columns := (carrier, airline_name, band)),
    is_a_share(column := share_of_airline)
  )
);

WITH counted AS (
  SELECT
    f.carrier,
    b.band,
    b.position,
    COUNT(*) AS flights
  FROM staging.flights AS f
  JOIN raw.delay_bands AS b
    ON f.arrival_delay >= b.from_minutes
    AND f.arrival_delay < b.to_minutes
  GROUP BY
    f.carrier,
    b.band,
    b.position
)
SELECT
  c.carrier,
  a.airline_name,
  c.band,
  c.position,
  c.flights,
  c.flights / SUM(c.flights) OVER (PARTITION BY c.carrier) AS share_of_airline,
  SUM(c.flights) OVER (PARTITION BY c.carrier ORDER BY c.position)
    / SUM(c.flights) OVER (PARTITION BY c.carrier) AS share_up_to_here
FROM counted AS c
JOIN staging.airlines AS a
  ON a.carrier = c.carrier
