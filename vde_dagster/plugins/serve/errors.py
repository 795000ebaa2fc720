"""Errors as the Iceberg REST specification has them.

Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml, ErrorModel.

Source: RFC 9110, 8.8.3 and 13.1.2.
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
_TOLD = {
    404: "there is nothing at this path; /docs says what there is",
    405: "this path answers GET",
}
_READ_ONLY = "this catalog is read-only: what it shows is changed by `vde apply` and `vde run`"
_AWAY = "the state cannot be read now; why is in the server's output"


class ServeError(Exception):
    """An error answer with its HTTP status.

    Args:
        kind: The error's type in the specification; by default that of the status.
    """

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
        """Return the answer."""
        error = {"message": self.message, "type": self.kind, "code": self.status}
        return JSONResponse({"error": error}, self.status, self.headers)


def missing(kind: str, message: str) -> ServeError:
    """Return the error of something that is not there.

    Args:
        kind: What: `Warehouse`, `Namespace`, `Table` or `View`.
    """
    return ServeError(404, message, f"NoSuch{kind}Exception")


def answer_errors(app: FastAPI) -> None:
    """Let an application answer every error in this form."""

    async def served(request: Request, error: Any) -> JSONResponse:
        return error.answer()  # type: ignore[no-any-return]

    async def ours(request: Request, error: Any) -> JSONResponse:
        if isinstance(error, StoreError):
            # Where the state is, and as whom it is read, is nothing for whoever may have no token.
            print(error, file=sys.stderr, flush=True)
            return ServeError(503, _AWAY, headers={"Retry-After": "5"}).answer()
        # The table of a damaged file is there, and comes back with the file.
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
        told = _TOLD.get(error.status_code, str(error.detail))
        return ServeError(error.status_code, told, headers=error.headers).answer()

    async def unforeseen(request: Request, error: Any) -> JSONResponse:
        return ServeError(500, "the server failed; what happened is in its output").answer()

    app.add_exception_handler(ServeError, served)
    app.add_exception_handler(VdeError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unforeseen)


@dataclass(frozen=True)
class Tagged:
    """An answer that is given more than once."""

    content: bytes

    @cached_property
    def tag(self) -> str:
        """Its strong tag: of all of it, also of the storage that clients are told of."""
        return f'"{blake2b(self.content, digest_size=16).hexdigest()}"'


def is_known(tag: str, if_none_match: str) -> bool:
    """Say whether a client that sends `If-None-Match` has what a tag stands for."""
    known = [one.strip() for one in if_none_match.split(",")]
    return known == ["*"] or tag.removeprefix("W/") in [one.removeprefix("W/") for one in known]
