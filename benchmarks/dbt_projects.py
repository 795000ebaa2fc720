"""dbt projects that lie on this machine: how many of their nodes are models here, and how fast.

`python -m benchmarks.dbt_projects PROJECT … [--copies N] [--problems]`
`python -m benchmarks.dbt_projects PROJECT … --dbt EXECUTABLE [--adapter NAME] [--problems]`

A project is a folder with `dbt_project.yml` and a `target/manifest.json` that `dbt compile` made;
nothing is fetched or compiled. Each is copied first, so that nothing is written into it. `--copies`
reads every model of it N times under other names, to see how time grows. Seconds are CPU seconds of
a process of its own: all nodes read, none changed, and one changed.

With `--dbt` each project is compiled as a plan does it, without a warehouse, for the adapter
(DuckDB by default), and nodes that are left out for that are counted, too; packages lie in
`dbt_packages`.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

MANIFEST = "target/manifest.json"
_LOAD = """
import json, sys, time
from pathlib import Path
from vde_dagster.project.loading.loader import load_project
began = time.process_time()
project = load_project(Path(sys.argv[1]), strict=False)
seconds = time.process_time() - began
print(json.dumps({
    "seconds": seconds,
    "kinds": [model.kind.name for model in project.models.values()],
    "audits": sum(len(model.audits) for model in project.models.values()),
    "problems": [str(one) for one in project.problems],
    "warnings": [one.message for one in project.warnings],
}))
"""


def main() -> int:
    """Load each project three times, and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("projects", nargs="*", type=Path)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--problems", action="store_true", help="print each mistake and warning")
    parser.add_argument("--dbt", type=Path, help="a dbt that compiles each project")
    parser.add_argument("--adapter", default="duckdb")
    said = parser.parse_args()
    if not said.projects:
        print("give folders of dbt projects that `dbt compile` has run in; nothing was loaded")
        return 0
    if said.dbt:
        return _compile_all(said.projects, said.dbt.resolve(), said.adapter, said.problems)
    print(f"{'project':30} nodes models audits refused   first unchanged one edit  kinds")
    for project in said.projects:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / project.name
            ignored = shutil.ignore_patterns(".git", ".vde", "compiled", "run", "logs", "*.duckdb")
            shutil.copytree(project, root, ignore=ignored, symlinks=True)
            manifest = json.loads((root / MANIFEST).read_text())
            _multiply(manifest, said.copies)
            _write(root, manifest)
            first, unchanged = _load(root), _load(root)
            _edit(manifest)
            _write(root, manifest)
            edited = _load(root)
        nodes = len(manifest["nodes"]) + len(manifest["sources"])
        kinds = ", ".join(f"{kind} {n}" for kind, n in Counter(first["kinds"]).most_common())
        print(
            f"{project.name:30} {nodes:5} {len(first['kinds']):6} {first['audits']:6} "
            f"{len(first['problems']):7} {first['seconds']:7.2f} {unchanged['seconds']:9.2f} "
            f"{edited['seconds']:8.2f}  {kinds}",
            flush=True,
        )
        for text in (*first["problems"], *first["warnings"]) if said.problems else ():
            print(f"  {text}")
    return 0


def _compile_all(projects: list[Path], dbt: Path, adapter: str, told: bool) -> int:
    """Let dbt compile each project without a warehouse, and print a line for each."""
    print(f"{'project':30} models audits refused  left out")
    for project in projects:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / project.name
            ignored = shutil.ignore_patterns(".git", ".vde", "target", "logs", "*.duckdb")
            shutil.copytree(project, root, ignore=ignored, symlinks=True)
            write_dbt_settings(root, dbt, adapter)
            found = _load(root)
        left_out = [one for one in found["warnings"] if "left out" in one]
        counted = re.match(r"(.*) of the dbt project", left_out[0]) if left_out else None
        print(
            f"{project.name:30} {len(found['kinds']):6} {found['audits']:6} "
            f"{len(found['problems']):7}  {counted[1] if counted else 'nothing'}",
            flush=True,
        )
        for text in (*found["problems"], *found["warnings"]) if told else ():
            print(f"  {text}")
    return 0


def write_dbt_settings(root: Path, dbt: Path, adapter: str) -> None:
    """Write a profile without a warehouse, and the settings for a dbt that compiles a project."""
    profile = yaml.safe_load((root / "dbt_project.yml").read_text())["profile"]
    output = {"type": adapter, "schema": "main"}
    output |= {"path": f"{root.parent}/none.duckdb"} if adapter == "duckdb" else {}
    output |= {"method": "session", "host": "none"} if adapter == "spark" else {}
    profiles = {profile: {"target": "dev", "outputs": {"dev": output}}}
    (root / "profiles.yml").write_text(yaml.safe_dump(profiles))
    (root / "pyproject.toml").write_text(
        f"[tool.vde]\nname = 'counted'\n[tool.vde.dbt]\nexecutable = '{dbt}'\nprofiles_dir = '.'\n"
    )


def _multiply(manifest: dict[str, Any], copies: int) -> None:
    """Add copies of the models and their tests, which read what the models read that they copy."""
    nodes = manifest["nodes"]
    models = {one: node for one, node in nodes.items() if node["resource_type"] == "model"}
    tests = [node for node in nodes.values() if node["resource_type"] == "test"]
    for number in range(1, copies):
        for unique_id, node in models.items():
            if node["config"].get("materialized") == "ephemeral":
                continue
            made = copy.deepcopy(node)
            made["unique_id"] = f"{unique_id}_{number}"
            made["alias"] = f"{node['alias']}_{number}"
            made["relation_name"] = node["relation_name"].replace(node["alias"], made["alias"])
            nodes[made["unique_id"]] = made
        for node in tests:
            if node.get("attached_node") not in models:
                continue
            made = copy.deepcopy(node)
            made["unique_id"] = f"{node['unique_id']}_{number}"
            made["attached_node"] = f"{node['attached_node']}_{number}"
            nodes[made["unique_id"]] = made


def _edit(manifest: dict[str, Any]) -> None:
    """Change the last model's query."""
    models = [one for one in manifest["nodes"].values() if one["resource_type"] == "model"]
    if models:
        models[-1]["compiled_code"] = f"{models[-1].get('compiled_code')}\n-- edited"


def _write(root: Path, manifest: dict[str, Any]) -> None:
    (root / MANIFEST).write_text(json.dumps(manifest))


def _load(root: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, str(root)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{root.name}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    raise SystemExit(main())
