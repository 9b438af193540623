"""The grammar's reader, the landing's and that of `verify --contents`, held against one table."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor
from zoneinfo import ZoneInfo

import pytest

from sluice.field_path import Number
from sluice.flow.contents.recompute import moments
from sluice.flow.land.task.times import other_units, read_times
from sluice.time_grammar import EPOCHS, Spelled, read_time
from tests.support.spellings import BERLIN, NUMBERS, TEXTS
from tests.support.times_written import SPELLINGS, written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
READ = [("", None, text, want) for text, want in TEXTS]
READ += [(form, None, text, want) for form, text, want in NUMBERS]
READ += [("", "Europe/Berlin", text, want) for text, want in BERLIN]
GOOD = [case for case in READ if case[3] is not None]


def nanoseconds(text: str) -> int:
    whole, _, fraction = text.partition(".")
    return (datetime.fromisoformat(f"{whole}+00:00") - EPOCH) // timedelta(seconds=1) * 10**9 + int(fraction)


def why(form: str, text: str) -> str:
    """A small number needs a format, and has none."""
    small = not form and text in ("12", "2026", "-86400")
    return "time not understood without `format: epoch_s`" if small else "time not understood"


@pytest.mark.parametrize(("form", "zone", "text", "want"), READ)
def test_each_spelling_by_itself(form: str, zone: str | None, text: str, want: str | None):
    moment = read_time(text, form or None, zone)
    assert (None if moment is None else moment.nanoseconds) == (None if want is None else nanoseconds(want))


@pytest.mark.parametrize(("form", "zone", "text", "want"), READ)
@pytest.mark.parametrize("beside", [[], ["2026-11-20T10:00:00Z"], [0.5]], ids=["alone", "text", "number"])
def test_the_landing_reads_the_same_in_any_company(form, zone, text, want, beside):
    column, refused = read_times([*beside, text], Spelled(form or None, zone))
    if want is None:
        assert refused[len(beside)] == why(form, text)
    else:
        assert column[-1] == nanoseconds(want) // 1_000_000
        assert len(beside) not in refused


def test_the_landing_reads_all_at_once():
    for zone in (None, "Europe/Berlin"):
        cases = [(text, want) for form, where, text, want in GOOD if not form and where == zone]
        cases = [(text, want) for text, want in cases if "-" in text[1:] or "T" in text]
        column, refused = read_times([text for text, _ in cases], Spelled(None, zone))
        assert (column.tolist(), refused) == ([nanoseconds(want) // 1_000_000 for _, want in cases], {})


@pytest.mark.parametrize(("form", "zone", "text", "want"), GOOD)
def test_contents_read_the_same(form, zone, text, want):
    first, *_, last = (*(found := moments(text, form or None, zone)), *found)
    assert first <= nanoseconds(want) // 1_000_000 <= last


@pytest.mark.parametrize(("form", "text", "want"), NUMBERS)
def test_numbers_without_quotes(form, text, want):
    try:
        number = int(text) if "." not in text else float(text)
    except ValueError:
        return
    column, refused = read_times([number], Spelled(form or None))
    if want is None:
        assert refused == {0: why(form, text)}
    else:
        assert column[0] == nanoseconds(want) // 1_000_000
        found = moments(Number(text), form or None)
        assert found[0] <= column[0] <= found[-1]


@pytest.mark.parametrize(
    ("form", "digits"),
    [*((None, digits) for digits in (0, 3, 6, 9)), *zip(EPOCHS, (0, 3, 6, 9), strict=True)],
)
def test_a_number_is_in_the_millisecond_that_it_says(form: str | None, digits: int):
    """As a text and as a double, which is the shortest number that reads as it; in any company."""
    chance = random.Random(f"{form} {digits}")
    numbers: list[float] = []
    texts: list[str] = []
    for _ in range(500):
        whole = chance.choice([10**9, 2 * 10**9, 1_795_172_400]) * 10**digits + chance.choice([-1, 0, 1])
        parts = chance.choice(["9" * chance.randrange(1, 40), str(chance.randrange(10**6)), "123", "0"])
        sign = chance.choice(["", "", "-"])
        texts.append(f"{sign}{whole}.{parts}")
        numbers.append(float(texts[-1]))
    for values, said in ((texts, texts), (numbers, map(repr, numbers))):
        wanted = [floor(Fraction(Decimal(one)) / 10**digits * 1000) for one in said]
        column, refused = read_times(values, Spelled(form))
        assert (column.tolist(), refused) == (wanted, {})
        plain = [(one, want) for one, want in zip(values, wanted, strict=True) if want > 0]
        assert read_times([one for one, _ in plain], Spelled(form))[0].tolist() == [w for _, w in plain]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kathmandu"]
)
@pytest.mark.parametrize("name", SPELLINGS)
def test_random_instants_in_every_spelling(name: str, zone: str):
    chance = random.Random(f"{name} {zone}")
    cases = [written(name, chance, ZoneInfo(zone)) for _ in range(300)]
    spelled = Spelled(None, zone)
    column, refused = read_times([text for text, _ in cases], spelled)
    assert (column.tolist(), refused) == ([at // 1_000_000 for _, at in cases], {})
    assert [read_time(text, None, zone).nanoseconds for text, _ in cases] == [at for _, at in cases]


def test_times_in_another_unit_than_the_format_says():
    now = 1_795_168_800_000
    import numpy as np

    ms = np.array([now // 1000, now, now + 1, 0, now * 1000], np.int64)
    assert other_units(ms, np.full(5, now), "epoch_ms") == {
        0: "time in seconds, and `event.time.format` says another unit",
        4: "time in microseconds, and `event.time.format` says another unit",
    }
    assert other_units(ms, np.full(5, now), None) == {}
    birthdays = np.array([-(10**11), 10**11], np.int64)
    assert other_units(birthdays, np.full(2, now), "epoch_ms") == {}


def test_a_zone_that_there_is_not():
    from sluice.config.event import TimeSource

    with pytest.raises(ValueError, match="'Europe/Bern' is no IANA time zone such as Europe/Berlin"):
        TimeSource(field="at", zone="Europe/Bern")
    with pytest.raises(ValueError, match="`zone` is for texts"):
        TimeSource(field="at", format="epoch_ms", zone="Europe/Berlin")
