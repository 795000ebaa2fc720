"""Examples of sources; the toy distribution of the tests has a complete one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.kinds import Kind
from vde_dagster.api.models import Model
from vde_dagster.api.sources import (
    FileContext,
    Folder,
    LoadedFile,
    LoadedModel,
    Problem,
    Source,
    TableNames,
    TooSlow,
    YamlDocument,
    load_yaml,
    replacing,
)
from vde_dagster.api.sql import SourceText
from vde_dagster.api.values import ModelName

NAMES = TableNames("lake", "main")


class ToyFiles:
    """A source of one file, which does not depend on others."""

    name, key, names = "toy", "1", NAMES

    def files(self) -> Sequence[str]:
        return ("words.toy",)

    def other_files(self) -> Sequence[str]:
        return ()

    def draws_in(self, path: str) -> Sequence[str]:
        return ()

    def prepare(self) -> Sequence[ProjectError]:
        return ()

    def follows(self, mistake: ProjectError) -> bool:
        return False

    def read(self, path: str, text: str) -> LoadedFile:
        return LoadedFile(Path(path))


def test_FileContext() -> None:
    def read_words(folder: Folder, path: Path, text: str, context: FileContext) -> LoadedFile:
        """Reads a file of the seam `model_files`, which lies next to models."""
        name = context.names.read(path.stem)
        return LoadedFile(path, catalogs=(name.namespace,))

    assert read_words.__name__ == "read_words"


def test_Folder() -> None:
    def toy_files(folder: Folder) -> Source | None:
        """An entry of `vde_dagster.sources`: a source, where the folder has files for it."""
        return ToyFiles() if any(folder.root.glob("*.toy")) else None

    assert toy_files.__name__ == "toy_files"


def test_LoadedFile() -> None:
    read = LoadedFile(Path("words.toy"), uses=("words.csv",))
    assert read.uses == ("words.csv",)  # The file is read again when words.csv changes.


def test_LoadedModel() -> None:
    source = SourceText(Path("words.toy"), "a.b = SELECT 1 AS n")
    model = Model(ModelName("a", "b"), Kind.from_json({"name": "VIEW"}), source.location(0))
    assert LoadedModel(model, reads={ModelName("a", "raw"): source.location(6)}).group is None


def test_Problem() -> None:
    place = SourceLocation(Path("words.toy"), 3)
    warning = Problem("the word is unknown", "define it", place, certain=False)
    assert not warning.certain  # A warning, which stops nothing.


def test_Source() -> None:
    source: Source = ToyFiles()
    assert source.files() == ("words.toy",)


def test_TableNames() -> None:
    assert TableNames("lake", "main").read("lake.marts.daily") == ModelName("marts", "daily")


def test_TooSlow() -> None:
    def read_forever() -> None:
        while True:
            time.sleep(0.001)

    with pytest.raises(TooSlow), TooSlow.after(0.05):
        read_forever()


def test_YamlDocument() -> None:
    document: YamlDocument = load_yaml(Path("syncs.yaml"), "- name: leads\n  key: [id]\n")
    assert str(document.location((0, "key"))) == "syncs.yaml:2"


def test_load_yaml() -> None:
    with pytest.raises(ProjectError, match=r"syncs\.yaml"):
        load_yaml(Path("syncs.yaml"), "a: [1")


def test_replacing(tmp_path: Path) -> None:
    with replacing(tmp_path / "out.json") as file:
        file.write(b"{}")
    assert (tmp_path / "out.json").read_bytes() == b"{}"
