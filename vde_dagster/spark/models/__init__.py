"""Computation of models' rows: queries and Python functions, digests, and audits."""
