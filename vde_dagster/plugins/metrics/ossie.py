"""Metrics as Apache Ossie (Open Semantic Interchange), by MetricFlow's own converter.

The converter writes an earlier version of the specification; later versions differ only in their
number and a list of dialects. The SQL is labeled as Databricks SQL, because Ossie does not list
Spark's dialect.

Source: https://github.com/apache/ossie/blob/main/core-spec/osi-schema.json
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from metricflow.converters.models import OSIDialect
from metricflow.converters.msi_to_osi import MSIToOSIConverter

from vde_dagster.api.values import ModelName

if TYPE_CHECKING:
    from vde_dagster.api.plans import Environment
    from vde_dagster.plugins.metrics.layer import SemanticLayer

VERSION = "0.2.0.dev0"
"""Version of Ossie's specification that written documents follow."""


@dataclass(frozen=True, slots=True)
class OssieDocument:
    """A project's metrics as an Apache Ossie document, with an environment's views as datasets.

    Args:
        left_out: Elements that Ossie cannot represent completely, each with the kind of problem.
    """

    value: dict[str, Any]
    left_out: tuple[str, ...]

    def yaml(self) -> str:
        return yaml.safe_dump(self.value, sort_keys=False, allow_unicode=True, width=100)


def make_document(
    layer: SemanticLayer, environment: Environment, catalog: str, name: str
) -> OssieDocument:
    converter = MSIToOSIConverter(OSIDialect.DATABRICKS)
    made = converter.convert(layer.definitions.manifest, osi_model_name=name)
    found = json.loads(made.output.to_osi_json())
    models = layer.definitions.models
    for one in found["semantic_model"]:
        for dataset in one["datasets"]:
            model = models[dataset["source"]][0]
            view = environment.views.quoted(model, catalog)
            dataset["source"] = ".".join(ModelName.split(view))
    left_out = tuple(
        f"{one.element_name}: {str(one.issue_type.value).replace('_', ' ').lower()}"
        for one in made.issues
    )
    return OssieDocument({"version": VERSION, "semantic_model": found["semantic_model"]}, left_out)
