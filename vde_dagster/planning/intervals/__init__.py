"""Half-open intervals in UTC, the cadences of models, and time columns."""
