"""Tokens for reading environments over HTTP; only hashes of their secrets are stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from vde_dagster.errors import UsageError
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.log import record
from vde_dagster.state.db.rows import row_from_value, value_from_row

_PREFIX = "vde"
_TOKEN = schema.tokens.c


@dataclass(frozen=True, slots=True)
class Token:
    """A token for reading an environment over HTTP, without its secret.

    Args:
        row_filter: Condition on the rows that the token may read; None for all rows.
    """

    id: str
    environment: str
    row_filter: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Check whether the token may be used at an instant (UTC)."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class TokenStore:
    database: Database

    def create(
        self, environment: str, who: str, expires_at: datetime | None, row_filter: str | None
    ) -> tuple[Token, str]:
        """Create a token, and return it with its text, which is not stored."""
        secret = secrets.token_urlsafe(32)
        now = self.database.clock.now()
        made = Token(
            secrets.token_hex(6), environment, row_filter, now, who, expires_at, revoked_at=None
        )

        def work(conn: Connection) -> None:
            conn.execute(
                insert(schema.tokens).values(
                    row_from_value(made, schema.tokens, token_id=made.id, secret_hash=_hash(secret))
                )
            )
            about = {"token": made.id, "rows": row_filter}
            record(self.database, conn, "token", environment, who=who, detail=about)

        self.database.run_transaction(work, name="state.create_token", idempotent=False)
        return made, f"{_PREFIX}_{made.id}_{secret}"

    def find(self, text: str) -> Token | None:
        """Return the valid token that a client's text belongs to, or None."""
        prefix, _, rest = text.partition("_")
        token_id, _, secret = rest.partition("_")
        if prefix != _PREFIX or not secret or not text.isascii():
            return None
        query = select(schema.tokens).where(_TOKEN.token_id == token_id[:16])
        row = self.database.row(query)
        if row is None or not hmac.compare_digest(row.secret_hash, _hash(secret)):
            return None
        found = _token(row)
        return found if found.is_valid(self.database.clock.now()) else None

    def any(self) -> bool:
        """Check whether any token exists, including revoked and expired ones."""
        return self.database.row(select(_TOKEN.token_id).limit(1)) is not None

    def all(self) -> list[Token]:
        query = select(schema.tokens).order_by(_TOKEN.created_at, _TOKEN.token_id)
        return [_token(row) for row in self.database.rows(query)]

    def revoke(self, token_id: str) -> None:
        now = self.database.clock.now()

        def work(conn: Connection) -> None:
            known = select(_TOKEN.environment).where(_TOKEN.token_id == token_id)
            environment = conn.execute(known).scalar()
            if environment is None:
                raise UsageError(
                    f"the token '{token_id}' does not exist",
                    hint="list the ids of tokens: vde token list",
                )
            still = (_TOKEN.token_id == token_id) & _TOKEN.revoked_at.is_(None)
            if conn.execute(update(schema.tokens).where(still).values(revoked_at=now)).rowcount:
                record(self.database, conn, "revoke token", environment, detail={"token": token_id})

        self.database.run_transaction(work, name="state.revoke_token")


def _hash(secret: str) -> str:
    # 256 random bits cannot be guessed, however fast the hash is.
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: Row[Any]) -> Token:
    return value_from_row(Token, row, id=row.token_id)
