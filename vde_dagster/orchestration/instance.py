"""The Dagster instance of a project: its home, and the configuration that goes there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

HOME_VARIABLE = "DAGSTER_HOME"
HOME_FOLDER = ".dagster_home"
INSTANCE_CONFIG = Path(__file__).parent / "dagster.yaml"
"""The configuration of instances whose project has none of its own."""


def dagster_home(root: Path) -> Path:
    """Return the project's Dagster home, made when it is missing.

    It is the folder in `DAGSTER_HOME`, or `.dagster_home` of the project. A new one gets the
    project's `dagster.yaml`, or the one for one machine that comes with the package; that of the
    project is copied again when it changed, unless `DAGSTER_HOME` names the folder.

    Args:
        root: The project's folder.
    """
    given = os.environ.get(HOME_VARIABLE)
    home = Path(given).expanduser().resolve() if given else root.resolve() / HOME_FOLDER
    home.mkdir(parents=True, exist_ok=True)
    config = home / "dagster.yaml"
    own = root / "dagster.yaml"
    if not config.exists() or (not given and own.is_file()):
        text = (own if own.is_file() else INSTANCE_CONFIG).read_text("utf-8")
        if not config.exists() or config.read_text("utf-8") != text:
            config.write_text(text, "utf-8")
    return home


def open_instance(root: Path) -> dg.DagsterInstance:
    """Open the project's Dagster instance.

    Args:
        root: The project's folder.
    """
    import dagster as dg

    home = dagster_home(root)
    os.environ.setdefault(HOME_VARIABLE, str(home))
    return dg.DagsterInstance.from_config(str(home))
