"""PySpark's conversion of NumPy values, without an import of pandas by each process."""

from __future__ import annotations

from typing import Any

import numpy as np


class _NumpyOnly:
    """A Py4J converter that passes only NumPy values to one of PySpark's converters.

    Before PySpark's converters look at a value, even at a text, they import PySpark's testing
    package, and with it pandas and PyArrow. This takes half a second in each process.
    """

    def __init__(self, converter: Any) -> None:
        self._converter = converter

    def can_convert(self, value: Any) -> bool:
        is_numpy = isinstance(value, np.generic | np.ndarray)
        return is_numpy and self._converter.can_convert(value)

    def convert(self, value: Any, client: Any) -> Any:
        return self._converter.convert(value, client)


def convert_numpy_only() -> None:
    """Make Py4J call PySpark's converters of NumPy values only for NumPy values."""
    from py4j import protocol
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    protocol.INPUT_CONVERTER[:] = [
        _NumpyOnly(one) if isinstance(one, NumpyArrayConverter | NumpyScalarConverter) else one
        for one in protocol.INPUT_CONVERTER
    ]
