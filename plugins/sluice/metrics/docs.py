"""Formats docs/guide/reference/metrics.md, which local/documents writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from sluice.metrics.table import COUNTERS, GAUGES, TIMERS, Metric
from sluice.runtime import SHIPPED

ALERTS = SHIPPED / "monitoring" / "alerts.yaml"
_SERIES = ("", "_bucket", "_sum", "_count")
_INTRODUCTION = """# Metrics

Every metric, made from plugins/sluice/metrics/ (`python -m local.documents.generated`).
[Metrics and alarms](../metrics.md) says how they reach a collector. Counters and timers come from the steps
of `<name>` and `<name>_backfill`, gauges from `<name>_watch`.
"""
_ALERTS = """These are the rules of monitoring/alerts.yaml. A "page" is for now, a "ticket" for the next day.
"""
_NAME = re.compile(r"\bsluice_\w+")


def rules(path: Path = ALERTS) -> dict[str, str]:
    """Returns the expression of each alert."""
    return {rule["alert"]: rule["expr"] for rule in _rules(path)}


def _rules(path: Path) -> list[dict[str, Any]]:
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts_of(metric: Metric, expressions: Mapping[str, str]) -> list[str]:
    """Returns the alerts whose expressions mention the metric, or one of a timer's series."""
    series = {metric.exported + suffix for suffix in _SERIES}
    return [name for name, expression in expressions.items() if series & set(_NAME.findall(expression))]


def table(metrics: Iterable[Metric], expressions: Mapping[str, str]) -> Iterator[str]:
    yield "| metric | unit | meaning | labels | alert |"
    yield "| --- | --- | --- | --- | --- |"
    for metric in metrics:
        labels, alerts = ", ".join(metric.labels), ", ".join(alerts_of(metric, expressions)) or "–"
        yield f"| `{metric.full_name}` | {metric.unit} | {metric.meaning} | {labels} | {alerts} |"


def alerts(path: Path = ALERTS) -> Iterator[str]:
    yield "| alert | severity | when | for | says | do |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for rule in _rules(path):
        said, do = (_plain(rule["annotations"][name]) for name in ("summary", "action"))
        severity, when = rule["labels"]["severity"], " ".join(rule["expr"].split())
        yield f"| {rule['alert']} | {severity} | `{when}` | {rule.get('for', '–')} | {said} | {do} |"


def _plain(text: str) -> str:
    """Without the pipeline or table that it begins with; labels in capitals, `…` for a value."""
    unnamed = re.sub(r"^\{\{ \$labels\.(pipeline|table) }}: ", "", text)
    named = re.sub(r"\{\{ \$labels\.(\w+) }}", lambda label: label[1].upper(), unnamed)
    return re.sub(r"\{\{[^}]*}}", "…", named).replace("<name>", "NAME")


def page() -> str:
    expressions = rules()
    sections = {"Counters": COUNTERS, "Gauges": GAUGES, "Timers": TIMERS}
    return (
        _INTRODUCTION
        + "".join(
            f"\n## {title}\n\n{chr(10).join(table(metrics, expressions))}\n"
            for title, metrics in sections.items()
        )
        + f"\n## Alerts\n\n{_ALERTS}\n{chr(10).join(alerts())}\n"
    )
