"""`sluice run --lookback` and `sluice watch --once`: what they refuse, wait for, print and end with."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import httpx
import pendulum
import pytest

import sluice.cli
from sluice.cli import run
from sluice.config.airflow import Channel
from sluice.config.files import read
from sluice.errors import NotSent, Refused, SluiceError, Unavailable
from sluice.flow import hourly, steps
from sluice.flow.batch_loop import Ran
from sluice.watch import watch as watching
from sluice.watch.notify import send
from sluice.watch.problems import Problem, ProblemKind
from tests.support.channels import mail, webhook
from tests.support.landing_world import hours

FILE = """
kafka: [{cluster: dc1, bootstrap: "127.0.0.1:1", topics: [bids]}]
event: {type: {field: type}, time: {record: true}}
settle: 5m
"""
NOW = pendulum.datetime(2026, 11, 20, 10, 2)


@pytest.fixture
def ads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pendulum, "now", lambda tz=None: clock[0])
    clock[0] = NOW
    path = tmp_path / "ads.yaml"
    path.write_text(f"{FILE}lake: file://{tmp_path}/lake\n")
    return path


clock = [NOW]


def ends(path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["sluice", words[0], "ads", "--config", str(path), *words[1:]])
    return sluice.cli._run()


@pytest.mark.parametrize(
    "more",
    [
        ["--from", "-2h"],
        ["--to", "now"],
        ["--day", "last"],
        ["--mode", "reload"],
        ["--mode", "reland", "--yes"],
        ["--table", "db.t"],
        ["--backfill"],
    ],
)
def test_lookback_goes_with_nothing_that_chooses(more: list[str], ads: Path, monkeypatch, capsys):
    assert ends(ads, monkeypatch, "run", "--lookback", *more) == 2
    told = "sluice: --lookback does what the hourly DAG does: leave out hours, modes and tables\n"
    assert capsys.readouterr().err == told


def test_it_waits_until_the_newest_slice_has_settled(ads: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    began: list[tuple[str, str]] = []

    def sleep(seconds: float) -> None:
        assert seconds <= 60
        clock[0] = clock[0].add(seconds=round(seconds))

    def run_hour(pipeline, path, slices, *_):
        began.append((str(slices), f"{clock[0]:%H:%M:%S}"))
        return Ran(3, [], [])

    monkeypatch.setattr(run.time, "sleep", sleep)
    monkeypatch.setattr(hourly, "run_hour", run_hour)
    assert ends(ads, monkeypatch, "run", "--lookback") == 3
    assert began == [("[2026-11-19T10:00Z, 2026-11-20T10:00Z)", "10:05:00")]
    assert "waiting until 2026-11-20T10:05:00Z" in capsys.readouterr().err


def test_before_start_there_is_nothing_to_do(ads: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    ads.write_text(f"{ads.read_text()}start: 2026-11-21T00:00Z\n")
    monkeypatch.setattr(hourly, "run_hour", lambda *_: pytest.fail("it began"))
    assert ends(ads, monkeypatch, "run", "--lookback") == 0
    assert capsys.readouterr().err.startswith("nothing to do: the first slice begins at `start`, 2026-11-21T")


@pytest.mark.parametrize(("code", "error"), [(0, None), (1, Refused), (3, Unavailable)])
def test_a_landing_of_one_cluster_raises_where_it_fails(code, error, ads: Path, monkeypatch):
    """What catches up with a cluster knows no codes."""
    monkeypatch.setattr(steps, "land_range", lambda *_, cluster: code if cluster == "dc1" else 99)
    land = run._land_alone(read(ads), ads, "token", "dc1")
    with pytest.raises(error, match="cluster dc1: .* has not landed") if error else nullcontext():
        assert land(hours(1)) == 0


@dataclass
class Observed:
    problems: tuple[Problem, ...] = ()
    error: SluiceError | None = None
    unsent: tuple[str, ...] = ()
    observation = SimpleNamespace(slices="the last day")

    @property
    def sent(self) -> dict:
        return {"Pager ops": (len(self.problems), 0)} if self.problems else {}

    def refuse_unsent(self) -> None:
        if self.error:
            raise self.error


GONE = Problem(ProblemKind.TABLE, "table db.t", "it is\ngone")


@pytest.mark.parametrize(
    ("observed", "code", "lines"),
    [
        (Observed(), 0, []),
        (Observed((GONE,)), 1, ["table missing: table db.t: it is gone"]),
        (Observed((GONE,), NotSent("no answer")), 3, ["table missing: table db.t: it is gone"]),
    ],
)
def test_the_watch_prints_each_problem_in_a_line(observed, code, lines, ads, monkeypatch, capsys):
    monkeypatch.setattr(watching, "watch", lambda *_: observed)
    assert ends(ads, monkeypatch, "watch", "--once") == code
    assert capsys.readouterr().out.splitlines() == lines
    assert ends(ads, monkeypatch, "watch", "--once", "--json") == code
    shown = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one["place"]) for one in shown["problems"]] == [
        (str(problem.kind), problem.place) for problem in observed.problems
    ]


def test_the_watch_loops_for_nobody(ads: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    assert ends(ads, monkeypatch, "watch") == 2
    told = "sluice: it looks once: add --once, and let cron start it every 5 minutes (`alarms.every`)\n"
    assert capsys.readouterr().err == told


class NoAirflow:
    """Where Airflow is not installed, nothing of it is found."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] == "airflow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def without_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "airflow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("sys.meta_path", [NoAirflow(), *sys.meta_path])
    monkeypatch.setattr("sluice.watch.notify.find_spec", lambda _: None)


def test_a_webhook_needs_no_airflow(without_airflow: None, monkeypatch: pytest.MonkeyPatch):
    posts: list[dict] = []
    answer = httpx.Response(200, request=httpx.Request("POST", "http://127.0.0.1"))
    monkeypatch.setattr(httpx, "post", lambda url, json, **__: posts.append({url: json}) or answer)
    monkeypatch.setenv("AIRFLOW_CONN_HOOK_OPS", '{"conn_type": "http", "host": "http://127.0.0.1"}')
    send(Channel(**webhook("hook_ops")), "1 problem", "it is gone")
    assert posts == [{"http://127.0.0.1": {"text": "1 problem\nit is gone"}}]


def test_another_notifier_says_in_a_line_that_it_needs_airflow(without_airflow: None):
    with pytest.raises(NotSent) as error:
        send(Channel(**mail("smtp_ops")), "1 problem", "it is gone")
    assert str(error.value).endswith(
        "needs Airflow, which is not installed here; sluice.airflow.notifiers.WebhookNotifier does not"
    )
