"""The publish transaction, and what follows it in catalogs of others."""
