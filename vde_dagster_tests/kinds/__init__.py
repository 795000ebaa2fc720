"""Kinds that the product does not have, in three modules each, and tests of all kinds."""
