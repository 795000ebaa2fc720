"""Signatures of plans in the state's database."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, MetaData, String, Table, select

from vde_dagster.api.errors import UsageError
from vde_dagster.plugins.signatures.settings import SignaturesSettings
from vde_dagster.plugins.signatures.signing import (
    Signature,
    invalid_signatures,
    read_signatures,
    valid_signers,
)

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

_TABLE_VARIABLE = "VDE_SIGNATURES"
_TRUSTED_VARIABLE = "VDE_SIGNATURES__TRUSTED"
metadata = MetaData()

rows = Table(
    "vde_signatures",
    metadata,
    Column("plan_id", String(64), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("at", String(40), nullable=False),
    Column("signature", String(100), nullable=False),
)


class Signatures:
    def take(self, workspace: Workspace, document: Mapping[str, Any], value: Any) -> None:
        """Verify the signatures in a plan's file, and store the signatures of trusted keys.

        Raises:
            UsageError: A signature is not valid for the plan's content, or no signature is by a
                trusted key.
        """
        settings, found = read_settings(workspace), read_signatures(value)
        plan_id = document["plan"]["id"]
        if bad := invalid_signatures(document, found):
            names = ", ".join(settings.owner_name(one.key) or one.key for one in bad)
            raise UsageError(
                f"plan {plan_id} differs from what was signed (by {names}): nothing was applied",
                hint="use the signed file, or have this file signed: vde plan sign FILE",
            )
        if found and not valid_signers(settings, document, found):
            names = ", ".join(one.key for one in found)
            raise UsageError(
                f"the plan {plan_id} has no signature by a trusted key, only by {names}: nothing "
                "was applied",
                hint="trusted keys are listed in [tool.vde.signatures.trusted]",
            )
        store_signatures(workspace, plan_id, found)

    def descriptions(self, workspace: Workspace, plan_ids: Sequence[str]) -> Mapping[str, str]:
        """Return texts such as `signed by anna, ben`, by plan id.

        The names come from the settings at the time when the signatures were stored.
        """
        database = workspace.store.database
        if not database.has_table(rows.name):
            return {}
        query = select(rows.c.plan_id, rows.c.name).order_by(rows.c.plan_id, rows.c.at)
        names_by_plan: dict[str, list[str]] = {}
        for plan_id, name in database.among(query, rows.c.plan_id, plan_ids):
            names_by_plan.setdefault(plan_id, []).append(name)
        return {
            plan_id: f"signed by {', '.join(names)}" for plan_id, names in names_by_plan.items()
        }


SIGNATURES = Signatures()


def read_settings(workspace: Workspace) -> SignaturesSettings:
    """Return the settings; keys in environment variables replace trusted keys in files."""
    settings = SignaturesSettings(**workspace.settings.plugins.get("signatures", {}))
    given = _keys_in_variables()
    own = {name: key for name, key in settings.trusted.items() if key in given}
    # Keys in environment variables replace the keys in the project's files. Otherwise a person who
    # can change the files could add a key.
    return replace(settings, trusted=own) if own else settings


def _keys_in_variables() -> set[object]:
    variables = {name.upper(): value for name, value in os.environ.items()}
    found: set[object] = {
        key for name, key in variables.items() if name.startswith(f"{_TRUSTED_VARIABLE}__")
    }
    tables = [_read_table(variables, _TRUSTED_VARIABLE)]
    tables += [_read_table(variables, _TABLE_VARIABLE).get("trusted", {})]
    for table in tables:
        found.update(table.values())
    return found


def _read_table(variables: Mapping[str, str], name: str) -> dict[str, Any]:
    # A variable can also contain the whole table, as JSON.
    table: dict[str, Any] = json.loads(variables.get(name) or "{}")
    return table


def store_signatures(workspace: Workspace, plan_id: str, found: Iterable[Signature]) -> None:
    """Store signatures of trusted keys, in place of earlier ones that the same keys made."""
    settings = read_settings(workspace)
    trusted = {one.key: one for one in found if settings.owner_name(one.key) is not None}
    database = workspace.store.database
    stored = workspace.store.plans.record(plan_id)
    database.ensure_tables(metadata)

    def work(conn: Connection) -> None:
        query = select(rows.c.key, rows.c.signature).where(rows.c.plan_id == plan_id)
        known = set(map(tuple, conn.execute(query)))
        new = [one for one in trusted.values() if (one.key, one.signature) not in known]
        if not new:
            return
        signed = [
            {"plan_id": plan_id, "name": settings.owner_name(one.key), **one.to_json()}
            for one in trusted.values()
        ]
        database.upsert(conn, rows, signed, "name", "at", "signature")
        environment = stored.environment if stored is not None else None
        names = [settings.owner_name(one.key) for one in new]
        detail = {"plan": plan_id, "signers": names}
        workspace.store.log.record(conn, "sign", environment, detail)

    if trusted:
        workspace.store.rights.require("plan", "sign a plan")
        database.run_transaction(work, name="signatures.keep")


def load_signatures(workspace: Workspace, plan_id: str) -> list[Signature]:
    """Return the stored signatures of a plan, without verifying them."""
    database = workspace.store.database
    if not database.has_table(rows.name):
        return []
    query = select(rows.c.key, rows.c.at, rows.c.signature).where(rows.c.plan_id == plan_id)
    return [Signature(*row) for row in database.rows(query.order_by(rows.c.at))]
