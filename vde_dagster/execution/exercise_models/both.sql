MODEL (name mid.both_{part}, kind VIEW);
SELECT id, day, name, price, many FROM mid.days_{part} WHERE many >= 0
UNION ALL
SELECT id, day, name, price, many FROM raw.facts_{other} WHERE many > {part}
