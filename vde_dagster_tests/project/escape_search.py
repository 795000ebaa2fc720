"""Respellings of templates that reach too far; each must be a mistake."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from vde_dagster.project.loading.loader import load_project

CASES: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    (Path(__file__).parent.parent / "fixtures/jinja_escapes.yaml").read_text()
)
SETTINGS = "[tool.vde.variables]\nday = 2024-01-02\n"
PYTHON = """
from sqlglot import exp
from vde_dagster import macro

@macro()
def py(evaluator, name):
    return exp.column(name)
"""
BLOCK = "MODEL (name a.{}, kind FULL);\nJINJA_QUERY_BEGIN;\nSELECT {} AS a\nJINJA_END;\n"
_NAME = re.compile(r"\.(_\w+|\w+_)\b")
_OUTPUT = re.compile(r"\{\{(.*)\}\}", re.DOTALL)


def project_files(templates: Mapping[str, str]) -> dict[str, str]:
    """Write a project with a model for each template."""
    names = {f"models/m{n}.sql": text for n, text in enumerate(templates.values())}
    models = {path: BLOCK.format(path[7:-4], text) for path, text in names.items()}
    return {"pyproject.toml": SETTINGS, "macros/py.py": PYTHON, **models}


def _by_subscript(text: str, _: random.Random) -> str:
    return _NAME.sub(r"['\1']", text)


def _by_joined_names(text: str, rng: random.Random) -> str:
    def joined(found: re.Match[str]) -> str:
        at = rng.randint(1, len(found[1]) - 1)
        return f"['{found[1][:at]}' ~ '{found[1][at:]}']"

    return _NAME.sub(joined, text)


def _by_escapes(text: str, rng: random.Random) -> str:
    def escaped(found: re.Match[str]) -> str:
        chosen = ("\\x{:02x}", "\\u{:04x}", "{1}")
        return "['" + "".join(rng.choice(chosen).format(ord(c), c) for c in found[1]) + "']"

    return _NAME.sub(escaped, text)


def _by_replaced_names(text: str, _: random.Random) -> str:
    return _NAME.sub(lambda found: f"['{found[1].replace('_', '-')}'|replace('-', '_')]", text)


def _by_reversed_names(text: str, _: random.Random) -> str:
    return _NAME.sub(lambda found: f"['{found[1][::-1]}'|reverse|join]", text)


def _by_slices(text: str, _: random.Random) -> str:
    return _NAME.sub(lambda found: f"['xx{found[1]}yy'[2:-2]]", text)


RESPELLINGS: tuple[Callable[[str, random.Random], str], ...] = (
    _by_subscript,
    _by_joined_names,
    _by_escapes,
    _by_replaced_names,
    _by_reversed_names,
    _by_slices,
)
AROUND = (
    "{{{{ {} }}}}",
    "{{% set x = {} %}}{{{{ x }}}}",
    "{{% if ({})|string %}}1{{% endif %}}",
    "{{% for x in [{}] %}}{{{{ x }}}}{{% endfor %}}",
    "{{% macro own() %}}{{{{ {} }}}}{{% endmacro %}}{{{{ own() }}}}",
    "{{{{ ({}) ~ '' }}}}",
    "{{{{ [{}]|join }}}}",
    "{{{{ dict(a={}).a }}}}",
    "{{% with x = {} %}}{{{{ x }}}}{{% endwith %}}",
    "{{% filter upper %}}{{{{ {} }}}}{{% endfilter %}}",
    "{{{{ {} if true else 1 }}}}",
    "{{% set x %}}{{{{ {} }}}}{{% endset %}}{{{{ x }}}}",
    "{{% call(x) own2({0}) %}}{{% endcall %}}{{{{ {0} }}}}",
)


@dataclass
class Found:
    """Result of a search: how many templates it loaded, and the rendered ones."""

    templates: int = 0
    rendered: list[str] = field(default_factory=list)


def _variants(rng: random.Random, count: int) -> Iterator[tuple[str, str]]:
    # Statements of their own are tried as they are by the tests.
    outputs = {
        name: whole[1].strip()
        for name, text in CASES["escapes"].items()
        if (whole := _OUTPUT.fullmatch(text)) and "{{" not in whole[1]
    }
    for number in range(count):
        name, inner = rng.choice(sorted(outputs.items()))
        respell = rng.choice((*RESPELLINGS, None))
        text = rng.choice(AROUND).format(respell(inner, rng) if respell else inner)
        yield f"{number}: {name}", text


def search(rng: random.Random, count: int, folder: Path) -> Found:
    """Load respelled templates as models of one project; none of them may be rendered.

    Args:
        rng: Decides the templates.
        count: How many.
        folder: An empty folder for the project.
    """
    mark = folder / "mark"
    templates = {name: t.replace("MARK", str(mark)) for name, t in _variants(rng, count)}
    root = folder / "project"
    for path, text in project_files(templates).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    project = load_project(root, strict=False, use_cache=False)
    wrong = {str(m.location.path) for p in project.problems for m in p.mistakes if m.location}
    found = Found(len(templates))
    for number, (name, text) in enumerate(templates.items()):
        if f"models/m{number}.sql" not in wrong:
            found.rendered.append(f"{name}: {text}")
    if mark.exists():
        found.rendered.append(f"a template made {mark}")
    return found
