"""Exceptions, grouped by remedy: correct the input, retry, or change something outside Sluice first.

`retryable` says whether the same step can succeed later with nothing changed: Airflow retries only those.
`exit_code` is the command's: 1 the answer is no, 2 wrong use, 3 not now: something is
unavailable, busy or not loaded yet. `message` is one line
that names the place and the remedy; fields and properties fill it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


class SluiceError(Exception):
    """Base of every error that Sluice raises on purpose. One without a template is raised with its text."""

    message: ClassVar[str] = ""
    exit_code = 1
    retryable = False

    def __str__(self) -> str:
        return self.message.format_map(_Attributes(self)) if self.message else super().__str__()

    @property
    def public(self) -> str:
        """For users of the page, who may not see the machine nor other pipelines."""
        return str(self)


_MOST_CHARACTERS = 400


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


class _Attributes:
    """What a template may name."""

    def __init__(self, error: SluiceError) -> None:
        self._error = error

    def __getitem__(self, name: str) -> object:
        return getattr(self._error, name)


# ---- Correct the command, a parameter or a file first.


class WrongUse(SluiceError):
    """A command, a parameter or a pipeline file that has to be corrected first."""

    exit_code = 2


@dataclass(eq=False)
class LakeTaken(WrongUse):
    """The folder of a new pipeline in the lake is in another one's, or has something else in it."""

    url: str
    reason: str
    message = "the lake {url} {reason}: give the pipeline another `lake` or name"


@dataclass(eq=False)
class WrongPipeline(WrongUse):
    """A pipeline file that says something impossible; `key` is the dotted place in the file.

    `line` and `column` count from 1, and are 0 where the whole file is meant. `from_environment`: what stands
    there comes from a variable, so `expected` may quote its value.
    """

    file: str
    key: str
    expected: str
    from_environment: bool = False
    line: int = 0
    column: int = 0
    message = "{place}: {key}: {expected}"

    def __post_init__(self) -> None:
        """Both may quote the file, whose texts have no bound of their own."""
        self.key, self.expected = _cut(self.key), _cut(self.expected)

    @property
    def public(self) -> str:
        """Without folders of the machine, and without values of its environment."""
        hidden = "wrong, and not shown, for it comes from a variable: a command on the machine tells"
        here = self.place.removeprefix(self.file.removesuffix(Path(self.file).name))
        return f"{here}: {self.key}: {hidden if self.from_environment else self.expected}"

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(eq=False)
class SchemaRefused(WrongUse):
    """A schema file that cannot be used."""

    file: str
    reason: str
    message = "schema {file} ({reason}) cannot be used: correct it, or `format` in the pipeline file"


@dataclass(eq=False)
class EndInFuture(WrongUse):
    instant: str
    now: str
    message = "{instant} is not over yet (it is {now}): end the range earlier, or at `now`"


# ---- Retryable: the same step may succeed later.


class Unavailable(SluiceError):
    """A server did not answer, or not in time. Retryable."""

    exit_code = 3
    retryable = True


@dataclass(eq=False)
class KafkaUnavailable(Unavailable):
    cluster: str
    bootstrap: str
    reason: str
    message = (
        "Kafka cluster {cluster!r} does not answer at {bootstrap} ({reason}): "
        "check that the broker runs and that the address in the pipeline file or connection is right"
    )


@dataclass(eq=False)
class GroupAtWork(Unavailable):
    """The consumer group whose place Sluice takes still reads."""

    cluster: str
    group: str
    members: int
    message = (
        "consumer group {group!r} of cluster {cluster!r} still has {members} members: stop its consumers; "
        "the first slice begins at its committed offsets once Kafka knows that they are gone"
    )


@dataclass(eq=False)
class KafkaLoginFails(KafkaUnavailable):
    """No token for the cluster, or one that its brokers refuse; `issuer` is who gives them."""

    issuer: str
    remedy: str
    message = (
        "Kafka cluster {cluster!r} at {bootstrap}: no login with a token of {issuer} ({reason}): {remedy}"
    )


@dataclass(eq=False)
class ClusterWaits(Unavailable):
    """All else is done; `units` hours of one cluster are not, from `first` to `last` (slice ids).

    `why` is what the cluster says now.
    """

    cluster: str
    units: int
    first: str
    last: str
    why: str
    command: str
    message = (
        "{hours} not landed from Kafka cluster {cluster!r}{span}: {why}. The other clusters are "
        "done. The next hourly run catches up; to do it now: `{command}`"
    )

    @property
    def hours(self) -> str:
        return f"hour {self.first} has" if self.units == 1 else f"{self.units} hours have"

    @property
    def span(self) -> str:
        return "" if self.units == 1 else f" ({self.first} … {self.last})"


@dataclass(eq=False)
class PartitionMissing(Unavailable):
    """A partition that the boundaries know is not in today's metadata: a broker that is behind, mostly."""

    cluster: str
    topic: str
    partition: int
    message = (
        "Kafka cluster {cluster!r} does not list partition {partition} of topic {topic!r}, which it had "
        "before: try again when all its brokers are up"
    )


@dataclass(eq=False)
class ExpiredMeanwhile(Unavailable):
    """Retention overtook a landing; done again it sees what is left, and does what `on_expired` says."""

    cluster: str
    topic: str
    partition: int
    slice_id: str
    lost_from: int
    lost_until: int
    message = (
        "slice {slice_id}: Kafka dropped offsets [{lost_from}, {lost_until}) of "
        "{cluster}/{topic}/{partition} while they were read: land the slice again"
    )


@dataclass(eq=False)
class _NoAnswer:
    """A server that did not answer at `url`."""

    url: str
    reason: str


class LakeUnavailable(_NoAnswer, Unavailable):
    message = "the lake {url} does not answer ({reason}): check its address and credentials"


class ClickHouseUnavailable(_NoAnswer, Unavailable):
    message = (
        "ClickHouse does not answer at {url} ({reason}): "
        "check that the server runs and that the Airflow connection is right"
    )


class RegistryUnavailable(_NoAnswer, Unavailable):
    message = (
        "the schema registry {url} does not answer ({reason}): check that it runs and that its connection is "
        "right"
    )


@dataclass(eq=False)
class ShardUnavailable(Unavailable):
    shard: str
    reason: str
    message = "shard {shard}: {reason}"


@dataclass(eq=False)
class ReplicaActive(Unavailable):
    """A replica that does not answer here, and that Keeper shows active: it may still be writing."""

    table: str
    replicas: str
    message = (
        "table {table}: replica {replicas} does not answer, but Keeper shows it active, and what runs on it "
        "could still commit: the load goes on when it is inactive, or answers"
    )


@dataclass(eq=False)
class QuorumPending(Unavailable):
    """An insert of before is there, and has not reached its quorum: whether it is committed is unknown."""

    table: str
    paths: str
    message = (
        "table {table}: an earlier insert has not reached its quorum (Keeper has {paths}): "
        "start the replicas that lack it"
    )


@dataclass(eq=False)
class TooFewReplicas(Unavailable):
    table: str
    live: int
    needed: int
    message = (
        "table {table}: {live} replicas are active and writable, {needed} are needed: "
        "start the others, or lower `quorum` in the pipeline file"
    )


class _OfShards:
    """`failures` says each shard that failed with its error; `loaded` are the others."""

    loaded: str

    @property
    def others(self) -> str:
        return f"loaded on {self.loaded}; " if self.loaded else ""


@dataclass(eq=False)
class ShardsWait(_OfShards, Unavailable):
    """Some shards could not be loaded now."""

    table: str
    failures: str
    loaded: str
    message = "table {table}: {failures}; {others}the next run catches up; repeat a reload"


@dataclass(eq=False)
class SparkFailed(Unavailable):
    """Spark stopped before the end; nothing of what it wrote counts."""

    reason: str
    message = "Spark could not finish ({reason}): its log above says more; the step can be repeated"


class NotSent(Unavailable):
    """An alarm could not be delivered; the next watch tries it again."""


@dataclass(eq=False)
class ClockBehind(SluiceError):
    """The range of a run is over by another machine's clock, and not by this one's. Retryable."""

    host: str
    now: str
    end: str
    retryable = True
    message = (
        "the clock of this worker ({host}) is behind: it says {now}, and the run's hours ended at {end} by "
        "the scheduler's clock: set it right (NTP); the task is tried again"
    )


class Fenced(SluiceError):
    """A successor has taken the table's lease: this attempt stops, and its work is the successor's."""

    retryable = True


class Busy(SluiceError):
    """Another attempt holds the lease and is alive; it will finish, or its lease will stand still."""

    exit_code = 3
    retryable = True


@dataclass(eq=False)
class NotLoaded(Busy):
    """Verify has found hours that no fill has completed, or that another run landed again meanwhile.

    `units`: those, as (slice id, cluster).
    """

    named: str
    units: frozenset[tuple[str, str]] = frozenset()
    message = "not loaded yet, or landed again meanwhile: {named}"


@dataclass(eq=False)
class Blocked(SluiceError):
    """A mutation that fails is in the way of a deletion; nothing was changed."""

    table: str
    mutation: str
    reason: str
    remedy: str
    exit_code = 3
    retryable = True
    message = (
        "table {table}: mutation {mutation} fails again and again ({reason}), and no row can be deleted "
        "behind it: remove what it fails at, or {remedy}"
    )


class Changed(SluiceError):
    """A table, its views or its source changed while it was loaded: a retry takes it as it is now."""

    exit_code = 3
    retryable = True


class Relanded(Changed):
    """A slice was landed again while its older files were being loaded: loading it again takes the new."""


# ---- Permanent: only a person can change what forbids the step.


class Refused(SluiceError):
    """The answer is no: the state of the world forbids the step, and only a person can change it."""


class Conservation(Refused):
    """A count that must hold does not. The message names partition, offsets or table, and both counts."""


@dataclass(eq=False)
class MostlyRejected(Refused):
    """One reason has rejected more of an hour than `rejected.fail_above`; all else has landed and loaded.

    `others`: how many more such findings there are.
    """

    place: str
    seen: str
    remedy: str
    others: int = 0
    message = "mostly rejected: {place}: {seen}{more}; {remedy}"

    @property
    def more(self) -> str:
        return f" (and {self.others:,} more)" if self.others else ""


@dataclass(eq=False)
class ClusterRefused(ClusterWaits):
    """As ClusterWaits, and only a person can change what the cluster says."""

    retryable = False


@dataclass(eq=False)
class UnknownTopic(SluiceError):
    cluster: str
    topic: str
    exit_code = 3
    message = (
        "Kafka cluster {cluster!r} has no topic {topic!r}: "
        "create it, or correct `topics` in the pipeline file"
    )


@dataclass(eq=False)
class GroupUnusable(SluiceError):
    """A consumer group whose committed offsets are no place to go on from."""

    cluster: str
    group: str
    topic: str
    partition: int
    reason: str
    message = (
        "consumer group {group!r} has {reason} of {cluster}/{topic}/{partition}: set the offset from which "
        "Sluice is to read (kafka-consumer-groups.sh --reset-offsets), or name another `group` under `start`"
    )


class NoTopicMatches(UnknownTopic):
    """`topic` is the patterns."""

    message = (
        "Kafka cluster {cluster!r} shows no topic that matches {topic}: create one, grant the right to "
        "describe it, or correct `topics` in the pipeline file"
    )


@dataclass(eq=False)
class _ServerRefuses:
    """A server that is there, and refuses."""

    url: str
    reason: str
    remedy: str
    exit_code = 3


class LakeRefused(_ServerRefuses, SluiceError):
    """A full disk, a missing right, an unknown bucket."""

    message = "the lake {url} refuses ({reason}): {remedy}"


class RegistryRefused(_ServerRefuses, SluiceError):
    """A wrong login or address, or an answer that is no schema."""

    message = "the schema registry {url} refuses ({reason}): {remedy}"


@dataclass(eq=False)
class TargetRefused(Refused):
    """A target table that cannot be loaded as it is; `remedy` is what to do, often a statement."""

    table: str
    reason: str
    remedy: str
    message = "table {table}: {reason}; {remedy}"


class TargetTaken(TargetRefused):
    """A target table that is another pipeline's: neither loaded nor read."""

    @property
    def public(self) -> str:
        return f"table {self.table} is another pipeline's: nothing of it is shown, and no run loads it"


class TableMissing(TargetRefused):
    """A target table that is not there; the remedy is a CREATE TABLE to begin with."""


class DefaultFails(TargetRefused):
    """A column's DEFAULT that fails for more rows than a load makes rejected rows of."""


@dataclass(eq=False)
class ShardsRefused(_OfShards, Refused):
    """Some shards have permanent errors: each message names the remedy."""

    table: str
    failures: str
    loaded: str
    message = "table {table}: {failures}; {others}correct that, and load again"


@dataclass(eq=False)
class RecordsExpired(Refused):
    """Kafka no longer has offsets that a slice needs. `exact` is False when hours are unknown. `remedy` of a
    slice that has landed says what is left."""

    cluster: str
    topic: str
    partition: int
    slice_id: str
    lost_from: int
    lost_until: int
    exact: bool
    why: str = "retention"
    remedy: str = "set `on_expired: land_rest` to land what is left and record the loss, or begin later"
    message = (
        "slice {slice_id}: Kafka no longer has {amount} offsets [{lost_from}, {lost_until}) of "
        "{cluster}/{topic}/{partition} ({why}): {remedy}"
    )

    @property
    def amount(self) -> str:
        return f"{'' if self.exact else 'at most '}{self.lost_until - self.lost_from}"


@dataclass(eq=False)
class ManifestLost(Refused):
    """A unit that has landed and has no manifest any more, and `why` it cannot land again as a whole."""

    unit: str
    manifest: str
    why: str
    reland: str
    message = (
        "slice {unit} has landed, but {manifest} is lost, and {why}: files and tables stay as they are. Put "
        "the manifest back from a copy. Or give up what cannot land again: `{reland}`"
    )


@dataclass(eq=False)
class CompactedAway(Refused):
    """A `reland` would replace records that the lake holds by fewer: compaction has removed some since."""

    cluster: str
    topics: str
    slice_id: str
    held: int
    found: int
    reload: str
    message = (
        "slice {slice_id}: the lake holds {held} records of {cluster}/{topics}, Kafka only {found} after "
        "compaction, so it is not landed again; `{reload}` loads it from the lake"
    )


@dataclass(eq=False)
class CannotRemake(Refused):
    """A unit whose records cannot be made again out of the lake's own files: `why` names the first place.
    `reland` is the command that reads it from Kafka, by its own rules."""

    unit: str
    why: str
    reland: str
    message = (
        "slice {unit} cannot be made again out of the lake: {why}; nothing of it was changed: "
        "`{reland}` brings it back as it landed, as long as Kafka has it; then remake it"
    )


@dataclass(eq=False)
class MessagesGone(Refused):
    """A unit whose messages the lake has only as what they became, by rules that the file no longer has."""

    unit: str
    why: str
    message = (
        "slice {unit} cannot be made again out of the lake: {why}; nothing of it was changed, and what has "
        "landed keeps its own"
    )


@dataclass(eq=False)
class FilesForgotten(Refused):
    """Units whose files the lake has forgotten, asked for in a `mode` that reads them. `on` is when the first
    was forgotten, and `reland` the command that reads them again."""

    units: int
    first: str
    last: str
    on: str
    mode: str
    reland: str
    message = (
        "{hours} forgotten, as `keep` in the pipeline file says (slice {first} on {on}), and `{mode}` reads "
        "files, so nothing was changed: leave {span} out of the range, or bring the files back with "
        "`{reland}`, as long as Kafka has them"
    )

    @classmethod
    def of(cls, units: Sequence[tuple[object, str]], mode: str, reland: str) -> FilesForgotten:
        """`units`: what is forgotten, in order, and when it was."""
        return cls(len(units), str(units[0][0]), str(units[-1][0]), units[0][1], mode, reland)

    @property
    def hours(self) -> str:
        return "1 unit of the range is" if self.units == 1 else f"{self.units:,} units of the range are"

    @property
    def span(self) -> str:
        return self.first if self.units == 1 else f"{self.first} … {self.last}"


@dataclass(eq=False)
class RuleGone(Refused):
    """A unit that a `reland` cannot land by its own rules: the pipeline file no longer has what a `rule` of
    them needs, or the lake (`place`) lost them."""

    unit: str
    rule: str
    place: str
    remedy: str
    message = "slice {unit} landed by {rule}, which the {place} no longer has, so it stays as it is: {remedy}"


@dataclass(eq=False)
class CannotErase(Refused):
    """A file that cannot be searched for a person: nobody knows then whether it holds one. `verify` is the
    command that names its repair."""

    unit: str
    file: str
    reason: str
    verify: str
    message = (
        "slice {unit}: file {file} cannot be searched ({reason}): `{verify}` names its repair; erase "
        "again after it, with the same words"
    )


@dataclass(eq=False)
class WouldReject(Refused):
    """A reland or remake by which rows would be rejected: `record` is the first of them, for `reason`."""

    unit: str
    rows: int
    of: int
    record: str
    reason: str
    message = (
        "slice {unit}: landing it again would reject {rows:,} of its {of:,} rows, the first {record} "
        "({reason}), so it stays as it is: correct the pipeline file, or take them out: --yes (in Airflow "
        "accept_loss)"
    )


@dataclass(eq=False)
class TopicRecreated(Refused):
    cluster: str
    topic: str
    known: str
    found: str
    accept: str = ""
    message = (
        "topic {cluster}/{topic} was recreated (id {known} is now {found}): its offsets mean "
        "other records; {remedy}"
    )

    @property
    def remedy(self) -> str:
        """`accept` is the command that reads the new one, where who raises it knows the pipeline."""
        if not self.accept:
            return "accept it to read the new one from an instant on"
        return f"`{self.accept}` reads the new one from that instant on"


@dataclass(eq=False)
class EventsRefused(Refused):
    """A broker that answers, but does not take the events."""

    cluster: str
    topic: str
    reason: str
    source: str
    line: int
    message = (
        "{source}, line {line}: topic {cluster}/{topic} refuses the event ({reason}): compare its settings "
        "(max.message.bytes, message.timestamp.*) and its permissions with the event; what comes after that "
        "line counts as not published"
    )


@dataclass(eq=False)
class BatchUnreadable(Refused):
    """A stored batch whose bytes are not records: no client can read it."""

    cluster: str
    topic: str
    partition: int
    start: int
    until: int
    reason: str
    message = (
        "offsets [{start}, {until}) of {cluster}/{topic}/{partition} cannot be read ({reason}): inspect the "
        "broker's log; without them the slice does not land"
    )


# ---- As the first of several.


@dataclass(eq=False)
class NotAllLanded(SluiceError):
    """Some `units` of a batch could not land, and `landed` others did; `why` is the first one's error."""

    units: str
    landed: int
    why: str
    message = "{units} did not land, {landed:,} other units did: {why}"

    @classmethod
    def of(cls, units: Sequence[str], landed: int, first: SluiceError) -> NotAllLanded:
        more = f" and {len(units) - 3:,} more" if len(units) > 3 else ""
        error = cls(", ".join(units[:3]) + more, landed, str(first))
        error.exit_code, error.retryable = first.exit_code, first.retryable
        return error
