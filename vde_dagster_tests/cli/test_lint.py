"""Rules of the linter: what each finds, which are errors, and that plans keep to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

GOOD = """
    MODEL (name shop.good, kind FULL, owner 'me', description 'Good', grain id,
      audits (not_null(columns := (id))), cron '@daily');
    SELECT id, name FROM raw.known
"""
TEST = """
    test_good:
      model: shop.good
      inputs:
        raw.known: {rows: [{id: 1, name: a}]}
      outputs:
        query: {rows: [{id: 1, name: a}]}
"""
KNOWN = "- {name: raw.known, columns: {id: INT, name: STRING}}"
BROKEN = {
    "noselectstar": "MODEL (name shop.bad); SELECT * FROM raw.known",
    "invalidselectstarexpansion": "MODEL (name shop.bad); SELECT * FROM other.unknown",
    "ambiguousorinvalidcolumn": "MODEL (name shop.bad); SELECT a FROM other.x, other.y",
    "noambiguousprojections": "MODEL (name shop.bad); SELECT count(*) FROM raw.known",
    "nomissingaudits": "MODEL (name shop.bad); SELECT id FROM raw.known",
    "nomissingdescription": "MODEL (name shop.bad); SELECT id FROM raw.known",
    "nomissingexternalmodels": "MODEL (name shop.bad); SELECT id FROM other.unknown",
    "nomissinggrain": "MODEL (name shop.bad, kind FULL); SELECT id FROM raw.known",
    "nomissingowner": "MODEL (name shop.bad); SELECT id FROM raw.known",
    "nomissingunittest": "MODEL (name shop.bad); SELECT id FROM raw.known",
    "cronintervalalignment": "MODEL (name shop.bad, cron '@hourly'); SELECT id FROM shop.days",
}
DAYS = """
    MODEL (name shop.days, kind INCREMENTAL_BY_TIME_RANGE (time_column day), owner 'me',
      description 'Days', grain id, audits (not_null(columns := (id))), start '2024-01-01',
      ignored_rules (nomissingunittest));
    SELECT id, DATE '2024-01-01' AS day FROM raw.known
"""


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    """A project that keeps every rule."""
    files = {"models/good.sql": GOOD, "tests/test_good.yaml": TEST, "external_models.yaml": KNOWN}
    return ProjectFolder(tmp_path / "shop", {**files, "models/days.sql": DAYS})


def _rules(folder: ProjectFolder, **rules: list[str]) -> None:
    lines = [f"{name} = {json.dumps(given)}" for name, given in rules.items()]
    folder.write("pyproject.toml", "[tool.vde.linter]\n" + "\n".join(lines))


def test_a_project_that_keeps_every_rule_has_no_findings(shop: ProjectFolder, vde: Vde) -> None:
    ended = vde("lint", "--rule", "all", "--project", shop.root, "--json")
    assert ended.code == 0
    assert ended.json == {"models": 2, "errors": 0, "warnings": 0, "findings": []}


@pytest.mark.parametrize("rule", BROKEN)
def test_every_rule_finds_what_breaks_it_with_file_and_line(
    rule: str, shop: ProjectFolder, vde: Vde
) -> None:
    shop.write("models/bad.sql", BROKEN[rule])
    _rules(shop, rules=[rule])
    ended = vde("lint", "--project", shop.root, "--json")
    assert ended.code == 2
    (found,) = ended.json["findings"]
    assert (found["model"], found["rule"], found["severity"]) == ("shop.bad", rule, "error")
    assert (found["file"], found["line"]) == ("models/bad.sql", 1)
    shown = vde("lint", "--project", shop.root)
    assert f"(rule {rule})" in shown.out
    assert "1 error, 0 warnings" in shown.out


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("SELECT 1 AS a, 'b' AS b UNION ALL SELECT * FROM raw.known", 1),
        ("SELECT k.*, 1 AS one FROM raw.known AS k", 1),
        ("WITH k AS (SELECT * FROM raw.known) SELECT id FROM k", 0),
        ("SELECT count(*) AS n FROM raw.known", 0),
        ("SELECT id * 2 AS twice FROM raw.known", 0),
    ],
)
def test_a_star_counts_among_the_outermost_columns_alone(
    query: str, count: int, shop: ProjectFolder, vde: Vde
) -> None:
    shop.write("models/bad.sql", f"MODEL (name shop.bad); {query}")
    ended = vde("lint", "--rule", "noselectstar", "--project", shop.root, "--json")
    assert ended.json["warnings"] == count


def test_an_error_stops_the_plan_and_a_warning_is_told_by_it(shop: ProjectFolder, vde: Vde) -> None:
    shop.write("models/bad.sql", BROKEN["noselectstar"])
    _rules(shop, rules=["noselectstar"], warn_rules=["nomissingowner"])
    stopped = vde("plan", "dev", "--project", shop.root, "--json")
    assert stopped.code == 2
    assert stopped.json["error"]["message"].startswith("shop.bad selects *")
    assert stopped.json["error"]["file"] == "models/bad.sql"
    shop.edit("models/bad.sql", "*", "id")
    planned = vde("plan", "dev", "--project", shop.root, "--json")
    assert planned.code == 0
    (warning,) = [one for one in planned.json["warnings"] if "(rule " in one]
    assert "shop.bad has no owner (rule nomissingowner)" in warning


def test_a_model_ignores_rules_and_the_settings_ignore_them_for_all(
    shop: ProjectFolder, vde: Vde
) -> None:
    shop.write("models/bad.sql", BROKEN["noselectstar"])
    _rules(shop, rules=["all"], ignored_rules=["nomissingunittest", "NoMissingGrain"])
    broken = {f["rule"] for f in vde("lint", "--project", shop.root, "--json").json["findings"]}
    assert broken == {"noselectstar", "nomissingowner", "nomissingaudits", "nomissingdescription"}
    shop.edit(
        "models/bad.sql", "shop.bad", "shop.bad, ignored_rules ['NoSelectStar', nomissingowner]"
    )
    broken = {f["rule"] for f in vde("lint", "--project", shop.root, "--json").json["findings"]}
    assert broken == {"nomissingaudits", "nomissingdescription"}
    shop.edit("models/bad.sql", "['NoSelectStar', nomissingowner]", "(all)")
    assert vde("lint", "--project", shop.root, "--json").json["findings"] == []


def test_sqlmeshs_configuration_switches_rules_on(shop: ProjectFolder, vde: Vde) -> None:
    shop.write("models/bad.sql", BROKEN["noselectstar"])
    config = "model_defaults: {dialect: spark}\nlinter:\n  enabled: %s\n  rules: [NoSelectStar]\n"
    shop.write("config.yaml", config % "true")
    assert vde("plan", "dev", "--project", shop.root).code == 2
    shop.write("config.yaml", config % "false")
    assert vde("plan", "dev", "--project", shop.root).code == 0
    told = vde("lint", "--project", shop.root).out
    assert told.startswith(
        "no rules are enabled: set `rules`, `warn_rules` or `enabled` in [tool.vde.linter]"
    )


OWN = """
    from sqlmesh.core.linter.rule import Rule, RuleViolation
    from sqlmesh.core.model import Model
    import typing as t

    class NamesOfMarts(Rule):
        \"\"\"Models live in the schema shop.\"\"\"

        def check_model(self, model: Model) -> t.Optional[RuleViolation]:
            with open("looked", "a") as file:
                file.write(model.name + " ")
            return None if model.name.startswith("shop.") else self.violation()

    class Lonely(Rule):
        def check_model(self, model):
            readers = [m for m in self.context.models.values() if model.name in m.depends_on]
            return None if readers else self.violation(f"{model.kind.name} without readers")
"""


def test_the_projects_own_rules_are_rules_like_the_others(
    shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.root)
    shop.write("linter/own.py", OWN)
    shop.write("models/bad.sql", "MODEL (name mart.bad); SELECT id FROM raw.known")
    _rules(shop, rules=["namesofmarts"], warn_rules=["lonely"])
    ended = vde("lint", "--json")
    assert [(f["model"], f["rule"], f["severity"]) for f in ended.json["findings"]] == [
        ("mart.bad", "lonely", "warning"),
        ("mart.bad", "namesofmarts", "error"),
        ("shop.days", "lonely", "warning"),
        ("shop.good", "lonely", "warning"),
    ]
    assert "mart.bad: Models live in the schema shop." in ended.out
    assert (shop.root / "looked").read_text().split().count("shop.good") == 1
    shop.edit("models/bad.sql", "raw.known", "shop.good")
    again = vde("lint", "--json")
    lonely = [f["model"] for f in again.json["findings"] if f["rule"] == "lonely"]
    assert lonely == ["mart.bad", "shop.days"]
    # What a rule says of an unchanged model is remembered.
    looked = (shop.root / "looked").read_text().split()
    assert (looked.count("shop.good"), looked.count("mart.bad")) == (1, 2)


def test_a_look_at_one_model_forgets_nothing_of_the_others(
    shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.root)
    shop.write("linter/own.py", OWN)
    _rules(shop, rules=["namesofmarts"])
    assert vde("lint").code == 0
    shop.edit("models/good.sql", "'Good'", "'Better'")
    assert vde("lint", "shop.good").code == 0
    assert vde("lint").code == 0
    looked = (shop.root / "looked").read_text().split()
    assert (looked.count("shop.good"), looked.count("shop.days")) == (2, 1)


@pytest.mark.parametrize(
    ("own", "rules", "said", "file"),
    [
        ("", ["noselctstar"], "'noselctstar', which is not a rule of the linter", "pyproject.toml"),
        ("import nothing_such", ["all"], "ModuleNotFoundError", "linter/own.py"),
        (
            "from vde_dagster import Rule\nclass A(Rule):\n"
            "    def check_model(self, model):\n        return 1 / 0",
            ["a"],
            "rule a fails for shop.days: ZeroDivisionError",
            "linter/own.py",
        ),
        (
            "from vde_dagster import Rule\nclass A(Rule):\n"
            "    def check_model(self, model):\n        return 'bad'",
            ["a"],
            "rule a returns a str",
            "linter/own.py",
        ),
    ],
)
def test_a_wrong_rule_is_one_message_with_its_file(
    own: str, rules: list[str], said: str, file: str, shop: ProjectFolder, vde: Vde
) -> None:
    shop.write("linter/own.py", own)
    _rules(shop, rules=rules)
    for command in (["lint"], ["plan", "dev"]):
        ended = vde(*command, "--project", shop.root, "--json")
        assert ended.code == 2
        assert said in ended.json["error"]["message"]
        assert ended.json["error"]["file"] == file
        assert ended.json["error"]["hint"]


def test_a_model_that_ignores_what_is_no_rule_is_a_mistake(shop: ProjectFolder, vde: Vde) -> None:
    shop.write(
        "models/bad.sql", "MODEL (name shop.bad,\n  ignored_rules (noselctstar)); SELECT 1 AS a"
    )
    _rules(shop, rules=["noselectstar"])
    ended = vde("lint", "--project", shop.root, "--json")
    assert ended.code == 2
    assert (ended.json["error"]["file"], ended.json["error"]["line"]) == ("models/bad.sql", 2)
    assert "noselectstar" in ended.json["error"]["hint"]


def test_a_rule_is_either_an_error_or_a_warning(shop: ProjectFolder, vde: Vde) -> None:
    _rules(shop, rules=["noselectstar"], warn_rules=["noselectstar"])
    ended = vde("lint", "--project", shop.root, "--json")
    assert ended.code == 2
    assert "both in rules and in warn_rules: noselectstar" in ended.json["error"]["message"]


RULE = """
from sqlmesh.core.linter.rule import Fix, Position, Range, Rule, TextEdit

class NoShout(Rule):
    "Names are not shouted."

    def check_model(self, model):
        if "SELECT ID" not in model.source:
            return None
        where = Range(Position(1, 7), Position(1, 9))
        edit = TextEdit(path=None, range=where, new_text="id")
        return self.violation(violation_range=where, fixes=[Fix("Write it small", [edit])])
"""


def test_fixes_of_rules_and_of_mistakes_are_made_and_the_rest_is_said(
    shop: ProjectFolder, vde: Vde
) -> None:
    _rules(shop, rules=["noselectstar", "noshout"])
    shop.write("linter/rules.py", RULE)
    star = "MODEL (name shop.star, kind FULL);\n"
    few = f"{star}WITH k AS (SELECT * FROM raw.known) SELECT * FROM k\n".replace("star,", "few,")
    two = f"{star}SELECT a.*, b.id AS other FROM raw.known AS a, raw.known AS b\n"
    files = {
        "star": f"{star}SELECT * FROM raw.known WHERE nmae > 'a'\n",
        "few": few,
        "two": two.replace("shop.star", "shop.two"),
        "loud": "MODEL (name shop.loud, kind FULL);\nSELECT ID FROM raw.known\n",
    }
    for name, text in files.items():
        shop.write(f"models/{name}.sql", text)
    done = vde("lint", "--fix", "--project", shop.root)
    assert done.code == 2, "one star stands among other columns"
    assert "models/two.sql" in done.out
    mended = f"{star}SELECT id, name FROM raw.known WHERE name > 'a'\n"
    assert (shop.root / "models/star.sql").read_text() == mended
    named = few.replace("SELECT * FROM k\n", "SELECT id, name FROM k\n")
    assert (shop.root / "models/few.sql").read_text() == named
    assert (shop.root / "models/two.sql").read_text() == files["two"]
    assert "SELECT id FROM raw.known" in (shop.root / "models/loud.sql").read_text()
    again = vde("lint", "--fix", "--project", shop.root)
    assert "models/two.sql" in again.out
    shop.write("models/loud.sql", files["loud"])
    told = vde("lint", "--fix", "--project", shop.root, "--json").json
    assert told["fixed"] == [{"file": "models/loud.sql", "line": 2, "fix": "Write it small"}]
    assert told["not_fixed"] == []
    assert (shop.root / "models/star.sql").read_text() == mended
