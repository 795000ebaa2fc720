"""Whether somebody answers at a Spark master's address, asked before a JVM waits for it."""

from __future__ import annotations

import queue
import re
import socket
import threading
from collections.abc import Iterator

from vde_dagster.errors import NoSparkError

PROBE_SECONDS = 10.0
"""How long all of a master's addresses have to answer; Spark itself would try for a minute."""

_STANDALONE_PORT, _HTTPS_PORT, _CONNECT_PORT = 7077, 443, 15002
_ADDRESS = re.compile(r"(?:https?://)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?(?:/.*)?$")


def check_master(master: str, seconds: float = PROBE_SECONDS) -> None:
    """Check that a master that is an address accepts connections.

    Args:
        master: Spark's master URL; `local[*]` and `yarn` name no address.
        seconds: How long to wait for an answer.

    Raises:
        NoSparkError: No address of it answers.
    """
    addresses = list(master_addresses(master))
    if not addresses:
        return
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for host, port in addresses:
        # A name server can take longer than any timeout of a socket, so nobody waits for these.
        threading.Thread(
            target=lambda h=host, p=port: answers.put(_problem(h, p, seconds)), daemon=True
        ).start()
    problems: list[str] = []
    while len(problems) < len(addresses):
        try:
            problem = answers.get(timeout=seconds + 1)
        except queue.Empty:
            problems.append(f"no answer within {seconds:.0f} s")
            break
        if problem is None:
            return
        problems.append(problem)
    raise NoSparkError(
        f"the Spark master {without_parameters(master)} cannot be reached: {'; '.join(problems)}",
        hint="check spark.master under [tool.vde.spark], and that the master runs there",
    )


def without_parameters(master: str) -> str:
    """Return a master for messages: what stands behind its address may be a token.

    >>> without_parameters("sc://spark.example:15002/;token=abc")
    'sc://spark.example:15002'
    """
    return master.partition("/;")[0]


def master_addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of every address in a master URL.

    >>> list(master_addresses("spark://one:7077,two:7078"))
    [('one', 7077), ('two', 7078)]
    >>> list(master_addresses("k8s://https://kube.example"))
    [('kube.example', 443)]
    >>> list(master_addresses("sc://spark.example/;use_ssl=true"))
    [('spark.example', 15002)]
    >>> list(master_addresses("local[4]"))
    []
    """
    ports = {"spark://": _STANDALONE_PORT, "k8s://": _HTTPS_PORT, "sc://": _CONNECT_PORT}
    for scheme, default in ports.items():
        if master.startswith(scheme):
            for part in master.removeprefix(scheme).split(","):
                found = _ADDRESS.match(part.strip())
                if found:
                    yield found[1].strip("[]"), int(found[2] or default)


def _problem(host: str, port: int, seconds: float) -> str | None:
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except socket.gaierror:
        return f"there is no host '{host}'"
    except ConnectionRefusedError:
        return f"nobody listens at {host}:{port}"
    except TimeoutError:
        return f"{host}:{port} did not answer within {seconds:.0f} s"
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return None
