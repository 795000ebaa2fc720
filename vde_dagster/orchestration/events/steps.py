"""Steps of runs: errors become failures with a hint, and events and errors have no secrets."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import dagster as dg

from vde_dagster.base.secrets import mask
from vde_dagster.base.texts import count
from vde_dagster.errors import (
    AuditFailedError,
    ConflictError,
    ExecutionError,
    ProjectError,
    UnitTestFailedError,
    UsageError,
    VdeError,
)
from vde_dagster.orchestration.events.secrets import masked_metadata, without_secrets
from vde_dagster.orchestration.names import without_nones
from vde_dagster.reports.markdown import markdown_table

Step = TypeVar("Step", bound=Callable[..., Any])


def guarded_step(function: Step) -> Step:
    """Wrap a step's function: mask secrets, and turn errors into failures with hints."""

    # Dagster stores and shows everything that a step yields, returns and raises.
    @wraps(function)
    def yielding(*arguments: Any, **named: Any) -> Iterator[Any]:
        with _masked_failures(), _as_failure(), closing(function(*arguments, **named)) as events:
            for event in events:
                yield without_secrets(event)

    @wraps(function)
    def returning(*arguments: Any, **named: Any) -> Any:
        with _masked_failures(), _as_failure():
            return without_secrets(function(*arguments, **named))

    return cast("Step", yielding if inspect.isgeneratorfunction(function) else returning)


@contextmanager
def _masked_failures() -> Iterator[None]:
    try:
        yield
    except dg.RetryRequested:
        raise
    except Exception as error:
        stack = "".join(traceback.format_exception(error))
        facts = dict(error.metadata) if isinstance(error, dg.Failure) else {}
        shown = masked_metadata(facts)
        if mask(stack) == stack and shown == facts:
            raise
        text = f"{type(error).__name__}: {error}"
        retries = True
        if isinstance(error, dg.Failure):
            text, retries = error.description or "", error.allow_retries
        shown["vde/traceback"] = dg.MetadataValue.md(f"```\n{mask(stack)}\n```")
        raise dg.Failure(mask(text), metadata=shown, allow_retries=retries) from None


_FINAL = (ConflictError, UsageError, ProjectError, AuditFailedError, UnitTestFailedError)
"""Errors that fail again on a retry and whose messages need no traceback."""


@contextmanager
def _as_failure() -> Iterator[None]:
    try:
        yield
    except VdeError as error:
        final = isinstance(error, _FINAL)
        facts = {
            "vde/error": type(error).__name__,
            **(_failure_metadata(error) if isinstance(error, ExecutionError) else {}),
            "vde/hint": error.hint or None,
            "vde/location": error.location and str(error.location),
        }
        # The hint has its own line, as on the command line.
        text = error.text("\nhint: ")
        cause = None if final else error
        raise dg.Failure(text, metadata=without_nones(facts), allow_retries=not final) from cause


def _failure_metadata(error: ExecutionError) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if error.failures:
        rows = [
            {
                "model": f"`{failure.model}`",
                "where": f"`{failure.location}`" if failure.location else "",
                "what": failure.message,
                "skipped for it": ", ".join(map(str, failure.skipped)),
            }
            for failure in error.failures
        ]
        shown["vde/failures"] = dg.MetadataValue.md(markdown_table(rows))
    audits = [
        f"**{failure.model}**: {audit.audit}, {count(audit.rows, 'row')}\n\n"
        f"{markdown_table(audit.sample)}"
        for failure in error.failures
        for audit in failure.audits
        if audit.sample
    ]
    if audits:
        shown["vde/failing_rows"] = dg.MetadataValue.md("\n\n".join(audits))
    if error.log is not None:
        shown["vde/log"] = dg.MetadataValue.path(str(error.log))
    return shown
