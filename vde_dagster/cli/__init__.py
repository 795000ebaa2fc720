"""Command line `vde`: a thin layer over the functions that Dagster also calls."""
