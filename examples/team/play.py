"""Two people, a pull request each, one production: what a team does with `vde`, played in a folder.

    python examples/team/play.py [FOLDER]

Ada and Ben have a clone each of a bare Git repository. What their CI system would run on a pull
request and on a merge, `vde ci`, is run here in a third clone; plain Git is the forge, so nothing
is asked of anybody outside. State and warehouse are files of the folder (a temporary one by
default). Every step says what it expects, and the play ends with exit code 1 where that is not so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
_FILES = (".sql", ".csv", ".yaml", ".toml")
REVENUE = "models/marts/daily_revenue.sql"
CUSTOMERS = "models/marts/customers.sql"
TOTAL = "SELECT CAST(sum(revenue) AS INT) AS total FROM marts.daily_revenue"


class OtherwiseError(Exception):
    """Something came otherwise than the play says."""


@dataclass(frozen=True)
class Person:
    """Somebody, or the CI system, with a clone."""

    name: str
    clone: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the clone, as this person."""
        return subprocess.run(
            command,
            cwd=self.clone,
            env={**_variables(), "USER": self.name, "LOGNAME": self.name},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def git(self, *words: str) -> str:
        """Run Git, which has to succeed."""
        who = ("-c", f"user.name={self.name}", "-c", f"user.email={self.name}@example.org")
        done = self.run("git", *who, *words)
        if done.returncode:
            raise OtherwiseError(f"git {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def vde(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Run `vde … --json`, which has to end with a code, and return what it says."""
        began = time.monotonic()
        done = self.run(sys.executable, "-m", "vde_dagster.cli", *words, "--json")
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        print(f"  {self.name}$ vde {shown}   # {time.monotonic() - began:.1f} s", flush=True)
        if done.returncode != code:
            raise OtherwiseError(
                f"exit code {done.returncode} instead of {code}: {done.stderr or done.stdout}"
            )
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def total(self, environment: str) -> int:
        """Return an environment's revenue of all days."""
        found = self.vde("query", environment, TOTAL)["rows"][0][0]
        print(f"    revenue in {environment}: {found}")
        return int(found)

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text of a file, which has to be there once."""
        path = self.clone / file
        text = path.read_text()
        if text.count(old) != 1:
            raise OtherwiseError(f"{file} has '{old}' {text.count(old)} times")
        path.write_text(text.replace(old, new))
        print(f"  {self.name} edits {file}: {' '.join(new.split())}")

    def push(self, branch: str, message: str) -> None:
        """Commit what was edited, and push it."""
        self.git("checkout", "-q", "-B", branch)
        self.git("add", ".")
        self.git("commit", "-q", "-m", message)
        self.git("push", "-q", "-u", "origin", branch)

    def at(self, branch: str) -> None:
        """Have a branch of the repository as it is now, as a job of CI begins."""
        self.git("fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
        self.git("checkout", "-q", "-B", branch, f"origin/{branch}")

    def merge(self, branch: str) -> None:
        """Merge a branch into `main`, as the button of a forge does."""
        self.at("main")
        self.git("merge", "-q", "--no-ff", "-m", f"merges {branch}", f"origin/{branch}")
        self.git("push", "-q", "origin", "main")
        print(f"  {self.name} merges {branch}")

    def comment(self, number: int) -> str:
        """Return the comment on a pull request, which is a file of a ref in plain Git."""
        self.git("fetch", "-q", "origin", "+refs/vde/*:refs/vde/*")
        return self.git("show", f"refs/vde/comments:pr_{number}.md")


def expect(what: str, true: bool) -> None:
    """Say what is so; raise OtherwiseError where it is not."""
    if not true:
        raise OtherwiseError(f"not so: {what}")
    print(f"    so it is: {what}")


@contextmanager
def act(title: str) -> Iterator[None]:
    """Print the title of an act, and how long it took."""
    began = time.monotonic()
    print(f"\n{title}", flush=True)
    yield
    print(f"  ({time.monotonic() - began:.0f} s)", flush=True)


def play(folder: Path) -> None:
    """Play it; raises OtherwiseError."""
    os.environ["SHOP_STATE"] = f"sqlite:///{folder / 'state.db'}"
    os.environ["VDE_WAREHOUSE"] = str(folder / "warehouse")
    ada, ben, ci = (Person(name, folder / name) for name in ("ada", "ben", "ci"))
    try:
        with act("Ada starts a repository with ten models and publishes production"):
            _begin(folder, ada)
            ada.vde("apply", "prod", "--yes")
            before = ada.total("prod")
            for other in (ben, ci):
                _clone(folder / "shop.git", other)

        with act("Ada's pull request 1: revenue without what came back. Her first try is wrong"):
            ada.edit(REVENUE, "SUM(amount) AS", "SUM(amount) FILTER (WHERE NOT returned) AS")
            ada.edit(REVENUE, "GROUP BY ordered_on", "GROUP BY ordered_on, returned")
            ada.push("net", "revenue is net of returns")
            ci.at("net")
            failed = ci.vde("ci", "check", "--pr", "1", code=1)
            for remark in failed["annotations"]:
                print(
                    f"    {remark['file']}:{remark['line']}: {remark['title']}: {remark['message']}"
                )
            told = {remark["file"] for remark in failed["annotations"]}
            expect("the audits are told at the model's file", told == {REVENUE})
            expect("production is as it was", ben.total("prod") == before)

        with act("She mends it; Ben reads the comment and looks at the rows"):
            ada.edit(REVENUE, "GROUP BY ordered_on, returned", "GROUP BY ordered_on")
            ada.push("net", "a day is a row")
            ci.at("net")
            ci.vde("ci", "check", "--pr", "1")
            comment = ben.comment(1)
            print("\n".join(f"    | {line}" for line in comment.splitlines()))
            expect("it is told that Ben has to approve", "ben" in comment)
            expect("one of ten models was computed", "1 affected, 1 to compute" in comment)
            net = ben.total("pr_1")
            expect("there is less of it", net < before)

        with act("Ben's pull request 2 adds a column, and is merged first"):
            ben.edit(CUSTOMERS, "c.name, COUNT", "c.name, MIN(c.country) AS country, COUNT")
            ben.push("country", "customers have a country")
            ci.at("country")
            ci.vde("ci", "check", "--pr", "2")
            ben.merge("country")
            ci.at("main")
            deployed = ci.vde("ci", "deploy")
            expect("it is published as it was seen", deployed["outcome"] == "published")
            ci.vde("ci", "close", "--pr", "2")

        with act("Ada merges hers. Production moved meanwhile, and readers will see other values"):
            ada.merge("net")
            ci.at("main")
            waits = ci.vde("ci", "deploy", code=3)
            expect("production waits for the owner", ben.total("prod") == before)
            refused = ada.vde("apply", "prod", "--plan", waits["plan"], "--yes", code=2)
            print(f"    {refused['error']['message'].splitlines()[0]}")
            ben.at("main")
            ben.vde("apply", "prod", "--plan", waits["plan"], "--yes")
            expect("production is what Ben saw in pr_1", ben.total("prod") == net)
            again = ci.vde("ci", "deploy")
            expect("the job finds it done", again["outcome"] == "published")
            ci.vde("ci", "close", "--pr", "1")

        with act("A report needs the old figures until tomorrow: Ben goes back, and forward again"):
            ben.vde("rollback", "prod")
            expect("the old figures are there", ben.total("prod") == before)
            ci.vde("ci", "deploy")
            expect("a job of CI does not undo it", ben.total("prod") == before)
            plan = ben.vde("plan", "prod")["id"]
            ben.vde("apply", "prod", "--plan", plan, "--yes")
            expect("the new ones are back", ben.total("prod") == net)

        with act("What was done is written down, and nothing is left of the pull requests"):
            ben.vde("janitor")
            environments = ben.vde("environments")
            expect("production is alone", "pr_" not in json.dumps(environments))
            ben.vde("log", "verify")
            ben.vde("fsck")
    finally:
        for person in (ada, ben, ci):
            if person.clone.exists():
                person.run(sys.executable, "-m", "vde_dagster.cli", "engine", "stop")


def _begin(folder: Path, ada: Person) -> None:
    bare = folder / "shop.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    _clone(bare, ada)
    for file in HERE.rglob("*"):
        own = file.relative_to(HERE)
        wanted = own.suffix in _FILES or own.name == ".gitignore"
        if file.is_file() and wanted and ".vde" not in own.parts:
            (ada.clone / own).parent.mkdir(parents=True, exist_ok=True)
            (ada.clone / own).write_bytes(file.read_bytes())
    ada.push("main", "the shop")


def _variables() -> dict[str, str]:
    """Return the variables without those of a job, which would name another forge."""
    of_jobs = ("GITHUB_", "GITLAB_", "CI_")
    return {key: value for key, value in os.environ.items() if not key.startswith(of_jobs)}


def _clone(bare: Path, person: Person) -> None:
    command = ["git", "clone", "-q", str(bare), str(person.clone)]
    subprocess.run(command, check=True, capture_output=True)


def main() -> int:
    """Play it in a folder, and say how it ended."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shop-") as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            play(folder)
        except OtherwiseError as error:
            print(f"\nThe play ended early: {error}", file=sys.stderr)
            return 1
    print(f"\nThe play is over, after {time.monotonic() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
