"""Compilation of a dbt project when its files changed, without its warehouse.

dbt runs in a cache folder with links to the project's files and a macro `is_incremental()` that
queries no table. The first compile covers all models, with `is_incremental()` false. The second
covers incremental models, with `is_incremental()` true. The third covers microbatch models, with
`--empty`: dbt replaces a relation such as `a.b` with `(select * from a.b where false limit 0)` if a
run would filter the relation by `event_time`, but not if the model writes `.render()` after it. The
output is cached by the content of all inputs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from vde_dagster.api.errors import ProjectError, SourceLocation, VdeError
from vde_dagster.api.sources import Folder, load_yaml
from vde_dagster.api.values import digest
from vde_dagster.plugins.dbt.settings import DbtSettings

PROJECT_FILE = "dbt_project.yml"
_CACHE = ".vde/cache/dbt"
_DONE = "done.json"
_FIRST, _LATER, _EMPTY = "first/manifest.json", "later/manifest.json", "empty/manifest.json"
_HOOKS = "hooks.json"
_LEFT_OUT = "left_out.json"
_INSIDE_DBT = Path(__file__).parent / "inside_dbt"
"""Folder on the Python path of dbt's process."""
_ANSWERS = "vde_dagster.plugins.dbt.answers"
_PARSE_CACHE = "partial_parse.msgpack"
MACROS = "vde_macros"
"""Folder for the macros that a compile adds to the project, such as `is_incremental()`."""
ANALYSES = "vde_hooks"
"""Folder for the analyses that a compile adds to the project, to render run hooks."""
_MACRO = """{% macro is_incremental() %}
  {%- if not execute -%}{{ return(false) }}{%- endif -%}
  {{ return(model.config.materialized == 'incremental' and not flags.FULL_REFRESH) }}
{% endmacro %}
"""
_SKIPPED_FOLDERS = frozenset({"target", "logs", "venv", "env", "node_modules", "__pycache__"})
"""Folders that dbt does not read; hidden folders are left out, too."""
_ENDINGS = (".sql", ".yml", ".yaml", ".md", ".py", ".csv", ".lock")
_OWN_MACRO = re.compile(r"\{%-?\s*macro\s+is_incremental\s*\(")
_VARIABLE = re.compile(r"env_var\(\s*['\"](\w+)['\"]")
_FLAGS = ("--no-use-colors", "--no-send-anonymous-usage-stats", "--no-version-check")
_COMPILE = ("compile", "--no-populate-cache")
_TRIES = 5
"""Number of attempts to compile hooks; each leaves out the file that failed before."""
_ERROR = re.compile(r"Encountered an error:\n|^Error: |^(?=[A-Z]\w+ Error)", re.MULTILINE)
_TIME_PREFIX = re.compile(r"^\d\d:\d\d:\d\d  ", re.MULTILINE)
_PLACE = re.compile(r"([\w./-]+\.(?:sql|ya?ml|py|csv|md))\b")
_LINE = re.compile(r"\bline (\d+)")
_SCRIPT_HEAD = 1_000
"""Bytes of a script that are searched for its interpreter."""
_INTERPRETER = re.compile(r"/[^\s'\"]*python[\w.]*")
_LISTED_PACKAGE = re.compile(r"\bpackage\s*:\s*['\"]?[\w.-]+/([\w-]+)")
"""A package in `packages.yml`: `package: dbt-labs/dbt_utils`; the group is `dbt_utils`."""
PACKAGES = "dbt_packages"


class CompiledFiles(NamedTuple):
    """Output files of dbt, relative to the root.

    Args:
        later: Manifest of incremental models compiled with `is_incremental()` being true, or None.
        hooks: Rendered hooks, see `Hooks.extract_rendered`, or None.
        seconds: Duration of the compile; None if the output was cached.
        left_out: Introspective calls without an answer, by the node's unique id (JSON), or None.
        empty: Manifest of microbatch models compiled with `--empty`, or None.
    """

    first: str
    later: str | None = None
    hooks: str | None = None
    seconds: float | None = None
    left_out: str | None = None
    empty: str | None = None

    @property
    def files(self) -> list[str]:
        paths = (self.first, self.later, self.hooks, self.left_out, self.empty)
        return [path for path in paths if path]


@dataclass(frozen=True)
class Compiler:
    """Compiles a dbt project with the dbt `executable` if inputs changed."""

    folder: Folder
    inside: str
    executable: Path
    settings: DbtSettings

    @cached_property
    def files(self) -> list[str]:
        """Files that dbt reads, including packages, relative to the root."""
        top = self.folder.root / self.inside
        found = []
        for path, folders, names in os.walk(top):
            folders[:] = [n for n in folders if n not in _SKIPPED_FOLDERS and not n.startswith(".")]
            found += [os.path.join(path, name) for name in names if name.endswith(_ENDINGS)]
        return sorted(os.path.relpath(one, self.folder.root).replace(os.sep, "/") for one in found)

    def current_manifests(self) -> CompiledFiles:
        """Return the paths of up-to-date manifests, after a compile if inputs changed.

        Raises:
            ProjectError: dbt fails.
        """
        cache = self.folder.root / _CACHE
        done, now = self._cached_record(), False
        if done is None:
            cache.mkdir(parents=True, exist_ok=True)
            with _compile_lock(cache / "lock"):
                done = self._cached_record()
                if done is None:
                    done, now = self._compile(), True
                    (cache / _DONE).write_text(json.dumps(done), encoding="utf-8")
        names = {"later": _LATER, "hooks": _HOOKS, "left_out": _LEFT_OUT, "empty": _EMPTY}
        made = {key: f"{_CACHE}/{name}" for key, name in names.items() if done.get(key)}
        seconds = done["seconds"] if now else None
        return CompiledFiles(f"{_CACHE}/{_FIRST}", seconds=seconds, **made)

    def _cached_record(self) -> dict[str, Any] | None:
        """Return the record of the last compile, or None if its inputs have changed."""
        try:
            done: dict[str, Any] = json.loads((self.folder.root / _CACHE / _DONE).read_bytes())
        except (OSError, ValueError):
            return None
        if done["key"] != self._key(done["variables"]):
            return None
        return done if "state" not in done or self._has_same_answers(done) else None

    def _has_same_answers(self, done: dict[str, Any]) -> bool:
        from vde_dagster.api.workspace import Workspace
        from vde_dagster.plugins.dbt.answers import published_state

        try:
            with Workspace.open(self.folder.root) as workspace:
                return bool(done["state"] == published_state(workspace, done["sources"]))
        except VdeError:
            return True  # Without a state there are no new answers.

    def _key(self, variables: Any) -> str:
        hasher = self.folder.hasher
        # dbt needs only the names of seeds.
        content = [
            f"{path}:{'' if path.endswith('.csv') else hasher.hash(path)}" for path in self.files
        ]
        values = [f"{name}={os.environ.get(name)}" for name in variables]
        dbt = f"{self.executable}:{self.executable.stat().st_mtime_ns}"
        return digest(*content, "|", *values, "|", repr(self.settings), dbt, self._profiles)

    @property
    def _profiles(self) -> str:
        given = self.settings.profiles_dir or os.environ.get("DBT_PROFILES_DIR") or "~/.dbt"
        path = self.folder.root / Path(given).expanduser() / "profiles.yml"
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    # -- running dbt -----------------------------------------------------------------------

    def _compile(self) -> dict[str, Any]:
        # A failure is not recorded, because its cause may be outside the inputs, for example in the
        # network.
        begin = time.monotonic()
        cache = self.folder.root / _CACHE
        (cache / _DONE).unlink(missing_ok=True)
        texts = self._read_texts()
        variables = sorted({name for text in texts for name in _VARIABLE.findall(text)})
        done: dict[str, Any] = {"key": self._key(variables), "variables": variables, "later": False}
        own = any(map(_OWN_MACRO.search, texts))
        self._link_project(cache / "project", own)
        for target in (_FIRST, _LATER, _HOOKS, _LEFT_OUT, _EMPTY):
            (cache / target).unlink(missing_ok=True)
        # Explicit, because a default selector of the project may leave nodes out.
        reports = [self._run(cache / "project", "first", ["--full-refresh", "--select", "fqn:*"])]
        if not own and b'"materialized": "incremental"' in (cache / _FIRST).read_bytes():
            selected = ["--select", "config.materialized:incremental"]
            reports.append(self._run(cache / "project", "later", selected))
            done["later"] = True
        manifest = (cache / _FIRST).read_bytes()
        if b'"incremental_strategy": "microbatch"' in manifest:
            done["empty"] = self._compile_empty(cache)
        if b"-hook" in manifest or b'"operation"' in manifest:
            done["hooks"] = self._render_hooks(cache / "project")
        left_out = {one: call for part in reports for one, call in part.get("left_out", {}).items()}
        if left_out:
            (cache / _LEFT_OUT).write_text(json.dumps(left_out, sort_keys=True), encoding="utf-8")
            done["left_out"] = True
        states = {part["state"] for part in reports if part.get("asked")}
        if states:
            done["sources"] = reports[0]["sources"]
            done["state"] = states.pop() if len(states) == 1 else "published while dbt compiled"
        return {**done, "seconds": round(time.monotonic() - begin, 1)}

    def _compile_empty(self, cache: Path) -> bool:
        selected = ["--select", "config.incremental_strategy:microbatch"]
        try:
            self._run(cache / "project", "empty", ["--full-refresh", "--empty", *selected])
        except ProjectError:
            return False
        return True

    def _render_hooks(self, project: Path) -> bool:
        """Let dbt render the hooks that contain Jinja, and return whether it rendered any."""
        from vde_dagster.plugins.dbt.hooks import MACRO, Hooks
        from vde_dagster.plugins.dbt.manifest import decode_manifest

        cache = project.parent
        hooks = Hooks.from_manifest(decode_manifest((cache / _FIRST).read_bytes()))
        (project / MACROS / "vde_hooks.sql").write_text(MACRO, encoding="utf-8")
        for _ in range(_TRIES):
            if not hooks:
                return False
            for name, text in hooks.analyses.items():
                (project / ANALYSES / f"{name}.sql").write_text(text, encoding="utf-8")
            for (package, path), unique_ids in hooks.files.items():
                own = package == hooks.manifest.metadata.project_name
                inner = Path(path) if own else Path(PACKAGES, package, path)
                text = (self.folder.root / self.inside / inner).read_text(encoding="utf-8")
                _replace_link(project, inner, hooks.with_calls(text, unique_ids))
            selected = ["--full-refresh", "--select", *hooks.selected]
            try:
                # No introspective query is answered, because a hook's query may change data.
                self._run(project, "hooks", selected, introspect=False)
            except ProjectError as error:
                hooks = hooks.without_file(str(error.location.path) if error.location else "")
                continue
            rendered = hooks.extract_rendered(
                decode_manifest((cache / "hooks/manifest.json").read_bytes())
            )
            (cache / _HOOKS).write_text(json.dumps(rendered), encoding="utf-8")
            return True
        return False

    def _read_texts(self) -> list[str]:
        """Return the texts of the files that may call `env_var()` or define `is_incremental()`."""
        read = (one for one in self.files if one.endswith((".sql", ".yml", ".yaml")))
        paths = (self.folder.root / one for one in read)
        found = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
        return [*found, self._profiles]

    def _link_project(self, project: Path, own: bool) -> None:
        """Create a folder for running dbt, with links to the project's entries.

        Raises:
            ProjectError: `dbt_project.yml` is not valid YAML.
        """
        import yaml

        shutil.rmtree(project, ignore_errors=True)
        project.mkdir(parents=True)
        top = self.folder.root / self.inside
        for entry in os.scandir(top):
            if entry.name not in (*_SKIPPED_FOLDERS, PROJECT_FILE) and not entry.name.startswith(
                "."
            ):
                os.symlink(entry.path, project / entry.name)
        text = (top / PROJECT_FILE).read_text(encoding="utf-8")
        try:
            described = yaml.safe_load(text)
        except yaml.YAMLError:
            load_yaml(Path(self.inside, PROJECT_FILE), text)  # Raises an error with the place.
            described = None
        if not isinstance(described, dict):
            (project / PROJECT_FILE).write_text(text, encoding="utf-8")
            return
        for key, usual, added in (("macro", "macros", MACROS), ("analysis", "analyses", ANALYSES)):
            paths = described.get(f"{key}-paths") or [usual]
            described[f"{key}-paths"] = [*([paths] if isinstance(paths, str) else paths), added]
            (project / added).mkdir()
        (project / PROJECT_FILE).write_text(yaml.safe_dump(described), encoding="utf-8")
        if not own:
            (project / MACROS / "is_incremental.sql").write_text(_MACRO, encoding="utf-8")

    def _run(
        self, project: Path, target: str, more: list[str], *, introspect: bool = True
    ) -> dict[str, Any]:
        """Run dbt and return the report of `inside_dbt`.

        Raises:
            ProjectError: dbt fails, or its introspective queries cannot be answered.
        """
        import subprocess

        settings, cache = self.settings, project.parent
        if target != "first":
            (cache / target).mkdir(exist_ok=True)
            shutil.copyfile(cache / "first" / _PARSE_CACHE, cache / target / _PARSE_CACHE)
        command = [*dbt_command(self.executable), *_FLAGS, *_COMPILE, *more]
        introspect = introspect and settings.introspect is not False
        command += [] if settings.introspect and introspect else ["--no-introspect"]
        command += ["--target-path", str(cache / target), "--log-path", str(cache / "logs")]
        command += ["--target", settings.target] if settings.target else []
        command += ["--vars", json.dumps(settings.vars)] if settings.vars else []
        if settings.profiles_dir:
            profiles = self.folder.root / Path(settings.profiles_dir).expanduser()
            command += ["--profiles-dir", str(profiles)]
        report = cache / f"{target}_{_LEFT_OUT}"
        report.unlink(missing_ok=True)
        path = os.environ.get("PYTHONPATH", "")
        answering = [sys.executable, "-m", _ANSWERS, str(self.folder.root)] if introspect else []
        given = {"file": str(report), "command": answering, "path": path}
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(_INSIDE_DBT), path))),
            "_VDE_COMPILE": json.dumps(given),
        }
        try:
            done = subprocess.run(
                command,
                cwd=project,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            why = f"{self.executable} cannot be run: {error.strerror or error}"
            raise self._compile_error(why) from None
        if done.returncode == 0:
            # A dbt that is not a Python program or runs in a container writes no report.
            found: dict[str, Any] = json.loads(report.read_text()) if report.is_file() else {}
            if found.get("failure"):
                # Otherwise the plan would remove nodes that exist.
                raise ProjectError(
                    f"dbt's introspective queries have no answers: {found['failure']}",
                    hint="to leave out nodes with such queries, set introspect = false under "
                    "[tool.vde.dbt]",
                    location=SourceLocation(Path(f"{self.inside}{PROJECT_FILE}")),
                )
            return found
        output = _TIME_PREFIX.sub("", f"{done.stdout}\n{done.stderr}")
        parts = _ERROR.split(output, maxsplit=1)
        lines = [
            line.rstrip() for line in parts[-1].strip().splitlines() if "[WARNING]" not in line
        ]
        raise self._compile_error("\n".join(lines[:30]) or f"exit code {done.returncode}")

    def _compile_error(self, output: str) -> ProjectError:
        lines = [line.strip() for line in output.splitlines()]
        files = {Path(one).name: one for one in reversed(self.files)}
        named = (name.removeprefix("./") for line in lines for name in _PLACE.findall(line))
        whole = f"{self.inside}{PROJECT_FILE}"
        path = next(
            (
                found
                for name in named
                if name != PROJECT_FILE  # Packages have this file, too.
                for found in (f"{self.inside}{name}", files.get(Path(name).name))
                if found in self.files and found != whole
            ),
            whole,
        )
        line = _LINE.search(output)
        what = " ".join(lines[:3]).replace("in model", "in the model")
        hint = "correct it in dbt"
        if "dbt deps" in output and "specified in" in output:
            hint = "run `dbt deps`"
        elif "'None' has no attribute" in output:
            hint = (
                "a macro may query the warehouse, but this compile does not read the warehouse: "
                "run `dbt compile`, and set compile = false under [tool.vde.dbt]"
            )
        elif "connection never acquired" in output:
            hint = (
                "its macros query the warehouse: introspect = true under [tool.vde.dbt] lets dbt "
                "connect while it compiles"
            )
        elif "Could not find profile" in output or "profiles" in output:
            hint = "set the folder of profiles.yml: profiles_dir = '…' under [tool.vde.dbt]"
        place = SourceLocation(Path(path), int(line[1]) if line and path != whole else None)
        if hint == "run `dbt deps`":
            place = self._missing_package() or place
        return ProjectError(f"dbt cannot compile the project: {what}", hint=hint, location=place)

    def _missing_package(self) -> SourceLocation | None:
        """Return the place of the first listed package that is not installed."""
        top = self.folder.root / self.inside
        installed = {path.name for path in top.glob(f"{PACKAGES}/*")}
        for name in ("packages.yml", "dependencies.yml"):
            path = top / name
            lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
            for number, line in enumerate(lines, 1):
                listed = _LISTED_PACKAGE.search(line)
                if listed and listed[1] not in installed:
                    return SourceLocation(Path(f"{self.inside}{name}"), number)
        return None


def find_compiler(folder: Folder, inside: str) -> Compiler | None:
    """Return the project's compiler, or None if `compile` is false or dbt is missing.

    The compiler is the `executable` of the settings, or the dbt that is installed with vde.

    Raises:
        ProjectError: The settings name a dbt that does not exist.
    """
    settings = DbtSettings(**folder.settings.plugins.get("dbt", {}))
    if not settings.compile:
        return None
    if settings.executable:
        given = folder.root / Path(settings.executable).expanduser()
        found = given if given.is_file() else shutil.which(settings.executable)
        if found is None:
            raise ProjectError(
                f"{settings.executable}, the dbt that compiles the project, does not exist",
                hint="correct `executable` under [tool.vde.dbt]",
                location=SourceLocation(Path("pyproject.toml")),
            )
        return Compiler(folder, inside, Path(found), settings)
    beside = shutil.which("dbt", path=Path(sys.executable).parent)
    return Compiler(folder, inside, Path(beside), settings) if beside else None


def dbt_command(executable: Path) -> list[str]:
    # If a Python environment was moved, its `dbt` script names an interpreter that no longer
    # exists. Then the interpreter next to the script is started with dbt's module.
    real = executable.resolve()
    lines = real.read_bytes()[:_SCRIPT_HEAD].decode(errors="replace").splitlines()[:2]
    named = _INTERPRETER.findall("\n".join(lines)) if "".join(lines).startswith("#!") else []
    python = real.parent / "python"
    if python.is_file() and not all(Path(path).exists() for path in named):
        return [str(python), "-m", "dbt.cli.main"]
    return [str(executable)]


def _replace_link(project: Path, path: Path, text: str) -> None:
    # Linked parent folders become real folders.
    for folder in reversed(path.parents[:-1]):
        link = project / folder
        if link.is_symlink():
            target = link.resolve()
            link.unlink()
            link.mkdir()
            for entry in os.scandir(target):
                os.symlink(entry.path, link / entry.name)
    (project / path).unlink(missing_ok=True)
    (project / path).write_text(text, encoding="utf-8")


@contextmanager
def _compile_lock(lock: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # On Windows two processes may compile at once, which repeats work.
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
