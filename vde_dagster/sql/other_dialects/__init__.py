"""Queries of other dialects in Spark SQL."""


class Unwritable(ValueError):
    """A form of another dialect that Spark has not; says what it is."""
