from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.api.commands import Output, on_project
from vde_dagster.api.values import count

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

_STOPPED = 130
"""Exit code after Ctrl-C."""

Of = Annotated[
    str | None,
    typer.Argument(
        metavar="[ENV[@VERSION]]",
        help="An environment or a version of it; default: the files, and all environments.",
    ),
]
To = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The target; by default build/docs, or build/docs-ENV."),
]
AsOf = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Show intervals missing at this time (UTC)."),
]
Compare = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ENV@VERSION", help="A version to compare with the shown environments; repeatable."
    ),
]
SitePort = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free port.")]


@on_project
def docs_build(
    workspace: Workspace,
    output: Output,
    of: Of = None,
    to: To = None,
    as_of: AsOf = None,
    compare: Compare = None,
) -> None:
    """Write the documentation as a site, which a browser can open without a server.

    Examples: vde docs build prod@41 --to audit/41; vde docs build --compare prod@41 --compare dev@2
    """
    folder, size, models = _build(workspace, of, to, as_of, compare or ())
    page = folder / "index.html"
    told = f"{count(models, 'model')}, {size / 1e6:,.2f} MB: {page.resolve().as_uri()}"
    output.result({"folder": str(folder), "page": str(page), "models": models, "bytes": size}, told)


@on_project
def docs_write(workspace: Workspace, output: Output) -> None:
    """Add empty descriptions for undescribed columns and models to docs.yml, next to the models.

    Existing text is never changed; descriptions of removed columns and models are listed.

    Example: vde docs write
    """
    made = workspace.models.write_descriptions()
    orphans = [
        {"name": one.name, "text": one.text, "place": str(one.location)} for one in made.orphans
    ]
    lines = [f"{path}: {len(added)} to describe" for path, added in made.added.items()]
    lines += [
        f"{one.location}: {one.name} no longer exists; its description is kept"
        for one in made.orphans
    ]
    told = "\n".join(lines) or "nothing to add"
    output.result({"added": made.added, "orphans": orphans}, told)


@on_project
def docs_serve(
    workspace: Workspace, output: Output, of: Of = None, to: To = None, port: SitePort = 8090
) -> None:
    """Write the documentation and serve it to this machine's browsers, until Ctrl+C.

    Example: vde docs serve
    """
    from vde_dagster.plugins.site.build import serve_site

    folder, size, models = _build(workspace, of, to, None)
    with serve_site(folder, port) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        told = f"{count(models, 'model')}, {size / 1e6:,.2f} MB: {url}"
        output.result({"url": url, "folder": str(folder), "models": models, "bytes": size}, told)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            raise typer.Exit(_STOPPED) from None


def _build(
    workspace: Workspace,
    of: str | None,
    to: Path | None,
    as_of: str | None,
    compare: Sequence[str] = (),
) -> tuple[Path, int, int]:
    from vde_dagster.api.reports import gather_document
    from vde_dagster.api.values import parse_time
    from vde_dagster.plugins.site.build import site_files, write_site

    instant = parse_time(as_of, "--as-of", datetime.now(timezone.utc)) if as_of else None
    document = gather_document(workspace, of, as_of=instant, compare=compare)
    made = site_files(document)
    folder = to or workspace.settings.root / "build" / (
        "docs" if of is None else f"docs-{document.of}"
    )
    write_site(made, folder)
    return folder, sum(map(len, made.values())), len(document.models)
