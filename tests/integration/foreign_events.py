"""Events such as a public code host's feed: nested, long, in many scripts, and unknown to the project."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

TYPES = tuple(
    f"{name}Event"
    for name in (
        *("Push", "Create", "Delete", "Fork", "Watch", "Issues", "IssueComment", "Member", "PullRequest"),
        *("PullRequestReview", "PullRequestReviewComment", "Release", "Public", "Gollum", "CommitComment"),
        "Sponsorship",
    )
)
WORDS = ("naïve", "Übergröße", "данные", "数据", "データ", "🚀", "\\n", '"quoted"', "{brace}", "100%", "a\tb")


def make(start: datetime, hours: int, count: int, seed: int) -> list[dict]:
    """`count` events over `hours`, ordered by time, of 1 to 20 KB each."""
    rng = random.Random(seed)
    offsets = sorted(rng.uniform(0, hours * 3600) for _ in range(count))
    return [_event(rng, number, start + timedelta(seconds=s)) for number, s in enumerate(offsets)]


def _event(rng: random.Random, number: int, at: datetime) -> dict:
    return {
        "id": str(40_000_000_000 + number),
        "type": rng.choices(TYPES, weights=range(len(TYPES), 0, -1))[0],
        "actor": {"id": rng.randrange(10**8), "login": f"user-{rng.randrange(500)}", "name": _text(rng, 3)},
        "repo": {"id": rng.randrange(10**9), "name": f"org/{_text(rng, 1)}"},
        "payload": {
            "size": rng.randrange(20),
            "ref": rng.choice([None, "refs/heads/main"]),
            "commits": [{"message": _text(rng, rng.randrange(10, 60))} for _ in range(rng.randrange(1, 30))],
        },
        "public": rng.random() < 0.97,
        "score": round(rng.random() * 100, 6),
        "created_at": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def write(events: list[dict], path: Path) -> Path:
    lines = (json.dumps(event, ensure_ascii=number % 2 == 0) for number, event in enumerate(events))
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def count_by_hour_and_type(events: list[dict]) -> Counter[tuple[str, str]]:
    return Counter((event["created_at"][:13], event["type"]) for event in events)
