"""Project information as text and JSON: its contents, and the graph of its models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from vde_dagster.base.installing import __version__
from vde_dagster.base.names import ModelName
from vde_dagster.base.plugins import find_installed_plugins
from vde_dagster.cli.shapes import environment_json
from vde_dagster.errors import ProjectError
from vde_dagster.project.dag import Models, children, parents
from vde_dagster.terminal.tables import simple_table

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.workspace import Workspace


def project_info(workspace: Workspace) -> dict[str, Any]:
    from vde_dagster.state.db.database import without_password

    settings = workspace.settings
    models = workspace.project.models.values()
    environments = workspace.store.environments.summaries() if workspace.has_state else []
    versions = _versions(workspace)
    return {
        "version": __version__,
        "project": {"name": settings.name, "root": str(workspace.root)},
        "catalog": settings.catalog,
        "warehouse": settings.resolved_warehouse,
        "state": without_password(settings.resolved_state_url),
        "models": [
            {
                "name": str(model.name),
                "kind": model.kind.name,
                "file": model.location.path.as_posix(),
                "description": model.description,
                "versions": versions.get(model.name, []),
            }
            for model in models
        ],
        "environments": [environment_json(environment) for environment in environments],
        "plugins": [
            {
                "seam": plugin.seam,
                "name": plugin.name,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "error": plugin.problem(),
            }
            for plugin in find_installed_plugins()
        ],
    }


def show_info(console: Console, info: dict[str, Any], *, plugins: bool) -> None:
    """Print the models, and then facts about the project.

    Args:
        plugins: Whether to print all plug-ins, or only those that cannot be imported.
    """
    from rich.markup import escape

    rows: list[tuple[str, ...]] = []
    for model in info["models"]:
        versions = [(one["version"], ", ".join(one["shown_by"])) for one in model["versions"]]
        first, *more = versions or [("", "")]
        rows.append((model["name"], model["kind"], model["file"], *first))
        rows += [("", "", "", *version) for version in more]
    console.print(simple_table(("model", "kind", "file", "version", "shown by"), rows))
    kinds = Counter(model["kind"] for model in info["models"])
    console.print(
        f"models     {len(info['models'])}: "
        + ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    )
    name, root = (escape(info["project"][key]) for key in ("name", "root"))
    console.print(f"project    [bold]{name}[/]  {root}")
    for key in ("catalog", "warehouse", "state"):
        console.print(f"{key:<10} {info[key]}", markup=False)
    for environment in info["environments"]:
        console.print(f"environment {environment['name']} at version {environment['version']}")
    keys = ("seam", "name", "distribution", "version", "error")
    found = [
        tuple(one[key] or "" for key in keys)
        for one in info["plugins"]
        if plugins or one["error"] is not None
    ]
    if found:
        console.print(simple_table(("plug-ins of", *keys[1:]), found))


def _versions(workspace: Workspace) -> dict[ModelName, list[dict[str, Any]]]:
    from vde_dagster.orchestration.models.live import live_models, load_live_models, load_snapshots

    try:
        snapshots = workspace.snapshots()
    except ProjectError:  # planning reports the error; environments are listed anyway
        snapshots = {}
    if workspace.has_state:
        environments = workspace.store.environments.all()
        stored = load_snapshots(workspace.store, environments)
        live = load_live_models(workspace.store, snapshots, environments, stored)
    else:
        live = live_models(snapshots, (), {}, {})
    return {
        name: [{"version": one.key, "shown_by": list(one.labels)} for one in model.versions]
        for name, model in live.items()
    }


Node = TypeVar("Node", bound=Hashable)


def dag_json(models: Models, among: Collection[ModelName]) -> dict[str, Any]:
    """Return the dependency graph as documented JSON, with the models in topological order."""
    below = children(models)
    return {
        "models": [
            {
                "name": str(name),
                "kind": model.kind.name,
                "parents": [str(parent) for parent in parents(models, name)],
                "children": [str(child) for child in below[name]],
            }
            for name, model in models.items()
            if name in among
        ]
    }


def dag_lines(models: Models, among: Collection[ModelName]) -> Iterator[str]:
    """Yield a tree for each model without parents in `among`: the model, and below it its readers.

    If a model occurs again, the line has `…` in place of the model's readers.
    """
    texts = {name: f"{name}  {models[name].kind.name}" for name in models}
    edges = {
        name: [(child, texts[child]) for child in found if child in among]
        for name, found in children(models).items()
    }
    tops = (
        (name, texts[name])
        for name in models
        if name in among and not any(parent in among for parent in parents(models, name))
    )
    return trees(tops, edges)


def trees(
    tops: Iterable[tuple[Node, str]], edges: Mapping[Node, Sequence[tuple[Node, str]]]
) -> Iterator[str]:
    """Yield the lines of trees. If a node occurs again, its line ends in `…`, without branches."""
    followed: set[Node] = set()
    for top, text in tops:
        yield text
        followed.add(top)
        # An explicit stack, because a chain may exceed Python's recursion limit.
        stack = [(list(edges.get(top, ()))[::-1], "")]
        while stack:
            waiting, indent = stack[-1]
            if not waiting:
                stack.pop()
                continue
            node, text = waiting.pop()
            below = edges.get(node, ())
            again = node in followed and bool(below)
            sign, more = ("├─ ", "│  ") if waiting else ("└─ ", "   ")
            yield f"{indent}{sign}{text}{' …' if again else ''}"
            if not again:
                followed.add(node)
                stack.append((list(below)[::-1], indent + more))


def dag_mermaid(models: Models, among: Collection[ModelName]) -> Iterator[str]:
    yield "flowchart LR"
    ids = {name: f"m{index}" for index, name in enumerate(models) if name in among}
    for name, own in ids.items():
        yield f'  {own}["{name}"]'
    for name, own in ids.items():
        for parent in parents(models, name):
            if parent in ids:
                yield f"  {ids[parent]} --> {own}"
