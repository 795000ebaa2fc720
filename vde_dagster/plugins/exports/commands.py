"""`vde describe`: the project as a document for other programs, in one of several forms."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.api.commands import Output, on_project
from vde_dagster.api.errors import UsageError
from vde_dagster.api.values import count, parse_time

if TYPE_CHECKING:
    from vde_dagster.api.reports import Document
    from vde_dagster.api.workspace import Workspace

FORMS = ("json", "dbt", "datahub")

Form = Annotated[
    str,
    typer.Argument(metavar="FORM", help="json, dbt (manifest.json and catalog.json), or datahub."),
]
Of = Annotated[
    str | None,
    typer.Argument(
        metavar="[ENV]",
        help="The environment to describe as published, such as prod or dev@7. Without it, "
        "datahub describes prod, and the other forms describe the project's files.",
    ),
]
To = Annotated[
    Path | None,
    typer.Option("--to", metavar="PATH", help="A file for json and datahub, a folder for dbt."),
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="Report intervals missing at this time (UTC)."),
]
Schema = Annotated[
    bool, typer.Option("--schema", help="Print the JSON Schema of the form json instead.")
]


@on_project
def describe(
    workspace: Workspace,
    output: Output,
    form: Form,
    environment: Of = None,
    to: To = None,
    at: At = None,
    schema: Schema = False,
) -> None:
    """Write the project's files, or a published environment, as a document for other programs.

    Nothing is computed, and Spark is not started. Examples: vde describe json;
    vde describe json prod --to prod.json; vde describe dbt prod --to target
    """
    if form not in FORMS:
        raise UsageError(
            f"the form '{form}' does not exist",
            hint=f"forms: {', '.join(FORMS)}; for an environment: vde describe json {form}",
        )
    if schema:
        if form != "json" or environment is not None or to is not None or at is not None:
            raise UsageError(
                "--schema describes the form json and cannot be combined with other options",
                hint="write it to a file with: vde describe json --schema > schema.json",
            )
        from vde_dagster.api.reports import Document

        Output(True).result(Document.json_schema(), "")
        return
    if to is None and form == "dbt":
        raise UsageError("the form 'dbt' writes two files", hint="pass their folder: --to DIR")
    folder = to if form == "dbt" else to.absolute().parent if to is not None else None
    if folder is not None and not folder.is_dir():
        raise UsageError(f"the folder {folder} does not exist", hint="create it first")
    if form == "datahub":
        from vde_dagster.api.plans import PRODUCTION

        environment = environment or PRODUCTION  # A catalog contains what readers can query.
    from vde_dagster.api.reports import gather_document

    as_of = parse_time(at, "--at", datetime.now(timezone.utc)) if at is not None else None
    document = gather_document(workspace, environment, as_of=as_of)
    if to is None:
        if form == "datahub" and output.as_json:
            output.result({"proposals": _proposals(document)}, "")
        else:
            sys.stdout.write(_WRITERS[form](document).decode())
        return
    contents = _dbt_files(document, to) if form == "dbt" else {to: _WRITERS[form](document)}
    _write_files(contents)
    files = [str(path) for path in contents]
    result = {"files": files, "of": document.of, "models": len(document.models)}
    text = f"{count(len(document.models), 'model')} of {document.of}: {' and '.join(files)}"
    output.result(result, text)


def _json_bytes(document: Document) -> bytes:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _proposals(document: Document) -> Any:
    import msgspec

    from vde_dagster.plugins.exports.datahub import datahub_proposals

    return msgspec.to_builtins(datahub_proposals(document))


def _datahub_bytes(document: Document) -> bytes:
    import msgspec

    # DataHub reads files with a list, which is also what is printed without --json.
    return msgspec.json.format(msgspec.json.encode(_proposals(document)), indent=2) + b"\n"


_WRITERS = {"json": _json_bytes, "datahub": _datahub_bytes}


def _dbt_files(document: Document, folder: Path) -> dict[Path, bytes]:
    import msgspec

    from vde_dagster.plugins.exports.dbt_artifacts import dbt_catalog, dbt_manifest

    return {
        folder / "manifest.json": msgspec.json.encode(dbt_manifest(document)),
        folder / "catalog.json": msgspec.json.encode(dbt_catalog(document)),
    }


def _write_files(contents: Mapping[Path, bytes]) -> None:
    from vde_dagster.api.sources import replacing

    for path, content in contents.items():
        try:
            with replacing(path, shared=True) as file:
                file.write(content)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
