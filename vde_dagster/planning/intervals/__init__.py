"""Half-open intervals in UTC, the cadence by which models' data fall due, and time columns."""
