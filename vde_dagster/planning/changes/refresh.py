"""Choice between refreshing a table from changes and computing all of its rows.

The estimated seconds of both methods have a fixed part and a part in proportion to bytes. Computing
all rows reads all inputs and writes the table. A refresh reads the changed rows; it may also scan
inputs to compute new rows, and the table to find the rows to replace. The default rates are from
`benchmarks/refresh_costs.py`. Measured fills of the project correct these rates, and measured fills
of the table correct them again. Sometimes the method that seems slower is used, to measure it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import takewhile
from statistics import median
from typing import Any, Literal

Method = Literal["keys", "rows", "groups", "added", "added_groups"]
"""Method of a refresh; `added…` are variants of `rows` and `groups` if inputs only gained rows."""


class RefreshCode(str, Enum):
    """Reasons why a fill reads only changes, or computes all rows."""

    # All but the first three lead to computing all rows.
    ASKED = "asked"
    """The model's kind asks for changes."""
    CHEAPER = "cheaper"
    TRIED = "tried"
    """Reading only changes seems slower, and is tried to measure its seconds."""
    SMALL = "small"
    """Fixed costs outweigh the bytes that changes save."""
    MUCH_READ = "much_read"
    """Finding the rows to replace takes as long as computing all of them."""
    MUCH_CHANGED = "much_changed"
    TRIED_WHOLE = "tried_whole"
    """Computing all rows seems slower, and is tried to measure its seconds."""
    IMPOSSIBLE = "impossible"
    """`Refresh.detail` is the reason, as a clause."""
    FAILED = "failed"
    """The engine could not compute the changed rows."""


@dataclass(frozen=True, slots=True)
class RefreshSizes:
    """The bytes that a fill reads and writes, as input of its cost estimate.

    Args:
        inputs, table: Bytes of the files of all inputs, and of the table that is filled.
        changed: Bytes to read for finding the changed rows.
        scanned: Bytes to read in addition to `changed`.
        rows: Number of changed rows in the commits; None if unknown.
    """

    # All sizes come from the metadata of Iceberg tables. No data file is read.
    inputs: int
    table: int
    # The files that commits added and removed, or both states where these must be compared.
    changed: int
    # Inputs that are joined with changed rows, the table for finding rows, and all inputs for
    # computing the rows of changed keys.
    scanned: int
    method: Method = "keys"
    # An upper bound of the number of changed keys.
    rows: int | None = None

    def to_json(self) -> dict[str, int]:
        return {name: int(getattr(self, name)) for name in _BYTES}

    @property
    def share(self) -> float:
        """The changed bytes divided by the inputs' bytes."""
        return self.changed / self.inputs if self.inputs else 1.0


_BYTES = ("inputs", "table", "changed", "scanned")


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated seconds of a fill by each method: all rows, or only changed rows."""

    whole: float
    changes: float

    def to_json(self) -> dict[str, float]:
        return {"whole": round(self.whole, 3), "changes": round(self.changes, 3)}


@dataclass(frozen=True, slots=True)
class Refresh:
    """The method chosen for a fill, all rows or only changed rows, with the reason.

    Args:
        detail: The reason in words, only for the codes `IMPOSSIBLE` and `FAILED`.
        tables: Names of the inputs whose changes are read.
        key: Output columns of the keys or groups.
        changes: Which rows the fill replaces: all rows of some keys, single rows, or groups.
        estimate: Estimated seconds of both methods; None if they were not estimated.
    """

    code: RefreshCode
    detail: str = ""
    tables: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    sizes: RefreshSizes | None = None
    changes: Literal["keys", "rows", "groups"] = "keys"
    estimate: Estimate | None = None

    @property
    def from_changes(self) -> bool:
        """Whether the fill computes only the rows that changes affect."""
        return self.code in _FROM_CHANGES

    @property
    def begins_with_changes(self) -> bool:
        """Whether the fill reads changes first. If that fails, it computes all rows."""
        return self.from_changes or self.code is RefreshCode.FAILED

    @property
    def is_routine(self) -> bool:
        """Whether the inputs are so small that all rows are computed; reports omit such fills."""
        return self.code is RefreshCode.SMALL and self.estimate is None

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.changes if self.from_changes else "whole",
            "reason": self.code.value,
            "detail": self.detail or None,
            "tables": list(self.tables),
            "key": list(self.key),
            "bytes": self.sizes.to_json() if self.sizes is not None else None,
            "changed_rows": self.sizes.rows if self.sizes is not None else None,
            "estimated_seconds": self.estimate.to_json() if self.estimate is not None else None,
        }

    def unread_bytes(self, bytes_read: int | None) -> int:
        """Return how many of the inputs' bytes the fill did not read."""
        # This is an estimate of the saving.
        if not self.from_changes or self.sizes is None or bytes_read is None:
            return 0
        return max(0, self.sizes.inputs - bytes_read)

    def saved_seconds(self, seconds: float | None) -> float:
        """Estimate the seconds that a refresh saved; negative if it was slower."""
        if not self.from_changes or self.estimate is None or seconds is None:
            return 0.0
        return self.estimate.whole - seconds


_FROM_CHANGES = (RefreshCode.ASKED, RefreshCode.CHEAPER, RefreshCode.TRIED)


@dataclass(frozen=True, slots=True)
class MeasuredFill:
    """A fill with its sizes, its method and its duration in seconds."""

    # A fill that read changes and failed is part of the costs of this method.
    from_changes: bool
    sizes: RefreshSizes
    seconds: float


WHOLE_FIXED = 0.8
"""Seconds of a whole computation without rows."""
WHOLE_RATE: dict[Method, float] = {
    "keys": 0.1e-6,
    "rows": 0.03e-6,
    "groups": 0.06e-6,
    "added": 0.03e-6,
    "added_groups": 0.06e-6,
}
"""Seconds per byte that a whole computation reads or writes, by the method of a refresh.

Queries that allow `rows` have no shuffle, those with `groups` have one.
"""
SCAN_RATE = 0.035e-6
"""Seconds per byte of `RefreshSizes.scanned`: the inputs and the table that a refresh scans."""
CHANGES_FIXED: dict[Method, float] = {
    "keys": 1.5,
    "rows": 1.7,
    "groups": 1.25,
    "added": 0.15,
    "added_groups": 1.0,
}
"""Seconds of a refresh without changes, by method."""
CHANGES_RATE: dict[Method, float] = {
    "keys": 0.5e-6,
    "rows": 0.8e-6,
    "groups": 0.25e-6,
    "added": 0.08e-6,
    "added_groups": 0.2e-6,
}
"""Seconds per byte of changed rows, by method.

`keys` also computes unchanged rows of the changed keys. `rows` and `groups` compare both states of
the changed files, because rows were removed.
"""
LEAST_BYTES = 4 << 20
"""Bytes of a fill's inputs below which `refresh auto` computes all rows without an estimate.

Reading them takes less than half a second; a refresh saves at most that.
"""
FEW_ROWS = 200
"""Maximum number of changed rows whose keys a query lists, to skip files without these keys."""
NEWEST = 30
"""Number of a table's newest fills, by method, that determine its costs."""


@dataclass(frozen=True, slots=True)
class RefreshCosts:
    """Correction factors for the estimates of computing all rows, and of refreshing.

    Each field has four factors, one per part of a fill's seconds: the fixed part, reading files,
    finding few keys in files, and reading changes.
    """

    whole: tuple[float, ...] = (1.0,) * 4
    changes: tuple[float, ...] = (1.0,) * 4

    def whole_seconds(self, sizes: RefreshSizes) -> float:
        return _dot(self.whole, _parts(sizes, from_changes=False))

    def changes_seconds(self, sizes: RefreshSizes) -> float:
        return _dot(self.changes, _parts(sizes, from_changes=True))

    def estimate(self, sizes: RefreshSizes) -> Estimate:
        return Estimate(self.whole_seconds(sizes), self.changes_seconds(sizes))

    def fit(self, fills: Iterable[MeasuredFill], newest: int | None = None) -> RefreshCosts:
        """Return these costs, adjusted to measured fills.

        Args:
            fills: Measured fills, the newest first.
            newest: Number of fills of each method to use; None for all.

        >>> sizes = [RefreshSizes(n, 0, 0, 0) for n in range(0, 600_000_000, 1_000_000)]
        >>> slow = [3 * RULE_OF_THUMB.whole_seconds(one) for one in sizes]
        >>> fills = [MeasuredFill(False, *one) for one in zip(sizes, slow)]
        >>> [round(one, 1) for one in RULE_OF_THUMB.fit(fills).changes]
        [2.8, 3.0, 3.0, 3.0]
        """
        # The more fills there are, the less the result depends on the costs so far. The factors of
        # the method with fewer fills first grow like the factors of the other method, less with
        # each fill of its own.
        known: dict[bool, list[MeasuredFill]] = {True: [], False: []}
        for fill in fills:
            known[fill.from_changes].append(fill)
        more = len(known[True]) > len(known[False])
        factors = {False: self.whole, True: self.changes}
        grown = _fit(factors[more], known[more][:newest])
        factors[more] = _multiply(factors[more], grown)
        own = known[not more][:newest]
        likely = (growth ** (1 / (1 + len(own))) for growth in (*grown[:2], grown[1], grown[1]))
        start = _multiply(factors[not more], likely)
        factors[not more] = _multiply(start, _fit(start, own))
        return RefreshCosts(factors[False], factors[True])


RULE_OF_THUMB = RefreshCosts()
"""Costs before any fill was measured: the rates above, without a correction.

These rates are CPU seconds, measured on two cores with 20,000 to 4,000,000 rows.
"""


def choose_refresh(
    sizes: RefreshSizes, costs: RefreshCosts = RULE_OF_THUMB, fills: Sequence[MeasuredFill] = ()
) -> RefreshCode:
    """Choose how to compute a table's rows: the faster method, or a trial of the slower method.

    Args:
        costs: Costs fitted to `fills`.
        fills: Measured fills of the table, the newest first.

    >>> choose_refresh(RefreshSizes(5_000_000, 1_000_000, 1_000, 6_000_000))
    <RefreshCode.SMALL: 'small'>
    >>> choose_refresh(RefreshSizes(9_000_000_000, 1_000_000, 1_000, 9_000_000_000))
    <RefreshCode.CHEAPER: 'cheaper'>
    >>> choose_refresh(RefreshSizes(9_000_000_000, 1_000_000, 8_000_000_000, 9_000_000_000))
    <RefreshCode.MUCH_CHANGED: 'much_changed'>
    """
    whole, changes = costs.whole_seconds(sizes), costs.changes_seconds(sizes)
    if changes < whole:
        tried = _is_worth_a_trial(whole, changes, False, fills)
        return RefreshCode.TRIED_WHOLE if tried else RefreshCode.CHEAPER
    # A refresh saves no fixed costs.
    saved = whole - costs.whole[0] * WHOLE_FIXED
    if changes - whole <= 2 * saved and _is_worth_a_trial(changes, whole, True, fills):
        return RefreshCode.TRIED
    if costs.changes[0] * CHANGES_FIXED[sizes.method] >= whole:
        return RefreshCode.SMALL
    nothing = costs.changes_seconds(replace(sizes, changed=0))
    return RefreshCode.MUCH_CHANGED if nothing < whole else RefreshCode.MUCH_READ


MOST_SLOWER = 3
"""A method is not tried if its estimated seconds exceed the other's by more than this factor."""
TRIAL_SHARE = 0.03
"""Maximum extra seconds of a trial, per second of fills since the method's last use."""
FIRST_TRIAL = 0.5
"""Increase of this maximum for a first trial, as a share of the faster method's estimate."""


def _is_worth_a_trial(
    slower: float, faster: float, from_changes: bool, fills: Sequence[MeasuredFill]
) -> bool:
    """Return whether a trial of the slower method costs little compared with recent fills."""
    if not fills or slower > MOST_SLOWER * faster:
        return False
    since = list(takewhile(lambda fill: fill.from_changes is not from_changes, fills))
    allowed = TRIAL_SHARE * sum(fill.seconds for fill in since)
    if len(since) == len(fills):
        allowed += FIRST_TRIAL * faster
    return slower - faster <= allowed


def _parts(sizes: RefreshSizes, *, from_changes: bool) -> tuple[float, ...]:
    """Estimate the parts of a fill's seconds: fixed, reading files, finding few keys, changes."""
    if not from_changes:
        return (WHOLE_FIXED, (sizes.inputs + sizes.table) * WHOLE_RATE[sizes.method], 0.0, 0.0)
    few = sizes.method == "keys" and sizes.rows is not None and sizes.rows <= FEW_ROWS
    scanned = sizes.scanned * SCAN_RATE
    return (
        CHANGES_FIXED[sizes.method],
        0.0 if few else scanned,
        scanned if few else 0.0,
        sizes.changed * CHANGES_RATE[sizes.method],
    )


def _dot(left: Iterable[float], right: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _multiply(left: Iterable[float], right: Iterable[float]) -> tuple[float, ...]:
    return tuple(a * b for a, b in zip(left, right, strict=True))


def _fit(factors: Sequence[float], fills: Sequence[MeasuredFill]) -> tuple[float, ...]:
    """Return numbers near 1 that, multiplied with `factors`, improve the estimates of `fills`."""
    # Errors of more than `_USUAL_ERROR` weigh less, because one slow fill proves little.
    rows = []
    for fill in fills:
        parts = _multiply(factors, _parts(fill.sizes, from_changes=fill.from_changes))
        if (expected := sum(parts)) > 0 and fill.seconds > 0:
            rows.append((tuple(part / expected for part in parts), fill.seconds / expected))
    size = len(factors)
    level = median([1.0, *(seconds for _, seconds in rows)]) if len(rows) > 1 else 1.0
    found, prior = [level] * size, _PRIOR * min(level, 1.0) ** 2
    for turn in range(_ROUNDS if rows else 0):
        squares = [[prior * (i == j) for j in range(size)] for i in range(size)]
        products = [prior] * size
        for shares, seconds in rows:
            error = abs(seconds - _dot(found, shares)) / level / _USUAL_ERROR
            # Outliers count less in the first rounds, and little in the last ones.
            weight = 1 / max(1.0, error) if turn < _ROUNDS / 2 else 1 / (1 + error**2)
            for i, share in enumerate(shares):
                products[i] += weight * share * seconds
                for j, other in enumerate(shares):
                    squares[i][j] += weight * share * other
        found = _minimize(squares, products, found)
    return tuple(found)


_PRIOR = 1.0
"""Weight of the costs before a fit; a measured fill has at most the weight 1."""
_USUAL_ERROR = 0.7
_ROUNDS = 8


def _minimize(
    squares: Sequence[Sequence[float]], products: Sequence[float], start: Sequence[float]
) -> list[float]:
    """Solve the normal equations of least squares, with no result below `_LEAST_FACTOR`."""
    found, moved = list(start), 1.0
    for _ in range(_MOST_STEPS):
        if moved < _SAME:
            break
        moved = 0.0
        for i, row in enumerate(squares):
            better = found[i] + (products[i] - _dot(row, found)) / row[i]
            better = max(_LEAST_FACTOR, better)
            moved, found[i] = max(moved, abs(better - found[i])), better
    return found


_LEAST_FACTOR = 0.02
_MOST_STEPS = 32
_SAME = 1e-4
