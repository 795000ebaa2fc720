MODEL (
  name staging.registry,
  kind VIEW,
  description 'Aircraft as they were registered at the beginning of the year'
);

@STAGE(
  raw.planes,
  derived := (DATE '2013-01-01' AS ldts, 'registry' AS rsrc),
  hashed := (@HASH_KEY(tailnum) AS aircraft_hk, @HASHDIFF(manufacturer, model, seats) AS hashdiff)
)
