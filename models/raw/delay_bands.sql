MODEL (
  name raw.delay_bands,
  kind SEED (
    path '../seeds/delay_bands.csv'
  ),
  description 'Names for ranges of delay: a band holds the minutes from from_minutes to before to_minutes',
  owner flights,
  columns (
    band STRING,
    position INT,
    from_minutes INT,
    to_minutes INT
  ),
  column_descriptions (
    band = 'Name of the band',
    position = 'Order of the bands, from the best to the worst',
    from_minutes = 'First minute of delay in the band; a negative delay is an early departure',
    to_minutes = 'First minute of delay that is no longer in the band'
  ),
  audits (
    unique_values(columns := (band, position)),
    forall(criteria := (from_minutes < to_minutes))
  )
);
