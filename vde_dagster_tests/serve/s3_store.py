"""An object store that speaks S3, knows two keys, and notes who asked for what.

Moto answers; what is before it lets the writer's key do all and the reader's key read, as a policy
of a real store does.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

BUCKET = "served-lake"
"""A name of its own: all of Moto's servers in a process have the same buckets."""
REGION = "eu-central-1"
WRITER = ("writer", "writes-everything")
READER = ("reader", "reads-and-no-more")
_KEY = re.compile(r"Credential=([^/]+)/")


class _Quiet(MotoRequestHandler):
    def log_request(self, *args: object) -> None:
        """Say nothing."""


@dataclass
class Store:
    """A running store.

    Args:
        url: Where it listens.
        seen: (key, method, path) of each request.
    """

    url: str
    seen: list[tuple[str | None, str, str]] = field(default_factory=list)

    def who_read_data(self) -> set[str | None]:
        """Return the keys that read data files since it was asked last."""
        found = {key for key, method, path in self.seen if method == "GET" and ".parquet" in path}
        self.seen.clear()
        return found


@contextmanager
def running_store() -> Iterator[Store]:
    """Run a store with an empty bucket."""
    store = Store("")
    moto: Any = DomainDispatcherApplication(create_backend_app)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        found = _KEY.search(environ.get("HTTP_AUTHORIZATION", ""))
        key = found[1] if found else None
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        store.seen.append((key, method, path))
        if key == WRITER[0] or (key == READER[0] and method in ("GET", "HEAD")):
            return moto(environ, start)  # type: ignore[no-any-return]
        start("403 Forbidden", [("Content-Type", "application/xml")])
        return [b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"]

    server = make_server("127.0.0.1", 0, answer, True, request_handler=_Quiet)
    store.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        client = boto3.client(
            "s3",
            endpoint_url=store.url,
            region_name=REGION,
            aws_access_key_id=WRITER[0],
            aws_secret_access_key=WRITER[1],
        )
        client.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield store
    finally:
        server.shutdown()
        thread.join()
