MODEL (
  name staging.operations,
  kind VIEW,
  description 'Flights with the keys of the vault; a day is loaded at once'
);

@STAGE(
  raw.flights,
  columns := (carrier, flight, tailnum, origin, dest, dep_delay, hour),
  derived := (MAKE_DATE(year, month, day) AS ldts, 'operations' AS rsrc),
  hashed := (
    @HASH_KEY(tailnum) AS aircraft_hk,
    @HASH_KEY(carrier) AS carrier_hk,
    @HASH_KEY(tailnum, carrier) AS operation_hk,
    @HASH_KEY(ldts, hour, carrier, flight, origin) AS flight_hk
  )
)
