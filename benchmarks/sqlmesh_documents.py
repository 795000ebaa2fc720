"""Every example of a model, macro, signal or audit in SQLMesh's documentation: which load here?

    python -m benchmarks.sqlmesh_documents CHECKOUT [--dialect duckdb]

CHECKOUT is a copy of SQLMesh's repository. Each block of code is a project of its own, completed by
what its page leaves out (a name, a query, imports, a seed's file, `...`). What does not load is
printed with its page, line and message; of blocks that need others of their page, that is right.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vde_dagster.errors import VdeError
from vde_dagster.project.loading.loader import load_project

_BLOCK = re.compile(r"^( *)```\s*(sql|python)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_SQL = re.compile(r"\b(MODEL|AUDIT)\s*\(")
_FOLDERS = {
    "@model(": "models",
    "@macro(": "macros",
    "@signal(": "signals",
    "(CustomMaterialization": "materializations",
}
_DOTS = re.compile(r"^\s*\.\.\.,?\s*$", re.MULTILINE)
_QUERY = "SELECT 1 AS id, 2 AS item_id, 3 AS name, 4 AS a, DATE '2024-01-01' AS ds"
_SEEDS = ("models/national_holidays.csv", "seeds/national_holidays.csv", "seeds/seed_example.csv")
_IMPORTS = (
    "from sqlmesh import CustomMaterialization, DatetimeRanges, ExecutionContext\n"
    "from sqlmesh import macro, model, signal\nfrom sqlglot import exp\n"
    "from sqlmesh.core.model.kind import ModelKindName\n"
    "from datetime import datetime\nimport typing as t\nimport pandas as pd\n"
)


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, path and text of each example on a page."""
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        code = "\n".join(line[len(found[1]) :] for line in found[3].splitlines())
        line = text.count("\n", 0, found.start()) + 1
        if found[2] == "python":
            folder = next((where for sign, where in _FOLDERS.items() if sign in code), None)
            if folder is not None:
                yield line, f"{folder}/m.py", _IMPORTS + code
        elif _SQL.search(code):
            yield line, "models/m.sql" if "MODEL" in code else "audits/m.sql", completed(code)


def completed(code: str) -> str:
    """Give a model the name and the query that its page leaves out."""
    code = _DOTS.sub("", code)
    head = re.search(r"MODEL\s*\(\s*", code)
    if head is None:
        return code
    if not re.search(r"^\s*name\b|\(\s*name\b", code, re.MULTILINE):
        code = f"{code[: head.end()]}name a.b, {code[head.end() :]}"
    if not re.search(r"\b(SELECT|WITH|FROM|SEED|JINJA_QUERY_BEGIN)\b", code, re.IGNORECASE):
        code = f"{code.rstrip().rstrip(';')};\n{_QUERY}\n"
    return code


def mistakes(path: str, text: str, dialect: str) -> list[str]:
    """Load a project of one example, and return what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        config = (
            f"gateways: {{g: {{}}}}\nmodel_defaults: {{dialect: {dialect}, start: 2024-01-01}}\n"
        )
        files = {**dict.fromkeys(_SEEDS, "name,date\nx,2024-01-01\n"), "config.yaml": config}
        files["models/z.sql"] = "MODEL (name z.z); SELECT 1 AS z"
        for name, content in {**files, path: text}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        try:
            project = load_project(root, strict=False, use_cache=False)
        except VdeError as error:
            return [str(error)]
        return [str(problem) for problem in project.problems]


def main() -> int:
    """Print what does not load, and how many examples there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path)
    parser.add_argument("--dialect", default="duckdb", help="of models that name none")
    said = parser.parse_args()
    if said.checkout is None:
        print("give a copy of SQLMesh's repository; nothing was loaded")
        return 0
    count = wrong = 0
    for page in sorted((said.checkout / "docs").rglob("*.md")):
        for line, path, text in blocks(page):
            found = mistakes(path, text, said.dialect)
            count += 1
            wrong += bool(found)
            for message in found[:1]:
                print(f"{page.relative_to(said.checkout)}:{line}: {message}")
    print(f"{count - wrong} of {count} examples load by themselves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
