"""Private modules of Dagster are imported in one module, which a new release of it may change."""

from __future__ import annotations

import ast
from pathlib import Path

import vde_dagster

PACKAGE = Path(vde_dagster.__file__).parent
PRIVATE = "dagster_private.py"


def private_imports(source: str) -> list[str]:
    """Return the private modules of Dagster and its integrations that a module imports."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            modules += [f"{node.module}.{one.name}" for one in node.names if node.level == 0]
        elif isinstance(node, ast.Import):
            modules += [one.name for one in node.names]
    return [
        module
        for module in modules
        if module.partition("_")[0].rstrip(".") in ("dagster", "dagster.pyspark")
        and any(part.startswith("_") for part in module.split("."))
    ]


def test_one_module_imports_what_dagster_does_not_export() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if private_imports(path.read_text("utf-8"))
    }
    assert found == {f"orchestration/{PRIVATE}"}


def test_each_form_of_an_import_is_found() -> None:
    source = "import dagster._core.x\nfrom dagster._check import A\nfrom dagster import _core\n"
    assert len(private_imports(source)) == 3
    assert private_imports("import dagster as dg\nfrom dagster import asset\n") == []
