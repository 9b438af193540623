"""Whether a channel of alarms could be notified, without sending anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.config.airflow import Channel
from sluice.doctor.examine import channel_checks
from sluice.errors import WrongUse
from tests.support.channels import mail, webhook

NOTIFIER = """
from airflow.sdk import BaseNotifier

made = []

class Pager(BaseNotifier):
    def __init__(self, room, text="", *, urgent=False):
        made.append(room)

class Silent(BaseNotifier):
    def __init__(self, **anything):
        made.append("silent")

class Looks:
    def notify(self, context):
        made.append("looks")
"""
NO_NOTIFIER = "is no notifier: expected a subclass of Airflow's BaseNotifier"


@pytest.fixture
def pagers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The module `pagers`; what it has made."""
    (tmp_path / "pagers.py").write_text(NOTIFIER)
    (tmp_path / "torn.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "pagers", raising=False)
    import pagers  # type: ignore[import-not-found]

    return pagers.made


def line(**channel: Any) -> str:
    [check] = channel_checks(Channel(**channel))
    assert check.place.startswith(channel["notifier"].rpartition(".")[2])
    return f"{check.level} | {check.finding} | {check.remedy}"


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        (
            {"notifier": "pagers.Pager", "arguments": {"room": "ops", "text": "{text}"}},
            "ok | the class is there and takes the arguments | ",
        ),
        (
            {"notifier": "pagers.Silent", "arguments": {"whatever": 1}},
            "ok | the class is there and takes the arguments | ",
        ),
        (
            {"notifier": "pagers.Pager", "arguments": {"rom": "ops"}},
            "fail | missing a required argument: 'room' | correct `arguments`",
        ),
        (
            {"notifier": "pagers.Pager", "arguments": {"room": "ops", "hue": "red"}},
            "fail | got an unexpected keyword argument 'hue' | correct `arguments`",
        ),
        (
            {"notifier": "pagers.Pagr"},
            "fail | cannot be imported here (AttributeError: module 'pagers' has no "
            "attribute 'Pagr') | correct `notifier`, or install what brings it",
        ),
        (
            {"notifier": "not_there.Pager"},
            "fail | cannot be imported here (ModuleNotFoundError: No module named "
            "'not_there') | correct `notifier`, or install what brings it",
        ),
        (
            {"notifier": "torn.Pager"},
            "fail | cannot be imported here (ZeroDivisionError: division by zero) | "
            "correct `notifier`, or install what brings it",
        ),
        *(
            (
                {"notifier": path, "arguments": {}},
                f"fail | {path} {NO_NOTIFIER} | correct `notifier`, or install what brings it",
            )
            for path in ("subprocess.check_call", "pagers.Looks", "pagers.made", "subprocess.Popen")
        ),
    ],
)
def test_a_notifier_is_imported_and_not_made(pagers: list[str], channel: dict[str, Any], said: str):
    assert line(**channel) == said
    assert pagers == []


def test_a_connection_is_looked_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW_CONN_SLACK_OPS", '{"conn_type": "http", "host": "https://hooks/x"}')
    known = [check.finding for check in channel_checks(Channel(**webhook("slack_ops")))]
    assert known == ["the class is there and takes the arguments", "connection slack_ops is known"]
    with pytest.raises(WrongUse, match="no connection 'smtp_ops'"):
        list(channel_checks(Channel(**mail("smtp_ops"))))
