"""Errors in the form of the Iceberg REST specification, and entity tags.

Sources: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml,
ErrorModel; RFC 9110, 8.8.3 and 13.1.2.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from vde_dagster.errors import DamagedFileError, ExecutionError, StoreError, UsageError, VdeError

_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    405: "UnsupportedOperationException",
    406: "UnsupportedOperationException",
    429: "SlowDownException",
    503: "ServiceUnavailableException",
}
_MESSAGES = {404: "this path does not exist; see /docs", 405: "this path lacks this method"}
_READ_ONLY = "this catalog is read-only: change its content with `vde apply` and `vde run`"
_AWAY = "the state cannot be read now; see the server's output"


class ServeError(Exception):
    """An error response, with its HTTP status and its type in the REST specification."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind or _TYPES.get(status, "InternalServerError")
        self.headers = dict(headers or {})

    def answer(self) -> JSONResponse:
        error = {"message": self.message, "type": self.kind, "code": self.status}
        return JSONResponse({"error": error}, self.status, self.headers)


def missing(kind: str, message: str) -> ServeError:
    """Return a 404 error for a missing `Warehouse`, `Namespace`, `Table` or `View`."""
    return ServeError(404, message, f"NoSuch{kind}Exception")


def add_error_handlers(app: FastAPI) -> None:
    async def served(request: Request, error: Any) -> JSONResponse:
        return error.answer()  # type: ignore[no-any-return]

    async def ours(request: Request, error: Any) -> JSONResponse:
        if isinstance(error, StoreError):
            # Clients without a token must not learn the state's location or login.
            print(error, file=sys.stderr, flush=True)
            return ServeError(503, _AWAY, headers={"Retry-After": "5"}).answer()
        # The table of a damaged file exists, and is readable again once the file is restored.
        gone = isinstance(error, ExecutionError) and not isinstance(error, DamagedFileError)
        status = 400 if isinstance(error, UsageError) else 404 if gone else 500
        return ServeError(status, str(error)).answer()

    async def invalid(request: Request, error: Any) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][1:]))
        return ServeError(400, f"{where}: {first['msg']}").answer()

    async def http(request: Request, error: Any) -> JSONResponse:
        if request.method not in ("GET", "HEAD", "OPTIONS") and error.status_code in (404, 405):
            return ServeError(406, _READ_ONLY).answer()
        told = _MESSAGES.get(error.status_code, str(error.detail))
        return ServeError(error.status_code, told, headers=error.headers).answer()

    async def unforeseen(request: Request, error: Any) -> JSONResponse:
        return ServeError(500, "the server failed; see its output").answer()

    app.add_exception_handler(ServeError, served)
    app.add_exception_handler(VdeError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unforeseen)


@dataclass(frozen=True)
class CachedResponse:
    content: bytes

    @cached_property
    def tag(self) -> str:
        """The entity tag (ETag) of the content, a hash of its bytes."""
        return f'"{blake2b(self.content, digest_size=16).hexdigest()}"'


def matches_tag(tag: str, if_none_match: str) -> bool:
    known = [one.strip() for one in if_none_match.split(",")]
    return known == ["*"] or tag.removeprefix("W/") in [one.removeprefix("W/") for one in known]
