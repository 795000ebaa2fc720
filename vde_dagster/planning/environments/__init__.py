"""Environments: their entries and views, their contracts, and the resolution of names in them."""
