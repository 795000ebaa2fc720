"""Properties of a `MODEL (…)` header and of its kind, and their JSON Schema."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vde_dagster.base.cron import shortest_gap_seconds
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.project.kinds import KINDS, Kind, View, kind_names
from vde_dagster.project.kinds.base import kind_schema
from vde_dagster.project.model import Column
from vde_dagster.project.properties.execution import read_execution
from vde_dagster.project.properties.header import Header
from vde_dagster.project.properties.times import read_length, read_times
from vde_dagster.project.property_value import Value
from vde_dagster.project.settings import Settings
from vde_dagster.sql.expressions import in_spark
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.scanner import NESTED_HINT, SourceText, find_too_deep

if TYPE_CHECKING:
    from sqlglot import exp


NO_DEFAULTS: Mapping[str, Value] = MappingProxyType({})

_UNSUPPORTED = {
    "MANAGED": (
        "Spark has no tables that the engine refreshes",
        "use FULL with a cron, or an incremental kind",
    )
}

_KINDS_BY_MATERIALIZATION = {
    "TABLE": "FULL",
    "EPHEMERAL": "EMBEDDED",
    "SNAPSHOT": "SCD_TYPE_2_BY_TIME or SCD_TYPE_2_BY_COLUMN",
    "MATERIALIZED_VIEW": "FULL",
    "DYNAMIC_TABLE": "FULL",
}
"""Kinds to suggest if the name of a dbt materialization is written as a kind."""

_IGNORED = (
    *("on_destructive_change", "on_additive_change", "disable_restatement"),
    *("dialect", "partition_by_time_column"),
)


def read_kind(
    value: Value,
    dialect: str = "spark",
    defaults: Mapping[str, Value] = NO_DEFAULTS,
    trusted: frozenset[str] = frozenset(),
) -> Kind:
    """Read the property `kind`: `FULL`, or `SEED (path 'a.csv')`.

    Args:
        dialect: SQLGlot dialect of SQL in the value.
        defaults: Default values of the kind's properties.
        trusted: Functions of the dialect that are assumed to be equal on Spark.
    """
    if not value.tokens:
        raise value.error("property 'kind' has no value", f"kinds: {', '.join(kind_names())}")
    name = value.tokens[0].text.upper().strip("'\"")
    if name in _UNSUPPORTED:
        why, hint = _UNSUPPORTED[name]
        raise value.error(f"kind {name} is not supported: {why}", hint)
    try:
        kind = KINDS.named(name)
    except UsageError as error:  # a broken plug-in
        raise value.error(error.message, error.hint) from error
    if kind is None:
        raise value.error(f"unknown kind '{name}'", _similar_kinds(name))
    written = dataclasses.replace(value, dialect=dialect, trusted=trusted).properties(after=1)
    _check_kind_properties(name, kind, written)
    defaulted = {item.name for item in kind.properties if item.has_default}
    defaults = {key: one for key, one in defaults.items() if key in defaulted}
    written = {**defaults, **written}
    given = {}
    for item in kind.properties:
        if item.name in written:
            given[item.name] = item.read(written[item.name])
        elif item.required:
            raise value.error(
                f"kind {name} requires '{item.name}'", f"write kind {name} ({item.name} …)"
            )
    try:
        return kind.from_properties(given)
    except ValueError as error:
        raise value.error(f"kind {name}: {error}") from error


def _similar_kinds(name: str) -> str:
    if name in _KINDS_BY_MATERIALIZATION:
        return f"write {_KINDS_BY_MATERIALIZATION[name]}"
    alike = sorted(kind for kind in kind_names() if kind.startswith(name))
    if len(alike) > 1:
        return f"did you mean {', '.join(alike[:-1])} or {alike[-1]}?"
    return suggest(name, kind_names(), "kinds")


def _check_kind_properties(name: str, kind: type[Kind], written: dict[str, Value]) -> None:
    own = {item.name for item in kind.properties} | kind.ignored
    for key, value in written.items():
        value.require_comma(own)
        if key in own or key in _IGNORED:
            continue
        message, hint = f"kind {name} has no property '{key}'", ""
        if key == "batch_concurrency":
            if value.integer() == 1:
                continue
            hint = f"batches of kind {name} run one after the other, so it must be 1"
        elif key == "forward_only":
            if not value.boolean():
                continue
            hint = "models of this kind do not change in place"
        if hint:
            raise value.source.error(f"property '{key}': {hint}", value.start, "remove it")
        raise value.source.error(message, value.start, suggest(key, own, "properties of this kind"))


DECLARED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("declared.json").read_text("utf-8")
)
"""Properties of `MODEL (…)` headers and Python models, with JSON Schema and defaults."""
READ = frozenset(DECLARED)

OWN_PROPERTIES = ("vde.", "spark.query-column-names")
"""Prefixes of view properties that only the publication sets."""

METADATA = {
    "references": "joins are read from the queries",
    "validate_query": "every query is checked while planning",
    "project": "a model belongs to the project whose folder has its file",
    "optimize_query": "Spark runs queries as written",
    "assertions": "write them as audits (…)",
    "gateway": "there is one engine, Spark",
    "session_properties": "models share one Spark session; write SET before the query",
    "grants": "Iceberg has no grants; if the catalog has them, write GRANT between "
    "ON_VIRTUAL_UPDATE_BEGIN; and its END",
    "grants_target_layer": "Iceberg has no grants",
}
"""Properties of SQLMesh that are ignored because they do not affect the data, with reasons."""

REFUSED = {
    "on_virtual_update": "write statements after the query, between ON_VIRTUAL_UPDATE_BEGIN; and "
    "ON_VIRTUAL_UPDATE_END;",
    "jinja_macros": "write Jinja macros in macros/*.sql",
}
"""Properties of SQLMesh that are refused, with hints."""


@dataclass(frozen=True, slots=True)
class ModelProperties:
    """The checked properties of a `MODEL (…)` header.

    Args:
        name: Name as written; empty if the model's path defines it.
        kind: The kind, with a seed's path as written.
        dialect: SQLGlot dialect of the statements that follow.
        enabled: Whether the model is part of the project.
        fields: The remaining fields of `Model`.
        depends_on: Declared dependencies, as written.
    """

    name: str
    kind: Kind
    dialect: str
    enabled: bool
    fields: dict[str, Any]
    audits: tuple[Value, ...]
    signals: tuple[Value, ...]
    depends_on: tuple[Value, ...]


def read_model_properties(
    header: Header, settings: Settings, defaults: Mapping[str, Value] = NO_DEFAULTS
) -> ModelProperties:
    """Read and check the properties of a `MODEL (…)` header."""
    _check_property_names(header)
    of_kinds = {key: defaults[key] for key in OF_KINDS if key in defaults}
    instead = {key: v for key, v in defaults.items() if key not in (*OF_KINDS, *JOINED)}
    given = {**instead, **header.properties}
    if "name" not in given and not settings.infer_names:
        raise header.source.error(
            "the MODEL header has no name", header.start, "write MODEL (name schema.model, …);"
        )
    dialect = given["dialect"].supported_dialect() if "dialect" in given else settings.dialect
    own_trust = given["dialect_trust"].texts() if "dialect_trust" in given else ()
    trusted = frozenset(name.lower() for name in (*settings.dialect_trust, *own_trust))
    kind = read_kind(given["kind"], dialect, of_kinds, trusted) if "kind" in given else View()
    kind = kind.with_time_format(settings.time_column_format)
    for needed in kind.needs:
        if needed not in given:
            raise given["kind"].error(
                f"kind {kind.name} requires the model's property '{needed}'",
                f"add {needed} (…) to MODEL (…)",
            )

    def read(name: str, how: Callable[[Value], Any], default: Any = None) -> Any:
        return how(given[name]) if name in given else default

    described: dict[str, Value] = dict(read("column_descriptions", Value.pairs, []))
    fields: dict[str, Any] = {
        "columns": read("columns", partial(_read_columns, described, dialect), ()),
        "column_descriptions": {key: value.text() for key, value in described.items()},
        **read_times(given, settings),
        **read_execution(given),
        "owner": read("owner", Value.text) or settings.owner,
        "description": read("description", Value.text) or header.comment,
        "stamp": read("stamp", Value.text),
        "physical_version": read("physical_version", partial(_read_physical_version, kind)),
        "dialect_trust": tuple(
            sorted(trusted if dialect != "spark" else map(str.lower, own_trust))
        ),
        "skip_unchanged": read("skip_unchanged", Value.boolean),
        "tags": read("tags", Value.texts, ()),
        "partitioned_by": read("partitioned_by", partial(_read_partitions, dialect, trusted), ()),
        "clustered_by": read("clustered_by", _read_sort_columns, ()),
        "table_properties": _read_table_properties(given, defaults),
        "grains": _read_grains(given),
        "ignored_rules": tuple(rule.lower() for rule in read("ignored_rules", Value.texts, ())),
        "virtual_properties": _read_virtual_properties(given, defaults),
    }
    fields["freshness"] = read("freshness", partial(_read_freshness, kind, fields["cron"]))
    audits = [one["audits"].items() for one in (defaults, given) if "audits" in one]
    return ModelProperties(
        name=read("name", Value.identifier, ""),
        kind=kind,
        dialect=dialect,
        enabled=read("enabled", Value.boolean, True),
        fields=fields,
        audits=tuple(chain.from_iterable(audits)),
        signals=tuple(read("signals", Value.items, [])),
        depends_on=tuple(read("depends_on", Value.items, [])),
    )


def _check_property_names(header: Header) -> None:
    for name, value in header.properties.items():
        value.require_comma(READ)
        if name in READ or name in METADATA or name == "default_catalog":
            continue
        message, hint = f"unknown property '{name}'", suggest(name, READ, "properties")
        if name in REFUSED:
            message, hint = f"property '{name}': {REFUSED[name]}", "remove it"
        raise header.source.error(message, value.start, hint)


def _read_partitions(dialect: str, trusted: frozenset[str], value: Value) -> tuple[str, ...]:
    if dialect == "spark":
        return value.raws()
    made = []
    for item in value.items():
        try:
            made.append(in_spark(item.raw, dialect, trusted, is_partition=True))
        except ValueError as problem:
            hint = "write columns, or Iceberg's transforms of them such as days(at)"
            raise item.error(f"property 'partitioned_by': {problem}", hint) from problem
    return tuple(made)


def _read_sort_columns(value: Value) -> tuple[str, ...]:
    for item in value.items():
        if not item.tokens or item.tokens[0].kind not in ("word", "quoted"):
            raise value.error(
                f"property 'clustered_by' takes columns, but '{item.raw}' is not a column",
                "write clustered_by (column, …)",
            )
    return value.raws()


def _read_physical_version(kind: Kind, value: Value) -> str | None:
    if not kind.forward_only:
        raise value.error(
            f"property 'physical_version' requires a model that changes in place; a model of kind "
            f"{kind.name} gets a new table whenever its definition changes",
            "write forward_only true in its kind, or change its stamp to compute it again",
        )
    if not value.text():
        raise value.error("property 'physical_version' is empty", "write a name such as '2'")
    return value.text()


def _read_freshness(kind: Kind, cron: str, value: Value) -> int:
    if not kind.owns_table or not kind.has_query:
        raise value.error(
            "property 'freshness' requires a table that is filled repeatedly, unlike kind "
            f"{kind.name}",
            "set it on parents or readers of this model that have a table",
        )
    seconds = read_length(value)
    if seconds < shortest_gap_seconds(cron):
        raise value.error(
            f"'{value.text()}' is shorter than the time between two ticks of the model's cron "
            f"'{cron}'",
            "set a longer time, or a more frequent cron",
        )
    return seconds


def _read_columns(described: Mapping[str, Value], dialect: str, value: Value) -> tuple[Column, ...]:
    columns: list[Column] = []
    for item in value.items(angles=True):
        if not item.tokens:
            raise value.error("a column is empty", "write columns (name TYPE, …)")
        name = item.tokens[0].text.strip('`"')
        rest = item.part(list(item.tokens[1:]))
        _require_commas(rest)
        type_ = canonical_type(rest.raw, dialect, rest.error) if rest.tokens else None
        if any(column.name.lower() == name.lower() for column in columns):
            raise item.error(f"column '{name}' is declared twice in columns", "remove one of them")
        text = described.get(name)
        columns.append(Column(name, type_, text.text() if text else None))
    return tuple(columns)


def _require_commas(type_: Value) -> None:
    tokens = type_.tokens
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        ends = before.text.upper() in _SIMPLE_TYPES or before.text in (">", ")")
        is_name = token.kind in ("word", "quoted") and not token.is_word(*_AFTER_TYPES)
        if ends and is_name and (after.kind == "word" or after.text == ":"):
            raise type_.missing_comma(token, before)


_FORMATS = ("parquet", "orc", "avro")
_SIMPLE_TYPES = (
    *("INT", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT"),
    *("STRING", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY"),
)
_AFTER_TYPES = (
    *("NOT", "NULL", "COMMENT", "COLLATE", "WITH", "WITHOUT", "CHARACTER", "DEFAULT", "PRIMARY"),
    *("UNIQUE", "CHECK", "REFERENCES", "OPTIONS", "GENERATED", "UNSIGNED", "PRECISION"),
)
"""Words that can follow a type in the same column, such as NOT in `id INT NOT NULL`."""


def canonical_type(
    text: str, dialect: str, error: Callable[[str, str | None], ProjectError]
) -> str:
    """Return a type as Spark SQL writes it: `BIGINT` for `int8` in PostgreSQL's dialect."""
    if dialect == "spark" and text.upper() in _SIMPLE_TYPES:
        return text.upper()
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.other_dialects.calls import rewrite_calls
    from vde_dagster.sql.reading import parse_type

    if find_too_deep(SourceText(Path("type"), text)) is not None:
        raise error(f"the type '{text}' is nested too deeply", NESTED_HINT)
    if any(text.count(begin) != text.count(end) for begin, end in ("<>", "()", "[]")):
        # SQLGlot closes open brackets silently.
        raise error(f"'{text}' is not a type", "close its brackets")
    try:
        type_ = parse_type(text, dialect)
    except (SqlglotError, ValueError, TypeError):  # The compiled build raises TypeError.
        raise error(f"'{text}' is not a type", suggest(text, _SIMPLE_TYPES, "types")) from None
    if not _is_type(type_):
        raise error(f"'{text}' is not a type", suggest(text, _SIMPLE_TYPES, "types"))
    try:
        return rewrite_calls(type_, dialect).sql(dialect="spark")
    except Unwritable as problem:
        raise error(f"the type '{text}' cannot be written in Spark SQL: {problem}", None) from None


def _is_type(found: exp.Expr) -> bool:
    from sqlglot import exp

    if not isinstance(found, exp.DataType) or found.this == exp.DType.USERDEFINED:
        return False
    return not any(part.args.get("values") for part in found.find_all(exp.DataType))


def _merge_property(name: str, *given: Mapping[str, Value]) -> dict[str, Value]:
    # The value NULL removes a key.
    pairs: dict[str, Value] = {}
    for one in given:
        if name in one:
            pairs |= dict(one[name].pairs())
    return {key: value for key, value in pairs.items() if value.raw.upper() != "NULL"}


def _read_table_properties(
    given: Mapping[str, Value], defaults: Mapping[str, Value]
) -> tuple[tuple[str, str], ...]:
    properties = {
        key: _property_text(value)
        for name in ("table_properties", "physical_properties")
        for key, value in _merge_property(name, defaults, given).items()
    }
    if "table_format" in given and given["table_format"].text().lower() != "iceberg":
        raise given["table_format"].error("tables are Iceberg tables", "remove 'table_format'")
    if "storage_format" in given:
        value = given["storage_format"]
        text = value.text().lower()
        if text not in _FORMATS:
            hint = suggest(text, _FORMATS, "formats")
            raise value.error(f"'{text}' is not an Iceberg file format", hint)
        properties.setdefault("write.format.default", text)
    return tuple(sorted(properties.items()))


def _read_virtual_properties(
    given: Mapping[str, Value], defaults: Mapping[str, Value]
) -> tuple[tuple[str, str], ...]:
    pairs = _merge_property("virtual_properties", defaults, given)
    for key, text in pairs.items():
        if key == "comment" or key.startswith(OWN_PROPERTIES):
            raise text.error(
                f"the property '{key}' of views is reserved for vde",
                "remove it; to set a view's comment, write the model's description",
            )
    return tuple(sorted((key, _property_text(text)) for key, text in pairs.items()))


def _property_text(value: Value) -> str:
    brackets = [token for token in value.tokens[:2] if token.text in ("(", "[")]
    return value.raw if brackets and value.tokens[-1].text in (")", "]") else value.text()


def _read_grains(given: Mapping[str, Value]) -> tuple[tuple[str, ...], ...]:
    grains = [given["grain"]] if "grain" in given else []
    grains += given["grains"].items() if "grains" in given else []
    return tuple(map(_grain_columns, grains))


def _grain_columns(value: Value) -> tuple[str, ...]:
    found = []
    for item in value.items():
        if len(item.tokens) == 3 and item.tokens[1].is_word("AS"):
            item = item.part(list(item.tokens[:1]))
        found.append(item.text())
    return tuple(found)


STATEMENTS = ("pre_statements", "post_statements", "on_virtual_update")
"""Properties with SQL statements; the defaults run before a model's own statements."""
OF_KINDS = ("on_destructive_change", "on_additive_change", "batch_concurrency", "refresh")
"""Properties that exist only for some kinds, see `Property.has_default`."""
JOINED = ("physical_properties", "virtual_properties", "audits")
"""Properties whose defaults are added to a model's own values."""
PROPERTIES = (
    *("kind", "start", "table_format", "storage_format", "allow_partials", "interval_unit"),
    *("enabled", *OF_KINDS, *JOINED),
)


def model_schema() -> dict[str, Any]:
    """Return the JSON Schema of the supported properties of models."""
    plain = sorted(READ.union(METADATA) - set(REFUSED) - {"name", "kind"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A model's properties",
        "type": "object",
        "properties": {
            "name": DECLARED["name"],
            "kind": {**DECLARED["kind"], **kind_schema()},
            **{name: DECLARED.get(name, {}) for name in plain},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
