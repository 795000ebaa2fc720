from __future__ import annotations

import ipaddress
from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from vde_dagster.programs.serve.errors import ServeError
from vde_dagster.programs.serve.served import WarehouseName

if TYPE_CHECKING:
    from vde_dagster.state.environments.tokens import Token, TokenStore


REALM = 'Basic realm="vde: any name, and a token as the password", charset="UTF-8"'
"""Challenge that makes a browser prompt for a token (RFC 7617)."""


@dataclass(frozen=True, slots=True)
class Access:
    """Checks the tokens of requests.

    The parameter `prefix`, `warehouse` or `version` of a request names an environment.

    Args:
        may_be_open: Allow requests without a token if the project has no tokens. True only if no
            other machine can reach the server.
    """

    # Every route that reads an environment depends on this class.
    tokens: TokenStore
    may_be_open: bool

    def authorize_files(self, request: Request) -> None:
        """Check that a request may read all files of the environment.

        Raises:
            ServeError: The token is invalid, belongs to another environment, or has a row filter.
        """
        token = self._token(request)
        if token is not None and token.row_filter is not None:
            raise ServeError(
                403, "this token has a filter, so it cannot read the catalog: read rows at /data"
            )

    def authorize_rows(self, request: Request) -> None:
        """Check that a request may read rows, and store the token's row filter in `request.state`.

        Raises:
            ServeError: The token is invalid, or belongs to another environment.
        """
        token = self._token(request)
        request.state.row_filter = token.row_filter if token is not None else None

    def authorize_site(self, request: Request) -> None:
        """Check access to a documentation site like `authorize_files`; accept a Basic login."""
        token = self._token(request, in_browser=True)
        if token is not None and token.row_filter is not None:
            raise ServeError(403, "this token has a filter, so it cannot open the site")

    def _token(self, request: Request, *, in_browser: bool = False) -> Token | None:
        token = self._authenticate(request, in_browser)
        if token is None:
            return None
        request.state.who = token.id
        path = request.path_params
        requested = (
            path.get("prefix") or path.get("version") or request.query_params.get("warehouse")
        )
        if requested is not None:
            environment = WarehouseName.parse(requested).environment
            if environment != token.environment:
                raise ServeError(403, f"this token is not for the environment '{environment}'")
        return token

    def _authenticate(self, request: Request, in_browser: bool) -> Token | None:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if in_browser and scheme.lower() == "basic":
            scheme, text = "bearer", _password(text)
        token = self.tokens.find(text.strip()) if scheme.lower() == "bearer" else None
        if token is not None:
            return token
        # Some clients send an empty token if they have none.
        if self.may_be_open and not self.tokens.any():
            _require_loopback_host(request)
            return None
        raise ServeError(
            401,
            "a valid token is needed; the server's operator can create one: vde token create ENV",
            headers={"WWW-Authenticate": REALM if in_browser else "Bearer"},
        )


def _password(text: str) -> str:
    try:
        return b64decode(text.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _require_loopback_host(request: Request) -> None:
    # The header as it was sent: a framework may read invalid names as this server's.
    sent = request.headers.get("host", "")
    try:
        host = urlsplit(f"//{sent}").hostname or ""
    except ValueError:
        host = ""
    if not is_loopback(host):
        raise ServeError(
            403, f"without tokens, requests must name this machine as the host, not '{sent}'"
        )
    # A reader who follows a link sees the response; embedding and fetching pages are refused.
    cross = request.headers.get("sec-fetch-site", "").lower() == "cross-site"
    if cross and request.headers.get("sec-fetch-dest", "").lower() != "document":
        raise ServeError(403, "without tokens, requests from other sites' pages are refused")


def token_route() -> APIRouter:
    router = APIRouter()

    @router.post("/v1/oauth/tokens", include_in_schema=False)
    def exchange() -> JSONResponse:
        """Refuse to exchange secrets for tokens, and describe how to get one."""
        answer = {
            "error": "unsupported_grant_type",
            "error_description": "this server does not exchange tokens: ask its operator for a "
            "token (vde token create ENV), and set the client's property `token` to it, unchanged",
        }
        return JSONResponse(answer, 400)

    return router


def is_loopback(host: str) -> bool:
    """Return whether an address or host name is reachable only from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
