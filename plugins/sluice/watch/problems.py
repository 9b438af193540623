"""A problem, and what is known of the problems of a pipeline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256

import msgspec

from sluice.clients.lake.base import Lake
from sluice.safe_text import line
from sluice.slices import Slice
from sluice.stored_json import decode_stored

# Which slices the watch judges by what they brought: each once, also those of hours without a watch. Pure.
#
# known 09 … 20, judged before 18 19 20 → 18 19 20
# known 10 … 21, judged before … 20     → 19 20 21
# known 10 … 06, judged before … 20     → 21 22 … 06, and these once more with 07 and with 08
# known 10 … 06, judged before nothing  → 04 05 06: an earlier watch may have judged the others
JUDGED = 3
"""The newest slices, which are always judged: a problem of one hour is open until so many have come."""
CAUGHT_UP = timedelta(days=1)
"""So far back from the newest slice those are judged that no watch has judged."""

FirstJudged = Mapping[str, str]
"""By the id of a slice, that of the newest slice when it was judged first."""


def first_judged(known_slices: Iterable[Slice], before: FirstJudged) -> dict[str, str]:
    """Returns what the next watch gets as `before`; bounded to the slices of CAUGHT_UP."""
    slices = sorted(known_slices)
    if not slices:
        return dict(before)
    newest = slices[-1]
    recent = [
        slice_
        for number, slice_ in enumerate(reversed(slices))
        if number < JUDGED or newest.start - slice_.start < CAUGHT_UP
    ]
    return {slice_.id: before.get(slice_.id, newest.id if before else slice_.id) for slice_ in recent}


def to_judge(known_slices: Iterable[Slice], before: FirstJudged) -> list[Slice]:
    """Returns the newest JUDGED slices, and those that were first judged when one of these was the newest."""
    slices = sorted(known_slices)
    newest = {slice_.id for slice_ in slices[-JUDGED:]}
    first = first_judged(slices, before)
    return [slice_ for slice_ in slices if slice_.id in newest or first.get(slice_.id) in newest]


class ProblemKind(StrEnum):
    """What can be wrong. The values are stored: they do not change."""

    OVERDUE = "hour overdue"
    NOT_COMMITTED = "hour not committed"
    HELD = "hour held"
    OLDER = "older hours"
    TABLE = "table missing"
    LAG = "lag"
    STILL = "partition stands still"
    TRANSACTION = "open transaction"
    RETENTION = "retention"
    EXPIRED = "records expired"
    ANOMALY = "anomaly"
    FIELD = "field missing"
    SCHEMA = "schema changed"
    FORGETS = "hours will be forgotten"
    FEW = "too few events"
    REJECTED = "rejects above share"
    CHECK = "rows fail a check"
    SERVER_ERROR = "server error"
    QUEUE = "replication queue"
    PARTS = "parts"
    DISK = "disk"
    UNAVAILABLE = "unavailable"
    MORE = "more problems"


EVENTS = frozenset({ProblemKind.SCHEMA, ProblemKind.FORGETS})
"""What happens once: a channel hears of it, and of no end."""


class ProblemSource(StrEnum):
    """The system in which a problem is seen. While it does not answer, none of its problems is over."""

    KAFKA = "kafka"
    CLICKHOUSE = "clickhouse"
    LAKE = "lake"


@dataclass(frozen=True)
class Problem:
    """`message` says what is so, with figures, and what to do; it may change while the problem stays."""

    kind: ProblemKind
    place: str
    message: str
    sources: tuple[ProblemSource, ...] = ()

    @property
    def key(self) -> str:
        """Identifies the problem: it is the same in every run of the watch."""
        return f"{self.kind}|{self.place}"

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}: {self.message}"


@dataclass(frozen=True)
class Alarm:
    """A problem that is or was open since `since` (ISO 8601, UTC), and the channels notified of it.

    `over`: it is gone, and the channels in `notified` have still to be notified of its end.
    """

    problem: Problem
    since: str
    notified: tuple[str, ...] = ()
    over: bool = False


@dataclass(frozen=True)
class LogStart:
    """A partition's log start, seen there first at `at` (seconds since the epoch).

    `moved`: a watch saw it move there. `before` is the (offset, at) of the move before that one, so that the
    two tell its pace.
    """

    offset: int
    at: int
    moved: bool = False
    before: tuple[int, int] | None = None


@dataclass(frozen=True)
class Open:
    """A last stable offset with records behind it, seen there first at `at` (seconds since the epoch)."""

    offset: int
    at: int


@dataclass(frozen=True)
class Looked:
    """What a look for damage leaves to the next one (look.py). `next`: the id of the older slice that it goes
    on with; empty for the first. `beyond`: rows and rejected rows beyond the ledger's by table, of a shard by
    `table@shard`. `known`: a checksum of what was wrong with a slice when it was verified last, by its id; of
    what belongs to no slice under an empty one."""

    next: str = ""
    beyond: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WatchState:
    """`_alarms/state.json`: alarms by key; log starts and open transactions by `cluster/topic/partition`;
    which slices were judged; what the last look has left."""

    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    log_starts: Mapping[str, LogStart] = field(default_factory=dict)
    open: Mapping[str, Open] = field(default_factory=dict)
    judged: FirstJudged = field(default_factory=dict)
    looked: Looked = field(default_factory=Looked)


def watch_remedy(dag: str, paused: bool, watched: bool) -> str:
    """Returns what a person does so that problems are noticed; empty where the watch runs."""
    if paused:
        return (
            f"Unpause {dag} in Airflow: while it is paused, new problems go unnoticed and no channel is "
            "notified."
        )
    return "" if watched else f"{dag} has not run yet: it runs within the next half hour."


_DECODER = msgspec.json.Decoder(WatchState)


def encode(state: WatchState) -> bytes:
    return msgspec.json.format(msgspec.json.encode(state), indent=1)


def decode(data: bytes, place: str) -> WatchState:
    """Raises SluiceError naming `place`."""
    return decode_stored(
        _DECODER,
        data,
        lambda error: (
            f"{place} holds no alarms ({error}): delete it; channels are notified of open problems again"
        ),
    )


# The alarms in the lake: `_alarms/state.json`, changed by compare-and-set.
KEY = "_alarms/state.json"


@dataclass(frozen=True)
class AlarmStore:
    lake: Lake

    def read(self) -> WatchState:
        stored = self.lake.read(KEY)
        return WatchState() if stored is None else decode(stored.data, f"{self.lake.url}/{KEY}")

    def change(self, step: Callable[[WatchState], WatchState]) -> WatchState:
        """Writes what `step` makes of the stored state, and returns it. Repeats where another watch wrote
        in between."""
        while True:
            stored = self.lake.read(KEY)
            state = WatchState() if stored is None else decode(stored.data, f"{self.lake.url}/{KEY}")
            encoded = encode(after := step(state))
            if stored is None:
                if self.lake.create(KEY, encoded):
                    return after
            elif encoded == stored.data or self.lake.replace(KEY, encoded, stored.version):
                return after


# Which notices each channel gets: from the problems now and the stored alarms.

MOST = 1_000
"""Problems that are stored, and have a notice each."""
MESSAGE_CHARACTERS, PLACE_CHARACTERS = 4_000, 500
_CHECKSUM = 8


@dataclass(frozen=True)
class Notice:
    """The alarms that one channel has to be notified of."""

    raised: tuple[Alarm, ...]
    cleared: tuple[Alarm, ...]

    def __bool__(self) -> bool:
        return bool(self.raised or self.cleared)


def bounded(problems: Iterable[Problem], alarms: Mapping[str, Alarm]) -> tuple[Problem, ...]:
    """Returns the problems that have an alarm, as many new ones as there is room for, and one that says how
    many are left out. Texts are cut: a place, which identifies a problem, keeps a checksum."""
    shortened = [_cut(problem) for problem in problems]
    known_keys = {key for key, alarm in alarms.items() if alarm.problem.kind is not ProblemKind.MORE}
    new_problems = [problem for problem in shortened if problem.key not in known_keys]
    room = max(MOST - len(known_keys), 0)
    if len(new_problems) <= room:
        return tuple(shortened)
    left_out = {problem.key for problem in new_problems[room:]}
    return (*(problem for problem in shortened if problem.key not in left_out), _more(new_problems[room:]))


def _more(left_out: Collection[Problem]) -> Problem:
    sources = tuple(sorted({source for problem in left_out for source in problem.sources}))
    message = f"{len(left_out):,} more have no notice of their own: status and verify show all"
    return Problem(ProblemKind.MORE, f"beyond {MOST:,}", message, sources)


def _cut(problem: Problem) -> Problem:
    place, message = problem.place, problem.message
    if len(place) > PLACE_CHARACTERS:
        digest = sha256(place.encode(errors="surrogatepass")).hexdigest()[:_CHECKSUM]
        place = f"{place[:PLACE_CHARACTERS]}… {digest}"
    if len(message) > MESSAGE_CHARACTERS:
        message = f"{message[:MESSAGE_CHARACTERS]}…"
    return replace(problem, place=place, message=message)


def decide(
    problems: Iterable[Problem],
    alarms: Mapping[str, Alarm],
    blind: Collection[ProblemSource],
    at: str,
    unseen: Collection[str] = (),
) -> dict[str, Alarm]:
    """Returns the alarms after a run of the watch: new problems are open, alarms without a problem are over.

    One whose source is in `blind`, because it did not answer, stays as it is. So does one whose key is in
    `unseen`: it is not over, but part of another problem. An event, whose hour is no longer watched, is
    forgotten.
    """
    problems_by_key = {problem.key: problem for problem in problems}
    after = {key: _seen(alarms.get(key), problem, at) for key, problem in problems_by_key.items()}
    kept_keys = kept_open(alarms, blind, unseen)
    for key, alarm in alarms.items():
        if key in problems_by_key:
            continue
        if key in kept_keys:
            after[key] = alarm
        elif alarm.notified and alarm.problem.kind not in EVENTS:
            after[key] = replace(alarm, over=True)
    return after


def kept_open(
    alarms: Mapping[str, Alarm], blind: Collection[ProblemSource], unseen: Collection[str] = ()
) -> frozenset[str]:
    """Returns the keys of open problems of which nobody can say that they are over, as `decide` has it."""
    return frozenset(
        key
        for key, alarm in alarms.items()
        if not alarm.over and (key in unseen or set(alarm.problem.sources) & set(blind))
    )


def _seen(alarm: Alarm | None, problem: Problem, at: str) -> Alarm:
    """Opens an alarm again. A channel that was notified of its end is notified of the problem again."""
    return Alarm(problem, at) if alarm is None else replace(alarm, problem=problem, over=False)


def pending(alarms: Mapping[str, Alarm], channel: str) -> Notice:
    """Returns what `channel` has not been notified of yet, in a stable order."""
    ordered = [alarms[key] for key in sorted(alarms)]
    return Notice(
        raised=tuple(a for a in ordered if not a.over and channel not in a.notified),
        cleared=tuple(a for a in ordered if a.over and channel in a.notified),
    )


def with_notified(alarms: Mapping[str, Alarm], channel: str, notice: Notice) -> dict[str, Alarm]:
    """Returns the alarms after `channel` was notified; one that is over for all channels is forgotten."""
    after = dict(alarms)
    for alarm in notice.raised:
        after[alarm.problem.key] = replace(alarm, notified=(*alarm.notified, channel))
    for alarm in notice.cleared:
        channels = tuple(name for name in alarm.notified if name != channel)
        after[alarm.problem.key] = replace(alarm, notified=channels)
    return {key: alarm for key, alarm in after.items() if alarm.notified or not alarm.over}


def forget(alarms: Mapping[str, Alarm], channels: Collection[str]) -> dict[str, Alarm]:
    """Removes channels that the pipeline file no longer has."""
    remaining = {
        key: replace(a, notified=tuple(c for c in a.notified if c in channels)) for key, a in alarms.items()
    }
    return {key: alarm for key, alarm in remaining.items() if alarm.notified or not alarm.over}


MOST_LINES = 50
MOST_ALONE = 3
"""Slices with one kind of problem that have a line each in a notice."""
_OF_SLICES = frozenset({ProblemKind.OVERDUE, ProblemKind.EXPIRED, ProblemKind.RETENTION})
LINE_CHARACTERS = 2_000
# Full-width signs look alike, and are no markup.
_AT = "\uff20"
_MARKUP = str.maketrans({"<": "\u2039", ">": "\u203a", "&": "\uff06"})
# What chats make a link of: [x](…), [x][…], ![x](…), an address with a scheme, and one that begins with www.
_LINK = re.compile(r"\](?=\s*[(\[:])|(?<=:)//|(?<=www)\.", re.IGNORECASE)
_NO_LINK = {"]": "\uff3d", "//": "\uff0f\uff0f", ".": "\uff0e"}


def subject(pipeline: str, notice: Notice) -> str:
    """`[sluice] adx: 2 problems, 1 over`: as many as the body has lines for."""
    count, over = len(together(notice.raised)), len(together(notice.cleared))
    parts = [f"{count} problem{'s' if count != 1 else ''}"] if count else []
    parts += [f"{over} over"] if over else []
    return f"[sluice] {pipeline}: {', '.join(parts)}"


def body(notice: Notice) -> str:
    """Returns a line for each problem, and for each that is over since when it was open; one for many
    slices."""
    lines = [f"PROBLEM {_problem(alarms)}" for alarms in together(notice.raised)]
    lines += [f"OVER {_over(alarms)}" for alarms in together(notice.cleared)]
    more = [f"and {len(lines) - MOST_LINES:,} more: status and verify show all"]
    shown_lines = [line(text, LINE_CHARACTERS) for text in lines[:MOST_LINES]]
    return "\n".join(shown_lines + (more if len(lines) > MOST_LINES else []))


def together(alarms: Iterable[Alarm]) -> list[list[Alarm]]:
    """Groups slices that have the same problem where they are many: those of a new pipeline, or after an
    outage."""
    alarms = list(alarms)
    counts = Counter(alarm.problem.kind for alarm in alarms)
    groups: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        kind = alarm.problem.kind
        many = kind in _OF_SLICES and counts[kind] > MOST_ALONE
        groups.setdefault(str(kind) if many else alarm.problem.key, []).append(alarm)
    return list(groups.values())


def _problem(alarms: Sequence[Alarm]) -> str:
    first = alarms[0].problem
    return str(first) if len(alarms) == 1 else f"{_span(alarms)}; of the first: {first.message}"


def _over(alarms: Sequence[Alarm]) -> str:
    first, since = alarms[0].problem, min(alarm.since for alarm in alarms)
    what = f"{first.kind}: {first.place}" if len(alarms) == 1 else _span(alarms)
    return f"{what} (open since {since})"


def _span(alarms: Sequence[Alarm]) -> str:
    first, last = alarms[0].problem, alarms[-1].problem
    places = f"from {first.place} to {last.place.removeprefix('slice ')}"
    return f"{first.kind}: {len(alarms):,} times, {places}"


def unaddressed(text: str) -> str:
    """Makes `text` safe for a reader whose markup is unknown: what mentions people in Slack, Discord and
    Mattermost (`@everyone`, `<!channel>`, `<@123>`), links, and tags of HTML are there with signs that look
    alike.

    Source: https://docs.slack.dev/messaging/formatting-message-text#escaping. Discord and Mattermost read
    Markdown, whose images they fetch.
    """
    return _LINK.sub(lambda match: _NO_LINK[match[0]], text.replace("@", _AT)).translate(_MARKUP)
