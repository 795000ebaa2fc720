"""The read routes of an Iceberg REST catalog: configuration, namespaces, tables and views.

Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from vde_dagster.base.names import ModelName
from vde_dagster.lakehouse.io.files import encode_metadata
from vde_dagster.programs.serve.errors import matches_tag, missing
from vde_dagster.programs.serve.loading import Loader
from vde_dagster.programs.serve.served import ServedVersion, ServedVersions, WarehouseName

_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLES, _VIEWS = f"{_NAMESPACE}/tables", f"{_NAMESPACE}/views"
_TABLE, _VIEW = f"{_TABLES}/{{table}}", f"{_VIEWS}/{{view}}"
ENDPOINTS = (
    *(f"GET {path}" for path in (_NAMESPACES, _NAMESPACE, _TABLES, _TABLE, _VIEWS, _VIEW)),
    *(f"HEAD {path}" for path in (_NAMESPACE, _TABLE, _VIEW)),
)
"""Endpoints in the configuration; clients do not call others."""
_SEPARATOR = "\x1f"
_JSON = "application/json"


def catalog_routes(versions: ServedVersions, loader: Loader) -> APIRouter:
    router = APIRouter(tags=["Iceberg REST catalog"])
    _add_configuration(router, versions)
    _add_namespaces(router, versions)
    _add_tables(router, versions, loader)
    _add_views(router, versions, loader)
    return router


def _add_configuration(router: APIRouter, versions: ServedVersions) -> None:
    @router.get("/v1/config")
    def configuration(warehouse: str = Query(min_length=1)) -> Response:
        """Return a warehouse's path prefix, with a version unless the name ends with `live`."""
        name = WarehouseName.parse(warehouse)
        version = versions.find(name).version.version
        prefix = name if name.live else name.at(version)
        answer = {
            # Clients are told of no expiry, and tokens cannot be exchanged.
            "defaults": {"token-refresh-enabled": "false"},
            "overrides": {"prefix": str(prefix)},
            "endpoints": list(ENDPOINTS),
        }
        return _json_response(answer)


def _add_namespaces(router: APIRouter, versions: ServedVersions) -> None:
    @router.get(_NAMESPACES)
    def namespaces(prefix: str, parent: str = "") -> Response:
        """List namespaces; they have one level."""
        served = _find_version(versions, prefix)
        if parent:
            _require_namespace(served, parent)
            return _json_response({"namespaces": []})
        return _json_response({"namespaces": [[name] for name in served.namespaces]})

    @router.get(_NAMESPACE)
    def namespace(prefix: str, namespace: str) -> Response:
        """Describe a namespace."""
        served = _find_version(versions, prefix)
        version = served.version
        properties = {"vde.environment": version.name, "vde.version": str(version.version)}
        return _json_response(
            {"namespace": [_require_namespace(served, namespace)], "properties": properties}
        )

    @router.head(_NAMESPACE, status_code=204)
    def has_namespace(prefix: str, namespace: str) -> None:
        """Check that a namespace exists."""
        _require_namespace(_find_version(versions, prefix), namespace)


def _add_tables(router: APIRouter, versions: ServedVersions, loader: Loader) -> None:
    @router.get(_TABLES)
    def tables(prefix: str, namespace: str) -> Response:
        """List the models that have a table, and the external tables."""
        served = _find_version(versions, prefix)
        return _list_identifiers(
            (*served.tables, *served.externals), _require_namespace(served, namespace)
        )

    @router.get(_TABLE)
    def load_table(
        prefix: str, namespace: str, table: str, if_none_match: Annotated[str, Header()] = ""
    ) -> Response:
        """Return a table's metadata at the snapshot that the version shows."""
        served, name = _find_name(versions, prefix, namespace, table)
        answer = loader.table(served, name)
        headers = {"ETag": answer.tag}
        if matches_tag(answer.tag, if_none_match):
            return Response(status_code=304, headers=headers)
        return Response(answer.content, headers=headers, media_type=_JSON)

    @router.head(_TABLE, status_code=204)
    def has_table(prefix: str, namespace: str, table: str) -> None:
        """Check that a table exists."""
        served, name = _find_name(versions, prefix, namespace, table)
        if name not in served.tables and name not in served.externals:
            raise missing("Table", f"the table {name} does not exist")


def _add_views(router: APIRouter, versions: ServedVersions, loader: Loader) -> None:
    @router.get(_VIEWS)
    def views(prefix: str, namespace: str) -> Response:
        """List the models that are views."""
        served = _find_version(versions, prefix)
        return _list_identifiers(served.views, _require_namespace(served, namespace))

    @router.get(_VIEW)
    def load_view(prefix: str, namespace: str, view: str) -> Response:
        """Return a view's metadata, with its query by dialect."""
        served, name = _find_name(versions, prefix, namespace, view)
        catalog = WarehouseName.parse(prefix).catalog
        return Response(loader.view(served, name, catalog).content, media_type=_JSON)

    @router.head(_VIEW, status_code=204)
    def has_view(prefix: str, namespace: str, view: str) -> None:
        """Check that a view exists."""
        served, name = _find_name(versions, prefix, namespace, view)
        if name not in served.views:
            raise missing("View", f"the view {name} does not exist")


def _find_version(versions: ServedVersions, prefix: str) -> ServedVersion:
    return versions.find(WarehouseName.parse(prefix))


def _find_name(
    versions: ServedVersions, prefix: str, namespace: str, name: str
) -> tuple[ServedVersion, ModelName]:
    served = _find_version(versions, prefix)
    asked = ModelName(namespace.lower(), name.lower())
    # Iceberg's Java client sends a blank as a plus sign, as forms do.
    meant = ModelName(*(part.replace("+", " ") for part in asked))
    return served, meant if served.has(meant) and not served.has(asked) else asked


def _require_namespace(served: ServedVersion, text: str) -> str:
    for name in (text.lower(), text.lower().replace("+", " ")):
        if _SEPARATOR not in name and name in served.namespaces:
            return name
    raise missing("Namespace", f"the namespace {text.replace(_SEPARATOR, '.')} does not exist")


def _list_identifiers(names: Iterable[ModelName], namespace: str) -> Response:
    found = sorted(one.name for one in names if one.namespace == namespace)
    return _json_response(
        {"identifiers": [{"namespace": [namespace], "name": name} for name in found]}
    )


def _json_response(answer: dict[str, Any]) -> Response:
    return Response(encode_metadata(answer), media_type=_JSON)
