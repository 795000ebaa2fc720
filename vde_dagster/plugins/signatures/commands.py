from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.api.commands import Output, on_project

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="The owner of the key.")]
To = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="The key's file; NAME.pem by default.")
]
PlanToSign = Annotated[
    str, typer.Argument(metavar="PLAN", help="A plan's file, or the id of a stored plan.")
]
Key = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="The private key; VDE_SIGNING_KEY by default."),
]


@on_project
def keys_make(output: Output, name: KeyName, to: To = None) -> None:
    """Create a key for signing plans, and print the line of settings that trusts it.

    The private key is written to a file that only its owner can read, and is never printed.
    Example: vde keys make anna
    """
    from rich.markup import escape

    from vde_dagster.plugins.signatures.keys import make_key

    path = to or Path(f"{name}.pem")
    public = make_key(path)
    output.note(f"the private key is in {escape(str(path))}: keep it, and never commit it")
    output.note(
        "to trust it, add this line below \\[tool.vde.signatures.trusted] in pyproject.toml:"
    )
    # TOML allows other characters, such as those of an address, only in quotes.
    owner = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
    output.result({"name": name, "file": str(path), "public": public}, f'{owner} = "{public}"')


@on_project
def plan_sign(workspace: Workspace, output: Output, plan: PlanToSign, key: Key = None) -> None:
    """Sign a plan with a private key.

    The signature of a plan's file is added to the file, the signature of a stored plan to the
    state. Read the plan first: the signature covers all of it. Examples: vde plan sign plan.json
    --key anna.pem; vde plan sign prod-1a2b3c4d5e
    """
    from vde_dagster.api.errors import UsageError
    from vde_dagster.api.values import json_value
    from vde_dagster.plugins.signatures.keys import read_private_key
    from vde_dagster.plugins.signatures.ledger import (
        load_signatures,
        read_settings,
        store_signatures,
    )
    from vde_dagster.plugins.signatures.signing import invalid_signatures, read_signatures, sign

    private = read_private_key(key)
    settings = read_settings(workspace)
    files = workspace.plans.files
    path = files.path(plan)
    if path is not None:
        found = files.read(path)
        document, before = found.document, read_signatures(found.attached.get("signatures", []))
    else:
        stored = workspace.store.plans.load(plan)
        document, before = files.document(stored), load_signatures(workspace, plan)
    made = sign(document, private, json_value(workspace.store.database.clock.now()))
    if invalid_signatures(document, before):
        raise UsageError(
            f"{plan} was not signed, because its earlier signatures are for other content",
            hint="use the plan as it was signed before, or plan again: vde plan ENV",
        )
    name = settings.owner_name(made.key)
    after = [*(one for one in before if one.key != made.key), made]
    if path is not None:
        attached = {**found.attached, "signatures": [one.to_json() for one in after]}
        files.write(path, document, attached)
    elif name is None:
        raise UsageError(
            f"the state only stores signatures by trusted keys, not by {made.key}",
            hint="add it below [tool.vde.signatures.trusted], or sign the plan's file",
        )
    else:
        store_signatures(workspace, plan, [made])
    result = {
        "plan": document["plan"]["id"],
        "key": made.key,
        "name": name,
        "at": made.at,
        "signatures": len(after),
    }
    who = name or f"{made.key}, which this project does not trust"
    output.result(result, f"{result['plan']} is signed by {who}")
