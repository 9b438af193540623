"""What the web server does once by itself when it has begun to serve, so that who opens the page first does
not wait for it."""

from __future__ import annotations

import gc
import threading

import pendulum

from sluice.airflow.page import pipelines
from sluice.page.rows import Asked, rows_of

_VIEWS = ("48h", "8760h")


def look_ahead() -> threading.Thread:
    """Begins to look at every pipeline as the overview does, which remembers what cannot change. What is out
    of reach is said by the overview, when somebody asks for it."""
    thread = threading.Thread(target=_look, name="sluice-look-ahead", daemon=True)
    thread.start()
    return thread


def _look() -> None:
    sound = [pipeline for _, pipeline in pipelines.find_pipelines().sound]
    for since in _VIEWS:
        rows_of(pipelines.memory, sound, Asked.of(since, "now", pendulum.now("UTC")), {})
    # What Airflow's web server has made by now stays as long as it runs. Python would walk through all of it
    # whenever the process has grown by a quarter: 0.3 s, in the middle of an answer.
    gc.collect()
    gc.freeze()
