"""Events of three public shapes, made from what is published of them: required fields are always there,
optional ones at times, and values have the kinds and ranges that the specifications give.

GitHub: https://docs.github.com/en/rest/using-the-rest-api/github-event-types
CloudEvents 1.0: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md
Segment: https://segment.com/docs/connections/spec/common/
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

WORDS = (
    "naïve",
    "数据",
    "🚀",
    'a "quoted" word',
    "back\\slash",
    "{brace}",
    "it's",
    "100 %",
    "line\nbreak",
    "",
)
Event = dict[str, Any]


def make(shape: str, start: datetime, hours: int, count: int, seed: int) -> list[tuple[datetime, Event]]:
    """`count` (time, event) over the hours, in order of time."""
    rng = Random(seed)
    times = sorted(start + timedelta(seconds=rng.uniform(0, hours * 3600 - 1)) for _ in range(count))
    return [(at, SHAPES[shape](rng, at)) for at in times]


def _iso(at: datetime, digits: int) -> str:
    text = at.strftime("%Y-%m-%dT%H:%M:%S.%f")
    return f"{text[: 19 + (digits + 1 if digits else 0)]}Z"


def _words(rng: Random, most: int = 4) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def _uuid(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _sha(rng: Random) -> str:
    return f"{rng.getrandbits(160):040x}"


def _some(rng: Random, share: float, **fields: Any) -> Event:
    """The fields in a share of the events."""
    return fields if rng.random() < share else {}


# ---- GitHub


def _account(rng: Random) -> Event:
    login, number = f"user-{rng.randrange(900)}", rng.randrange(1, 2 * 10**8)
    return {
        "id": number,
        "login": login,
        "gravatar_id": "",
        "url": f"https://api.github.com/users/{login}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{number}?",
    }


def _user(rng: Random) -> Event:
    return {**_account(rng), "type": rng.choice(["User", "Bot"]), "site_admin": rng.random() < 0.01}


def _issue(rng: Random, at: datetime) -> Event:
    closed = rng.random() < 0.4
    return {
        "id": rng.randrange(10**9, 3 * 10**9),
        "number": rng.randrange(1, 99_999),
        "title": _words(rng),
        "user": _user(rng),
        "labels": [
            {"id": rng.randrange(10**9), "name": _words(rng, 1), "color": f"{rng.getrandbits(24):06x}",
             "default": rng.random() < 0.5, "description": rng.choice([None, _words(rng)])}
            for _ in range(rng.randrange(4))
        ],
        "state": "closed" if closed else "open",
        "locked": rng.random() < 0.01,
        "assignee": _user(rng) if rng.random() < 0.2 else None,
        "assignees": [_user(rng) for _ in range(rng.randrange(3))],
        "milestone": None if rng.random() < 0.95 else {"id": rng.randrange(10**7), "title": _words(rng)},
        "comments": rng.randrange(40),
        "created_at": _iso(at - timedelta(days=rng.randrange(900)), 0),
        "closed_at": _iso(at, 0) if closed else None,
        "body": rng.choice([None, _words(rng, 30)]),
        **_some(rng, 0.3, pull_request={"url": "https://api.github.com/x", "merged_at": None}),
    }  # fmt: skip


def _push(rng: Random, at: datetime) -> Event:
    count = rng.randrange(4)
    return {
        "repository_id": rng.randrange(10**9),
        "push_id": rng.randrange(10**10, 3 * 10**10),
        "size": count,
        "distinct_size": count,
        "ref": f"refs/heads/{rng.choice(['main', 'fix/ü', 'dev'])}",
        "head": _sha(rng),
        "before": _sha(rng),
        "commits": [
            {"sha": _sha(rng), "author": {"email": "a@example.com", "name": _words(rng)},
             "message": _words(rng, 20), "distinct": rng.random() < 0.9, "url": "https://api.github.com/c"}
            for _ in range(count)
        ],
    }  # fmt: skip


def _create(rng: Random, at: datetime) -> Event:
    kind = rng.choice(["branch", "tag", "repository"])
    return {
        "ref": None if kind == "repository" else _words(rng, 1),
        "ref_type": kind,
        "master_branch": "main",
        "description": rng.choice([None, _words(rng)]),
        "pusher_type": "user",
    }


_GITHUB: dict[str, tuple[int, Callable[[Random, datetime], Event]]] = {
    "PushEvent": (50, _push),
    "CreateEvent": (15, _create),
    "WatchEvent": (15, lambda rng, at: {"action": "started"}),
    "IssuesEvent": (10, lambda rng, at: {
        "action": rng.choice(["opened", "closed"]), "issue": _issue(rng, at)}),
    "IssueCommentEvent": (7, lambda rng, at: {
        "action": "created", "issue": _issue(rng, at),
        "comment": {"id": rng.randrange(10**9, 3 * 10**9), "user": _user(rng), "body": _words(rng, 9),
                    "reactions": {"+1": rng.randrange(3), "-1": 0, "total_count": rng.randrange(3)}}}),
    "GollumEvent": (2, lambda rng, at: {"pages": [
        {"page_name": _words(rng, 1), "title": _words(rng), "summary": None, "action": "edited",
         "sha": _sha(rng)}]}),
    "PublicEvent": (1, lambda rng, at: {}),
}  # fmt: skip


def github(rng: Random, at: datetime) -> Event:
    kind = rng.choices(list(_GITHUB), [weight for weight, _ in _GITHUB.values()])[0]
    actor, number = _account(rng), rng.randrange(10**9)
    return {
        "id": str(rng.randrange(4 * 10**10, 5 * 10**10)),
        "type": kind,
        "actor": {**actor, "display_login": actor["login"]},
        "repo": {
            "id": number,
            "name": f"org/r{number}",
            "url": f"https://api.github.com/repos/org/r{number}",
        },
        "payload": _GITHUB[kind][1](rng, at),
        "public": True,
        "created_at": _iso(at, 0),
        **_some(rng, 0.3, org=_account(rng)),
    }


# ---- CloudEvents


def _order(rng: Random) -> Event:
    return {
        "orderId": _uuid(rng),
        "total": round(rng.uniform(1, 900), 2),
        "items": [
            {
                "sku": f"sku-{rng.randrange(50)}",
                "quantity": rng.randint(1, 9),
                "price": round(rng.uniform(1, 99), 2),
            }
            for _ in range(rng.randint(1, 4))
        ],
    }


def cloudevents(rng: Random, at: datetime) -> Event:
    """`time` is optional; `data` is any JSON value, or base64 of what is none."""
    kind = rng.choice(["com.example.order.created", "com.example.sensor.read", "com.example.file.stored"])
    data: Event = {"data_base64": base64.b64encode(rng.randbytes(9)).decode()}
    if kind == "com.example.order.created":
        data = {"data": _order(rng)}
    elif kind == "com.example.sensor.read":
        data = {"data": rng.choice([rng.random() * 100, rng.randrange(100), "offline", [1, 2], None, True])}
    return {
        "specversion": "1.0",
        "id": _uuid(rng) if rng.random() < 0.5 else str(rng.randrange(10**6)),
        "source": rng.choice(["/sensors/tn-1234567/alerts", "urn:uuid:6e8bc430", "https://example.com/shop"]),
        "type": kind,
        **_some(rng, 0.9, time=_iso(at, rng.choice([0, 3, 6]))),
        **_some(rng, 0.5, datacontenttype="application/json"),
        **_some(rng, 0.3, subject=_words(rng)),
        **_some(rng, 0.1, dataschema="https://example.com/schema.json"),
        **_some(rng, 0.2, traceparent=f"00-{rng.getrandbits(128):032x}-{rng.getrandbits(64):016x}-01"),
        **_some(rng, 0.2, sequence=rng.randrange(1 << 31), sampledrate=rng.randint(1, 9)),
        **data,
    }


# ---- Segment


def _context(rng: Random) -> Event:
    return {
        "active": rng.random() < 0.9,
        "ip": rng.choice([f"10.1.2.{rng.randrange(256)}", f"2001:db8::{rng.randrange(1, 9999):x}"]),
        "locale": rng.choice(["en-US", "nl-NL", "de-CH"]),
        "library": {"name": "analytics.js", "version": f"2.11.{rng.randrange(9)}"},
        "userAgent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)",
        "timezone": "Europe/Amsterdam",
        **_some(rng, 0.2, campaign={"name": _words(rng), "source": "Newsletter", "medium": "email"}),
        **_some(rng, 0.6, page={"path": "/academy/", "referrer": "", "search": "", "title": _words(rng),
                                "url": "https://example.com/academy/"}),
        **_some(rng, 0.3, device={"id": _uuid(rng), "type": "ios", "adTrackingEnabled": rng.random() < 0.5}),
        **_some(rng, 0.3, screen={"width": 320, "height": 568, "density": rng.choice([1, 2, 2.5])}),
    }  # fmt: skip


_TRACKED = {
    "Order Completed": lambda rng: {
        "order_id": str(rng.randrange(10**8)), "revenue": round(rng.uniform(5, 500), 2), "currency": "USD",
        "products": [
            {"product_id": _uuid(rng), "price": round(rng.uniform(1, 90), 2), "quantity": rng.randint(1, 3)}
            for _ in range(rng.randint(1, 3))]},
    "Product Viewed": lambda rng: {
        "product_id": _uuid(rng), "name": _words(rng), "price": rng.randrange(100)},
    "Signed Up": lambda rng: {"plan": rng.choice(["Free", "Enterprise"])},
}  # fmt: skip


def segment(rng: Random, at: datetime) -> Event:
    kind = rng.choices(["track", "page", "identify", "group"], [60, 25, 12, 3])[0]
    name = rng.choice(list(_TRACKED))
    own: Event = {
        "track": {"event": name, "properties": _TRACKED[name](rng)},
        "page": {
            "name": "Home",
            "properties": {"title": _words(rng), "url": "https://example.com/", "search": ""},
        },
        "identify": {
            "traits": {"email": "p@example.com", "logins": rng.randrange(99), **_some(rng, 0.3, age=33)}
        },
        "group": {"groupId": _uuid(rng), "traits": {"name": _words(rng), "employees": rng.randrange(900)}},
    }[kind]
    return {
        "anonymousId": _uuid(rng),
        "context": _context(rng),
        "integrations": rng.choice([{}, {"All": True}, {"Mixpanel": False, "Salesforce": {"on": True}}]),
        "messageId": f"ajs-{_uuid(rng)}",
        "receivedAt": _iso(at + timedelta(seconds=2), 3),
        "sentAt": _iso(at + timedelta(seconds=1), 3),
        "timestamp": _iso(at, 3),
        "type": kind,
        **_some(rng, 0.6, userId=rng.choice([None, f"u{rng.randrange(900)}"])),
        "version": 2,
        **own,
    }


SHAPES: dict[str, Callable[[Random, datetime], Event]] = {
    "github": github,
    "cloudevents": cloudevents,
    "segment": segment,
}


def counted(events: Sequence[tuple[datetime, Event]]) -> dict[str, int]:
    kinds = [event["type"] for _, event in events]
    return {kind: kinds.count(kind) for kind in set(kinds)}
