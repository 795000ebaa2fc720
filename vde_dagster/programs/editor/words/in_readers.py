"""Words that refer to models in exposures, syncs, descriptions, metrics and policies.

Columns in a metric's expression are found by parsing it. Mentions are `by_hand`, so only the author
can change them, in an expression that cannot be parsed (another dialect, for example), in policies,
and in values with YAML escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

import yaml

from vde_dagster.base.names import ModelName
from vde_dagster.programs.editor.reading import Mention, Reading, Span, Symbol, column_names
from vde_dagster.programs.editor.words.in_yaml import (
    YamlWords,
    item_nodes,
    key_nodes,
    named_model,
    value_nodes,
    yaml_documents,
)
from vde_dagster.project.files import find_files
from vde_dagster.sql.expressions import read_expression

_ELEMENTS = ("entities", "dimensions", "measures")
_QUOTED = re.compile(r"(['\"])((?:\w+\.){0,2}(\w+))\1")
"""A text in a CEL expression that may be the name of a column."""


class ReaderFiles:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._known: dict[str, list[Mention]] = {}

    @cached_property
    def paths(self) -> Mapping[str, str]:
        """The files, each with its format such as `exposures`."""
        settings = self._reading.project.settings
        found = find_files(settings)
        policies = settings.plugins.get("policies", {}).get("files", ("policies.yaml",))
        forms = {
            "exposures": found.exposures,
            "syncs": found.syncs,
            "docs": found.docs,
            "metrics": found.metrics,
            "policies": tuple(policies),
        }
        return {path: form for form, paths in forms.items() for path in paths}

    def mentions(self, path: str) -> list[Mention]:
        if path not in self._known:
            self._known[path] = list(self._read(path))
        return self._known[path]

    def find_mentions(self, symbol: Symbol) -> Iterator[Mention]:
        word = symbol.name if symbol.kind == "column" else symbol.model.name
        for path in self.paths:
            if word in self._reading.text(path).lower():
                yield from (one for one in self.mentions(path) if one.symbol == symbol)

    def _read(self, path: str) -> Iterator[Mention]:
        form = self.paths.get(path)
        text = self._reading.text(path)
        words = _Words(self._reading, path, text)
        for tree in yaml_documents(text):
            if form == "exposures":
                yield from words.exposures(tree)
            elif form == "syncs":
                yield from words.syncs(tree)
            elif form == "docs":
                yield from words.descriptions(tree)
            elif form == "metrics":
                yield from words.metrics(tree, self._semantic_models)
            elif form == "policies":
                yield from words.policies()

    @cached_property
    def _semantic_models(self) -> Mapping[str, ModelName]:
        found: dict[str, ModelName] = {}
        for path, form in self.paths.items():
            text = self._reading.text(path) if form == "metrics" else ""
            words = _Words(self._reading, path, text)
            for tree in yaml_documents(text):
                parts = value_nodes(value_nodes(tree).get("semantic_model"))
                model = words.relation(parts)
                if model is not None and isinstance(parts.get("name"), yaml.ScalarNode):
                    found[parts["name"].value] = model
        return found


class _Words(YamlWords):
    def exposures(self, tree: yaml.Node) -> Iterator[Mention]:
        for entry in item_nodes(tree):
            for read in item_nodes(value_nodes(entry).get("reads")):
                if isinstance(read, yaml.ScalarNode):
                    yield from self._dotted_name(read)

    def syncs(self, tree: yaml.Node) -> Iterator[Mention]:
        for entry in item_nodes(tree):
            parts = value_nodes(entry)
            model = self.model(parts.get("source"))
            if model is not None:
                yield self.word(parts["source"], Symbol("model", model))
                yield from self.columns(item_nodes(parts.get("key")), Symbol("column", model))

    def descriptions(self, tree: yaml.Node) -> Iterator[Mention]:
        for key, entry in key_nodes(tree):
            model = self.model(key)
            if model is not None:
                yield self.word(key, Symbol("model", model))
                columns = key_nodes(value_nodes(entry).get("columns"))
                yield from self.columns([column for column, _ in columns], Symbol("column", model))

    def metrics(self, tree: yaml.Node, models: Mapping[str, ModelName]) -> Iterator[Mention]:
        document = value_nodes(tree)
        semantic = value_nodes(document.get("semantic_model"))
        model = self.relation(semantic)
        if model is not None:
            yield from self._relation_alias(semantic, model)
            for group in _ELEMENTS:
                for element in item_nodes(semantic.get(group)):
                    yield from self._element_columns(element, model)
        type_ = value_nodes(value_nodes(document.get("metric")).get("type_params"))
        given = value_nodes(type_.get("metric_aggregation_params")).get("semantic_model")
        named = models.get(given.value) if isinstance(given, yaml.ScalarNode) else None
        if named is not None and "expr" in type_:
            yield from self._expression_columns(type_["expr"], named)
        configured = value_nodes(document.get("project_configuration"))
        for spine in map(value_nodes, item_nodes(configured.get("time_spines"))):
            model = self.relation(spine)
            if model is None:
                continue
            yield from self._relation_alias(spine, model)
            columns = [value_nodes(spine.get("primary_column")).get("name")]
            for grain in item_nodes(spine.get("custom_granularities")):
                columns.append(value_nodes(grain).get("column_name"))
            yield from self.columns(
                [one for one in columns if one is not None], Symbol("column", model)
            )

    def policies(self) -> Iterator[Mention]:
        found = {match[3].lower(): match for match in _QUOTED.finditer(self.text)}
        for name in self.reading.snapshots if found else ():
            for column in column_names(self.reading.snapshots, name) or ():
                match = found.get(column)
                if match is not None and match[2].lower() in (column, f"{name}.{column}"):
                    span = Span(self.path, match.start(2), match.end(2))
                    # The text may mean something else, so only its author can change it.
                    yield Mention(span, Symbol("column", name, column), by_hand=True)

    def relation(self, parts: Mapping[str, yaml.Node]) -> ModelName | None:
        given = value_nodes(parts.get("node_relation"))
        names = [given.get(key) for key in ("database", "schema_name", "alias")]
        texts = [one.value for one in names if isinstance(one, yaml.ScalarNode)]
        return self.reading.project.names.model_name_or_none(texts) if texts else None

    def _relation_alias(
        self, parts: Mapping[str, yaml.Node], model: ModelName
    ) -> Iterator[Mention]:
        alias = value_nodes(parts.get("node_relation")).get("alias")
        if isinstance(alias, yaml.ScalarNode):
            yield self.word(alias, Symbol("model", model))._replace(qualifies=True)

    def _element_columns(self, element: yaml.Node, model: ModelName) -> Iterator[Mention]:
        parts = value_nodes(element)
        if "expr" in parts:
            yield from self._expression_columns(parts["expr"], model)
            return
        key = next((key for key, _ in key_nodes(element) if key.value == "name"), None)
        name = parts.get("name")
        if key is None or not isinstance(name, yaml.ScalarNode):
            return
        flow = isinstance(element, yaml.MappingNode) and element.flow_style
        keeps = ", expr: {}" if flow else "\n" + " " * key.start_mark.column + "expr: {}"
        span = Span(self.path, name.start_mark.index, name.end_mark.index)
        yield Mention(span, Symbol("column", model, name.value.lower()), keeps=keeps)

    def _expression_columns(self, node: yaml.Node, model: ModelName) -> Iterator[Mention]:
        if not isinstance(node, yaml.ScalarNode):
            return
        start, is_written = self.start(node)
        try:
            found = read_expression(node.value).mentions if is_written else None
        except ValueError:
            found = None
        if found is not None:
            for parts, places in found:
                at = 1 if len(parts) > 1 and not self.has_column(model, parts[0]) else 0
                symbol = Symbol("column", model, parts[at].lower())
                span = Span(self.path, start + places[at][0], start + places[at][1])
                yield Mention(span, symbol)
            return
        yield from self.columns_by_hand(node, Symbol("column", model))

    def _dotted_name(self, node: yaml.ScalarNode) -> Iterator[Mention]:
        parts = node.value.split(".")
        model = named_model(self.reading, ".".join(parts[:2]))
        if model is None or len(parts) not in (2, 3):
            return
        start, is_written = self.start(node)
        end = start + len(".".join(parts[:2]))
        span = Span(self.path, start, end)
        yield Mention(span, Symbol("model", model), by_hand=not is_written)
        if parts[2:]:
            span = Span(self.path, end + 1, end + 1 + len(parts[2]))
            symbol = Symbol("column", model, parts[2].lower())
            yield Mention(span, symbol, by_hand=not is_written)
