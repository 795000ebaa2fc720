"""What rules said of models, remembered between processes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from vde_dagster.base.atomic_files import replacing
from vde_dagster.errors import SourceLocation
from vde_dagster.planning.lint.linted import Violation

Said = dict[str, tuple[Violation, ...]]


class LintMemo:
    """A file of what rules said, by a key of all that decides it.

    It holds nothing that cannot be found again, so a file that cannot be read is an empty one.

    Args:
        path: The file; its folder is made when something is saved.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stored: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            stored = json.loads(path.read_bytes())
            self._stored = stored if isinstance(stored, dict) else {}
        self._used: dict[str, Said] = {}
        self._changed = False

    def get(self, key: str) -> Said:
        """Return what is remembered under a key, by rule; what is put in is remembered."""
        try:
            said = {
                rule: tuple(Violation(message, _place(place)) for message, place in found)
                for rule, found in self._stored.get(key, {}).items()
            }
        except (AttributeError, TypeError, ValueError):
            said = {}
        return self._used.setdefault(key, said)

    def changed(self) -> None:
        """Note that there is something new to save."""
        self._changed = True

    def save(self, *, all_used: bool) -> None:
        """Write what was used in this process, when anything of it is new.

        Args:
            all_used: Whether every model was looked at; if not, what was stored stays, too.
        """
        if not self._changed:
            return
        data = {} if all_used else dict(self._stored)
        data |= {
            key: {
                rule: [[one.message, _written(one.location)] for one in found]
                for rule, found in said.items()
            }
            for key, said in self._used.items()
        }
        with replacing(self._path) as file:
            file.write(json.dumps(data, separators=(",", ":")).encode())


def _written(location: SourceLocation) -> list[Any]:
    return [location.path.as_posix(), location.line, location.column]


def _place(data: list[Any]) -> SourceLocation:
    path, line, column = data
    return SourceLocation(Path(path), line, column)
