"""What the kinds have in common that are filled by intervals of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.suggestions import suggest
from vde_dagster.project.kinds.base import POLICIES, AutoRestatement, InPlace, Kind, Property

if TYPE_CHECKING:
    from vde_dagster.project.reading.header import Value


class Incremental(Kind):
    """Filled by intervals, with a lookback and a batch size.

    Attributes:
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        disable_restatement: Whether production keeps what is filled for good.
        auto_restatement_cron: When production's runs fill it again by themselves, or None.
    """

    __slots__ = ()

    lookback: int
    batch_size: int | None
    disable_restatement: bool
    auto_restatement_cron: str | None

    by_intervals = True

    @property
    def earlier_intervals(self) -> int:
        """The lookback."""
        return self.lookback

    @property
    def most_intervals(self) -> int | None:
        """The batch size."""
        return self.batch_size

    @property
    def restatable(self) -> bool:
        """Not where that is disabled."""
        return not self.disable_restatement

    @property
    def auto_restatement(self) -> AutoRestatement | None:
        """All that is filled, by the cron."""
        cron = self.auto_restatement_cron
        return AutoRestatement(cron, None) if cron else None


class ChangesInPlace(Incremental):
    """Filled by intervals, so that a table can go on with another definition.

    Attributes:
        forward_only: Whether every change is made in place, and rows that are there stay.
        on_destructive_change: What to do when such a change removes or retypes columns.
        on_additive_change: What to do when it adds or widens columns.
    """

    __slots__ = ()

    forward_only: bool
    on_destructive_change: str
    on_additive_change: str

    @property
    def in_place(self) -> InPlace:
        """What its properties say."""
        return InPlace(
            self.forward_only,
            self.on_destructive_change,
            self.on_additive_change,
            self.named_columns,
        )


def _one_or_more(value: Value) -> int:
    return value.integer(1)


LOOKBACK = Property("lookback", lambda value: value.integer(), {"type": "integer", "minimum": 0})


BATCH_SIZE = Property("batch_size", _one_or_more, {"type": "integer", "minimum": 1})
BATCH_CONCURRENCY = Property("batch_concurrency", _one_or_more, {"type": "integer", "minimum": 1})
"""Of kinds whose batches may be written in any order."""


RESTATEMENT = (
    Property("disable_restatement", lambda value: value.boolean(), {"type": "boolean"}),
    Property("auto_restatement_cron", lambda value: value.cron(), {"type": "string"}),
)
LAST_INTERVALS = Property(
    "auto_restatement_intervals", _one_or_more, {"type": "integer", "minimum": 1}
)


def _policy(value: Value) -> str:
    policy = value.text().lower()
    if policy not in POLICIES:
        raise value.error(f"'{policy}' is not a policy", suggest(policy, POLICIES, "policies"))
    return policy


_POLICY_SCHEMA = {"type": "string", "enum": list(POLICIES)}
IN_PLACE = (
    Property("forward_only", lambda value: value.boolean(), {"type": "boolean"}),
    Property("on_destructive_change", _policy, _POLICY_SCHEMA),
    Property("on_additive_change", _policy, _POLICY_SCHEMA),
)
"""Properties of kinds whose tables may change in place."""


def key_columns(value: Value) -> tuple[str, ...]:
    """Read the columns of a key.

    Raises:
        ProjectError: One of them is an expression.
    """
    columns = tuple(text.strip('`"') for text in value.raws())
    for item, text in zip(value.items(), columns, strict=True):
        if len(item.tokens) != 1:
            raise item.error(
                f"unique key '{text}' is not a column", "add the expression as a column"
            )
    return columns
