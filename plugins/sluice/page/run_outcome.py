"""How a run ended, in words: why it ended first, then its hours by the states of the page's cells. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.page.airflow_runs import CANCELLED
from sluice.page.models import URGENCY, Cell

_COMPLETE = frozenset({Cell.EMPTY, Cell.FORGOTTEN, Cell.VERIFIED, Cell.LOADED, Cell.ODD, Cell.LOSSY})
_PAST_A_FILL = frozenset({Cell.BROKEN, Cell.NO_TABLE, Cell.EXPIRED})
"""States that a fill alone does not complete."""
_FILLED = frozenset({Cell.FAILED, Cell.LATE, Cell.WAITING, Cell.LANDED, Cell.LANDING, Cell.STALE})
_WORDS = {
    Cell.BROKEN: "broken",
    Cell.FAILED: "not complete, after a run that failed",
    Cell.EXPIRED: "no longer in Kafka",
    Cell.NO_TABLE: "waiting for a table that is missing",
    Cell.LATE: "late",
    Cell.STALE: "stale",
    Cell.WAITING: "not landed",
    Cell.LANDING: "being landed",
    Cell.LANDED: "landed, and not in every table",
    Cell.OPEN: "not over",
    Cell.BEFORE: "before the pipeline's first hour",
}
FILL, ATTENTION = "fill", "attention"
_DOING = {
    "plan": "planning",
    "settle": "waiting for late records",
    "resolve": "looking up offsets",
    "land": "landing",
    "load": "loading",
    "verify": "verifying",
    "verify_all": "verifying",
    "publish": "publishing",
}


def heading(state: str, why: str) -> str:
    """Returns what has become of a run that is over, or stands with one that is not."""
    if state == CANCELLED:
        return why.removesuffix(".")
    return {"success": "Done", "failed": "Failed", "queued": "Queued", "running": "Running"}.get(state, state)


def cancelled_while(user: str, step: str) -> str:
    """`step` is the name of the task that was at work, without its group, or empty."""
    doing = _DOING.get(step.partition(".")[0], "") if step else ""
    return f"Cancelled{f' by {user}' if user else ''}{f' while {doing}' if doing else ''}."


def counted(cells: Mapping[str, int]) -> str:
    """Returns how many hours are complete, and what the others are, the worst first."""
    total = sum(cells.values())
    if not total:
        return ""
    complete = sum(number for cell, number in cells.items() if cell in _COMPLETE)
    if complete == total:
        return "The hour is complete." if total == 1 else f"All {total:,} hours are complete."
    others = [
        f"{cells[cell]:,} {'is' if cells[cell] == 1 else 'are'} {_WORDS[cell]}"
        for cell in sorted(_WORDS, key=URGENCY.__getitem__, reverse=True)
        if cells.get(cell)
    ]
    if total == 1:
        return f"The hour {others[0].removeprefix('1 ')}."
    verb = "is" if complete == 1 else "are"
    return "; ".join([f"{complete:,} of {total:,} hours {verb} complete", *others]) + "."


def advice_of(cells: Mapping[str, int]) -> str:
    """Returns FILL where a fill of the range completes what is open, ATTENTION where it needs more than
    that, and nothing where all is done."""
    found = {cell for cell, number in cells.items() if number}
    if found & _PAST_A_FILL:
        return ATTENTION
    return FILL if found & _FILLED else ""


def running_words(total: int, done: int, phase: str) -> str:
    if not total:
        return "No hour has work yet."
    hours = "hour" if total == 1 else "hours"
    return f"{done:,} of {total:,} {hours} done" + (f", now {phase}." if phase and phase != "queued" else ".")
