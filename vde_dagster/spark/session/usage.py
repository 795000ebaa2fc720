"""Resources that Spark's tasks used for the jobs of a tag, from Spark's status stores.

The stores exist even without the UI. They receive Spark's events late, and drop old events. If that
makes the figures of a tag incomplete, they are not reported.

Bytes read are the complete sizes of the files that Iceberg's scans planned. Spark's own figure
("input bytes") misses ranges that Parquet's reader requests together: 46 kB for a table of 62 MB.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from secrets import compare_digest
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

_WAIT_MILLIS = 1_000
"""Time to wait for Spark's events; if they keep arriving, the usage is unknown."""
_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 4096
_FILE_SIZES = re.compile(r"\(total (?:data|delete) file size \(bytes\),(\d+),v2Custom_")
_READ_NO_FILES = ("LocalTableScan", "InMemoryTableScan", "Scan OneRowRelation", "Scan ExistingRDD")
"""Scans of rows in memory."""
_CHANGES = ".changes"
"""End of the name of Iceberg's scan of changed rows, which does not report its files' size."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that the tasks of some Spark jobs used; None where unknown.

    Args:
        bytes_read: The size of the files that the scans planned, without Iceberg's scans of changed
            rows, which do not report a size.
    """

    task_seconds: float | None = None
    bytes_read: int | None = None


UNKNOWN = Usage()


def read_usage(context: SparkContext, tag: str) -> Usage:
    """Return the usage of a tag's ended jobs; unknown if Spark's answer is unexpected."""
    from py4j.protocol import Py4JError

    try:
        return _status_stores(context).usage(tag)
    # Spark may be ending, or its owner may forbid the request. A fill does not fail for this.
    except (Py4JError, OSError, TypeError, AttributeError, ValueError) as error:
        logger.debug("the usage of the tasks of %s is unknown: %s", tag, error)
        return UNKNOWN


def serve_usage(context: SparkContext, token: str) -> int:
    """Serve `read_usage` on a loopback port, to clients with the token, and return the port."""

    # Connect clients cannot read the status stores themselves.
    class Answer(StreamRequestHandler):
        timeout = _TIMEOUT_SECONDS

        def handle(self) -> None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                request = json.loads(self.rfile.readline(_MOST_BYTES))
                if compare_digest(request["token"], token):
                    reply = asdict(read_usage(context, request["tag"]))
                    self.wfile.write(json.dumps(reply).encode() + b"\n")

    server = ThreadingTCPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="vde-usage", daemon=True).start()
    return int(server.server_address[1])


def request_usage(port: int, token: str, tag: str) -> Usage:
    """Request the usage of a tag's jobs from a process that called `serve_usage`."""
    request = json.dumps({"token": token, "tag": tag}).encode() + b"\n"
    try:
        with (
            socket.create_connection(("127.0.0.1", port), _TIMEOUT_SECONDS) as way,
            way.makefile("rb") as answers,
        ):
            way.sendall(request)
            return Usage(**json.loads(answers.readline(_MOST_BYTES)))
    except (OSError, ValueError, TypeError) as error:
        logger.debug("the usage of the tasks of %s is unknown: %s", tag, error)
        return UNKNOWN


class _StatusStores:
    def __init__(self, context: SparkContext) -> None:
        gateway: Any = context._gateway
        self._spark: Any = context._jsc.sc()
        # A call of the JVM takes a twentieth of a millisecond, so this class makes few.
        self._jobs, self._tracker = self._spark.statusStore(), self._spark.statusTracker()
        shared = context._jvm.org.apache.spark.sql.classic.SparkSession
        self._queries = shared.builder().getOrCreate().sharedState().statusStore()
        self._no_quantiles = gateway.new_array(gateway.jvm.double, 0)
        self._no_statuses = gateway.jvm.java.util.ArrayList()

    def usage(self, tag: str) -> Usage:
        self._spark.listenerBus().waitUntilEmpty(_WAIT_MILLIS)
        jobs = list(self._tracker.getJobIdsForTag(tag))
        first = min(jobs, default=0)
        # The store may have deleted stages of its oldest job, except for the process's first one.
        if not jobs or (first > 0 and int(self._jobs.jobsList(None).last().jobId()) == first):
            return UNKNOWN
        stages, queries = set[str](), set[str]()
        for job in jobs:
            pair = self._jobs.jobWithAssociatedSql(job)
            stages.update(pair._1().stageIds().mkString(",").split(","))
            queries.update(re.findall(r"\d+", pair._2().toString()))  # `Some(7)`, or `None`.
        millis = [took for stage in stages if stage for took in self._millis(int(stage))]
        task_seconds = None if None in millis else sum(filter(None, millis)) / 1000
        return Usage(task_seconds, self._bytes_read(map(int, queries)))

    def _millis(self, stage: int) -> Iterator[int | None]:
        """Yield the run time (ms) of each attempt at a stage, or None for a running attempt."""
        attempts = self._jobs.stageData(stage, False, self._no_statuses, False, self._no_quantiles)
        for number in range(attempts.size()):
            attempt = attempts.apply(number)
            whole = attempt.numCompleteTasks() >= attempt.numTasks()
            whole = whole or str(attempt.status()) in ("SKIPPED", "FAILED")
            yield int(attempt.executorRunTime()) if whole else None

    def _bytes_read(self, queries: Iterable[int]) -> int | None:
        sizes: dict[str, int] = {}
        for query in queries:
            nodes, values = self._queries.planGraph(query).allNodes(), None
            for number in range(nodes.size()):
                node = nodes.apply(number)
                if not _reads_files(node.name()):
                    continue
                own = _FILE_SIZES.findall(node.metrics().mkString("\n"))
                if not own:
                    return None  # It scans something else, whose size is unknown.
                values = values or self._queries.executionMetrics(query)
                for metric in own:
                    if values.contains(int(metric)):
                        sizes[metric] = int(values.apply(int(metric)))
        return sum(sizes.values())


def _reads_files(node: str) -> bool:
    return "Scan" in node and not (node.startswith(_READ_NO_FILES) or node.endswith(_CHANGES))


@lru_cache(maxsize=1)
def _status_stores(context: SparkContext) -> _StatusStores:
    return _StatusStores(context)
