"""Half-open intervals in UTC, cadences that decide when models' data fall due, and time columns."""
