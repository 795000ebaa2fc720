"""This package's errors as Dagster's failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from vde_dagster.errors import (
    AuditFailedError,
    ConflictError,
    ExecutionError,
    ProjectError,
    UnitTestFailedError,
    UsageError,
    VdeError,
)
from vde_dagster.orchestration.pages.failure_page import failure_metadata

FINAL = (ConflictError, UsageError, ProjectError, AuditFailedError, UnitTestFailedError)


@contextmanager
def as_failure() -> Iterator[None]:
    """Turn an error that the user can act on into a failure that says what to do.

    A stale or unknown plan, a mistake in a file or bad data fail the same way when tried again,
    so Dagster does not retry them; nor does a traceback help there, the message says it all.
    """
    try:
        yield
    except VdeError as error:
        final = isinstance(error, FINAL)
        metadata: dict[str, Any] = {"vde/error": type(error).__name__}
        if isinstance(error, ExecutionError):
            metadata |= failure_metadata(error)
        if error.hint:
            metadata["vde/hint"] = error.hint
        if error.location:
            metadata["vde/location"] = str(error.location)
        cause = None if final else error
        # As on the command line, what to do next has a line of its own.
        text = error.text("\nhint: ")
        raise dg.Failure(text, metadata=metadata, allow_retries=not final) from cause
