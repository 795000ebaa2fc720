"""With which versions of an environment what it shows of one model became another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ScalarResult, select

from vde_dagster.base.names import ModelName
from vde_dagster.state import schema
from vde_dagster.state.database import Database

_ENTRY, _PIN = schema.entries.c, schema.pins.c


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Versions in a row that show a model alike.

    Args:
        first: The version with which that began.
        end: The version with which it ended; None where it has not.
        table_id: The physical table that serves the model; None for one without.
        shown: Whether they show the model at all.
    """

    first: int
    end: int | None
    table_id: str | None
    shown: bool = True


@dataclass(frozen=True, slots=True)
class ChangePoints:
    """Reading them.

    Args:
        database: Where entries and pins are.
    """

    database: Database

    def of(self, environment: str, model: ModelName) -> list[ChangePoint]:
        """Return what versions showed of a model, oldest first, as far back as that is known.

        A model without a table changes with what it reads, which is not looked at.
        """
        entries = (
            select(_ENTRY.valid_from, _ENTRY.valid_to, _ENTRY.table_id)
            .where(
                _ENTRY.environment == environment,
                _ENTRY.model_namespace == model.namespace,
                _ENTRY.model_name == model.name,
            )
            .order_by(_ENTRY.valid_from)
        )
        found: list[ChangePoint] = []
        with self.database.reading() as conn:
            rows: Sequence[Any] = conn.execute(entries).all()
            for since, until, table_id in rows:
                pins = select(_PIN.valid_from).where(
                    _PIN.environment == environment,
                    _PIN.table_id == table_id,
                    _PIN.valid_from > since,
                )
                if until is not None:
                    pins = pins.where(_PIN.valid_from < until)
                later: ScalarResult[int] = conn.execute(pins).scalars()
                firsts = [since, *sorted(later)]
                if found and found[-1].end is not None and found[-1].end < since:
                    found.append(ChangePoint(found[-1].end, since, None, shown=False))
                found += [
                    ChangePoint(first, end, table_id)
                    for first, end in zip(firsts, [*firsts[1:], until], strict=True)
                ]
        return found
