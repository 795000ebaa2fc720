"""Files and environment variables read by a project's Python code, found in its strings.

A string that could be a path, absolute or from the project's folder, is looked up. If the code
reads environment variables, each word that could be a variable's name is looked up in the
environment.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_FILE, _VARIABLE = "file ", "variable "
_READS_VARIABLES = re.compile(r"\b(environb?|getenvb?|expandvars)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LONGEST = 255
_OWN_FOLDER = ".vde/"
_MOST_FOLDERS = 50


@dataclass(frozen=True, slots=True)
class OutsideInputs:
    """Files and environment variables that a project's Python code may read.

    Args:
        hashes: Hashes of existing files and variables, by `file PATH` and `variable NAME`.
    """

    hashes: dict[str, str]
    paths: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def find_outside_inputs(
    root: Path, files: Mapping[str, str], hash_file: Callable[[str], str]
) -> OutsideInputs:
    """Return the files and environment variables named by string constants of Python files."""
    texts = {text for content in files.values() for text in _string_constants(content)}
    names = [text for text in texts if 0 < len(text) <= _LONGEST and text.isprintable()]
    folders = ["", *sorted({f for path in files for f in _folders_above(path, files[path])})]
    for name in sorted(names):
        folders += [f"{f}{name}/" for f in folders[:_MOST_FOLDERS] if _is_folder(root, f + name)]
    looked = {
        os.path.normpath(folder + name)
        for name in names
        for folder in folders[:_MOST_FOLDERS]
        if "." in name or "/" in name or folder
    }
    # A word may later become a folder's name.
    looked |= {name for name in names if " " not in name}
    paths = sorted(
        path for path in looked if not path.startswith(_OWN_FOLDER) and not _is_folder(root, path)
    )
    hashes = {
        _FILE + path: hash_file(path) for path in paths if os.path.isfile(os.path.join(root, path))
    }
    variables: list[str] = []
    if any(_READS_VARIABLES.search(content) for content in files.values()):
        variables = sorted({word for text in texts for word in _WORD.findall(text)})
        set_ = (name for name in variables if name in os.environ)
        hashes |= {_VARIABLE + name: hash_variables([name], os.environ) for name in set_}
    return OutsideInputs(hashes, tuple(paths), tuple(variables))


def _folders_above(path: str, content: str) -> list[str]:
    if "__file__" not in content:
        return []
    # The code may read files next to its own file.
    return [f"{folder.as_posix()}/" for folder in PurePosixPath(path).parents[:-1]]


def find_mentioned_inputs(names: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return the sorted `names` that the texts mention.

    A text with the word NAME mentions `variable NAME`. A text that is PATH or the end of PATH
    mentions `file PATH`: the text `eu.csv` mentions `file rates/eu.csv`.
    """
    texts = set(texts)
    words = {word for text in texts for word in _WORD.findall(text)}
    ends = {os.path.normpath(text) for text in texts if text and len(text) <= _LONGEST}

    def may_stand_for(name: str) -> bool:
        if name.startswith(_VARIABLE):
            return name.removeprefix(_VARIABLE) in words
        path = name.removeprefix(_FILE)
        return any(path == end or path.endswith(f"/{end}") for end in ends)

    return sorted(filter(may_stand_for, names))


def hash_variables(names: Iterable[str], environment: Mapping[str, str]) -> str:
    """Hash the values of environment variables, including unset ones; the name `*` means all."""
    asked = set(names)
    if "*" in asked:
        asked |= set(environment)
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(asked):
        value = environment.get(name)
        text = "unset" if value is None else f"{len(value)}:{value}"
        state.update(f"{len(name)}:{name}={text};".encode("utf-8", "surrogateescape"))
    return state.hexdigest()


def _string_constants(content: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(content)))
    documents = {node.value for node in nodes if isinstance(node, ast.Expr)}
    constants = (node for node in nodes if isinstance(node, ast.Constant))
    return {c.value for c in constants if isinstance(c.value, str) and c not in documents}


def _is_folder(root: Path, name: str) -> bool:
    return os.path.isdir(os.path.join(root, name))
