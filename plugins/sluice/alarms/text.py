"""The message of a notice. Pure."""

from __future__ import annotations

from sluice.alarms.decide import Notice

MOST = 50


def subject(pipeline: str, notice: Notice) -> str:
    """`[sluice] adx: 2 problems, 1 over`."""
    count = len(notice.raised)
    parts = [f"{count} problem{'s' if count != 1 else ''}"] if count else []
    parts += [f"{len(notice.cleared)} over"] if notice.cleared else []
    return f"[sluice] {pipeline}: {', '.join(parts)}"


def body(notice: Notice) -> str:
    """A line for each problem, and for each that is over since when it was open."""
    lines = [f"PROBLEM {alarm.problem}" for alarm in notice.raised]
    lines += [
        f"OVER {alarm.problem.kind}: {alarm.problem.place} (open since {alarm.since})"
        for alarm in notice.cleared
    ]
    more = [f"and {len(lines) - MOST:,} more: `sluice status` and `sluice verify` show all"]
    return "\n".join(lines[:MOST] + (more if len(lines) > MOST else []))
