"""Queries of other dialects in Spark SQL."""


class Unwritable(ValueError):
    """A form of another dialect that Spark has not; says what it is.

    Args:
        types: Words of the types that it is about, in capitals, by which its place is found.
    """

    def __init__(self, what: str, *types: str) -> None:
        super().__init__(what)
        self.types = types
