"""Unit tests that passed, remembered between processes by the hash of all that decides them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from vde_dagster.base.atomic_files import replacing
from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.settings import Settings
from vde_dagster.project.unit_values import UnitTest

_NOWHERE = SourceLocation(Path())


class PassedTests:
    """Which tests passed last, and on what; kept in one JSON file.

    It holds nothing that cannot be found out again, so a file that cannot be read is an empty one.

    Args:
        path: The file; its folder is made when something is saved.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys: dict[str, str] | None = None
        self._changed = False

    @classmethod
    def of(cls, settings: Settings) -> PassedTests:
        """Return those of a project."""
        return cls(settings.work_dir / "cache" / "unit_tests.json")

    def has(self, test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> bool:
        """Say whether a test passed on the same model, fed with columns of the same types.

        Args:
            test: The test.
            snapshots: The models, by name.
        """
        return self._load().get(_name(test)) == _key(test, snapshots)

    def add(self, test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> None:
        """Remember that a test passed; `save` writes it."""
        self._load()[_name(test)] = _key(test, snapshots)
        self._changed = True

    def save(self) -> None:
        """Write what is remembered, atomically, when anything is new."""
        if not self._changed:
            return
        with replacing(self._path) as file:
            file.write(json.dumps(self._load(), indent=0).encode())
        self._changed = False

    def _load(self) -> dict[str, str]:
        if self._keys is None:
            try:
                found = json.loads(self._path.read_text("utf-8"))
            except (OSError, ValueError):
                found = {}
            self._keys = found if isinstance(found, dict) else {}
        return self._keys


def _name(test: UnitTest) -> str:
    return f"{test.model} {test.name} {test.location.path.as_posix()}"


def _key(test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> str:
    """Hash the test, the model's own text (its CTEs are tested, too) and its inputs' types."""
    model = snapshots[test.model].model
    code = model.python
    python = None if code is None else (code.entrypoint, sorted(code.files.items()))
    outside = () if code is None else sorted(code.outside.items())
    types = [
        (str(name), [(column.name, column.type) for column in snapshots[name].columns])
        for name in (test.model, *(name for name, _ in test.inputs))
        if name in snapshots
    ]
    return digest(
        "unit test",
        version("pyspark"),
        repr(replace(test, location=_NOWHERE)),
        model.query,
        repr((python, outside, model.session, types)),
    )
