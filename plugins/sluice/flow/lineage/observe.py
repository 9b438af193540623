"""Reports each step's begin and end to OpenLineage, where that is configured: one wrapper for all of them.

The steps know nothing of it. What an event says beyond names is read in the delivery's thread, so that
neither a server that hangs nor a slow lake holds up the run. Connections are looked up before: Airflow's own
look-up is for the thread that its task runs in.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

from sluice.clients.openlineage.delivery import Delivery, configured, namespace, parent, quiet, reason
from sluice.clients.openlineage.values import NONE, JobKind, Parent
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.flow.lineage.runs import Destination, LineageRun, StepRun
from sluice.slices import SliceRange

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class _Listener(NamedTuple):
    delivery: Delivery
    to: Destination


_listeners: list[_Listener] = []


@contextmanager
def listening(opening: Callable[[], Destination | None]) -> Iterator[None]:
    """Reports the steps inside to what `opening` returns, if anything; what it raises is logged in a line."""
    try:
        with quiet():
            to = opening()
    except Exception as error:  # a wrong configuration of lineage stops no run
        log.warning(
            "lineage: no event is sent, for the OpenLineage client cannot be set up: %s", reason(error)
        )
        to = None
    if to is None:
        yield
        return
    delivery = Delivery(to.sender)
    _listeners.append(_Listener(delivery, to))
    try:
        yield
    finally:
        _listeners.clear()
        delivery.close()


@contextmanager
def command(pipeline: Pipeline, slices: SliceRange) -> Iterator[None]:
    """Reports a command as a run of its own, whose children the steps inside are."""
    if not _listeners:
        yield
        return
    [(delivery, to)] = _listeners
    run = LineageRun.begin(delivery, to, f"sluice.{pipeline.name}", JobKind.COMMAND, slices, NONE)
    own_run = run.began.run
    parent = Parent(own_run, to.parent.root if to.parent else own_run)
    _listeners[:] = [_Listener(delivery, replace(to, parent=parent))]
    try:
        yield
    except BaseException as error:
        run.failed(error)
        raise
    run.ended(lambda: NONE)


def observed(step: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Reports a step that takes `pipeline` and `slices`, and maybe `table` or `cluster`.

    A step that returns a number other than 0, an exit code, has failed.
    """

    def decorate(act: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(act)

        @wraps(act)
        def observe(*args: P.args, **kwargs: P.kwargs) -> R:
            if not _listeners:
                return act(*args, **kwargs)
            run = StepRun.begin(*_listeners[0], step, signature.bind(*args, **kwargs).arguments)
            if run is None:
                return act(*args, **kwargs)
            try:
                result = act(*args, **kwargs)
            except BaseException as error:
                run.run.failed(error)
                raise
            run.returned(result)
            return result

        return observe

    return decorate


# Where a command's events go: what the OpenLineage client's own variables and files say.
def from_environment() -> Destination | None:
    """None where no transport is configured. Raises what the client raises; WrongUse where it is missing."""
    if not configured():
        return None
    try:
        from sluice.clients.openlineage.open_client import open_sender
    except ModuleNotFoundError as error:
        raise WrongUse("openlineage-python is not installed: sluice[lineage] brings it") from error
    sender = open_sender()
    return None if sender is None else Destination(sender, namespace(), parent())
