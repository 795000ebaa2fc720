"""Build the distributions of a release: `vde-dagster`, as an sdist and a wheel, and the wheel
`vde-dagster-slim`, the same code without Spark, Dagster and what only they need.

Usage: .ci/build_distributions.py FOLDER [https://github.com/OWNER/NAME]. With the address of the
repository, the metadata has its URLs, and pictures and links of the README are absolute.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = re.compile(
    r'^  "(dagster|dagster-\w+|grpcio|py4j|pyspark)(\[\w+\])?[<>=].*\n', re.MULTILINE
)
NAME = re.compile(r'^name = "vde-dagster"$', re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://)([^)#]+)([^)]*)\)")
SLIM = """\
# vde-dagster-slim

[vde-dagster](https://pypi.org/project/vde-dagster/) without Spark and Dagster: less than half
the size, for jobs that plan, lint, format, build the documentation or run the language server.
Install either this distribution or `vde-dagster`, which contains the same package.

"""


def slim(description: str) -> str:
    """Return the description of the package (pyproject.toml) without the large dependencies."""
    named, names = NAME.subn('name = "vde-dagster-slim"', description)
    kept, left_out = LEFT_OUT.subn("", named)
    if names != 1 or left_out != 7:
        raise SystemExit("error: pyproject.toml does not have the expected lines")
    return kept.replace('"vde-dagster[', '"vde-dagster-slim[')


def with_urls(description: str, repository: str) -> str:
    """Return the description with the URLs of a repository."""
    urls = {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/main/docs/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Source": repository,
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    return description.replace("[project.scripts]", f"[project.urls]\n{lines}\n[project.scripts]")


def absolute(readme: str, repository: str) -> str:
    """Return the README with absolute addresses of its pictures and pages."""

    def address(found: re.Match[str]) -> str:
        picture, text, path, anchor = found.groups()
        form = "raw" if picture else "blob"
        return f"{picture}[{text}]({repository}/{form}/main/{path}{anchor})"

    return LINK.sub(address, readme)


def build(target: Path, repository: str = "") -> None:
    """Build all distributions of the files that Git knows, from copies of them."""
    files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(files, cwd=ROOT, check=True, capture_output=True).stdout
    python = [sys.executable, "-m", "build", "--outdir", str(target)]
    uv = [str(Path(sys.executable).with_name("uv")), "build", "--quiet", "--no-build-isolation"]
    with_uv = Path(uv[0]).exists()
    for is_slim in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            copied = ["tar", "--null", "-cf", "-", "-T", "-"]
            packed = subprocess.run(copied, cwd=ROOT, input=listed, check=True, capture_output=True)
            subprocess.run(["tar", "-xf", "-"], cwd=folder, input=packed.stdout, check=True)
            described, readme = Path(folder, "pyproject.toml"), Path(folder, "README.md")
            text, page = described.read_text(), readme.read_text()
            if repository:
                text, page = with_urls(text, repository), absolute(page, repository)
            described.write_text(slim(text) if is_slim else text)
            readme.write_text(SLIM if is_slim else page)
            command = [*uv, "--out-dir", str(target)] if with_uv else python
            subprocess.run([*command, *(["--wheel"] if is_slim else []), folder], check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve(), *sys.argv[2:])
