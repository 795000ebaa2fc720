MODEL (
  name staging.airlines,
  kind VIEW,
  description 'Airlines as they were registered at the beginning of the year'
);

@STAGE(
  raw.airlines,
  derived := (DATE '2013-01-01' AS ldts, 'registry' AS rsrc),
  hashed := (@HASH_KEY(carrier) AS carrier_hk, @HASHDIFF(name) AS hashdiff)
)
