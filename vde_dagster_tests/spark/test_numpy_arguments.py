"""Values of NumPy as arguments of the JVM, and what PySpark imports for other values."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import json, sys
import numpy as np
from py4j.protocol import INPUT_CONVERTER
from vde_dagster.spark.session.numpy_arguments import convert_numpy_only
convert_numpy_only()
def converters(value):
    return sum(one.can_convert(value) for one in INPUT_CONVERTER)
plain = [converters(value) for value in ("text", 1, 1.5, None, True, object())]
before = sorted({"pandas", "pyarrow", "pyspark.testing"} & set(sys.modules))
class Own(np.ndarray):
    pass
values = [np.int64(1), np.float32(1.5), np.bool_(True), np.array([1]), np.array([1]).view(Own)]
numpy = [converters(value) for value in values]
print(json.dumps([plain, before, numpy]))
"""


def test_only_values_of_numpy_reach_the_converters_that_import_pandas() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=300
    )
    plain, imported, numpy = json.loads(ended.stdout)
    assert plain == [0] * 6
    assert imported == []
    assert all(numpy), "a list's converter takes arrays, too"
