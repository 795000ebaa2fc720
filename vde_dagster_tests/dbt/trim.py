"""Cut a manifest that dbt made to what is read of it: `python -m … FROM TO`.

Both are files; the manifest's metadata keeps the version of the dbt that made it. `vde` leaves what
dbt makes of a project in `.vde/cache/dbt/first` and `later`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from vde_dagster.plugins.dbt.manifest import Manifest, read_compiled_nodes


def trimmed(content: bytes, *, later: bool = False) -> bytes:
    """Return a manifest without what is not read; `later` for that of the second compile."""
    manifest = msgspec.json.decode(content, type=Manifest)
    if later:
        manifest = Manifest(manifest.metadata, read_compiled_nodes(content))
    plain: Any = json.loads(msgspec.json.encode(manifest))
    for node in (*plain["nodes"].values(), *plain.get("sources", {}).values()):
        config = node.get("config", {})
        node["config"] = {
            key: value for key, value in config.items() if value not in (None, [], {})
        }
    for part in ("nodes", "sources"):
        plain[part] = dict(sorted(plain.get(part, {}).items()))
    for node in plain["nodes"].values():
        if "compiled_path" in node:
            node["compiled_path"] = (
                "target/compiled" + node["compiled_path"].partition("/compiled")[2]
            )
    own = plain["metadata"].get("project_name")
    macros = plain.get("macros", {}).items()
    plain["macros"] = {name: one for name, one in macros if one["package_name"] == own}
    return json.dumps(plain, indent=1).encode() + b"\n"


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(trimmed(source.read_bytes(), later=source.parent.name == "later"))
