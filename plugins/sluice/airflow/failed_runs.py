"""Notifies the channels of `airflow.on_failure` of a run that has failed, whatever the cause.

Airflow calls it in its DAG processor, a channel at a time: one that cannot be reached keeps no other from its
notice, and its error is in that process's log. Of the data's problems the watch notifies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sluice.config.alarms import Channel
from sluice.config.pipeline import Pipeline
from sluice.safe_text import line


def callbacks(pipeline: Pipeline) -> list[Callable[[Any], None]] | None:
    """Returns a callback for each channel; None without any, so that Airflow asks for none."""
    return [partial(_notify, pipeline.name, channel) for channel in pipeline.airflow.on_failure] or None


def _notify(pipeline: str, channel: Channel, context: Any) -> None:
    """Raises NotSent."""
    from sluice.airflow.notifiers import send

    send(channel, f"[sluice] {pipeline}: run failed", failure_text(context))


def failure_text(context: Any) -> str:
    """Formats the DAG, its run, Airflow's reason, and the task that Airflow names, where it does."""
    lines = [
        f"DAG {context['dag'].dag_id}, run {context['run_id']}",
        f"reason: {context.get('reason') or 'unknown'}",
    ]
    if task := context.get("ti"):
        number = "" if task.map_index < 0 else f"[{task.map_index}]"
        lines.append(f"last task: {task.task_id}{number}, try {task.try_number}")
    return "\n".join(map(line, lines))
