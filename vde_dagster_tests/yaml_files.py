"""Cases that are written as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> Any:
    """Read a file, by the parser in C where there is one: every worker of pytest reads all."""
    return yaml.load(path.read_text("utf-8"), _LOADER)
