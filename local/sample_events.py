"""Sample events of an ad exchange: the same for the same hour, whenever and wherever they are made.

python -m local.sample_events --from 2026-11-20T10Z --to 2026-11-20T14Z [--per-hour 20000] > events.ndjson
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

SEED = "sluice"
PER_HOUR = 20_000
LATE_SHARE = 0.02
HOUR = timedelta(hours=1)

TYPES = {"bid_request": 70, "impression": 24, "click": 5, "conversion": 1}
COUNTRIES = {"US": 30, "DE": 18, "FR": 12, "GB": 12, "BR": 10, "IN": 10, "JP": 8}
EXCHANGES = {"adx": 40, "openx": 25, "rubicon": 20, "index": 15}
SYSTEMS = {"android": 45, "ios": 35, "windows": 15, "linux": 5}
UNFIT_EVERY = 2_000  # a price that is no number: lands, but fits no table
BROKEN_EVERY = 4_000  # no type, or cut off: stays in the lake's _rejected/


def pick(rng: random.Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def event(rng: random.Random, at: datetime) -> dict:
    country = pick(rng, COUNTRIES)
    travelled = rng.random() < 0.05
    return {
        "id": f"{rng.getrandbits(64):016x}",
        "type": pick(rng, TYPES),
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "country": country,
        "exchange": pick(rng, EXCHANGES),
        "price": round(rng.lognormvariate(0, 0.6), 4),
        "device": {
            "os": pick(rng, SYSTEMS),
            "geo": {"country": pick(rng, COUNTRIES) if travelled else country},
        },
    }


def spoiled(sample: dict, number: int) -> dict:
    """What real traffic has, too: a value that fits no column, an event without its type."""
    if number % BROKEN_EVERY == BROKEN_EVERY - 1:
        return {key: value for key, value in sample.items() if key != "type"}
    if number % UNFIT_EVERY == UNFIT_EVERY - 1:
        return sample | {"type": "bid_request", "price": "free"}
    return sample


def moments(rng: random.Random, start: datetime, count: int) -> list[datetime]:
    return sorted(start + timedelta(milliseconds=rng.randrange(3_600_000)) for _ in range(count))


def on_time(hour: datetime, per_hour: int = PER_HOUR) -> Iterator[str]:
    """The hour's events, a line each, in the order of their time."""
    rng = random.Random(f"{SEED} {hour.isoformat()}")
    for number, at in enumerate(moments(rng, hour, per_hour)):
        yield json.dumps(spoiled(event(rng, at), number), separators=(",", ":"))


def late(hour: datetime, per_hour: int = PER_HOUR) -> Iterator[str]:
    """Events of the hour before that arrive in this one: publish them with a lag of one hour."""
    rng = random.Random(f"{SEED} late {hour.isoformat()}")
    for at in moments(rng, hour - HOUR, int(per_hour * LATE_SHARE)):
        yield json.dumps(event(rng, at), separators=(",", ":"))


def hours_between(start: datetime, end: datetime) -> list[datetime]:
    return [start + number * HOUR for number in range((end - start) // HOUR)]


def whole_hour(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return at.replace(minute=0, second=0, microsecond=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="start", type=whole_hour, required=True)
    parser.add_argument("--to", dest="end", type=whole_hour, required=True)
    parser.add_argument("--per-hour", type=int, default=PER_HOUR)
    options = parser.parse_args()
    for hour in hours_between(options.start, options.end):
        sys.stdout.writelines(line + "\n" for line in on_time(hour, options.per_hour))
    return 0


if __name__ == "__main__":
    sys.exit(main())
