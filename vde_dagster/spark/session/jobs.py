"""Tags on all Spark jobs: by plan, to cancel them, and by fill, to measure their usage."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from vde_dagster.errors import ExecutionError, VdeError
from vde_dagster.spark.session.connect import is_remote, tag_on_server
from vde_dagster.spark.session.failures import translated_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_POOLS = 64
_PLAN_TAG = "vde-plan-{}"


class PlanJobs:
    """Tags all Spark jobs with the id of their plan, in order to cancel them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._cancelled: set[str] = set()
        self._remote: list[tuple[str, SparkSession]] = []

    @contextmanager
    def running(
        self, session: SparkSession, plan_id: str, what: str, query: str | None = None
    ) -> Iterator[str]:
        """Tag the Spark jobs of the calling thread, convert their errors, and yield the tag.

        Args:
            what: Model and interval, for Spark's UI and for messages.
            query: The query that is run, to locate a mistake in it.
        """
        with self._lock:
            if plan_id in self._cancelled:
                raise _cancelled_error(plan_id)
            self._running[plan_id] += 1
        try:
            # Each thread has a separate FAIR pool, because Spark is first in, first out within a
            # pool.
            with translated_errors(what, query), self._tagged(session, plan_id, what) as tag:
                yield tag
        except VdeError as error:
            if plan_id in self._cancelled:
                raise _cancelled_error(plan_id) from error
            raise
        finally:
            with self._lock:
                self._running[plan_id] -= 1

    @contextmanager
    def _tagged(self, session: SparkSession, plan_id: str, what: str) -> Iterator[str]:
        tag, own = _PLAN_TAG.format(plan_id), f"vde-work-{uuid.uuid4().hex}"
        if is_remote(session):
            # The server distributes its jobs itself, and stops only a session's own.
            mine = (plan_id, session)
            with self._lock:
                self._remote.append(mine)
            session.addTag(tag)
            session.addTag(own)
            try:
                yield tag_on_server(session, own)
            finally:
                session.removeTag(own)
                session.removeTag(tag)
                with self._lock:
                    self._remote.remove(mine)
            return
        context = session.sparkContext
        context.addJobTag(tag)
        context.addJobTag(own)
        context.setJobGroup(f"{tag} {what}", what, interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", f"vde-{threading.get_ident() % _POOLS}")
        try:
            yield own
        finally:
            context.removeJobTag(own)
            context.removeJobTag(tag)
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.scheduler.pool"):
                context.setLocalProperty(name, None)

    def begin(self, plan_id: str) -> None:
        with self._lock:
            self._cancelled.discard(plan_id)

    def is_cancelled(self, plan_id: str) -> bool:
        return plan_id in self._cancelled

    def cancel(self, session: SparkSession | None, plan_id: str, wait_seconds: float) -> bool:
        """Refuse a plan's new work, cancel its jobs, and return whether they ended in time."""
        with self._lock:
            self._cancelled.add(plan_id)
        until = time.monotonic() + wait_seconds
        while session is not None and self._running[plan_id]:
            # A job may be on its way to Spark's scheduler while the tag is canceled, so the tag is
            # canceled repeatedly.
            self._stop(session, plan_id)
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        return True

    def _stop(self, session: SparkSession, plan_id: str) -> None:
        if not is_remote(session):
            session.sparkContext.cancelJobsWithTag(_PLAN_TAG.format(plan_id))
            return
        with self._lock:
            sessions = [one for whose, one in self._remote if whose == plan_id]
        for one in sessions:
            with suppress(Exception):  # Its work has just ended, and closed the session.
                one.interruptTag(_PLAN_TAG.format(plan_id))


def _cancelled_error(plan_id: str) -> ExecutionError:
    return ExecutionError(
        f"the apply of plan {plan_id} was canceled",
        hint=f"finished work is kept; apply the plan again: vde apply ENV --plan {plan_id}",
    )
