"""Commands of maintenance: `vde janitor`, `clean`, `fsck`, `sync`, `export`, and `vde state`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.base.texts import count
from vde_dagster.cli.help import SentenceGroup
from vde_dagster.cli.options import DryRun, on_project
from vde_dagster.cli.output import Output
from vde_dagster.terminal.tables import simple_table

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


@on_project
def janitor(workspace: Workspace, output: Output, dry_run: DryRun = False) -> None:
    """Drop expired environments and, after a grace time, unused tables.

    A table is unused if no kept version, open plan or running job needs it. --dry-run also lists
    what is kept and why. Example: vde janitor --dry-run
    """
    from vde_dagster.overviews.environments import janitor_section
    from vde_dagster.terminal.reports import show_table

    report = workspace.maintenance.janitor(dry_run=dry_run)
    output.result(report.to_json(), lambda console: show_table(console, janitor_section(report)))
    if not (dry_run or report.acted):
        output.note("to list what is kept, and why, run: vde janitor --dry-run")
    if report.failures:
        raise typer.Exit(1)


@on_project
def clean(workspace: Workspace, output: Output) -> None:
    """Delete the cache in .vde/cache.

    State, tables and failure reports stay. Example: vde clean --project shop
    """
    from vde_dagster.base.texts import size
    from vde_dagster.project.loading.cache import clean_caches

    deleted = clean_caches(workspace.root)
    freed = sum(deleted.values())
    output.result(
        {"files": list(deleted), "bytes": freed},
        f"deleted {count(len(deleted), 'file')}, {size(freed) or '0 B'}",
    )


Deep = Annotated[bool, typer.Option("--deep", help="Also read footers of data files (slower).")]


@on_project
def fsck(workspace: Workspace, output: Output, deep: Deep = False) -> None:
    """Check for missing and damaged files, lost views and tables, and suggest repairs.

    Repairs nothing. The exit code is 1 if something is damaged. Example: vde fsck --deep
    """
    findings = workspace.maintenance.fsck(deep=deep)
    rows = [(f.problem.replace("_", " "), f.subject, f.detail, f.advice) for f in findings]
    output.result(
        {"findings": [finding.to_json() for finding in findings]},
        simple_table(("problem", "subject", "detail", "what to do"), rows)
        if findings
        else "no problems: all referenced files exist and are complete",
    )
    if any(finding.is_damage for finding in findings):
        raise typer.Exit(1)


@on_project
def sync(workspace: Workspace, output: Output) -> None:
    """Repair Dagster's record of the state store.

    Dagster's sensor follows the state automatically; this command compares everything. It uses the
    Dagster instance in DAGSTER_HOME, or in the project's .dagster_home, and is idempotent.

    Example: vde sync
    """
    from vde_dagster.orchestration.events.consumer import forwarding_lease
    from vde_dagster.orchestration.events.sync import sync as sync_instance
    from vde_dagster.orchestration.instance import open_instance

    with (
        open_instance(workspace.root) as instance,
        forwarding_lease(workspace.store, instance, wait_seconds=60),
    ):
        report = sync_instance(workspace, instance)
    output.result(
        {name: number for name, number in asdict(report).items() if type(number) is int},
        f"written to Dagster: {count(report.materializations, 'materialization')}, "
        f"{count(report.environments, 'version')} of environments, "
        f"{count(report.checks, 'check')}, {count(report.plans, 'plan page')}; "
        f"{count(report.wiped, 'partition')} marked as missing"
        if not report.is_empty
        else "Dagster is up to date",
    )


ExporterName = Annotated[str, typer.Argument(metavar="EXPORTER", help="See `vde info --plugins`.")]


@on_project
def export(workspace: Workspace, output: Output, exporter: ExporterName) -> None:
    """Send an exporter plug-in the records of the state since the plug-in's last call.

    Example: vde export openlineage
    """
    done = workspace.maintenance.export(exporter)
    if done.forgotten:
        output.note(f"{count(done.forgotten, 'record')} had expired before '{exporter}' read them")
    output.result(
        {"exporter": exporter, "news": done.records, "last": done.last, "missed": done.forgotten},
        f"{exporter} received {count(done.records, 'record')}, up to number {done.last}",
    )


state = typer.Typer(cls=SentenceGroup, help="Move the state and the catalog between databases.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The file (gzipped JSON lines).")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


@state.command("export")
@on_project
def export_state(workspace: Workspace, output: Output, file: File, force: Force = False) -> None:
    """Write state and catalog to a file; the tables' data files stay in place.

    Example: vde state export state.jsonl.gz
    """
    counts = workspace.maintenance.export_state(file, replace=force)
    _show(output, file, counts, "written to")


@state.command("import")
@on_project
def import_state(workspace: Workspace, output: Output, file: File) -> None:
    """Load a file of `vde state export` into the project's state database, which must be empty.

    Example: vde state import state.jsonl.gz
    """
    from vde_dagster.state.db import transfer

    counts = transfer.import_state(workspace.store.database, file)
    _show(output, file, counts, "read from")


@state.command("use-warehouse")
@on_project
def use_warehouse(workspace: Workspace, output: Output) -> None:
    """Use the warehouse of the settings for new tables.

    The state records one warehouse, and commands that change something refuse to run with another.
    Existing tables stay in place. Example: vde state use-warehouse
    """
    store = workspace.store
    store.rights.require("publish", "change the warehouse")
    before, now = store.project.use_warehouse()
    output.result(
        {"before": before, "now": now},
        f"the warehouse is {now}" + (f", previously {before}" if before not in (None, now) else ""),
    )


def _show(output: Output, file: Path, counts: dict[str, int], verb: str) -> None:
    rows = count(sum(counts.values()), "row")
    output.result({"file": str(file), "rows": counts}, f"{rows} {verb} {file}")
