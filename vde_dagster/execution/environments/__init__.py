"""Versions of environments: found, compared, audited, rolled back and frozen."""
