"""`MODEL (…)` and `AUDIT (…)` headers: syntax, macros in them, and the properties they set."""
