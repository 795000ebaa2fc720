"""Instants as the state store keeps them: whole microseconds since 1970 (UTC)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import BigInteger, Dialect, TypeDecorator

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(value: datetime) -> int:
    """Return an instant as whole microseconds since 1970 (UTC)."""
    return (value - EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the instant of a number of microseconds since 1970 (UTC)."""
    return EPOCH + timedelta(microseconds=value)


class Instant(TypeDecorator[datetime]):
    """An aware datetime kept as microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> int | None:
        """Return the stored form."""
        return None if value is None else to_micros(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return the datetime (UTC)."""
        return None if value is None else from_micros(value)
