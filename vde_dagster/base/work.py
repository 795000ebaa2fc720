"""Cost of work that was done, or is expected, as figures that can be added up and priced."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Work:
    """Cost of a computation: time, and bytes read and written.

    Args:
        seconds: Elapsed time.
        task_seconds: Total run time of the engine's tasks, as far as known.
        untold_seconds: Part of `seconds` without known task times.
        bytes: Bytes written.
        bytes_read: Bytes read, as far as known.
    """

    seconds: float = 0.0
    task_seconds: float = 0.0
    untold_seconds: float = 0.0
    bytes: float = 0.0
    bytes_read: float = 0.0

    @classmethod
    def from_fill(
        cls,
        seconds: float | None,
        task_seconds: float | None,
        written: float | None,
        read: float | None,
    ) -> Work:
        """Create the cost of one fill; missing figures (None) count as 0."""
        clock = seconds or 0.0
        untold = clock if task_seconds is None else 0.0
        return cls(clock, task_seconds or 0.0, untold, float(written or 0), float(read or 0))

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 3),
            "task_seconds": round(self.task_seconds, 3),
            "untold_seconds": round(self.untold_seconds, 3),
            "bytes": round(self.bytes),
            "bytes_read": round(self.bytes_read),
        }
