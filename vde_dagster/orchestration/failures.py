"""This package's errors as Dagster's failures, with a table of failed models and rows."""

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
from vde_dagster.orchestration.pages.markdown import markdown_table

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


def failure_metadata(error: ExecutionError) -> dict[str, Any]:
    """Return what is shown of a failed plan, model by model; nothing of other failures."""
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
        f"**{failure.model}**: {audit.audit}, {audit.rows} rows\n\n{markdown_table(audit.sample)}"
        for failure in error.failures
        for audit in failure.audits
        if audit.sample
    ]
    if audits:
        shown["vde/failing_rows"] = dg.MetadataValue.md("\n\n".join(audits))
    if error.log is not None:
        shown["vde/log"] = dg.MetadataValue.path(str(error.log))
    return shown
