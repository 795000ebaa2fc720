"""The `vde` command: a thin shell over the same functions that Dagster calls."""
