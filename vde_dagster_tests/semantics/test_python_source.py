"""Versions of Python models: what of a project's code they follow."""

from __future__ import annotations

import ast
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from vde_dagster.base.outside import find_outside_inputs
from vde_dagster.project.files import Hasher
from vde_dagster.project.model import PythonSource
from vde_dagster.project.python.files import run_source, with_local_imports
from vde_dagster.project.python.versions import python_version
from vde_dagster_tests.yaml_files import read_yaml

FIXTURES = Path(__file__).parents[1] / "fixtures" / "semantics"

FILES = {
    "models/m.py": '''
from lib.helpers import scale, LIMIT as limit
from . import shared
import pandas as pd
import lib.constants

RATE = 2

def unused():
    return 3

def model(context):
    """Doc."""
    x = scale(context.df) * RATE  # comment
    return shared.finish(x, limit, lib.constants.A)
''',
    "models/__init__.py": "",
    "models/shared.py": "def finish(*a):\n    return a\n",
    "lib/__init__.py": "",
    "lib/constants.py": "A = 1\n",
    "lib/helpers.py": """
LIMIT = 10
FACTOR = 3
OTHER = 4

def scale(df):
    return df * inner()

def inner():
    return FACTOR

def elsewhere():
    return OTHER
""",
}


def version(**changes: tuple[str, str]) -> str:
    files = dict(FILES)
    for file, (old, new) in changes.items():
        (path,) = (one for one in FILES if Path(one).stem == file)
        assert old in files[path]
        files[path] = files[path].replace(old, new)
    return python_version("models/m.py", "model", files, {})


SAME = [
    {"m": ("# comment", "# another")},
    {"m": ("Doc.", "Other words.")},
    {"m": ("    x = scale", "\n    x  =  scale")},
    {"m": ("return 3", "return 4")},
    {"helpers": ("OTHER = 4", "OTHER = 5")},
    {"helpers": ("return OTHER", "return None")},
]
CHANGED = [
    {"m": ("RATE = 2", "RATE = 3")},
    {"m": ("context.df", "context.de")},
    {"helpers": ("FACTOR = 3", "FACTOR = 4")},
    {"helpers": ("return df * inner()", "return df + inner()")},
    {"helpers": ("LIMIT = 10", "LIMIT = 11")},
    {"helpers": ("FACTOR = 3", "FACTOR = 3\nFACTOR += 1")},
    {"shared": ("return a", "return a[0]")},
    {"constants": ("A = 1", "A = 2")},
    {"m": ("import pandas as pd", "import pandas as pd\nRATE = 5")},
]


@pytest.mark.parametrize("change", SAME)
def test_same(change: dict[str, tuple[str, str]]) -> None:
    assert version() == version(**change)


@pytest.mark.parametrize("change", CHANGED)
def test_changed(change: dict[str, tuple[str, str]]) -> None:
    assert version() != version(**change)


def test_attributes_that_a_library_set_on_shared_nodes_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All trees share this node, and IPython's tracebacks set its parent in another tree.
    before = version()
    (name,) = (node for node in ast.walk(ast.parse("x")) if isinstance(node, ast.Name))
    monkeypatch.setattr(name.ctx, "parent", Lock(), raising=False)
    assert version() == before  # A copy of the node would copy its parent, and no lock can be.


def test_mutated_constants_and_dynamic_code() -> None:
    def of(text: str) -> str:
        return python_version("m.py", "f", {"m.py": text}, {})

    base = "D = {}\nD['a'] = 1\ndef f():\n    return D\n"
    assert of(base) != of(base.replace("= 1", "= 2"))
    base = "L = []\nL.append(1)\ndef f():\n    return L\n"
    assert of(base) != of(base.replace("(1)", "(2)"))
    base = "def f():\n    return globals()['g']()\ndef g():\n    return 1\n"
    assert of(base) != of(base.replace("return 1", "return 2"))
    base = "try:\n    import fast as x\nexcept ImportError:\n    x = None\ndef f():\n    return x\n"
    assert of(base) != of(base.replace("x = None", "x = 1"))
    base = "class A:\n    y = 1\nclass B(A):\n    pass\ndef f():\n    return B().y\n"
    assert of(base) != of(base.replace("y = 1", "y = 2"))


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(LookupError, match="no_such"):
        python_version("models/m.py", "no_such", FILES, {})


def load(name: str) -> list[Any]:
    """The cases of a file, with ids made of their section and case."""
    sections = read_yaml(FIXTURES / name)
    return [
        pytest.param(case, id=f"{section}: {case['case']}")
        for section, cases in sections.items()
        for case in cases
    ]


def results_and_versions(
    case: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, str]]:
    """What `model` returned, and its version, before and after a case's edit."""
    found = []
    for when in (0, 1):
        with monkeypatch.context() as patch:
            root = folder / str(when)
            for path, text in case["files"].items():
                old, new = case.get("edit", {}).get(path, ("", ""))
                assert old in text
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text.replace(old, new) if when and old else text)
            for variable, value in case.get("environment", ({}, {}))[when].items():
                patch.setenv(variable, value)
            patch.chdir(root)
            main = "models/m.py"
            files = with_local_imports(root, main, (root / main).read_text())
            outside = find_outside_inputs(root, files, Hasher(root).hash).hashes
            result = repr(run_source(PythonSource(f"{main}:model", files))(None))
            found.append((result, python_version(main, "model", files, outside)))
    return found


@pytest.mark.parametrize("case", load("python_changed.yaml"))
def test_other_results_are_other_versions(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = results_and_versions(case, tmp_path, monkeypatch)

    assert before[0] != after[0], "the edit changes nothing: the fixture is wrong"
    assert before[1] != after[1]


@pytest.mark.parametrize("case", load("python_same.yaml"))
def test_what_cannot_matter_is_no_part_of_the_version(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = results_and_versions(case, tmp_path, monkeypatch)

    assert before == after
