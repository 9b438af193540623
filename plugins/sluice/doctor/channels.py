"""Checks that a channel of alarms could be notified; nothing is sent."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sluice.clients.connections import find as connections
from sluice.config.alarms import Channel
from sluice.doctor.check import Area, Check, fail, ok
from sluice.errors import WrongUse
from sluice.safe_text import line
from sluice.watch.notifier_class import notifier_class


def channel_checks(channel: Channel) -> Iterator[Check]:
    """Raises WrongUse for a connection that is not there."""
    if channel.notifier is not None:
        yield _notifier(channel, channel.notifier)
        return
    conn_id = channel.email or channel.webhook or ""
    connections.find(conn_id)
    yield ok(Area.ALARMS, channel.name, f"connection {conn_id} is known")


def _notifier(channel: Channel, path: str) -> Check:
    """Imports the class and compares its arguments. Creates no notifier: its constructor may do anything."""
    correct = "correct `notifier`, or install what brings it"
    try:
        notifier = notifier_class(path)
    except WrongUse as error:
        return fail(Area.ALARMS, channel.name, line(str(error)), correct)
    except Exception as error:  # a module of anybody's raises what it likes
        reason = line(f"cannot be imported here ({type(error).__name__}: {error})")
        return fail(Area.ALARMS, channel.name, reason, correct)
    try:
        inspect.signature(notifier).bind(**channel.arguments)
    except (TypeError, ValueError) as error:
        return fail(Area.ALARMS, channel.name, line(str(error)), "correct `arguments`")
    return ok(Area.ALARMS, channel.name, "the class is there and takes the arguments")
