"""Environments: their entries and views, their contracts, and the resolution of names in them.

The resolver is the one function that decides what a name stands for, for reading and for
writing; an entry may hold a table at an earlier state, which it binds to a `PinnedTable`.
"""
