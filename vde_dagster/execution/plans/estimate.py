"""Estimated cost of a plan: seconds of work, rows and bytes, based on earlier fills.

Replacing a whole table costs as much as earlier fills did. A fill by intervals has a fixed cost and
a cost proportional to its range, fitted to earlier fills by least squares: neither cost is below
zero, and recent fills weigh more. Minimum and maximum come from the deviations of the fills, and
are farther apart for few fills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count, listed, size
from vde_dagster.base.work import Work
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.settings import CostSettings

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.plan.plan import Plan, PlannedModel
    from vde_dagster.state.fills.fills import FillRecord

MOST = 20
"""Maximum number of a table's fills that count, newest first."""
HALF_LIFE = 3
"""Number of fills after which a fill's weight is halved, because data and engine change."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Estimated seconds, rows, bytes or price: minimum, expected value, and maximum."""

    low: float
    expected: float
    high: float

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def text(self, written: Callable[[float], str], unit: str = "") -> str:
        """Format the estimate, for example as `120 s (90 to 200)`."""
        low, expected, high = map(written, (self.low, self.expected, self.high))
        return f"{expected}{unit}" if low == high else f"{expected}{unit} ({low} to {high})"

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


NOTHING = Spread(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """Estimated cost of computing a model. Figures that no fill provides are None.

    Args:
        seconds: Wall-clock seconds.
        bytes: Bytes of the written files.
        fills: Number of earlier fills that the estimate is based on.
        task_seconds: Total time of Spark's tasks.
        bytes_read: Bytes of the scanned files.
    """

    # Models are computed in parallel, so their seconds do not add up.
    seconds: Spread | None
    rows: Spread | None
    bytes: Spread | None
    fills: int
    task_seconds: Spread | None = None
    bytes_read: Spread | None = None

    def price(self, prices: CostSettings) -> Spread:
        def at(end: Literal["low", "expected", "high"]) -> float:
            parts = (self.seconds, self.task_seconds, self.bytes, self.bytes_read)
            ends = [None if part is None else float(getattr(part, end)) for part in parts]
            return prices.price(Work.from_fill(*ends))

        return Spread(at("low"), at("expected"), at("high"))

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: _spread_json(getattr(self, name)) for name in QUANTITIES},
            "fills": self.fills,
        }


QUANTITIES = ("seconds", "task_seconds", "rows", "bytes", "bytes_read")
"""Names of the estimated quantities, which are fields of a fill's record."""


def _spread_json(spread: Spread | None) -> dict[str, float] | None:
    return spread.to_json() if spread else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost of a plan, based on earlier fills.

    Args:
        models: Estimates by computed model, if known.
        unknown: Models without any fill in the environment's or production's table.
    """

    models: Mapping[ModelName, ModelEstimate]
    prices: CostSettings
    unknown: tuple[ModelName, ...] = ()

    @property
    def seconds(self) -> Spread:
        return _sum(one.seconds for one in self.models.values()) or NOTHING

    @property
    def rows(self) -> Spread:
        return _sum(one.rows for one in self.models.values()) or NOTHING

    @property
    def bytes(self) -> Spread:
        return _sum(one.bytes for one in self.models.values()) or NOTHING

    @property
    def task_seconds(self) -> Spread | None:
        return _sum(one.task_seconds for one in self.models.values())

    @property
    def bytes_read(self) -> Spread | None:
        return _sum(one.bytes_read for one in self.models.values())

    @property
    def money(self) -> Spread | None:
        """Total price of all models, or None if the project has not set prices."""
        if not self.prices.has_prices:
            return None
        return _sum(one.price(self.prices) for one in self.models.values()) or NOTHING

    def to_json(self) -> dict[str, Any]:
        money = self.money
        return {
            **{name: _spread_json(getattr(self, name)) for name in QUANTITIES},
            "money": _spread_json(money),
            "currency": self.prices.currency if money else None,
            "unknown": list(map(str, self.unknown)),
            "models": {str(name): one.to_json() for name, one in self.models.items()},
        }

    def sentence(self) -> str:
        known = self.models.values()
        parts = [self.seconds.text(_format_number, " s") + " of work"]
        if tasks := self.task_seconds:
            parts.append(tasks.text(_format_number, " s") + " of tasks")
        if any(one.rows for one in known):
            parts.append(self.rows.text(_format_number) + " rows")
        if any(one.bytes for one in known):
            parts.append(self.bytes.text(_format_size) + " written")
        if read := self.bytes_read:
            parts.append(read.text(_format_size) + " read")
        if money := self.money:
            parts.append(money.text(self.prices.text))
        fills = sum(one.fills for one in known)
        text = f"about {', '.join(parts)}, based on {count(fills, 'earlier fill')}"
        if not self.unknown:
            return text
        return f"{text}; unknown for {listed(self.unknown)}, never computed before"


def _format_number(value: float) -> str:
    return f"{value:,.0f}"


def _format_size(value: float) -> str:
    return size(round(value))


def estimate_plan(handles: Handles, plan: Plan) -> Estimate:
    """Estimate the seconds, rows and bytes of a plan's work from earlier fills of its tables."""
    # The estimate is based on the fills of each table, or for a new table, on the fills of the
    # model's earlier table in the environment or in production. Fills of the plan itself do not
    # count, so that the estimate is the same after the apply. It is cached for the next caller.
    last, key = _CACHED.get(handles), (plan.id, plan.base_version, handles.settings.cost)
    if last is None or last[:2] != (key, plan.models):
        last = _CACHED[handles] = (key, plan.models, _make_estimate(handles, plan))
    return last[2]


_CACHED: WeakKeyDictionary[Handles, tuple[object, tuple[PlannedModel, ...], Estimate]] = (
    WeakKeyDictionary()
)


def _make_estimate(handles: Handles, plan: Plan) -> Estimate:
    store = handles.store
    shown = store.versions.at(plan.environment, plan.base_version)
    shown = shown or store.environments.get(PRODUCTION)
    entries = {} if shown is None else shown.entries
    before = {name: entry.table_id for name, entry in entries.items()}
    computed = plan.computed
    tables = {
        model.name: [model.table.id if model.table else None, before.get(model.name)]
        for model in computed
    }
    ids = [table for both in tables.values() for table in both if table]
    log = store.fills.recent(ids, MOST, without_plan=plan.id)
    models: dict[ModelName, ModelEstimate] = {}
    unknown = []
    for model in computed:
        found = next((log[one] for one in tables[model.name] if one and log.get(one)), [])
        estimate = _estimate_model(plan, model, found)
        if estimate is None:
            unknown.append(model.name)
        else:
            models[model.name] = estimate
    return Estimate(models, handles.settings.cost, tuple(unknown))


def _estimate_model(
    plan: Plan, model: PlannedModel, fills: Sequence[FillRecord]
) -> ModelEstimate | None:
    by_range = plan.snapshots[model.snapshot_id or ""].is_incremental
    parts = [estimate_fill(fills, one, by_range=by_range) for one in model.intervals]
    if not by_range:
        parts = parts[-1:]  # A table that is replaced as a whole is filled once.
    known = [one for one in parts if one is not None]
    if not known:
        return None
    return ModelEstimate(
        **{name: _sum(getattr(one, name) for one in known) for name in QUANTITIES},
        fills=max(one.fills for one in known),
    )


def _sum(parts: Iterable[Spread | None]) -> Spread | None:
    known = [one for one in parts if one is not None]
    return sum(known, NOTHING) if known else None


def estimate_fill(
    fills: Sequence[FillRecord], wanted: Interval, *, by_range: bool
) -> ModelEstimate | None:
    """Estimate the cost of one fill, or return None if no earlier fill computed rows.

    Args:
        fills: Fills of the table, or of the model's earlier table, newest first. Skipped fills are
            ignored.
        wanted: The range to fill (UTC).
        by_range: Whether the cost of a fill grows with its range.
    """
    computed = [one for one in fills if one.facts.skipped is None and one.seconds is not None]
    if not computed:
        return None
    length = _seconds(wanted) if by_range else 1.0

    def spread(quantity: str) -> Spread | None:
        known = [
            (_seconds(one.interval) if by_range else 1.0, float(found))
            for one in computed
            if (found := getattr(one, quantity)) is not None
        ]
        return _estimate_quantity(known, length) if known else None

    return ModelEstimate(**{name: spread(name) for name in QUANTITIES}, fills=len(computed))


def _estimate_quantity(known: Sequence[tuple[float, float]], length: float) -> Spread:
    weights = [0.5 ** (age / HALF_LIFE) for age in range(len(known))]
    line = _fit_line(known, weights)
    expected = line(length)
    shares = [
        (value / line(one), weight)
        for (one, value), weight in zip(known, weights, strict=True)
        if line(one) > 0
    ] or [(1.0, 1.0)]
    low, *_, high = [*sorted(share for share, _ in shares)] * 2
    # With few fills, the next value is more often outside of their range.
    wider = 1 + 1 / len(known)
    # The median, because a single fill that waited for others says little.
    return Spread(
        expected * low / wider, expected * _weighted_median(shares), expected * high * wider
    )


def _weighted_median(shares: Sequence[tuple[float, float]]) -> float:
    half, so_far = sum(weight for _, weight in shares) / 2, 0.0
    for share, weight in sorted(shares):
        so_far += weight
        if so_far >= half:
            return share
    return max(shares)[0]


def _fit_line(
    known: Sequence[tuple[float, float]], weights: Sequence[float]
) -> Callable[[float], float]:
    def average(value: Callable[[float, float], float]) -> float:
        weighed = zip(known, weights, strict=True)
        return fsum(value(*one) * weight for one, weight in weighed) / fsum(weights)

    mean, middle = average(lambda length, _: length), average(lambda _, value: value)
    across = average(lambda length, _: (length - mean) ** 2)
    if len({length for length, _ in known}) == 1:
        return lambda length: middle * length / mean
    slope = average(lambda length, value: (length - mean) * (value - middle)) / across
    start = middle - slope * mean
    if slope < 0:
        return lambda length: middle
    if start < 0:
        slope = average(lambda length, value: length * value)
        slope /= average(lambda length, _: length * length)
        start = 0.0
    return lambda length: start + slope * length


def _seconds(interval: Interval) -> float:
    return (interval.end - interval.start).total_seconds()


def past_estimates(
    fills: Sequence[FillRecord], *, by_range: bool
) -> Iterator[tuple[FillRecord, ModelEstimate]]:
    """Yield fills, newest first, each with an estimate from the fills before it."""
    for place, fill in enumerate(fills):
        if fill.facts.skipped is not None or fill.seconds is None:
            continue
        earlier = fills[place + 1 : place + 1 + MOST]
        estimate = estimate_fill(earlier, fill.interval, by_range=by_range)
        if estimate is not None:
            yield fill, estimate
