"""Code location of a project without a `definitions.py`.

The project is the folder in the environment variable `VDE_PROJECT`, or the working directory.
"""

from __future__ import annotations

import os
from pathlib import Path

from vde_dagster.orchestration.definitions import vde_definitions
from vde_dagster.orchestration.instance import PROJECT_VARIABLE

defs = vde_definitions(Path(os.environ.get(PROJECT_VARIABLE) or Path.cwd()))
