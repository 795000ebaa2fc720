"""A project whose warehouse is in an object store that speaks S3, over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.execution.test_nessie import MODELS
from vde_dagster_tests.projects import ProjectFolder

KEYS = {"STORE_USER": "anna", "STORE_KEY": "not-to-be-seen"}


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of a running store."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.spark
@pytest.mark.server
def test_a_warehouse_in_s3_is_built_edited_published_rolled_back_and_cleaned_up(
    tmp_path: Path, store: str
) -> None:
    bucket = boto3.client(
        "s3",
        endpoint_url=store,
        region_name="eu-central-1",
        aws_access_key_id=KEYS["STORE_USER"],
        aws_secret_access_key=KEYS["STORE_KEY"],
    )
    bucket.create_bucket(
        Bucket="lake", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    small = ", ".join(f"{json.dumps(key)} = {json.dumps(at)}" for key, at in SMALL_SPARK.items())
    settings = f"""
        [tool.vde]
        warehouse = "s3://lake/warehouse"
        change_views = ["sales.*"]

        [tool.vde.io]
        "s3.endpoint" = "{store}"
        "s3.region" = "eu-central-1"
        "s3.access-key-id" = "${{STORE_USER}}"
        "s3.secret-access-key" = "${{STORE_KEY}}"

        [tool.vde.spark]
        master = "local[2]"
        packages = ["org.apache.iceberg:iceberg-aws-bundle:1.12.0"]
        config = {{ {small} }}
    """
    folder = ProjectFolder(tmp_path / "shop", {**MODELS, "pyproject.toml": settings})
    ended = subprocess.run(
        [sys.executable, "-m", "vde_dagster_tests.execution.s3_project", str(folder.root)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**os.environ, **KEYS},
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    seen = json.loads(ended.stdout.splitlines()[-1])
    newest, oldest = [["2024-01-03", 1]], [["2024-01-01", 1]]
    assert seen["first"] == seen["prod meanwhile"] == seen["version 1"] == newest
    assert seen["dev"] == seen["second"] == oldest
    assert seen["rolled back"] == newest
    assert seen["changes"].keys() >= {"nothing", "versions"}
    assert sorted(row["id"] for row in seen["without Spark"]) == [1, 3]
    assert seen["damage"] == seen["damage at the end"] == []
    assert seen["at the end"] == [{"d": "2024-01-03"}]
    tables = {key.split("/")[2] for key in keys(bucket)}
    assert len([name for name in tables if "newest" in name]) == 1, "the edited one is gone"
    assert not list((tmp_path / "shop").rglob("*.parquet"))
    written = [path for path in (tmp_path / "shop" / ".vde").rglob("*") if path.is_file()]
    assert not [path for path in written if KEYS["STORE_KEY"].encode() in path.read_bytes()]


def keys(bucket: object) -> list[str]:
    """List the bucket's objects."""
    pages = bucket.get_paginator("list_objects_v2").paginate(Bucket="lake")  # type: ignore[attr-defined]
    return [one["Key"] for page in pages for one in page.get("Contents", ())]
