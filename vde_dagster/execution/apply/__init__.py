"""Applying plans: tables are filled and audited on branches, and published all or not at all."""
