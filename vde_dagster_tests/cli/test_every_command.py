"""What holds of every command of the app, found by walking it: none is listed here."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from vde_dagster.cli.app import app
from vde_dagster.errors import StoreError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.session.warm import stop_engines
from vde_dagster_tests.cli.conftest import Called, Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder, copied_project

EXAMPLE = re.compile(r"""\bvde ((?:"[^"]*"|[^";(])+)""")
NO_SPARK = "no Spark in this test"

SAMPLES = {
    "ENV": "prod",
    "[OTHER]": "dev",
    "MODEL": "marts.daily",
    "MODELS": "marts.daily",
    "MODELS|TESTS": "marts.daily",
    "[MODELS]...": "marts.daily",
    "[FILES|MODELS]...": "marts.daily",
    "MODEL[.COLUMN]": "marts.daily.revenue",
    "SQL": "SELECT 1 AS one",
    "ID": "prod-1a2b3c4d5e",
    "FILE": "state.jsonl.gz",
    "A": "dev:prod",
    "B": "marts.daily",
    "VERSION": "prod",
    "NAME": "kept",
    "EXPORTER": "kept",
    "RIGHT": "read",
    "LOGIN": "anna",
}
"""What stands for a required argument, by its metavar."""

BESIDE = {"changes": ("--from", "0")}
"""Options without which a command asks for them first."""

WRONG = {
    "ENV": ("no such", "nosuch"),
    "[OTHER]": ("no such", "nosuch"),
    "A": ("nosuch:prod", "prod:no such"),
    "B": ("marts.nosuch",),
    "VERSION": ("nosuch", "no such@1"),
    "NAME": ("no such",),
    "EXPORTER": ("no such",),
    **dict.fromkeys(
        ("MODEL", "MODELS", "[MODELS]...", "[FILES|MODELS]...", "MODEL[.COLUMN]"),
        ("marts.nosuch",),
    ),
}
"""Names of environments and models that are not there, by the metavar of what takes them."""


def _walk(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _walk(command, (*path, name))
        else:
            yield (*path, *name.split()), command


ROOT = get_command(app)
COMMANDS = {" ".join(path): command for path, command in _walk(ROOT)}


def _examples(command: str) -> list[list[str]]:
    help_ = " ".join((COMMANDS[command].help or "").split())
    _, _, told = help_.partition("Example")
    return [shlex.split(found.strip()) for found in EXAMPLE.findall(told)]


def _parsed(words: list[str]) -> str:
    """Return the command that words call, having read all of its options."""
    group, path = ROOT, []
    context = ROOT.make_context("vde", list(words), resilient_parsing=True)
    while hasattr(group, "commands"):
        name, command, words = group.resolve_command(context, words)
        path += name.split()
        group = command
    assert group.make_context(path[-1], list(words)) is not None
    return " ".join(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_has_examples_that_are_calls_of_the_command(command: str) -> None:
    examples = _examples(command)
    assert examples, f"the docstring of `vde {command}` has no example"
    assert {_parsed(words) for words in examples} == {command}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_a_project_json_and_debug(command: str) -> None:
    options = {option for parameter in COMMANDS[command].params for option in parameter.opts}
    assert options >= {"--project", "--json", "--debug"}
    assert all(
        parameter.help
        for parameter in COMMANDS[command].params
        if parameter.param_type_name == "option" and parameter.name != "help"
    )


def _values(parameter: Any) -> tuple[str, ...]:
    is_option = parameter.param_type_name == "option"
    if is_option and parameter.metavar not in ("ENV", "MODEL", "MODELS"):
        return ()
    return WRONG.get(parameter.metavar or "", ())


def _call(command: str, wrong: Any, value: str) -> list[str]:
    """Return a call in which one parameter has a value, and all else is as it should be."""
    words = [*command.split(), *BESIDE.get(command, ())]
    for parameter in COMMANDS[command].params:
        if parameter.param_type_name == "argument":
            if parameter is wrong:
                words.append(value)
            elif parameter.required or wrong.param_type_name == "argument":
                sample = SAMPLES.get(parameter.metavar or "")
                if sample is not None:
                    words.append(sample)
        elif parameter is wrong:
            words += [parameter.opts[0], value]
    return words


CALLS = [
    (command, _call(command, parameter, value))
    for command in COMMANDS
    for parameter in COMMANDS[command].params
    for value in _values(parameter)
    # A name that could be a new environment's is one where the command makes them.
    if value != "nosuch" or all(own.name != "create" for own in COMMANDS[command].params)
]


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A shop in production and in development, with an edit that waits, made without Spark."""
    shop = ProjectFolder(tmp_path_factory.mktemp("every") / "shop", SHOP)
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        shop.edit("models/marts/top.sql", "revenue DESC", "revenue")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.apply(workspace.plan("dev"))
        workspace.maintenance.export_state(shop.root / "state.jsonl.gz")
    return shop


@pytest.fixture
def engineless(shops: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """The shop, in which calls work but for the engine, which cannot be had."""

    def no_engine(self: Workspace) -> None:
        raise StoreError(NO_SPARK, hint="start it")

    monkeypatch.chdir(shops.root)
    monkeypatch.setattr(Workspace, "engine", no_engine)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    # Spark's scripts read it, so `engine prepare` has nothing to keep: an archive takes minutes.
    monkeypatch.setenv("SPARK_CONF_DIR", str(shops.root))
    return shops


@pytest.fixture
def shop(
    engineless: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProjectFolder]:
    """A copy of it, for calls that change something."""
    monkeypatch.chdir(copied_project(engineless.root, tmp_path / "shop"))
    yield ProjectFolder(tmp_path / "shop")
    stop_engines(tmp_path / "shop" / ".vde" / "engine")


def _said(ended: Called) -> dict[str, Any]:
    error = ended.json["error"]
    assert isinstance(error, dict)
    assert "Traceback" not in ended.err
    return error


def _takes(command: str, option: str) -> bool:
    return any(option in parameter.opts for parameter in COMMANDS[command].params)


def _is_bounded(command: str) -> bool:
    return "until Ctrl-C" not in " ".join((COMMANDS[command].help or "").split())


SLOW = {"sync": pytest.mark.proof, "engine start": pytest.mark.spark}
"""Commands that open Dagster, or start a JVM: each takes as long as all others."""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=SLOW.get(command, ()))
        for command in COMMANDS
        if _takes(command, "--json") and _is_bounded(command)
    ],
)
def test_json_is_one_object_on_stdout(command: str, shop: ProjectFolder, vde: Vde) -> None:
    for words in _examples(command):
        ended = vde(*words, *(() if "--json" in words else ("--json",)))
        found = json.loads(ended.out)
        assert isinstance(found, dict)
        if "error" in found:
            assert _said(ended)["message"]
            assert ended.code in (1, 2)
            assert ended.code == 2 or NO_SPARK in ended.err
        else:
            assert ended.code in (0, 1)


@pytest.mark.parametrize(("command", "words"), CALLS, ids=[" ".join(words) for _, words in CALLS])
def test_a_name_that_is_not_there_is_one_message_with_a_hint(
    command: str, words: list[str], engineless: ProjectFolder, vde: Vde
) -> None:
    ended = vde(*words, "--json")
    assert ended.code == 2, ended.err
    assert ended.err.count("error: ") == 1
    assert ended.err.count("hint: ") == 1
    error = _said(ended)
    assert "such" in error["message"], "the name that is wrong is told"
    assert error["hint"]


def test_every_command_of_which_a_model_or_an_environment_is_asked_is_among_these() -> None:
    """The walk finds them, and with them those that came later."""
    assert len(COMMANDS) > 30
    assert {command for command, _ in CALLS} >= {"plan", "evaluate", "table-diff", "audit"}
    for command in COMMANDS.values():
        for parameter in command.params:
            if parameter.param_type_name == "argument" and parameter.required:
                assert parameter.metavar in SAMPLES, f"what stands for {parameter.metavar}?"
