"""Files of a project: their purpose, text, content hashes, and changes against a git branch.

A file's hash is cached with its size, times and inode, so an unchanged project is recognized by
`stat` alone. The hash of a file that changed within the last two seconds is not cached, because
another change could leave the same size and time (git's "racy" problem).
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from stat import S_IMODE, S_ISDIR, S_ISREG
from typing import Any, BinaryIO

from vde_dagster.base.hashing import DIGEST_BYTES, content_digest
from vde_dagster.base.texts import printable
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.settings import Settings

MATERIALIZATIONS = "materializations"
"""Folder of functions that write tables of kind CUSTOM."""
_SKIPPED = frozenset({"__pycache__", "node_modules"})
SIGNALS = "signals"
"""Folder of Python signals, next to the models or inside their folder."""
_EXTERNALS = "external_models"
"""Folder, and prefix of files, with declarations of external tables."""
_EXPOSURES = ("exposures.yaml", "exposures.yml")
_SYNCS = ("syncs.yaml", "syncs.yml")
DOCS = ("docs.yml", "docs.yaml")
"""Names of files with descriptions, in any folder of models."""
METRICS = "metrics"
"""Folder of metrics and semantic models."""
LINTER = "linter"
"""Folder of the project's linter rules."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Sorted paths of a project's files by purpose, relative to the root, with forward slashes.

    Args:
        sql: Files of models or audits.
        bad_links: Symbolic links that are broken, circular, or lead out of the project.
    """

    sql: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    macros: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    externals: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    materializations: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    linter: tuple[str, ...] = ()
    exposures: tuple[str, ...] = ()
    syncs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    notebooks: tuple[str, ...] = ()
    docs: tuple[str, ...] = ()
    bad_links: tuple[str, ...] = ()


def find_files(settings: Settings) -> FoundFiles:
    groups: dict[str, list[str]] = defaultdict(list)
    bad_links: list[str] = []
    root, models = os.path.realpath(settings.root), settings.models_dir.strip("/")
    groups[LINTER] = [path for path in _list_files(root, LINTER, bad_links) if path.endswith(".py")]
    for path in _list_files(root, models, bad_links):
        top, slash, _ = path[len(models) + 1 :].partition("/")
        groups[_purpose(path, top if slash else "", settings)].append(path)
    shared = (settings.audits_dir, settings.macros_dir, settings.tests_dir, settings.seeds_dir)
    for folder in (*shared, SIGNALS, MATERIALIZATIONS):
        if not folder.startswith(models + "/"):
            for path in _list_files(root, folder.strip("/"), bad_links):
                groups[_purpose(path, folder, settings)].append(path)
    declared = _list_files(root, _EXTERNALS, bad_links)
    groups["externals"] += [path for path in declared if path.endswith((".yaml", ".yml"))]
    names = (f"{_EXTERNALS}.yaml", f"{_EXTERNALS}.yml")
    for group, own in (("externals", names), ("exposures", _EXPOSURES), ("syncs", _SYNCS)):
        refused = [one for one in own if find_link_error(root, one) is not None]
        there = [one for one in own if os.path.isfile(os.path.join(root, one))]
        groups[group] += [one for one in there if one not in refused]
        bad_links += refused
    metrics = _list_files(root, METRICS, bad_links)
    groups["metrics"] = [path for path in metrics if path.endswith((".yaml", ".yml"))]
    groups.pop("", None)
    if settings.ignore_patterns:
        ignored = _ignore_test(root, settings.ignore_patterns)
        groups = {name: [p for p in paths if not ignored(p)] for name, paths in groups.items()}
    found = {name: tuple(sorted(paths)) for name, paths in groups.items()}
    return FoundFiles(**found, bad_links=tuple(sorted(bad_links)))


def linter_files(settings: Settings) -> list[str]:
    found = _list_files(os.path.realpath(settings.root), LINTER)
    return sorted(path for path in found if path.endswith(".py"))


def files_in(settings: Settings, folder: str, *endings: str) -> list[str]:
    """List the files of a folder that no ignore pattern matches, sorted.

    `folder` and the results are relative to the root; an ending is, for example, `.yaml`.
    """
    found = _list_files(os.path.realpath(settings.root), folder)
    paths = sorted(path for path in found if path.endswith(endings))
    ignored = _ignore_test(str(settings.root), settings.ignore_patterns) if paths else None
    return [path for path in paths if ignored is None or not ignored(path)]


def _ignore_test(root: str, patterns: Sequence[str]) -> Callable[[str], bool]:
    from glob import glob

    found = {path for pattern in patterns for path in glob(pattern, root_dir=root, recursive=True)}

    def ignored(path: str) -> bool:
        known = PurePosixPath(path)
        return path in found or any(known.match(pattern) for pattern in patterns)

    return ignored


def _purpose(path: str, folder: str, settings: Settings) -> str:
    ending = path.rpartition(".")[2].lower()
    if ending in ("yaml", "yml"):
        if folder == settings.tests_dir:
            return "tests"
        name = path.rpartition("/")[2]
        if name in DOCS and path.startswith(settings.models_dir.strip("/") + "/"):
            return "docs"
        declares = name.startswith(_EXTERNALS) or folder == _EXTERNALS
        return "externals" if declares else ""
    tests, seeds, audits = settings.tests_dir, settings.seeds_dir, settings.audits_dir
    if ending == "py":
        own = {MATERIALIZATIONS: MATERIALIZATIONS, settings.macros_dir: "macros", SIGNALS: SIGNALS}
        return own.get(folder, "" if folder in (tests, seeds, audits) else "python")
    if ending == "sql":
        return {settings.macros_dir: "templates", tests: ""}.get(folder, "sql")
    if ending == "ipynb":
        return "" if folder in (tests, seeds, audits, settings.macros_dir) else "notebooks"
    return "data" if ending == "csv" else ""


def _list_files(root: str, folder: str, bad_links: list[str] | None = None) -> Iterator[str]:
    refused = [] if bad_links is None else bad_links
    waiting = [folder]
    if find_link_error(root, folder) is not None:
        refused.append(waiting.pop())
    while waiting:
        current = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, current)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            path = f"{current}/{entry.name}"
            if entry.is_symlink() and find_link_error(root, path) is not None:
                refused.append(path)
            elif entry.is_dir():
                waiting.append(path)
            else:
                yield path


def find_link_error(root: str, path: str) -> ProjectError | None:
    """Return an error if a path's symbolic links are broken, circular or leave the project.

    `root` must have no symbolic links; `path` is relative to `root`.
    """
    full = os.path.join(root, path)
    if not os.path.lexists(full):
        return None
    target = os.path.realpath(full)
    if target == full and not os.path.islink(full):
        return None
    if not os.path.exists(full):
        what, hint = "is broken", "delete the link, or create its target"
        if os.path.islink(target):  # Resolving links that point to each other ends at one of them.
            what, hint = "points to itself", "delete the link"
    elif not f"{target}{os.sep}".startswith(f"{root.rstrip(os.sep)}{os.sep}"):
        what, hint = "leads out of the project", "copy its target into the project's folder"
    elif f"{full}{os.sep}".startswith(f"{target}{os.sep}"):
        what, hint = "points to a folder that contains it", "delete the link"
    else:
        return None
    return ProjectError(
        f"the symbolic link {printable(path)} {what}",
        hint=hint,
        location=SourceLocation(Path(path)),
    )


def project_file_path(root: Path, path: str | Path) -> Path:
    """Join the project's folder and a path, and check that the result is inside the folder.

    Raises:
        UsageError: The path, or a symbolic link in it, leads out of the folder.
    """
    full = root / path
    if "\0" in str(path) or not Path(os.path.realpath(full)).is_relative_to(os.path.realpath(root)):
        raise UsageError(
            f"the file {printable(str(path))} is outside the project's folder",
            hint="name a file in the project's folder",
        )
    return full


_RACY_NS = 2_000_000_000


@dataclass(slots=True)
class Hasher:
    """Hashes the contents of files, with cached hashes for unchanged files.

    A file counts as unchanged if its size, times and inode are the same. A folder's hash is the
    hash of the names in the folder.

    Args:
        instead: Contents to use instead of the files' contents.
        known: Cached hashes: `[size, mtime_ns, ctime_ns, inode, hash]` by path.
    """

    root: Path
    instead: Mapping[str, bytes] = field(default_factory=dict)
    known: dict[str, list[Any]] = field(default_factory=dict)
    stats: dict[str, list[Any]] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)

    def hash(self, path: str) -> str:
        """Return the hash of a file's content, or the text `missing` if the file does not exist.

        Raises:
            OSError: The file cannot be read.
        """
        found = self.hashes.get(path)
        if found is None:
            found = self.hashes[path] = self._hash(path)
        return found

    def content(self, path: str) -> bytes:
        """Read a file, and keep its bytes until `forget`.

        Raises:
            ProjectError: The path contains a symbolic link that `find_link_error` refuses.
        """
        found = self.instead.get(path, self._contents.get(path))
        if found is None:
            flaw = find_link_error(str(self.root), path)
            if flaw is not None:
                raise flaw
            full = os.path.join(self.root, path)
            identity = _identity(os.stat(full))
            now = time.time_ns()
            with open(full, "rb", buffering=0) as file:
                found = self._contents[path] = file.read()
            # `hash` returns the hash of the bytes that are kept.
            self.hashes[path] = content_digest(found)
            self._cache_hash(path, identity, self.hashes[path], now)
        return found

    def forget(self, path: str) -> None:
        """Release a file's bytes."""
        self._contents.pop(path, None)

    def combined_hash(self, paths: Iterable[str]) -> str:
        """Return one hash of several files, from their paths and contents."""
        state = hashlib.blake2b(digest_size=DIGEST_BYTES)
        for path in sorted(set(paths)):
            state.update(f"{len(path)}:{path}{self.hash(path)};".encode())
        return state.hexdigest()

    @property
    def changed(self) -> bool:
        """Whether `stats` (the hashes to cache) differs from `known` (the cached hashes)."""
        return self.stats != self.known

    def _hash(self, path: str) -> str:
        if path in self.instead:
            return content_digest(self.instead[path])
        full = os.path.join(self.root, path)
        try:
            stat = os.stat(full)
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return "missing"
        if S_ISDIR(stat.st_mode):
            names = "\0".join(sorted(os.listdir(full)))
            return content_digest(os.fsencode(names))
        if not S_ISREG(stat.st_mode):
            return "neither a file nor a folder"
        identity = _identity(stat)
        known = self.known.get(path)
        if known is not None and known[:4] == identity:
            self.stats[path] = known
            return str(known[4])
        now = time.time_ns()
        with open(full, "rb") as file:
            state = hashlib.blake2b(digest_size=DIGEST_BYTES)
            while block := file.read(1 << 20):
                state.update(block)
        content = state.hexdigest()
        self._cache_hash(path, identity, content, now)
        return content

    def _cache_hash(self, path: str, identity: list[int], content: str, now: int) -> None:
        _, modified, changed, _ = identity
        if max(modified, changed) < now - _RACY_NS:
            self.stats[path] = [*identity, content]
        else:
            self.stats.pop(path, None)


def _identity(stat: os.stat_result) -> list[int]:
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


MOST_BYTES = 2_000_000
"""Maximum size of a text file, far above what people write."""


def decode_text(path: Path, content: bytes) -> str:
    r"""Decode a file's UTF-8 bytes, without the byte order mark and with `\n` as line ending."""
    if len(content) > MOST_BYTES:
        raise ProjectError(
            f"the file has {len(content):,} bytes; the maximum is {MOST_BYTES:,}",
            hint="split it, or move data to seeds or tables",
            location=SourceLocation(path),
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProjectError(
            f"the file is not UTF-8: byte 0x{content[error.start]:02x} ({error.reason})",
            hint="save it as UTF-8",
            location=SourceLocation(path, line),
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def git_changes(root: Path, branch: str) -> frozenset[str]:
    """Return the files that changed after HEAD forked from a branch, including uncommitted changes.

    Paths are relative to the root, with forward slashes. `branch` may be any name of a commit.

    Raises:
        UsageError: The repository, the branch or the program git is missing.
    """
    if not branch or branch.startswith("-"):
        raise UsageError(f"'git:{branch}' does not name a branch", hint="write git:main")
    committed = _git(root, branch, "diff", "--name-only", "-z", "--relative", f"{branch}...HEAD")
    changed = _git(root, branch, "diff", "--name-only", "-z", "--relative", "HEAD")
    new = _git(root, branch, "ls-files", "-z", "--others", "--exclude-standard")
    return committed | changed | new


def _git(root: Path, branch: str, *arguments: str) -> frozenset[str]:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments, "--"], capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error).encode()
        why = output.decode(errors="replace").strip().splitlines()[:1]
        raise UsageError(
            f"git cannot compare the project with '{branch}': {''.join(why)}",
            hint="use the name of a branch in the project's repository",
        ) from None
    return frozenset(path for path in done.stdout.decode(errors="replace").split("\0") if path)


def write_text(path: Path, text: str) -> None:
    """Write a text file; an existing file keeps its line ends, permissions and symbolic links."""
    path = Path(os.path.realpath(path))
    before = path.read_bytes() if path.exists() else b""
    if b"\r" in before:
        text = _with_line_ends(text, before.decode("utf-8", "replace"))
    with replacing(path, shared=True) as file:
        file.write(text.encode())


_LINE_END = re.compile(r"(\r\n|\n|\r)")


def _with_line_ends(text: str, before: str) -> str:
    """Return a text whose lines have the line ends of another text.

    If that text has several line ends, a new line gets the one of the line before it.
    """
    lines = _LINE_END.split(text)[::2]
    old = _LINE_END.split(before)
    old_lines, old_ends = old[::2], old[1::2]
    if len(set(old_ends)) == 1:
        return old_ends[0].join(lines)
    old_ends.append(old_ends[-1])  # The last line has none.
    ends: list[str] = []
    matcher = difflib.SequenceMatcher(None, old_lines, lines, autojunk=False)
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        found = old_ends[start:end][: new_end - new_start]
        last = (*ends, *found)[-1:] or old_ends[:1]
        ends += [*found, *last * (new_end - new_start - len(found))]
    return "".join(map("".join, zip(lines, [*ends[: len(lines) - 1], ""], strict=True)))


@contextlib.contextmanager
def replacing(path: Path, *, shared: bool = False) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the file at a path when the block ends.

    The path's folder is created if necessary.

    Args:
        shared: Whether the file keeps its permissions, and a new file gets them by the umask. By
            default, only the owner can read it.

    Raises:
        OSError: The file cannot be written; the old file stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(handle, "wb") as file:
            yield file
        if shared:
            # The umask can only be read by setting it.
            mask = os.umask(0o077)
            os.umask(mask)
            os.chmod(name, S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
