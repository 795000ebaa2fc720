"""Headers `MODEL (…)` and `AUDIT (…)`: their syntax, macros and properties."""
