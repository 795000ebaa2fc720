MODEL (name out.shown_{part}, kind VIEW);
SELECT s.*, r.place FROM out.sums_{part} AS s
LEFT JOIN out.ranked_{part} AS r ON s.name = r.name AND s.day = r.day
