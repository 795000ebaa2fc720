"""Metrics and semantic models as files define them: MetricFlow's own YAML, with line numbers.

A file is documents separated by `---`, each with one key: `semantic_model`, `metric`, `saved_query`
or `project_configuration`, which has the time spines. A `node_relation` names a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema.exceptions import best_match
from metricflow_semantic_interfaces.implementations.metric import PydanticMetric
from metricflow_semantic_interfaces.implementations.project_configuration import (
    PydanticProjectConfiguration,
)
from metricflow_semantic_interfaces.implementations.saved_query import PydanticSavedQuery
from metricflow_semantic_interfaces.implementations.semantic_manifest import (
    PydanticSemanticManifest,
)
from metricflow_semantic_interfaces.implementations.semantic_model import PydanticSemanticModel
from metricflow_semantic_interfaces.parsing.schemas import (
    metric_validator,
    project_configuration_validator,
    saved_query_validator,
    semantic_model_validator,
)
from metricflow_semantic_interfaces.transformations.semantic_manifest_transformer import (
    PydanticSemanticManifestTransformer,
)
from metricflow_semantic_interfaces.validations.semantic_manifest_validator import (
    SemanticManifestValidator,
)

from vde_dagster.api.errors import ProjectError, SourceLocation, UsageError, placed
from vde_dagster.api.sources import TableNames, YamlDocument, load_yaml
from vde_dagster.api.values import ModelName, quote, suggest

_FORMS: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
    "semantic_model": (semantic_model_validator, PydanticSemanticModel.parse_obj),
    "metric": (metric_validator, PydanticMetric.parse_obj),
    "saved_query": (saved_query_validator, PydanticSavedQuery.parse_obj),
    "project_configuration": (
        project_configuration_validator,
        PydanticProjectConfiguration.parse_obj,
    ),
}
_HINT = "`vde help metrics` shows an example"
KeyPath = tuple[str | int, ...]
"""Path to a value in a `YamlDocument`, such as `("metric", "type_params", "measure")`."""
_ELEMENTS = ("entities", "dimensions", "measures")

NO_SPINE = quote("no_time_spine", "is_declared")
"""Placeholder for the time spine that some metrics join, if a project has none."""


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document in a file of metrics: its only key, such as `metric`, and the key's value."""

    what: str
    value: Any
    yaml: YamlDocument

    @property
    def name(self) -> str:
        return str(self.value.get("name") or "") if isinstance(self.value, dict) else ""

    def place(self, *keys: str | int) -> SourceLocation:
        return self.yaml.location((self.what, *keys))


@dataclass(frozen=True, slots=True)
class Definitions:
    """All metrics and semantic models of a project, parsed by MetricFlow.

    Args:
        models: For each model that a semantic model reads, its name and the first place in a file
            that names it. The keys have the form `` `marts`.`daily` ``.
        places: File and line of each metric and saved query, by name.
    """

    manifest: PydanticSemanticManifest
    models: Mapping[str, tuple[ModelName, SourceLocation]]
    places: Mapping[str, SourceLocation]


def read_definitions(texts: Mapping[Path, str], names: TableNames) -> Definitions:
    """Parse all files of metrics of a project together.

    Raises:
        ProjectError: All mistakes as one error, each with its place.
    """
    reading = _DefinitionsReader(names)
    for path, text in texts.items():
        reading.read(path, text)
    return reading.build()


@dataclass(slots=True)
class _DefinitionsReader:
    names: TableNames
    documents: dict[tuple[str, str], Document] = field(default_factory=dict)
    objects: dict[str, list[Any]] = field(default_factory=lambda: {what: [] for what in _FORMS})
    models: dict[str, tuple[ModelName, SourceLocation]] = field(default_factory=dict)
    mistakes: list[ProjectError] = field(default_factory=list)
    first: SourceLocation | None = None

    def read(self, path: Path, text: str) -> None:
        self.first = self.first or SourceLocation(path, 1)
        try:
            is_dbts = path.suffix == ".json"
            for document in (
                _split_dbt_manifest(path, text) if is_dbts else _split_documents(path, text)
            ):
                self._add_document(document, as_written=not is_dbts)
        except ProjectError as error:
            self.mistakes += error.mistakes

    def _add_document(self, document: Document, *, as_written: bool) -> None:
        key = document.what, document.name
        earlier = self.documents.setdefault(key, document)
        if earlier is not document:
            what = document.what.replace("_", " ")
            named = f"the {what} '{document.name}'" if document.name else f"the {what}"
            message = f"{named} is defined twice, first at {earlier.place()}"
            raise document.yaml.error((document.what,), message, "remove one of them")
        validator, parse = _FORMS[document.what]
        found = best_match(validator.iter_errors(document.value)) if as_written else None
        if found is not None:
            keys = _key_path(found.absolute_path)
            odd = re.search(r"'([^']+)' w", found.message) if found.validator in _KEYS else None
            raise _reading_error(document, (*keys, odd[1]) if odd else keys, found.message)
        value = document.value
        if document.what == "semantic_model":
            value = {
                **value,
                "node_relation": self._read_relation(document, ("node_relation",), value),
            }
        elif document.what == "project_configuration":
            spines = [
                {
                    **spine,
                    "node_relation": self._read_relation(document, (*keys, "node_relation"), spine),
                }
                for number, spine in enumerate(value.get("time_spines") or ())
                for keys in [("time_spines", number)]
            ]
            value = {**value, "time_spines": spines}
        try:
            self.objects[document.what].append(parse(value))
        except Exception as error:  # Of pydantic's first form, or whatever its validators raise.
            (at, message) = _read_first_problem(error)
            raise _reading_error(document, at, message) from None

    def _read_relation(self, document: Document, keys: KeyPath, around: Any) -> dict[str, Any]:
        """Return the `node_relation` of a semantic model, with the table's quoted name."""
        given = dict(around.get("node_relation") or {})
        place = document.place(*keys)
        parts = [given.get(key) for key in ("database", "schema_name", "alias")]
        with placed(place):
            name = self.names.model_name([str(part) for part in parts if part])
        quoted = quote(*name)
        self.models.setdefault(quoted, (name, place))
        return {"schema_name": name.namespace, "alias": name.name, "relation_name": quoted}

    def build(self) -> Definitions:
        if self.mistakes:
            raise ProjectError.combine(self.mistakes)
        configured = self.objects["project_configuration"]
        configuration = configured[0] if configured else PydanticProjectConfiguration()
        if not configuration.time_spines:
            configuration = PydanticProjectConfiguration.parse_obj({"time_spines": [_SPINE]})
        manifest = PydanticSemanticManifest(
            semantic_models=self.objects["semantic_model"],
            metrics=self.objects["metric"],
            saved_queries=self.objects["saved_query"],
            project_configuration=configuration,
        )
        try:
            manifest = PydanticSemanticManifestTransformer.transform(manifest)
        except Exception as error:  # The type depends on the mistake.
            raise self._error_at_mention(str(error)) from None
        found = SemanticManifestValidator(max_workers=1).validate_semantic_manifest(manifest)
        if found.errors:
            # One mistake may break several rules: only the first one is reported.
            by_place = {
                one.location: one for one in reversed([*map(self._convert_issue, found.errors)])
            }
            raise ProjectError.combine(by_place.values())
        return Definitions(manifest, self.models, self._places(manifest))

    def _places(self, manifest: PydanticSemanticManifest) -> dict[str, SourceLocation]:
        """Return the place of each metric and saved query.

        The place of a metric that MetricFlow creates from a measure is the measure's place.
        """
        found = {
            name: place
            for (what, _), document in self.documents.items()
            if what == "semantic_model"
            for name, place in _list_elements(document)
        }
        for (what, name), document in self.documents.items():
            if what in ("metric", "saved_query"):
                found[name] = document.place()
        wanted = [one.name for one in (*manifest.metrics, *manifest.saved_queries)]
        return {name: found.get(name) or self.first or SourceLocation(Path()) for name in wanted}

    def _convert_issue(self, issue: Any) -> ProjectError:
        context, message = issue.context, issue.message
        element = getattr(context, "semantic_model_element", None)
        model = element or getattr(context, "semantic_model", None)
        metric = getattr(context, "metric", None)
        own = ("metric", metric.metric_name) if metric else None
        own = ("semantic_model", model.semantic_model_name) if model else own
        document = self.documents.get(own) if own else None
        if document is None:
            return self._error_at_mention(message)
        named = dict(_list_elements(document)).get(element.element_name) if element else None
        place = named or _find_mention(document, message) or document.place()
        return ProjectError(_single_line(message), hint=_HINT, location=place)

    def _error_at_mention(self, message: str) -> ProjectError:
        every = self.documents.values()
        places = (_find_mention(one, message, names) for names in (False, True) for one in every)
        place = next((place for place in places if place), self.first)
        return ProjectError(_single_line(message), hint=_HINT, location=place)


_SPINE = {
    "node_relation": {"schema_name": "no", "alias": "spine", "relation_name": NO_SPINE},
    "primary_column": {"name": "day", "time_granularity": "day"},
}
_KEYS = ("additionalProperties",)
_SEPARATOR = re.compile(r"^---[^\n]*$", re.MULTILINE)


def _split_documents(path: Path, text: str) -> Iterator[Document]:
    begin = 0
    for end in [*(found.start() for found in _SEPARATOR.finditer(text)), len(text)]:
        part = text[begin:end]
        if part.startswith("---"):
            part = part.partition("\n")[2]
            begin = end - len(part)
        yaml = load_yaml(path, "\n" * text.count("\n", 0, begin) + part)
        begin = end
        if yaml.value is None:
            continue
        if not isinstance(yaml.value, dict) or len(yaml.value) != 1:
            raise ProjectError(
                "a document of metrics needs one of the keys " + ", ".join(_FORMS),
                hint="separate documents by lines of ---; " + _HINT,
                location=SourceLocation(path, min(yaml.lines.values(), default=1)),
            )
        ((what, value),) = yaml.value.items()
        if what not in _FORMS:
            hint = suggest(str(what), _FORMS)
            raise yaml.error((str(what),), f"'{what}' is not a key for metrics", hint)
        if not isinstance(value, dict):
            raise yaml.error((what,), f"'{what}' is empty", _HINT)
        yield Document(what, value, yaml)


def _split_dbt_manifest(path: Path, text: str) -> Iterator[Document]:
    # Line numbers in a generated file would not help its reader.
    try:
        found = json.loads(text)
        listed = {what: found.get(f"{what}s") or [] for what in ("semantic_model", "metric")}
        listed["saved_query"] = found.get("saved_queries") or []
        listed["project_configuration"] = [
            _read_time_spines(found.get("project_configuration") or {})
        ]
    except (ValueError, AttributeError) as error:
        raise ProjectError(
            f"this is not a semantic manifest of dbt: {error}",
            hint="run `dbt compile`",
            location=SourceLocation(path),
        ) from None
    for what, values in listed.items():
        for value in values:
            yield Document(what, value, YamlDocument(path, {what: value}, {}))


def _read_time_spines(written: dict[str, Any]) -> dict[str, Any]:
    spines = list(written.get("time_spines") or ())
    # Legacy time spines have the names of their tables as texts.
    for one in () if spines else written.get("time_spine_table_configurations") or ():
        named = [part.strip('`"') for part in one["location"].split(".")]  # As dbt quotes them.
        parts = dict(zip(_PARTS, reversed(named), strict=False))
        column = {"name": one["column_name"], "time_granularity": one["grain"]}
        spines.append({"node_relation": parts, "primary_column": column})
    return {"time_spines": spines}


_PARTS = ("alias", "schema_name", "database")


def _list_elements(document: Document) -> Iterator[tuple[str, SourceLocation]]:
    for group in _ELEMENTS:
        for number, one in enumerate(document.value.get(group) or ()):
            yield str(one.get("name")), document.place(group, number)


_WORD = re.compile(r"`([^`]+)`|['\"](\w+)['\"]|\b(\w+_\w+)\b")
"""A quoted text in a message, or a text that looks like a user-defined name."""


def _find_mention(document: Document, message: str, names: bool = True) -> SourceLocation | None:
    """Return the place of a document's first value that a message mentions.

    Args:
        names: Whether values of the key `name` count.
    """
    words = {word for found in _WORD.findall(message) for word in found}
    waiting: list[tuple[KeyPath, Any]] = [((), document.value)]
    found: list[KeyPath] = []
    for keys, value in waiting:  # The list grows during the loop.
        if isinstance(value, dict):
            waiting += [((*keys, str(key)), one) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [((*keys, number), one) for number, one in enumerate(value)]
        elif str(value) in words:
            found.append(keys)
    found = sorted((keys for keys in found if names or not _is_name(keys)), key=_is_name)
    return document.place(*found[0]) if found else None


def _is_name(keys: KeyPath) -> bool:
    return keys == ("name",) or (keys[0] in _ELEMENTS and keys[2:] == ("name",))


def _read_first_problem(error: Exception) -> tuple[KeyPath, str]:
    errors = getattr(error, "errors", None)
    if not callable(errors) or not (found := errors()):
        return (), str(error)
    one = found[0]
    keys = _key_path(key for key in one["loc"] if key != "__root__")
    return keys, f"{'.'.join(map(str, keys))}: {one['msg']}" if keys else str(one["msg"])


def _key_path(path: Any) -> KeyPath:
    return tuple(key if isinstance(key, int) else str(key) for key in path)


def _reading_error(document: Document, keys: KeyPath, message: str) -> ProjectError:
    what = document.what.replace("_", " ")
    named = f"the {what} '{document.name}'" if document.name else f"the {what}"
    text = f"{named} cannot be read: {_single_line(message)}"
    return document.yaml.error((document.what, *keys), text, _HINT)


def _single_line(text: str) -> str:
    return " ".join(text.split())


def unknown_metric(name: str, known: Mapping[str, object]) -> UsageError:
    return UsageError(f"the metric '{name}' does not exist", hint=suggest(name, known, "metrics"))
