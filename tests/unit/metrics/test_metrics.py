"""The table of metrics against the code that emits them, the alerts and the dashboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from sluice.flow import metrics
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.manifest import LandedFile, Loss, OffsetRange
from sluice.metrics.meter import MetricSample, count, sample, taken_by, timed
from sluice.metrics.table import METRICS, Metric, MetricKind
from tests.support.manifests import made_manifest
from tests.unit.doctor.test_doctor_kafka import pipeline

ROOT = Path(__file__).parents[3]
ALERTS = yaml.safe_load((ROOT / "monitoring" / "alerts.yaml").read_text())
DASHBOARD = json.loads((ROOT / "monitoring" / "grafana-dashboard.json").read_text())
TABLE = ROOT / "plugins" / "sluice" / "metrics" / "table.py"
ADDED = {"le", "quantile"}  # labels that a histogram's series have beside the metric's


def test_names_are_sound_and_say_their_unit():
    for metric in METRICS.values():
        assert re.fullmatch(r"[a-z][a-z_]+", metric.name), metric
        assert metric.meaning and metric.unit and metric.labels[0] == "pipeline"
        for ending, unit in {"_seconds": "seconds", "_bytes": "bytes", "_timestamp": "seconds"}.items():
            assert not metric.name.endswith(ending) or metric.unit == unit


def test_every_metric_is_emitted_by_some_code():
    sources = [path for path in (ROOT / "plugins").rglob("*.py") if path != TABLE]
    text = "".join(path.read_text() for path in sources)
    assert [name for name in METRICS if f'"{name}"' not in text] == []


def test_a_sample_has_exactly_the_labels_of_its_metric():
    with pytest.raises(TypeError, match="lease_wait has the labels"):
        sample("lease_wait", 1, pipeline="p")
    with pytest.raises(KeyError):
        sample("unknown", 1)


def test_samples_go_to_the_sink_while_it_is_taken():
    heard: list[MetricSample] = []
    count("batches", 1, pipeline="p", mode="fill")
    with taken_by(heard.append):
        count("batches", 2, pipeline="p", mode="fill")
        with pytest.raises(ValueError), timed("lease_wait", pipeline="p", table="e.t"):
            raise ValueError
    count("batches", 3, pipeline="p", mode="fill")
    assert [(one.metric.name, one.value) for one in heard[:1]] == [("batches", 2)]
    assert heard[1].metric.name == "lease_wait" and 0 <= heard[1].value < 5
    assert len(heard) == 2


def file(kind: str | None, rows: int, hour: str = "2026-11-20T10", **by_type: int) -> LandedFile:
    return LandedFile("k", "a", kind, hour, rows, rows * 10, "", by_type)


def test_what_a_landing_brought():
    manifest = made_manifest(
        pipeline="p",
        slice="2026-11-20T10Z",
        cluster="dc1",
        generation=2,
        attempt="a",
        ranges=(OffsetRange("bids", "u", 0, 0, 110), OffsetRange("bids", "u", 1, 0, 250)),
        files=(file("click", 60), file(None, 30, "2026-11-20T09", click=10, view=20)),
        rejected=(file(None, 5, ""),),
        read=106,
        rejected_records={"not JSON": 3, "no time": 2, "no value": 7},
        erased=4,
        gaps=7,
        lost=(Loss("bids", 0, 0, 8, exact=True),),
        late=30,
    )
    spec = pipeline(rows_per_read=100, tables={"click": "e.clicks", "*": "e.other"})
    found = {
        (one.metric.name, *[v for k, v in one.labels.items() if k not in ("pipeline", "cluster")]): one.value
        for one in metrics.landed(spec, [manifest])
    }
    assert found == {
        ("units_landed",): 1,
        ("units_relanded",): 1,
        ("reads",): 3,
        ("records_read",): 106,
        ("tombstones",): 7,
        ("records_parsed",): 90,
        ("records_erased",): 4,
        ("rejected_records", "not JSON"): 3,
        ("rejected_records", "no time"): 2,
        ("rows_landed", "click"): 70,
        ("rows_landed", "_others"): 20,
        ("rows_late",): 30,
        ("offset_gaps",): 7,
        ("offsets_lost", "bids"): 8,
        ("files_landed",): 2,
        ("bytes_landed",): 900,
        ("files_rejected",): 1,
        ("bytes_rejected",): 50,
        ("event_hours_landed",): 2,
        ("types_landed",): 2,
        ("offsets_landed",): 360,
        ("units_empty",): 0,
        ("records_empty",): 0,
        ("files_small",): 2,
        ("event_hours_late",): 1,
        ("counts_landed",): 0,
        ("bytes_counts",): 0,
        ("partitions_landed",): 0,
        ("bytes_per_row",): 10,
        ("rows_per_file",): 45,
        ("largest_file_bytes",): 600,
    }


@pytest.mark.parametrize("others", [0, 1, 100_000])
def test_types_that_the_pipeline_file_does_not_name_are_counted_together(others: int):
    """However many they are: an exporter keeps each value of a label."""
    many = {f"t{n}": n for n in range(1, others + 1)}
    files = (file("click", 7), file(None, 0, **many))
    manifest = made_manifest(
        "p", "2026-11-20T10Z", "dc1", 1, "a", (), files, (), sum(many.values()) + 7, {}, 0
    )
    spec = pipeline(tables={"click": "e.clicks", "view": "e.clicks", "*": "e.other"})
    rows = {
        one.labels["type"]: one.value
        for one in metrics.landed(spec, [manifest])
        if one.metric.name == "rows_landed"
    }
    assert rows == {"click": 7} | ({"_others": others * (others + 1) // 2} if others else {})


def test_anomalies_are_counted_by_kind():
    found = [
        Anomaly(AnomalyKind.GAP, "a", "b"),
        Anomaly(AnomalyKind.GAP, "c", "d"),
        Anomaly(AnomalyKind.VIEW, "", ""),
    ]
    counted = {one.labels.get("kind"): one.value for one in metrics.verified("p", 3, 10, found)}
    assert counted["gap"] == 2 and counted["view"] == 1


def series() -> dict[str, Metric]:
    """What Prometheus calls each metric; a timer is a histogram."""
    found: dict[str, Metric] = {}
    for metric in METRICS.values():
        ends = ("_bucket", "_sum", "_count") if metric.kind is MetricKind.TIMER else ("",)
        found.update({metric.exported + end: metric for end in ends})
    return found


def selectors(node) -> list:
    """Every vector selector below a node of the parsed expression."""
    if isinstance(node, promql_parser.VectorSelector):
        return [node]
    names = ("expr", "lhs", "rhs", "vector_selector", "args", "param")
    below = [getattr(node, name, None) for name in names]
    flat = [item for part in below for item in (part if isinstance(part, list) else [part])]
    return [found for item in flat if item is not None for found in selectors(item)]


def check(expression: str) -> None:
    """It parses, and every series and label in it is one that Sluice sends."""
    known, used = series(), set()
    for selector in selectors(promql_parser.parse(expression)):
        assert selector.name in known, f"{selector.name} in {expression}"
        labels = {*known[selector.name].labels, *ADDED}
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels, expression
        used |= labels
    assert used, expression
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert set(re.split(r"[,\s]+", grouped)) <= used, expression


RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts(rule: dict):
    check(rule["expr"])
    assert rule["labels"]["severity"] in ("page", "ticket")
    known = {label for m in series().values() if m.exported in rule["expr"] for label in m.labels}
    asked = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert asked <= known
    assert rule["annotations"]["action"]


def test_a_wrong_expression_is_seen():
    for wrong in (
        "sluice_lag_second > 1",
        'sluice_lag_seconds{table="x"} > 1',
        "sum by (x) (sluice_lag_seconds)",
    ):
        with pytest.raises(AssertionError):
            check(wrong)
    with pytest.raises(ValueError):
        check("sluice_lag_seconds >")


PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_panels(panel: dict):
    assert panel["description"] and panel["targets"]
    for target in panel["targets"]:
        check(target["expr"].replace("$__rate_interval", "5m"))
        assert 'pipeline=~"$pipeline"' in target["expr"]
        assert target["datasource"]["uid"] == panel["datasource"]["uid"] == "${datasource}"


def test_the_dashboard_holds_together():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) and DASHBOARD["uid"] == "sluice"
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {"datasource", "pipeline"}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
    cells = [
        (c, r)
        for p in DASHBOARD["panels"]
        for g in [p["gridPos"]]
        for c in range(g["x"], g["x"] + g["w"])
        for r in range(g["y"], g["y"] + g["h"])
    ]
    assert len(cells) == len(set(cells)), "panels overlap"


def not_in(known: object, given: object, place: str = "") -> list[str]:
    """The places in `given` that `known` lacks or holds otherwise."""
    if isinstance(given, dict) and isinstance(known, dict):
        below = [not_in(known.get(key), value, f"{place}.{key}") for key, value in given.items()]
        return [found for part in below for found in part]
    if isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        pairs = enumerate(zip(known, given, strict=True))
        return [found for n, (mine, own) in pairs for found in not_in(mine, own, f"{place}[{n}]")]
    return [] if known == given else [place]


def as_grafana_has_it(dashboard: dict) -> dict:
    """Read into Grafana's own types and written again: what they do not know is gone."""
    register_default_plugins()
    return json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))


def test_grafanas_own_types_hold_all_of_the_dashboard():
    # Grafana writes a query variable's text a second time for its own list; its types leave that out.
    copies = [f".templating.list[{n}].definition" for n in range(len(DASHBOARD["templating"]["list"]))]
    assert set(not_in(as_grafana_has_it(DASHBOARD), DASHBOARD)) <= set(copies)
    wrong = json.loads(json.dumps(DASHBOARD))
    wrong["panels"][1]["fieldConfig"]["defaults"]["unitt"] = "s"
    assert ".panels[1].fieldConfig.defaults.unitt" in not_in(as_grafana_has_it(wrong), wrong)


def test_the_exporters_mapping_names_each_kind_as_the_alerts_do():
    """As statsd_exporter maps: the first rule whose kind and pattern fit; `*` is one part of the name."""
    mapping = yaml.safe_load((ROOT / "monitoring" / "statsd-mapping.yaml").read_text())
    assert mapping["defaults"] == {"observer_type": "histogram"}  # statsd_exporter refuses unknown keys
    kinds = {MetricKind.COUNTER: "counter", MetricKind.GAUGE: "gauge", MetricKind.TIMER: "observer"}
    for metric in METRICS.values():
        sent = f"airflow.{metric.full_name}"
        own = [r for r in mapping["mappings"] if r["match_metric_type"] == kinds[metric.kind]]
        names = [
            re.sub(r"\$\{1\}", found[found.lastindex or 0], rule["name"])
            for rule in own
            if (found := re.fullmatch(rule["match"].replace(".", r"\.").replace("*", r"([^.]*)"), sent))
        ]
        assert names[0] == metric.exported
