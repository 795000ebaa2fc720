"""Cut a manifest that `dbt compile` made to what is read of it: `python -m … FROM TO`.

Both are files; the manifest's metadata keeps the version of the dbt that made it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from vde_dagster.plugins.dbt.manifest import Manifest


def trimmed(content: bytes) -> bytes:
    """Return a manifest without what is not read."""
    manifest = msgspec.json.decode(content, type=Manifest)
    plain: Any = json.loads(msgspec.json.encode(manifest))
    for node in (*plain["nodes"].values(), *plain.get("sources", {}).values()):
        config = node.get("config", {})
        node["config"] = {
            key: value for key, value in config.items() if value not in (None, [], {})
        }
    for part in ("nodes", "sources"):
        plain[part] = dict(sorted(plain.get(part, {}).items()))
    own = plain["metadata"].get("project_name")
    macros = plain.get("macros", {}).items()
    plain["macros"] = {name: one for name, one in macros if one["package_name"] == own}
    return json.dumps(plain, indent=1).encode() + b"\n"


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(trimmed(source.read_bytes()))
