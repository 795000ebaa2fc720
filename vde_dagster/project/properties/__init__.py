"""Headers `MODEL (…)` and `AUDIT (…)`: syntax, macros in them, and their properties."""
