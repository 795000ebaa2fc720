"""What clients are told that would exchange a name and a secret for a token.

Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml, OAuthError.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse


def token_route() -> APIRouter:
    """Return the route, which makes no tokens."""
    router = APIRouter()

    @router.post("/v1/oauth/tokens", include_in_schema=False)
    def exchange() -> JSONResponse:
        """Say where tokens come from."""
        answer = {
            "error": "unsupported_grant_type",
            "error_description": "this server exchanges nothing: whoever runs it makes tokens "
            "(vde token create ENV), and a client sends one as it is, by its property `token`",
        }
        return JSONResponse(answer, 400)

    return router
