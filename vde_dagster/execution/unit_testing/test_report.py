"""Report of a unit test as texts of limited size, for the state's outbox and for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import shortened
from vde_dagster.execution.unit_testing.run_test import RowDifference, TestResult
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.serialise import from_plain

MAX_ROWS = 20
"""Maximum number of missing and of unexpected rows in a report; further rows are counted."""
_LONGEST_CELL = 200
_LONGEST_ERROR = 4_000

Cells = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class DifferenceRecord:
    """Missing and unexpected rows of a unit test, as texts for the state store and reports.

    Args:
        part: `query`, or the name of the CTE.
        missing: First expected rows that were not returned.
        unexpected: First returned rows that were not expected.
    """

    part: str
    columns: tuple[str, ...]
    missing: tuple[Cells, ...]
    unexpected: tuple[Cells, ...]
    missing_rows: int
    unexpected_rows: int

    @classmethod
    def from_rows(cls, part: str, found: RowDifference) -> DifferenceRecord:
        """Convert a difference to texts, and keep its first rows."""
        return cls(
            part,
            found.columns,
            _cells(found.missing),
            _cells(found.unexpected),
            len(found.missing),
            len(found.unexpected),
        )


@dataclass(frozen=True, slots=True)
class TestRecord:
    """Result of a unit test as stored in the outbox, with the plan that the test ran for.

    Args:
        file: The test's file, relative to the project.
        summary: Description of the failure, or None if the test passed.
        error: Error that prevented the model from running, or None.
        remembered: Whether the test was skipped, because it had passed before.
        environment: Environment of the plan, or None for a test that ran without a plan.
    """

    model: ModelName
    snapshot: str
    test: str
    file: str
    place: str
    summary: str | None
    error: str | None
    differences: tuple[DifferenceRecord, ...]
    remembered: bool
    environment: str | None
    plan: str | None

    @classmethod
    def from_result(
        cls,
        snapshot: Snapshot,
        result: TestResult,
        *,
        remembered: bool = False,
        environment: str | None = None,
        plan: str | None = None,
    ) -> TestRecord:
        test, error = result.test, result.error
        return cls(
            model=test.model,
            snapshot=snapshot.id,
            test=test.name,
            file=test.location.path.as_posix(),
            place=str(test.location),
            summary=None if result.passed else result.summary,
            error=None if error is None else shortened(error, _LONGEST_ERROR),
            differences=tuple(DifferenceRecord.from_rows(*found) for found in result.differences),
            remembered=remembered,
            environment=environment,
            plan=plan,
        )

    @property
    def passed(self) -> bool:
        return self.summary is None

    @property
    def id(self) -> str:
        """Identifier of the result, the same in every process."""
        rows = repr([asdict(found) for found in self.differences])
        found = (str(self.model), self.test, self.file, self.summary or "", self.error or "", rows)
        return f"{self.plan or 'by itself'} {digest(self.snapshot, *found)[:12]}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TestRecord:
        """Read values that `to_json` returned, also after a round trip through JSON text."""
        return from_plain(cls, data)


def _cells(rows: Sequence[tuple[Any, ...]]) -> tuple[Cells, ...]:
    return tuple(
        tuple(None if value is None else shortened(str(value), _LONGEST_CELL) for value in row)
        for row in rows[:MAX_ROWS]
    )
