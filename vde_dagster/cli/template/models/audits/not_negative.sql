AUDIT (
  name not_negative
);

SELECT
  *
FROM @this_model
WHERE
  @column < 0
