"""On PYTHONPATH of processes that a test may kill at a named point; see tests/faults/kills_points.py."""

import os
from pathlib import Path

from sluice import crash_points
from tests.faults.kills_points import ENVIRONMENT, Reaper

if ENVIRONMENT in os.environ:
    crash_points.reached = Reaper(Path(os.environ[ENVIRONMENT]))
