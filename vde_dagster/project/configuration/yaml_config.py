"""Configuration in YAML, with Jinja in it: `env_var('NAME', default)`, `user()` and `var(…)`."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.project.configuration.written import WrittenConfig
from vde_dagster.project.jinja.yaml_text import rendered_yaml
from vde_dagster.project.python.watching import Seen
from vde_dagster.project.reading.yaml_lines import load_yaml

_HINT = "the configuration knows env_var('NAME', 'default') and user()"


def read_yaml_config(path: Path, text: str) -> WrittenConfig:
    """Read a configuration file in YAML.

    Args:
        path: The file, relative to the project's folder.
        text: Its text.

    Raises:
        ProjectError: Jinja or YAML cannot be read, or it is no table; points at the line.
    """
    seen = Seen()
    made = rendered_yaml(path, text, lambda name, default=None: default, seen.variables, _HINT)
    document = load_yaml(path, made)
    if document.value is None:
        return WrittenConfig(path, {}, {}, seen)
    if not isinstance(document.value, dict):
        raise document.error((), "the configuration is a table of key: value")
    # Lines are those of the text that Jinja made, which may have others.
    same = made.count("\n") == text.count("\n")
    return WrittenConfig(path, document.value, document.lines if same else {}, seen)
