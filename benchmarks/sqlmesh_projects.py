"""Public SQLMesh projects, loaded by SQLMesh itself and by us: are they the same?

`python -m benchmarks.sqlmesh_projects CHECKOUTS [--fetch] [--only TEXT] [--out FOLDER]`

CHECKOUTS has a folder `owner+name` per repository of `oracle/projects.txt`; `--fetch` makes them.
SQLMesh is installed in an environment of its own (its SQLGlot is not ours), and only loads: no
project connects to anything. One that hangs or fails is a line of the table like any other.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.oracle.compare import Compared, compare
from benchmarks.oracle.we_say import PACKAGES as PACKAGES_VARIABLE

HERE = Path(__file__).parent / "oracle"
PACKAGES = (
    "dlt",
    "ibis-framework",
    "polars",
    "pyarrow",
    "pyyaml",
    "faker",
    "agate",
    "networkx",
    "pytest",
)
"""What projects' own code imports."""
WHEN = ("2024-01-02", "2024-01-03", "2024-01-05")
ASPECTS = ("name", "kind", "dependencies", "query", "plain", "audits", "properties")


def main() -> int:
    """Compare, and print the table and what is in the way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="?", type=Path)
    parser.add_argument("--list", type=Path, default=HERE / "projects.txt")
    parser.add_argument("--only", default="", help="projects whose name has this text")
    parser.add_argument("--environment", type=Path, help="where SQLMesh is, or is installed")
    parser.add_argument("--out", type=Path, help="keeps answers there, and uses SQLMesh's again")
    parser.add_argument("--timeout", type=int, default=180, help="seconds for one project")
    parser.add_argument("--fetch", action="store_true", help="clone what is missing")
    said = parser.parse_args()
    if said.checkouts is None:
        print("give a folder of checkouts (with --fetch they are cloned); nothing was compared")
        return 0
    python = _environment(said.environment or said.checkouts / ".sqlmesh")
    results: dict[str, Compared | str] = {}
    for repository, commit, folder in read_projects(said.list):
        name = repository if folder == "." else f"{repository} {folder}"
        if said.only.lower() not in name.lower():
            continue
        checkout = said.checkouts / repository.replace("/", "+")
        if said.fetch and not checkout.is_dir():
            _fetch(repository, commit, checkout)
        results[name] = _one(name, checkout / folder, python, said)
        print(f"{_row(name, results[name])}", flush=True)
    print()
    _summary(results)
    print(f"\ndbt projects beside them, not compared: {', '.join(_dbt(said)) or 'none'}")
    return 0


def read_projects(file: Path) -> list[tuple[str, str, str]]:
    """Read the list of projects: repository, commit and folder of each."""
    lines = [line.split(" ", 2) for line in file.read_text().splitlines() if line[:1] not in "#"]
    return [(repository, commit, folder) for repository, commit, folder in lines]


def _dbt(said: argparse.Namespace) -> list[str]:
    """Name the dbt projects of the listed repositories, without what they install and test with."""
    repositories = sorted({repository for repository, _, _ in read_projects(said.list)})
    found = []
    for repository in repositories:
        checkout = said.checkouts / repository.replace("/", "+")
        for file in sorted(checkout.glob("**/dbt_project.yml")):
            folder = file.parent.relative_to(checkout)
            if not {"dbt_packages", "packages", "tests", "integration_tests"} & set(folder.parts):
                found.append(f"{repository} {folder.as_posix()}")
    return found


def _environment(folder: Path) -> Path:
    """Make an environment with the newest SQLMesh, where there is none yet; return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", str(folder), "-p", sys.executable], check=True)
        install = [*uv, "pip", "install", "-p", str(python)]
        subprocess.run([*install, "sqlmesh", *PACKAGES], check=True)
        extra = str(folder / "packages")
        subprocess.run([*install, "--target", extra, *PACKAGES], check=True)
    return python.absolute()


def _fetch(repository: str, commit: str, checkout: Path) -> None:
    """Clone one commit; where that fails nothing is left, so that the next run tries again."""
    checkout.mkdir(parents=True)
    url = f"https://github.com/{repository}.git"
    for command in (
        ["init", "-q"],
        ["fetch", "-q", "--depth", "1", url, commit],
        ["checkout", "-q", "FETCH_HEAD"],
    ):
        if subprocess.run(["git", "-C", str(checkout), *command], check=False).returncode:
            print(f"{repository} cannot be fetched: git {command[0]} failed")
            shutil.rmtree(checkout)
            return


def _one(name: str, project: Path, python: Path, said: argparse.Namespace) -> Compared | str:
    if not project.is_dir():
        return "there is no checkout"
    kept = said.out / re.sub(r"\W+", "_", name) if said.out else None
    theirs_file = kept.with_suffix(".sqlmesh.json") if kept else None
    if theirs_file is not None and theirs_file.exists():
        theirs = json.loads(theirs_file.read_text())
    else:
        theirs = _ask([str(python), str(HERE / "sqlmesh_says.py")], project, said.timeout)
    given = dict.fromkeys(theirs.get("environment", ()), "x")
    given[PACKAGES_VARIABLE] = str(python.parent.parent / "packages")
    ours = _ask([sys.executable, "-m", "benchmarks.oracle.we_say"], project, said.timeout, given)
    if kept is not None and theirs_file is not None:
        said.out.mkdir(parents=True, exist_ok=True)
        if theirs["models"]:
            theirs_file.write_text(json.dumps(theirs, indent=1))
        kept.with_suffix(".ours.json").write_text(json.dumps(ours, indent=1))
    if theirs["problem"] and not theirs["models"]:
        return f"SQLMesh does not load it: {' '.join(theirs['problem'].split())[:150]}"
    result = compare(theirs, ours)
    if kept is not None:
        lines = [f"{model}\t{what}\t{text}\n" for model, what, text in result.differences]
        kept.with_suffix(".differences.tsv").write_text("".join(lines))
    return result


def _ask(
    command: list[str], project: Path, timeout: int, given: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run one side in a process of its own, and read the JSON that it prints last."""
    nothing: dict[str, Any] = {"models": {}, "tests": [], "problems": [], "problem": None}
    here = str(Path(__file__).parent.parent.absolute())
    environment = {**os.environ, "PYTHONPATH": here, "MAX_FORK_WORKERS": "1", **(given or {})}
    try:
        done = subprocess.run(
            [*command, str(project.absolute()), *WHEN],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            cwd=project,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {**nothing, "problem": f"no answer within {timeout} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return {**nothing, **json.loads(line)}
    return {**nothing, "problem": f"no answer: {done.stderr.strip()[-500:]}"}


def _row(name: str, result: Compared | str) -> str:
    short = name if len(name) < 58 else name[:57] + "…"
    if isinstance(result, str):
        return f"{short:58} {result}"
    counts = " ".join(f"{result.equal[what]:5}" for what in ASPECTS)
    first = result.blocked.most_common(1)
    why = first[0][0] if first else next((f"{w}: {d}" for _, w, d in result.differences), "")
    return f"{short:58} {result.total:5} {result.loaded:5} {counts}  {why[:110]}"


def _summary(results: dict[str, Compared | str]) -> None:
    """Print the table with its sums, then what keeps models from loading and from being equal."""
    head = " ".join(f"{what[:5]:>5}" for what in ASPECTS)
    print(f"{'project':58} {'there':>5} {'here':>5} {head}  first reason")
    both = {name: result for name, result in results.items() if isinstance(result, Compared)}
    for name, result in sorted(results.items()):
        print(_row(name, result))
    before: dict[str, Compared] = {}
    for name, one in both.items():
        like = next((n for n, other in before.items() if one.copies(other)), None)
        if like is None:
            before[name] = one
        else:
            print(f"{name} is a copy of {like}: not counted")
    compared = list(before.values())
    sums = [sum(one.total for one in compared), sum(one.loaded for one in compared)]
    equal = [sum(one.equal[what] for one in compared) for what in ASPECTS]
    print(f"{'sum':58} {sums[0]:5} {sums[1]:5} {' '.join(f'{n:5}' for n in equal)}")
    whole = sum(one.loaded == one.total > 0 for one in compared)
    same = [one for one in compared if one.equal["name"] == one.total > 0 == one.total - one.loaded]
    alike = sum(
        one.equal["query"] == one.queries
        and one.equal["dependencies"] == one.equal["kind"] == one.total
        for one in same
    )
    print(
        f"\n{len(compared)} projects compared; {whole} load whole, {alike} of them with equal "
        f"names, kinds, dependencies and queries; {sum(one.queries for one in compared)} queries, "
        f"{equal[ASPECTS.index('query')]} equal, {equal[ASPECTS.index('plain')]} as SQLGlot alone "
        "writes them for Spark"
    )
    blocked: Counter[str] = Counter()
    projects: dict[str, set[str]] = {}
    for name, one in both.items():
        for why, count in one.blocked.items():
            reason = _general(why)
            blocked[reason] += count
            projects.setdefault(reason, set()).add(name)
    print("\nWhat keeps models from loading: models, projects, reason")
    for reason, count in blocked.most_common(60):
        print(f"{count:5} {len(projects[reason]):3}  {reason[:200]}")
    unequal = Counter(
        (what, _general(text)[:160])
        for one in compared
        for _, what, text in one.differences
        if what != "query"
    )
    print("\nWhat differs but queries: models, what, how")
    for (what, text), count in unequal.most_common(60):
        print(f"{count:5}  {what}: {text}")
    print("\nHow queries differ: an example of each project")
    for name, one in both.items():
        examples = [(model, text) for model, what, text in one.differences if what == "query"]
        for model, text in examples[:3]:
            print(f"  {name}, {model} ({len(examples)}): {text}")


def _general(message: str) -> str:
    """Return a message without what it quotes, so that messages of one kind are one."""
    return re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"|@\w+|\d+", "…", message)


if __name__ == "__main__":
    sys.exit(main())
