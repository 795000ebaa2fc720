"""The application: its routes, its errors, and who may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from vde_dagster.serve.catalog_routes import catalog_routes
from vde_dagster.serve.errors import answer_errors
from vde_dagster.serve.loading import Loader
from vde_dagster.serve.served import Versions

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


def make_app(warehouse: Warehouse) -> FastAPI:
    """Return the application that serves a project's environments.

    Args:
        warehouse: The project's warehouse, which is read and never changed.
    """
    app = FastAPI(title="vde serve", description="Environments, read-only.", version="1")
    versions = Versions(warehouse)
    loader = Loader({})
    app.include_router(catalog_routes(versions, loader, {}))
    answer_errors(app)
    return app
