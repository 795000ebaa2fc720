"""Environments: their entries and views, their contracts, and the resolution of names in them.

All reads and writes resolve names with the resolver. An entry may pin a table to an earlier state;
the resolver then binds the name to a `PinnedTable`.
"""
