AUDIT (
  name cancelled_flights_have_no_delay
);

SELECT
  *
FROM @this_model
WHERE
  status = 'cancelled'
  AND (NOT departure_delay IS NULL OR NOT arrival_delay IS NULL);

AUDIT (
  name is_a_share
);

SELECT
  *
FROM @this_model
WHERE
  @column < 0 OR @column > 1;
