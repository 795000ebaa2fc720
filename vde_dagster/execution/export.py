"""Exporters: consumers of the state's outbox in other distributions, each with a cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ExecutionError, VdeError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.db.outbox import News

MOST_NEWS = 1_000
"""Given to an exporter at a time."""

Exporter = Callable[["Workspace", "Sequence[News]"], None]
"""Takes news in order, and returns once they are kept elsewhere; those that fail come again."""

_PLUGINS: Seam[Exporter] = Seam("exporters")


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of one call of an exporter.

    Args:
        news: How many news it took.
        last: The number of the last of all that it has taken.
        forgotten: How many were forgotten by the state before it came for them.
    """

    news: int
    last: int
    forgotten: int


def export(workspace: Workspace, name: str) -> Exported:
    """Give an exporter the news since its last call; at least once each, in order.

    Raises:
        UsageError: No such exporter is installed, or it is broken.
        ExecutionError: It failed; what it took before counts.
    """
    exporter = _PLUGINS.require(name)
    outbox = workspace.store.news
    first = last = outbox.exported(name)
    oldest = outbox.place().oldest
    forgotten = max(oldest - 1 - first, 0) if first else 0
    count = 0
    while news := outbox.since(last, MOST_NEWS):
        try:
            exporter(workspace, news)
        except VdeError:
            raise
        except Exception as error:
            raise ExecutionError(
                f"exporter '{name}' failed at news {news[0].number} to {news[-1].number}: "
                f"{type(error).__name__}: {error}",
                hint=f"`vde export {name}` goes on there",
            ) from error
        last, count = news[-1].number, count + len(news)
        outbox.set_exported(name, last)
    return Exported(count, last, forgotten)
