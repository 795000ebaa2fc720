"""Command `vde changes`, and writers of rows for other programs: CSV and Arrow streams."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.cli.errors import report
from vde_dagster.cli.options import EnvironmentName, ModelArgument, RowLimit, on_project
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError, VdeError

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.base.names import ModelName
    from vde_dagster.execution.changes.reading import FoundChanges
    from vde_dagster.execution.workspace import Workspace


From = Annotated[
    int | None,
    typer.Option(
        "--from",
        min=0,
        metavar="VERSION",
        help="Version that you already have; 0: return all rows.",
    ),
]
To = Annotated[
    int | None,
    typer.Option("--to", min=1, metavar="VERSION", help="Last version; default: current."),
]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="NAME", help="Continue at this consumer's position."),
]
Commit = Annotated[
    bool, typer.Option("--commit", help="Move the cursor after writing the changes.")
]
Ack = Annotated[
    str | None,
    typer.Option(
        "--ack", metavar="N-M", help="Move the cursor from version N to M, without reading."
    ),
]
Forget = Annotated[bool, typer.Option("--forget", help="Delete the cursor without reading.")]
Cursors = Annotated[bool, typer.Option("--cursors", help="List only the model's cursors.")]
SqlOnly = Annotated[
    bool, typer.Option("--sql", help="Only print the Spark SQL that returns the changes.")
]
Each = Annotated[bool, typer.Option("--each", help="Show each version's changes, not net changes.")]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="FORM", help="Write rows as csv, arrow (a stream) or json."),
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="File for csv or arrow; default: stdout."),
]
_ACK = re.compile(r"\s*(\d{1,9})\s*-\s*(\d{1,9})\s*")


@on_project
def changes(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    model: ModelArgument,
    since: From = None,
    to: To = None,
    each: Each = False,
    cursor: Cursor = None,
    commit: Commit = False,
    ack: Ack = None,
    forget: Forget = False,
    cursors: Cursors = False,
    limit: RowLimit = None,
    sql: SqlOnly = False,
    form: Format = None,
    file: OutputFile = None,
) -> None:
    """Show the changes of a model's rows between two versions of an environment.

    A recurring consumer reads with --cursor, and moves the cursor with --ack after it has processed
    the changes. Examples: vde changes prod sales.orders --from 40 --to 41; vde changes prod
    sales.orders --cursor billing --json; vde changes prod sales.orders --cursor billing --ack 40-41
    """
    output.as_json = output.as_json or form == "json"
    check_form(
        form, file, as_json=output.as_json, alone=sql or forget or cursors or ack is not None
    )
    given = {
        "--from": since is not None,
        "--to": to is not None,
        "--limit": limit is not None,
        "--ack": ack is not None,
        "--commit": commit,
        "--forget": forget,
        "--cursors": cursors,
        "--sql": sql,
        "--each": each,
    }
    _check({option for option, is_given in given.items() if is_given}, cursor, ack)
    from vde_dagster.base.names import ModelName
    from vde_dagster.planning.environments.environment import environment_name

    name = ModelName.parse(model, workspace.settings.default_namespace)
    where = environment_name(environment)
    if cursors:
        _list(output, workspace, where, name)
        return
    if ack is not None or forget:
        assert cursor is not None
        _move(output, workspace, where, name, cursor, ack)
        return
    if sql:
        query = workspace.changes.between(where, model, since, to, cursor=cursor, each=each)
        output.result({**query.to_json(), "sql": query.query}, query.query)
        return
    asked: dict[str, Any] = {"since": since, "until": to, "cursor": cursor, "each": each}
    found: FoundChanges[Any]
    if form in ("csv", "arrow"):
        found = workspace.changes.read_arrow(where, model, limit=limit, **asked)
        write_rows(found.rows, form, file)
        _note(output, found, found.rows.num_rows, commit=commit)
    else:
        from vde_dagster.cli.shapes import changes_json, show_changes

        rows = found = workspace.changes.read(where, model, limit=limit, **asked)
        output.result(changes_json(rows), lambda console: show_changes(console, rows))
        _note(output, rows, len(rows.rows), commit=commit)
    if commit:
        try:
            workspace.changes.acknowledge(found)
        except VdeError as error:
            # A second JSON object on stdout would follow the printed rows.
            raise typer.Exit(report(error, as_json=False, debug=False)) from error
        output.note(f"the cursor '{cursor}' is at version {found.changes.until}")


def _check(said: Set[str], cursor: str | None, ack: str | None) -> None:
    if "--cursors" in said and (cursor is not None or said - {"--cursors"}):
        raise UsageError(
            "--cursors cannot be combined with other options", hint="use --cursors alone"
        )
    if {"--sql", "--limit"} <= said:
        raise UsageError(
            "--sql and --limit cannot be combined", hint="remove --limit, and add it to the SQL"
        )
    moves = said & {"--commit", "--ack", "--forget"}
    if cursor is None and moves:
        raise UsageError("no cursor was given", hint="add --cursor NAME")
    if "--commit" in said and said & {"--limit", "--sql"}:
        raise UsageError(
            "--commit would skip changes that are not printed",
            hint="remove --limit and --sql, or move the cursor with --ack",
        )
    alone = said & {"--ack", "--forget"}
    if alone and said - alone:
        raise UsageError(
            "--ack and --forget read no changes and cannot be combined with other options",
            hint="add nothing but --cursor NAME",
        )
    if ack is not None and ("--forget" in said or not _ACK.fullmatch(ack)):
        raise UsageError(
            "--ack and --forget cannot be combined"
            if "--forget" in said
            else f"'{ack}' is not a pair of versions",
            hint="for the changes from version 40 to 41, write --ack 40-41",
        )


def _move(
    output: Output,
    workspace: Workspace,
    environment: str,
    model: ModelName,
    cursor: str,
    ack: str | None,
) -> None:
    said: dict[str, Any] = {"environment": environment, "model": str(model), "cursor": cursor}
    if ack is None:
        was = workspace.changes.forget(environment, model, cursor)
        outcome = "is deleted" if was else "did not exist"
        output.result({**said, "forgotten": was}, f"the cursor '{cursor}' {outcome}")
        return
    match = _ACK.fullmatch(ack)
    assert match is not None
    first, last = int(match[1]), int(match[2])
    workspace.changes.move(environment, model, cursor, first, last)
    output.result({**said, "version": last}, f"the cursor '{cursor}' is at version {last}")


def _list(output: Output, workspace: Workspace, environment: str, model: ModelName) -> None:
    from vde_dagster.cli.shapes import cursors_json, show_cursors

    current = workspace.store.environments.get(environment)
    last = current.version if current is not None else None
    known = workspace.store.change_cursors.for_model(environment, model)
    value = cursors_json(environment, model, last, known)
    output.result(value, lambda console: show_cursors(console, value))


def _note(output: Output, found: FoundChanges[Any], count: int, *, commit: bool) -> None:
    from vde_dagster.cli.shapes import changes_notes

    for line in changes_notes(found, count, commit=commit):
        output.note(line)


FORMS = ("csv", "arrow", "json")


def check_form(form: str | None, file: Path | None, *, as_json: bool, alone: bool) -> None:
    """Check that rows can be written in the requested form.

    Args:
        form: Format; None for text.
        file: Output file; None for stdout.
        alone: Whether the command reads no rows, as with `--ack`.
    """
    if form is not None and form not in FORMS:
        raise UsageError(f"unknown format '{form}'", hint=f"use one of: {', '.join(FORMS)}")
    if form in ("csv", "arrow") and as_json:
        raise UsageError(f"--json and --format {form} cannot be combined", hint="remove one")
    if form is not None and alone:
        raise UsageError(
            "--format has no effect, because this command reads no rows",
            hint="remove --format, or remove --sql, --ack, --forget and --cursors",
        )
    if file is not None and form not in ("csv", "arrow"):
        raise UsageError("--output requires csv or arrow", hint="add --format csv or arrow")
    if file is not None and file.is_dir():
        raise UsageError(f"{file} is a folder", hint=f"write --output {file / 'changes.csv'}")
    if form == "arrow" and file is None and sys.stdout.isatty():
        raise UsageError(
            "Arrow is binary and cannot be shown on a terminal",
            hint="add --output FILE, or use a pipe",
        )
    if file is not None and not file.absolute().parent.is_dir():
        raise UsageError(f"the folder {file.parent} does not exist", hint=f"mkdir -p {file.parent}")


def write_rows(rows: pa.Table, form: str, file: Path | None) -> None:
    """Write rows to a file, or to stdout, as `csv` or `arrow`."""
    from vde_dagster.lakehouse.io.files import encode_rows

    content = encode_rows(rows, form, "use --format arrow or --format json")
    if file is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    # The file appears only when it is complete.
    part = file.with_name(f"{file.name}.part")
    with part.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())  # A cursor moves only after its rows are durable.
    part.replace(file)
