"""PySpark's conversion of NumPy values, without an import of pandas by each process."""

from __future__ import annotations

from typing import Any

import numpy as np


class _NumpyOnly:
    """A converter of Py4J that asks PySpark's converter only about values of NumPy.

    PySpark's converters import its testing package before they look at a value, even at a text,
    and so pandas and PyArrow: half a second of each process.
    """

    def __init__(self, converter: Any) -> None:
        self._converter = converter

    def can_convert(self, value: Any) -> bool:
        is_numpy = isinstance(value, np.generic | np.ndarray)
        return is_numpy and self._converter.can_convert(value)

    def convert(self, value: Any, client: Any) -> Any:
        return self._converter.convert(value, client)


def convert_numpy_only() -> None:
    """Ask PySpark's converters of NumPy values only about such values, from now on."""
    from py4j import protocol
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    protocol.INPUT_CONVERTER[:] = [
        _NumpyOnly(one) if isinstance(one, NumpyArrayConverter | NumpyScalarConverter) else one
        for one in protocol.INPUT_CONVERTER
    ]
