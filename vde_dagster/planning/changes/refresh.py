"""Choice between refreshing a table from changes and computing all of its rows, by measured bytes.

Both ways take fixed time for planning and commits, and time in proportion to the bytes that they
read: a whole computation reads all inputs and writes the table, a refresh from changes reads the
changed rows and, to find the rows of their keys, the inputs and the table. The rates of the rule of
thumb are from `benchmarks/refresh_costs.py`; the measured fills of the table, or of its project,
replace them as soon as there are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from statistics import fmean
from typing import Any, Literal


class RefreshCode(str, Enum):
    """Reason for the method of a fill; all but the first two lead to computing all rows."""

    ASKED = "asked"
    """The model's kind asks for changes."""
    CHEAPER = "cheaper"
    SMALL = "small"
    """Fixed costs outweigh the bytes that changes save."""
    MUCH_CHANGED = "much_changed"
    IMPOSSIBLE = "impossible"
    """`Refresh.detail` is the reason, as a clause."""
    FAILED = "failed"
    """The engine could not compute the changed rows."""


@dataclass(frozen=True, slots=True)
class RefreshSizes:
    """Sizes of a fill in bytes, from the metadata of its Iceberg tables; no data file is read.

    Args:
        inputs: Bytes of the files of all inputs.
        table: Bytes of the files of the table that is filled.
        changed: Bytes to read for finding the changed rows: files that commits added and removed,
            or both states where these must be compared.
        scanned: Bytes to read in addition: of inputs that are joined with changed rows, of the
            table for finding rows, and of all inputs for computing the rows of changed keys.
        by_keys: Whether all rows with the keys of changed rows are computed again.
    """

    inputs: int
    table: int
    changed: int
    scanned: int
    by_keys: bool = True

    def to_json(self) -> dict[str, int]:
        """Return the documented JSON form."""
        return {name: int(getattr(self, name)) for name in _BYTES}

    @property
    def share(self) -> float:
        """The changed bytes as a share of the inputs' bytes."""
        return self.changed / self.inputs if self.inputs else 1.0


_BYTES = ("inputs", "table", "changed", "scanned")


@dataclass(frozen=True, slots=True)
class Refresh:
    """Method of computing a fill's rows, with its reason.

    Args:
        detail: For `IMPOSSIBLE` and `FAILED`, the reason.
        tables: Names of the inputs whose changes are read.
        key: Output columns of the keys or groups.
        sizes: Sizes for choosing the method; None if unknown.
        changes: The part of the table that changes: rows of keys, single rows, or merged groups.
    """

    code: RefreshCode
    detail: str = ""
    tables: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    sizes: RefreshSizes | None = None
    changes: Literal["keys", "rows", "groups"] = "keys"

    @property
    def from_changes(self) -> bool:
        """Whether only the rows that changes affect are computed."""
        return self.code in (RefreshCode.ASKED, RefreshCode.CHEAPER)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "method": self.changes if self.from_changes else "whole",
            "reason": self.code.value,
            "detail": self.detail or None,
            "tables": list(self.tables),
            "key": list(self.key),
            "bytes": self.sizes.to_json() if self.sizes is not None else None,
        }

    def unread(self, bytes_read: int | None) -> int:
        """Return how many of the inputs' bytes were not read, an estimate of the saving."""
        if not self.from_changes or self.sizes is None or bytes_read is None:
            return 0
        return max(0, self.sizes.inputs - bytes_read)


@dataclass(frozen=True, slots=True)
class MeasuredFill:
    """A fill with its sizes and its duration in seconds."""

    from_changes: bool
    sizes: RefreshSizes
    seconds: float


@dataclass(frozen=True, slots=True)
class Line:
    """Linear cost in seconds: a fixed part, plus a factor times the seconds of a rule of thumb."""

    fixed: float
    factor: float

    def seconds(self, work: float) -> float:
        """Estimate the seconds for an amount of work."""
        return self.fixed + self.factor * work


WHOLE_RATE = 0.42e-6
"""Seconds per byte that a whole computation reads or writes."""
SCAN_RATE = 0.30e-6
"""Seconds per byte that is read to find rows in the table and to compute those of changed keys."""
KEYS_RATE = 3.7e-6
"""Seconds per byte of changed rows, if their keys are computed again: more rows have these keys."""
ROWS_RATE = 0.84e-6
"""Seconds per byte of changed rows, if these alone are computed: they are compared and written."""
FEWEST = 6
"""Number of fills from which on a line is fitted to them."""


@dataclass(frozen=True, slots=True)
class RefreshCosts:
    """Costs in seconds of a fill's two methods: all rows, or only the rows that changes affect."""

    whole: Line
    changes: Line

    def whole_seconds(self, sizes: RefreshSizes) -> float:
        """Estimate the seconds of computing all rows."""
        return self.whole.seconds(_work(sizes, from_changes=False))

    def changes_seconds(self, sizes: RefreshSizes) -> float:
        """Estimate the seconds of computing only the rows that changes affect."""
        return self.changes.seconds(_work(sizes, from_changes=True))

    def fit(self, fills: Iterable[MeasuredFill]) -> RefreshCosts:
        """Return the costs that fit fills best, by least squares.

        If a method has fewer than `FEWEST` fills, its costs are scaled by the speed of the other
        method.

        >>> sizes = [RefreshSizes(n, 0, 0, 0) for n in range(0, 600_000_000, 100_000_000)]
        >>> fills = [MeasuredFill(False, one, 4 + 2 * WHOLE_RATE * one.inputs) for one in sizes]
        >>> found = RULE_OF_THUMB.fit(fills)
        >>> round(found.whole.fixed, 3), round(found.whole.factor, 3)
        (4.0, 2.0)
        """
        known: dict[bool, list[MeasuredFill]] = {True: [], False: []}
        for fill in fills:
            known[fill.from_changes].append(fill)
        lines = {False: self.whole, True: self.changes}
        fitted = {way: _fit(lines[way], known[way], way) for way in known}
        for way, line in fitted.items():
            other = fitted[not way]
            if line is None and other is not None:
                speed = _speed(lines[not way], known[not way], not way)
                lines[way] = Line(lines[way].fixed * speed, lines[way].factor * speed)
            elif line is not None:
                lines[way] = line
        return RefreshCosts(lines[False], lines[True])


RULE_OF_THUMB = RefreshCosts(Line(0.9, 1.0), Line(7.0, 1.0))
"""Costs before any fill was measured: 20,000 to 4,000,000 rows of 24 bytes on two busy cores."""


def choose_refresh(sizes: RefreshSizes, costs: RefreshCosts = RULE_OF_THUMB) -> RefreshCode:
    """Choose the faster way to compute a table's rows.

    >>> choose_refresh(RefreshSizes(9_000_000, 1_000_000, 1_000, 10_000_000))
    <RefreshCode.SMALL: 'small'>
    >>> choose_refresh(RefreshSizes(9_000_000_000, 1_000_000, 1_000, 9_000_000_000))
    <RefreshCode.CHEAPER: 'cheaper'>
    >>> choose_refresh(RefreshSizes(9_000_000_000, 1_000_000, 8_000_000_000, 9_000_000_000))
    <RefreshCode.MUCH_CHANGED: 'much_changed'>
    """
    whole = costs.whole_seconds(sizes)
    if costs.changes_seconds(sizes) < whole:
        return RefreshCode.CHEAPER
    if costs.changes_seconds(replace(sizes, changed=0)) < whole:
        return RefreshCode.MUCH_CHANGED
    return RefreshCode.SMALL


def _work(sizes: RefreshSizes, *, from_changes: bool) -> float:
    """Estimate the seconds of a fill by the rule of thumb, without the fixed part."""
    if from_changes:
        rate = KEYS_RATE if sizes.by_keys else ROWS_RATE
        return sizes.scanned * SCAN_RATE + sizes.changed * rate
    return (sizes.inputs + sizes.table) * WHOLE_RATE


def _fit(line: Line, fills: Sequence[MeasuredFill], from_changes: bool) -> Line | None:
    """Fit a line without a negative fixed part or factor; None if there are too few fills."""
    if len(fills) < FEWEST:
        return None
    xs = [_work(one.sizes, from_changes=from_changes) for one in fills]
    ys = [one.seconds for one in fills]
    x, y = fmean(xs), fmean(ys)
    spread = sum((one - x) ** 2 for one in xs)
    if spread <= (_LEAST_SPREAD * x) ** 2 * len(xs):
        # Equal sizes do not separate the fixed part from the rest.
        speed = _speed(line, fills, from_changes)
        return Line(line.fixed * speed, line.factor * speed)
    factor = max(0.0, sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread)
    fixed = y - factor * x
    if fixed < 0:
        factor = sum(a * b for a, b in zip(xs, ys, strict=True)) / sum(a * a for a in xs)
        fixed = 0.0
    return Line(fixed, factor)


_LEAST_SPREAD = 0.1
"""Least standard deviation of the fills' work, as a share of its mean, for fitting a line."""


def _speed(line: Line, fills: Sequence[MeasuredFill], from_changes: bool) -> float:
    """Return the ratio of the fills' measured seconds to the estimated seconds."""
    expected = sum(line.seconds(_work(one.sizes, from_changes=from_changes)) for one in fills)
    return sum(one.seconds for one in fills) / expected if expected > 0 else 1.0
