"""Definitions of metrics, in the project's files and stored with an environment.

A plan stores the texts of the metrics' files with its environment, so `prod@41` evaluates a metric
by its definition at that version. A version that an older release published has no stored texts:
its metrics are evaluated by the current files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.api.errors import ProjectError, UsageError, VdeError
from vde_dagster.api.values import ModelName, how_to_install
from vde_dagster.api.workspace import Handles, Keeper, Workspace
from vde_dagster.plugins.metrics import FOLDER

if TYPE_CHECKING:
    from vde_dagster.api.models import Exposure
    from vde_dagster.api.plans import Environment, Snapshot
    from vde_dagster.plugins.metrics.layer import SemanticLayer

NAME = "metrics"
"""Name under which environments store the definitions of metrics."""


def _stored_text(workspace: Handles) -> str | None:
    """Return the texts of all metrics files as JSON, or None if MetricFlow is not installed."""
    if find_spec("metricflow") is None:
        return None
    texts = {path.as_posix(): text for path, text in _read_texts(workspace).items()}
    return json.dumps(texts, sort_keys=True) if texts else ""


def semantic_layer(workspace: Workspace, environment: str | None = None) -> SemanticLayer:
    """Return the metrics in the project's files, or those stored with an environment (`prod@41`).

    Raises:
        UsageError: The project has no metrics, the environment does not exist, or MetricFlow is not
            installed.
        ProjectError: A definition has a mistake, or reads a missing model or column.
    """
    texts, snapshots = _stored_definitions(workspace, environment) if environment else ({}, None)
    if not texts:
        texts, snapshots = _read_texts(workspace), None
    if not texts:
        raise UsageError(
            f"the project has no metrics in {workspace.root / FOLDER}",
            hint="`vde help metrics` shows an example",
        )
    if find_spec("metricflow") is None:
        hint = how_to_install("metrics")
        raise UsageError("metrics need MetricFlow, which is not installed", hint=hint)
    from vde_dagster.plugins.metrics.definitions import read_definitions
    from vde_dagster.plugins.metrics.layer import SemanticLayer
    from vde_dagster.plugins.metrics.reading import metric_exposures

    layer = SemanticLayer(read_definitions(texts, workspace.project.names))
    models = workspace.project.models if snapshots is None else snapshots
    missing = [
        ProjectError(
            f"a semantic model is based on {name}, which is not a model",
            hint="use a model of the project",
            location=place,
        )
        for name, place in layer.definitions.models.values()
        if name not in models
    ]
    known = workspace.snapshots() if snapshots is None else snapshots
    mistakes = [*missing, *workspace.models.mistakes_in_readers(metric_exposures(layer), known)]
    if mistakes:
        raise ProjectError.combine(mistakes)
    return layer


def require_published_metrics(
    workspace: Workspace, layer: SemanticLayer, names: Sequence[str], environment: str
) -> None:
    """Check that an environment stores the definitions of the given metrics.

    Raises:
        UsageError: A metric is defined in the files, but not published to the environment.
    """
    missing = [
        name for name in names if name not in layer.metrics and name not in layer.saved_queries
    ]
    if not missing:
        return
    try:
        files = semantic_layer(workspace)
    except VdeError:
        return
    for name in missing:
        if name in files.metrics or name in files.saved_queries:
            plan = environment.partition("@")[0]
            raise UsageError(
                f"'{environment}' lacks '{name}', which is defined in the files",
                hint=f"publish it there: vde apply {plan}",
            )


def _stored_exposures(workspace: Handles, environment: Environment) -> tuple[Exposure, ...] | None:
    """Return the metrics stored with an environment; None if no texts are stored or readable."""
    text = environment.kept.get(NAME)
    if text is None or find_spec("metricflow") is None:
        return None
    from vde_dagster.plugins.metrics.definitions import read_definitions
    from vde_dagster.plugins.metrics.layer import SemanticLayer
    from vde_dagster.plugins.metrics.reading import metric_exposures

    texts = {Path(path): text for path, text in json.loads(text).items()}
    with suppress(VdeError):  # If the files cannot be read, names cannot be resolved either.
        return tuple(
            metric_exposures(SemanticLayer(read_definitions(texts, workspace.project.names)))
        )
    return None


KEPT = Keeper(_stored_text, _stored_exposures, "metric")


def _stored_definitions(
    workspace: Workspace, environment: str
) -> tuple[dict[Path, str], Mapping[ModelName, Snapshot] | None]:
    published = workspace.environments.named(environment)
    text = published.kept.get(NAME)
    if text is None:
        return {}, None
    texts = {Path(path): text for path, text in json.loads(text).items()}
    return texts, workspace.environments.snapshots(published)


def _read_texts(workspace: Handles) -> dict[Path, str]:
    files = workspace.files_in(FOLDER, ".yaml", ".yml")
    if find_spec("metricflow") is not None:
        # If dbt compiled, its manifest names its metrics; of own files a reader is enough.
        exposures = [one for one in workspace.project.exposures if one.what == "metric"]
        paths = {one.location.path for one in exposures}
        dbts = sorted(path.as_posix() for path in paths if path.suffix == ".json")
        files = [*(files if len(paths) > len(dbts) else ()), *dbts]
    return {Path(one): _read_text(workspace, Path(one)) for one in files}


def _read_text(workspace: Handles, path: Path) -> str:
    text = workspace.text(path.as_posix())
    if path.suffix != ".json":
        return text
    from vde_dagster.plugins.metrics.dialects import MANIFEST, translate_manifest

    manifest = workspace.text(path.with_name(MANIFEST).as_posix())
    return translate_manifest(path, text, manifest, workspace.settings)
