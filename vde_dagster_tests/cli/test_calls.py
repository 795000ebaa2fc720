"""What every command has in common: help, JSON, exit codes, errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vde_dagster.base.plugins import Plugin, Seam
from vde_dagster.cli.app import call
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["apply"],
        ["plan", "prod", "--nonsense"],
        ["apply", "prod", "--concurrency", "0"],
        ["rollback", "prod", "--to", "yesterday"],
    ],
)
def test_a_wrong_call_is_exit_code_2_with_a_message(arguments: list[str], vde: Vde) -> None:
    for extra in ([], ["--json"]):
        ended = vde(*arguments, *extra)
        assert ended.code == 2
        assert ended.err.startswith("error: ")
        assert "hint: " in ended.err
        if extra:
            assert ended.json["error"]["message"]
        else:
            assert ended.out == ""


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["engine"], "a command is missing after `vde engine`", "run `vde engine --help` for its"),
        (["docs"], "a command is missing after `vde docs`", "run `vde docs --help` for its"),
        (
            ["docs", "biuld"],
            "No such command 'biuld'. Did you mean 'build'?",
            "run `vde docs --help",
        ),
        (["rollback"], "Missing argument 'ENV'.", "run `vde rollback --help` for its arguments"),
        (["state", "export"], "Missing argument 'FILE'.", "run `vde state export --help` for"),
        (["paln"], "No such command 'paln'. Did you mean 'plan'?", "run `vde --help` for the com"),
        (["plan", "--start"], "Option '--start' requires an argument.", "run `vde plan --help`"),
        (
            ["plan", "dev", "--start="],
            "Invalid value for '--start': the value is empty",
            "run `vde plan -",
        ),
        (["plan", ""], "Invalid value for 'ENV': the value is empty", "run `vde plan --help`"),
        (
            ["plan", "dev", "--select", "a", "--select="],
            "Invalid value for '--select': the value is empty",
            "run `vde plan --help`",
        ),
        (
            ["token", "create", "dev", "--filter", "a", "--filter", "b"],
            "Invalid value for '--filter': given more than once",
            "run `vde token create --help`",
        ),
        (["cot"], "No such command 'cot'. Did you mean 'cost'?", "run `vde --help` for the com"),
        (["notfy", "test"], "No such command 'notfy'. Did you mean 'notify'?", "run `vde --help`"),
    ],
)
def test_the_hint_names_the_help_of_the_command(
    arguments: list[str], error: str, hint: str, vde: Vde
) -> None:
    first, second = vde(*arguments).err.splitlines()
    assert first == f"error: {error}"
    assert second.startswith(f"hint: {hint}")


def test_an_unknown_command_imports_no_plugin(vde: Vde, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(plugin: Plugin) -> None:
        raise AssertionError(plugin.name)

    monkeypatch.setattr("vde_dagster.cli.app._PLUGINS", Seam("commands"))
    monkeypatch.setattr(Plugin, "load", load)
    assert "No such command 'foo'." in vde("foo").err


def test_the_first_word_of_commands_from_plugins_has_a_help(vde: Vde) -> None:
    ended = vde("docs", "--help")
    assert ended.code == 0
    assert re.findall(r"^  (\w+)  ", ended.out, re.M) == ["build", "serve", "write"]


def test_a_missing_folder_is_a_mistake_in_the_call(tmp_path: Path, vde: Vde) -> None:
    ended = vde("plan", "prod", "--project", tmp_path / "nowhere", "--json")
    assert ended.code == 2
    assert "nowhere' does not exist" in ended.json["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "prod", "--start", "soon"], "--start 'soon' is not a time"),
        (["plan", "prod", "--start", "tomorrow"], "lies in the future"),
        (["plan", "prod", "--end", "in a week"], "--end 'in a week' is not a time"),
        (["plan", "prod", "--end", "1 week from now"], "lies in the future"),
        (["plan", "prod", "--execution-time", "tomorrow"], "lies in the future"),
        (["run", "prod", "--execution-time", "late"], "--execution-time 'late' is not a time"),
        (
            ["plan", "prod", "--execution-time", "0001-01-01"],
            "due intervals cannot be determined for the execution time 0001-01-01 00:00 UTC",
        ),
        (["describe", "json", "--at", "0002-06-01"], "for the time 0002-06-01 00:00 UTC"),
        (["describe", "json", "--at", "9999-12-31"], "for the time 9999-12-31 00:00 UTC"),
        (["plan", "prod", "--skip-backfill", "--empty-backfill"], "neither fills intervals nor"),
        (["plan", "prod", "--backfill-model", "marts.nothing"], "marts.nothing"),
        (["plan", "prod", "--start", "2024-01-05", "--end", "2024-01-02"], "does not end after"),
        (["plan", "prod", "--select", "marts.nothing"], "marts.nothing"),
        (["plan", "no good"], "is not a valid environment name"),
        (["run", "prod"], "environment 'prod' does not exist"),
        (["rollback", "prod"], "environment 'prod' does not exist"),
        (["history", "prod"], "environment 'prod' does not exist"),
        (["drop", "dev"], "environment 'dev' does not exist"),
        (["query", "prod", "SELECT 1"], "environment 'prod' does not exist"),
        (["render", "marts.daily_revenu"], "model 'marts.daily_revenu' does not exist"),
        (["render", "raw.orders"], "raw.orders has no SQL"),
        (["apply", "prod", "--plan", "x"], "the plan 'x' does not exist"),
        (
            ["apply", "prod", "--plan", "x", "--skip-backfill"],
            "--plan cannot be combined with plan options",
        ),
    ],
)
def test_a_mistake_in_the_call_has_a_message_a_hint_and_exit_code_2(
    arguments: list[str], said: str, template: ProjectFolder, vde: Vde
) -> None:
    ended = vde(*arguments, "--project", template.root, "--json")
    assert ended.code == 2, ended.err
    assert said in ended.json["error"]["message"]
    assert ended.json["error"]["hint"]
    assert said in ended.err


def test_an_unexpected_error_is_one_line_without_debug_and_a_traceback_with_it(
    monkeypatch: pytest.MonkeyPatch, template: ProjectFolder, vde: Vde
) -> None:
    def broken(root: Path) -> None:
        raise RuntimeError("the disk\nis on fire")

    monkeypatch.setattr("vde_dagster.execution.workspace.Workspace.open", broken)
    ended = vde("info", "--project", template.root, "--json")
    assert ended.code == 1
    assert ended.err.count("\n") == 1
    assert "RuntimeError: the disk" in ended.err
    assert "RuntimeError" in ended.json["error"]["message"]
    assert "Traceback" in vde("info", "--project", template.root, "--debug").err


@pytest.mark.proof
def test_the_command_is_a_process_with_the_same_exit_codes(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "vde_dagster.cli"]
    root = tmp_path / "new"
    done = subprocess.run([*program, "init", str(root), "--json"], capture_output=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["files"]
    again = subprocess.run([*program, "init", str(root)], capture_output=True, check=False)
    assert again.returncode == 2


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from vde_dagster.cli.app import call; call(['--help']);"
        "heavy = {'dagster', 'pyspark', 'sqlglot', 'pyiceberg', 'pandas', 'sqlalchemy',"
        " 'pydantic', 'rich'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert call([]) == 0
    assert "Environments:" in capsys.readouterr().out


def test_the_package_gives_its_names_at_their_first_use() -> None:
    code = (
        "import sys, vde_dagster;"
        "heavy = {'dagster', 'sqlglot', 'pydantic'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "from vde_dagster import macro, model;"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
