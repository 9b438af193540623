"""Alarms through notifiers: any class of Airflow, text that is never rendered, no secret in an error."""

from __future__ import annotations

import json
from types import SimpleNamespace

import httpx
import pytest
import requests
from airflow.sdk import BaseNotifier

from sluice.config.airflow import Channel
from sluice.errors import NotSent
from sluice.watch import problems
from sluice.watch.notify import notifier_of, send
from sluice.watch.problems import Alarm, Notice, Problem, ProblemKind
from tests.support.channels import mail, webhook
from tests.support.hostile_texts import HALVES, TEXTS, as_sent, is_plain, links

TEMPLATE = "type {{ 7 * 7 }} of <b>dc1</b>"
SHOWN = "type {{ 7 * 7 }} of ‹b›dc1‹/b›"
HEARD: list[dict] = []


class Recorder(BaseNotifier):
    template_fields = ("message",)

    def __init__(self, message: str, channel: str, blocks: list | None = None) -> None:
        super().__init__()
        self.message, self.channel, self.blocks = message, channel, blocks

    def notify(self, context) -> None:
        if self.channel == "broken":
            raise RuntimeError("token xoxb-1 is\nrevoked")
        HEARD.append({"message": self.message, "channel": self.channel, "blocks": self.blocks})


def channel(name: str) -> Channel:
    arguments = {"message": "{subject}: {text}", "channel": name, "blocks": [{"text": "{text}"}, 3]}
    return Channel(notifier=f"{__name__}.Recorder", arguments=arguments)


def test_any_notifier_gets_the_message_in_its_arguments():
    HEARD.clear()
    send(channel("ops"), "two problems", TEMPLATE)
    expected = f"two problems: {SHOWN}"
    assert [{"message": expected, "channel": "ops", "blocks": [{"text": SHOWN}, 3]}] == HEARD


def test_a_mail_is_escaped_and_not_rendered():
    made = notifier_of(Channel(**mail("smtp_ops", "a@example.com")), "subject", TEMPLATE)
    assert made.html_content == f"<pre>{SHOWN}</pre>"
    assert (made.to, made.smtp_conn_id, made.subject) == ("a@example.com", "smtp_ops", "subject")


def test_what_is_filled_in_is_filled_once():
    HEARD.clear()
    send(channel("ops"), "{text} {subject}", "{subject}")
    assert HEARD[0]["message"] == "{text} {subject}: {subject}"


EVERY = {**TEXTS, **HALVES}


@pytest.mark.parametrize("data", EVERY.values(), ids=EVERY)
def test_hostile_texts_through_every_channel(data: str, monkeypatch):
    """What a channel gets is plain, can be sent as UTF-8, and is markup for none of those who read it."""
    posts: list[dict] = []
    answer = httpx.Response(200, request=httpx.Request("POST", "http://127.0.0.1"))
    monkeypatch.setattr(httpx, "post", lambda _, json, **__: posts.append(json) or answer)
    monkeypatch.setenv("AIRFLOW_CONN_HOOK_OPS", json.dumps({"conn_type": "http", "host": "http://127.0.0.1"}))
    notice = Notice((Alarm(Problem(ProblemKind.ANOMALY, data, data), "then"),), ())
    told, subject = problems.body(notice), problems.subject("adx", notice)
    HEARD.clear()
    send(channel("ops"), subject, told)
    send(Channel(**webhook("hook_ops")), subject, told)
    letter = notifier_of(Channel(**mail("smtp_ops")), subject, told).html_content
    assert subject == "[sluice] adx: 1 problem"
    alike = HEARD[0]["message"]
    assert not set("@<>&") & set(alike) and is_plain(alike)
    assert as_sent(alike) == f"{subject}: {told}"
    [post] = posts
    assert json.loads(json.dumps(post, ensure_ascii=False).encode()) == post
    assert as_sent(post["text"]) == f"{subject}\n{told}"
    assert letter == f"<pre>{post['text'].partition(chr(10))[2]}</pre>"
    assert links(post["text"]) == links(alike) == []


@pytest.mark.parametrize(
    "call",
    ["@everyone", "@here", "@all", "@channel", "a@everyone", "<!channel>", "<!here|here>", "<@U1>", "<@&9>"],
)
def test_no_text_of_data_calls_anybody(call: str):
    """Slack finds mentions in angle brackets, Discord and Mattermost behind an @."""
    told = problems.unaddressed(f"type {call} is gone")
    assert "@" not in told and "<" not in told
    assert "everyone" not in call or "everyone" in told


LINKS = {
    "[x](http://evil.example)": ["http://evil.example"],
    "![x](http://evil.example/x.png)": ["http://evil.example/x.png"],
    "[x](/home)": ["/home"],
    "[x][y]\n\n[y]: http://evil.example": ["http://evil.example"],
    "[x]\n\n[x]: http://evil.example": ["http://evil.example"],
    "see https://evil.example/a": ["https://evil.example/a"],
    "see www.evil.com": ["http://www.evil.com"],
    "see WWW.evil.com": ["http://WWW.evil.com"],
    "<http://evil.example>": ["http://evil.example"],
}


@pytest.mark.parametrize(("text", "leads"), LINKS.items(), ids=LINKS)
def test_no_text_of_data_is_a_link(text: str, leads: list[str]):
    """Mattermost and Discord read Markdown; the first line is Sluice's own."""
    assert links(text) == leads
    told = problems.unaddressed(f"[sluice] p: {text}")
    assert links(told) == []
    assert told.startswith("[sluice] p: ")


def test_of_what_a_notifier_raises_only_the_kind_is_told():
    """Its text may have what the connection holds."""
    with pytest.raises(NotSent) as error:
        send(channel("broken"), "s", "t")
    assert str(error.value) == f"alarm not sent to {channel('broken').name}: RuntimeError"
    assert error.value.__suppress_context__
    assert error.value.retryable


@pytest.mark.parametrize(
    "path", ["subprocess.check_call", "subprocess.Popen", "tests.dags.test_notify.HEARD"]
)
def test_what_is_no_notifier_is_never_called(path: str, tmp_path):
    """Whoever may write a pipeline file starts no program by it."""
    trace = tmp_path / "trace"
    with pytest.raises(
        NotSent, match=f"{path} is no notifier: expected a subclass of Airflow's BaseNotifier"
    ):
        send(Channel(notifier=path, arguments={"args": ["touch", str(trace)]}), "s", "t")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("status", "reason"),
    [(None, "RequestException"), (404, "HTTP 404"), (200, "RequestException"), ("x", "RequestException")],
)
def test_a_notifier_of_another_http_library_tells_no_address(status: object, reason: str, monkeypatch):
    """Slack's and Discord's use `requests` or a library like it."""

    def notify(self: Recorder, context: object) -> None:
        answer = None if status is None else SimpleNamespace(status_code=status)
        secret = "Max retries exceeded with url: /api/webhooks/123/SECRET-TOKEN"
        raise requests.RequestException(secret, response=answer)

    monkeypatch.setattr(Recorder, "notify", notify)
    with pytest.raises(NotSent) as error:
        send(channel("ops"), "s", "t")
    assert str(error.value) == f"alarm not sent to {channel('ops').name}: {reason}"


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        ({"host": "http://127.0.0.1:1/services/T0/SECRET"}, "ConnectError"),
        ({"host": "127.0.0.1", "port": 1, "schema": "http", "extra": {"path": "/SECRET"}}, "ConnectError"),
        ({"host": "no-such-scheme://x/SECRET"}, "UnsupportedProtocol"),
        ({}, "its host is missing"),
    ],
)
def test_a_webhook_that_fails_tells_no_address(connection: dict, reason: str, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_HOOK_OPS", json.dumps({"conn_type": "http", **connection}))
    with pytest.raises(NotSent) as error:
        send(Channel(**webhook("hook_ops")), "s", "t")
    assert reason in str(error.value) and "hook_ops" in str(error.value)
    assert "SECRET" not in str(error.value)
