AUDIT (
  name revenue_is_positive
);

SELECT
  *
FROM @this_model
WHERE
  revenue <= 0
