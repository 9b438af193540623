"""Waiting until a service answers: by condition and with a deadline."""

import random
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

from local.environment import HOST

POLL_SECONDS = 0.1
_given: set[int] = set()


class NotReady(Exception):
    """A service did not answer in time."""


class PortInUse(Exception):
    """Something else listens where the stack wants to."""


def wait_until(
    ready: Callable[[], bool],
    what: str,
    seconds: float,
    *,
    check: Callable[[], None] = lambda: None,
    poll: float = POLL_SECONDS,
) -> None:
    """Returns once `ready()` holds; `check()` may raise to end the wait early."""
    deadline = time.monotonic() + seconds
    while not ready():
        check()
        if time.monotonic() > deadline:
            raise NotReady(f"{what} did not answer within {seconds:.0f} s")
        time.sleep(poll)


def listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def answers(url: str, timeout: float = 2) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def broker_ready(port: int) -> bool:
    """A broker listens before it knows itself; it is ready when it names a controller."""
    if not listens(port):
        return False
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    try:
        admin = KafkaAdminClient(
            bootstrap_servers=f"{HOST}:{port}", bootstrap_timeout_ms=5000, request_timeout_ms=5000
        )
    except KafkaError:
        return False
    try:
        return bool(admin.describe_cluster()["brokers"])
    except (KafkaError, KeyError):
        return False
    finally:
        admin.close()


def clickhouse_ready(port: int) -> bool:
    return answers(f"http://{HOST}:{port}/ping")


def free_port(neighbours: int = 0) -> int:
    """A port that nothing listens on, nor on the next `neighbours` ones.

    It is taken from below 32768, where Linux starts to hand out ports for outgoing connections: one
    that is free above could be a client's a moment later. None is given twice: who starts a service asks for
    all of its ports before it listens on one.
    """
    while True:
        port = random.randrange(20000, 32768 - neighbours)
        ports = range(port, port + neighbours + 1)
        if _given.isdisjoint(ports) and all(can_bind(candidate) for candidate in ports):
            _given.update(ports)
            return port


def can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def require_free(ports: Mapping[str, int]) -> None:
    for variable, port in ports.items():
        if not can_bind(port):
            raise PortInUse(f"port {port} is in use: free it, or set another with {variable}")
