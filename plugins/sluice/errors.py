"""What can go wrong, divided by what cures it.

`retryable` says whether the same step, done again later, can succeed without anybody doing anything:
Airflow retries only those. `exit_code` is the command's: 1 the answer is no, 2 wrong use, 3 something
out of reach. Every message is one line that names the place and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SluiceError(Exception):
    """Base of every error that Sluice raises on purpose."""

    exit_code = 1
    retryable = False


class WrongUse(SluiceError):
    """A command, a parameter or a pipeline file that has to be corrected first."""

    exit_code = 2


@dataclass(eq=False)
class WrongPipeline(WrongUse):
    """A pipeline file that says something impossible; `key` is the dotted place in the file.

    `from_environment`: what stands there comes from a variable, so `expected` may quote its value.
    """

    file: str
    key: str
    expected: str
    from_environment: bool = False

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.expected}"

    @property
    def public(self) -> str:
        """For those who may not see the environment of the machine."""
        hidden = "wrong, and not shown, for it comes from a variable: a `sluice` command on the machine tells"
        return f"{self.file}: {self.key}: {hidden}" if self.from_environment else str(self)


class OutOfReach(SluiceError):
    """A server did not answer, or not in time. Doing it again later cures it."""

    exit_code = 3
    retryable = True


@dataclass(eq=False)
class KafkaOutOfReach(OutOfReach):
    cluster: str
    bootstrap: str
    reason: str

    def __str__(self) -> str:
        return (
            f"Kafka cluster {self.cluster!r} does not answer at {self.bootstrap} ({self.reason}): "
            "check that the broker runs and that the address in the pipeline file or connection is right"
        )


@dataclass(eq=False)
class ClusterWaits(OutOfReach):
    """All else is done; `units` hours of one cluster are not, from `first` to `last` (slice ids).

    `why` is what the cluster says now.
    """

    cluster: str
    units: int
    first: str
    last: str
    why: str
    command: str

    def __str__(self) -> str:
        hours = f"hour {self.first} has" if self.units == 1 else f"{self.units} hours have"
        span = "" if self.units == 1 else f" ({self.first} … {self.last})"
        return (
            f"{hours} not landed from Kafka cluster {self.cluster!r}{span}: {self.why}; what the other "
            f"clusters have is done, and the next hourly run catches up, or `{self.command}`"
        )


@dataclass(eq=False)
class ClusterRefused(ClusterWaits):
    """As ClusterWaits, and only a person can change what the cluster says."""

    retryable = False


@dataclass(eq=False)
class UnknownTopic(SluiceError):
    cluster: str
    topic: str
    exit_code = 3

    def __str__(self) -> str:
        return (
            f"Kafka cluster {self.cluster!r} has no topic {self.topic!r}: "
            "create it, or correct `topics` in the pipeline file"
        )


@dataclass(eq=False)
class LakeOutOfReach(OutOfReach):
    url: str
    reason: str

    def __str__(self) -> str:
        return f"the lake {self.url} does not answer ({self.reason}): check its address and credentials"


@dataclass(eq=False)
class LakeRefused(SluiceError):
    """The lake is there, and refuses: a full disk, a missing right, an unknown bucket."""

    url: str
    reason: str
    remedy: str
    exit_code = 3

    def __str__(self) -> str:
        return f"the lake {self.url} refuses ({self.reason}): {self.remedy}"


@dataclass(eq=False)
class ClickHouseOutOfReach(OutOfReach):
    address: str
    reason: str

    def __str__(self) -> str:
        return (
            f"ClickHouse does not answer at {self.address} ({self.reason}): "
            "check that the server runs and that the Airflow connection is right"
        )


@dataclass(eq=False)
class ShardOutOfReach(OutOfReach):
    shard: str
    reason: str

    def __str__(self) -> str:
        return f"shard {self.shard}: {self.reason}"


@dataclass(eq=False)
class ReplicaActive(OutOfReach):
    """A replica that does not answer here, and that Keeper shows active: it may still be writing."""

    table: str
    replicas: str

    def __str__(self) -> str:
        return (
            f"table {self.table}: replica {self.replicas} does not answer, but Keeper shows it active, and "
            "what runs on it could still commit: the load goes on when it is inactive, or answers"
        )


@dataclass(eq=False)
class QuorumPending(OutOfReach):
    """An insert of before is there, and has not reached its quorum: nobody knows yet whether it counts."""

    table: str
    paths: str

    def __str__(self) -> str:
        return (
            f"table {self.table}: an earlier insert has not reached its quorum (Keeper has {self.paths}): "
            "start the replicas that lack it"
        )


@dataclass(eq=False)
class TooFewReplicas(OutOfReach):
    table: str
    live: int
    needed: int

    def __str__(self) -> str:
        return (
            f"table {self.table}: {self.live} replicas are active and writable, {self.needed} are needed: "
            "start the others, or lower `quorum` in the pipeline file"
        )


@dataclass(eq=False)
class ShardsWait(OutOfReach):
    """Some shards could not be loaded now: `failures` says each with its error; `loaded` are the others."""

    table: str
    failures: str
    loaded: str

    def __str__(self) -> str:
        others = f"loaded on {self.loaded}; " if self.loaded else ""
        return f"table {self.table}: {self.failures}; {others}the next run catches up"


@dataclass(eq=False)
class RegistryOutOfReach(OutOfReach):
    url: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the schema registry {self.url} does not answer ({self.reason}): check that it runs and that "
            "its connection is right"
        )


@dataclass(eq=False)
class RegistryRefused(SluiceError):
    """The schema registry is there, and refuses: a wrong login or address, or an answer that is no schema."""

    url: str
    reason: str
    remedy: str
    exit_code = 3

    def __str__(self) -> str:
        return f"the schema registry {self.url} refuses ({self.reason}): {self.remedy}"


@dataclass(eq=False)
class SchemaRefused(WrongUse):
    """A schema file that cannot be used."""

    file: str
    reason: str

    def __str__(self) -> str:
        return (
            f"schema {self.file} ({self.reason}) cannot be used: correct it, or `format` in the pipeline file"
        )


@dataclass(eq=False)
class SparkFailed(OutOfReach):
    """Spark stopped before the end; nothing of what it wrote counts."""

    reason: str

    def __str__(self) -> str:
        return f"Spark could not finish ({self.reason}): its log above says more; the step can be repeated"


@dataclass(eq=False)
class NotAllLanded(SluiceError):
    """Some `units` of a batch could not land, and `landed` others did; `why` is the first one's error."""

    units: str
    landed: int
    why: str

    @classmethod
    def of(cls, units: Sequence[str], landed: int, first: SluiceError) -> NotAllLanded:
        more = f" and {len(units) - 3:,} more" if len(units) > 3 else ""
        found = cls(", ".join(units[:3]) + more, landed, str(first))
        found.exit_code, found.retryable = first.exit_code, first.retryable
        return found

    def __str__(self) -> str:
        return f"{self.units} did not land, {self.landed:,} other units did: {self.why}"


class Refused(SluiceError):
    """The answer is no: the state of the world forbids the step, and only a person can change it."""


@dataclass(eq=False)
class TargetRefused(Refused):
    """A target table that cannot be loaded as it is; `remedy` is what to do, often a statement."""

    table: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"table {self.table}: {self.reason}; {self.remedy}"


class DefaultFails(TargetRefused):
    """A column's DEFAULT that fails for more rows than a load makes misfits of."""


@dataclass(eq=False)
class ShardsRefused(Refused):
    """Some shards cannot be loaded before somebody acts; the fields are those of ShardsWait."""

    table: str
    failures: str
    loaded: str

    def __str__(self) -> str:
        others = f"loaded on {self.loaded}; " if self.loaded else ""
        return f"table {self.table}: {self.failures}; {others}then load again"


@dataclass(eq=False)
class NotResolved(Refused):
    """A slice without stored boundaries: nobody knows its offsets yet."""

    slice_id: str
    cluster: str

    def __str__(self) -> str:
        return (
            f"slice {self.slice_id} of cluster {self.cluster!r} is not resolved: "
            "run the resolve step over it first"
        )


@dataclass(eq=False)
class RecordsExpired(Refused):
    """Kafka no longer has offsets that a slice needs. `exact` is False when hours are unknown.

    `landed`: the lake has them, and a `reland` would have lost them there, too.
    """

    cluster: str
    topic: str
    partition: int
    slice_id: str
    lost_from: int
    lost_until: int
    exact: bool
    landed: bool = False

    def __str__(self) -> str:
        count = self.lost_until - self.lost_from
        amount = f"{count} offsets" if self.exact else f"at most {count} offsets"
        return (
            f"slice {self.slice_id}: Kafka no longer has {amount} [{self.lost_from}, {self.lost_until}) of "
            f"{self.cluster}/{self.topic}/{self.partition} (retention): {self._remedy()}"
        )

    def _remedy(self) -> str:
        if self.landed:
            return "the lake has them, so it is not landed again; `--mode reload` loads it from there"
        return "set `on_expired: land_rest` to land what is left and record the loss, or begin later"


@dataclass(eq=False)
class ExpiredMeanwhile(OutOfReach):
    """Retention overtook a landing; done again it sees what is left, and does what `on_expired` says."""

    cluster: str
    topic: str
    partition: int
    slice_id: str
    lost_from: int
    lost_until: int

    def __str__(self) -> str:
        return (
            f"slice {self.slice_id}: Kafka dropped offsets [{self.lost_from}, {self.lost_until}) of "
            f"{self.cluster}/{self.topic}/{self.partition} while they were read: land the slice again"
        )


@dataclass(eq=False)
class CompactedAway(Refused):
    """A `reland` would replace records that the lake holds by fewer: compaction has removed some since."""

    cluster: str
    topics: str
    slice_id: str
    held: int
    found: int

    def __str__(self) -> str:
        return (
            f"slice {self.slice_id}: the lake holds {self.held} records of {self.cluster}/{self.topics}, "
            f"Kafka only {self.found} after compaction, so it is not landed again; `--mode reload` loads it "
            "from the lake"
        )


@dataclass(eq=False)
class TopicRecreated(Refused):
    cluster: str
    topic: str
    known: str
    found: str

    def __str__(self) -> str:
        return (
            f"topic {self.cluster}/{self.topic} was deleted and made again (id {self.known} is now "
            f"{self.found}): its offsets mean other records; `sluice accept PIPELINE {self.topic} --from A` "
            "reads the new one from an instant A on"
        )


@dataclass(eq=False)
class EventsRefused(Refused):
    """A broker that answers, but does not take the events."""

    cluster: str
    topic: str
    reason: str
    source: str
    line: int

    def __str__(self) -> str:
        return (
            f"{self.source}, line {self.line}: topic {self.cluster}/{self.topic} refuses the event "
            f"({self.reason}): compare its settings (max.message.bytes, message.timestamp.*) and its "
            "permissions with the event; what comes after that line counts as not published"
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

    def __str__(self) -> str:
        return (
            f"offsets [{self.start}, {self.until}) of {self.cluster}/{self.topic}/{self.partition} cannot be "
            f"read ({self.reason}): look at the broker's log; without them the slice does not land"
        )


@dataclass(eq=False)
class PartitionMissing(OutOfReach):
    """A partition that the boundaries know is not in today's metadata: a broker that is behind, mostly."""

    cluster: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return (
            f"Kafka cluster {self.cluster!r} does not list partition {self.partition} of topic "
            f"{self.topic!r}, which it had before: try again when all its brokers are up"
        )


@dataclass(eq=False)
class SliceLengthFixed(WrongUse):
    pipeline: str
    fixed: str
    asked: str

    def __str__(self) -> str:
        return (
            f"pipeline {self.pipeline}: `slice` is {self.asked}, but its first boundary fixed the length at "
            f"{self.fixed}: put `slice: {self.fixed}` back, or make a new pipeline"
        )


@dataclass(eq=False)
class EndInFuture(WrongUse):
    instant: str
    now: str

    def __str__(self) -> str:
        return f"{self.instant} is not over yet (it is {self.now}): end the range earlier, or use `--to now`"


@dataclass(eq=False)
class ClockBehind(SluiceError):
    """The range of a run is over by another machine's clock, and not by this one's. Waiting cures it."""

    host: str
    now: str
    end: str

    retryable = True

    def __str__(self) -> str:
        return (
            f"the clock of this worker ({self.host}) is behind: it says {self.now}, and the run's hours "
            f"ended at {self.end} by the scheduler's clock: set it right (NTP); the task is tried again"
        )


class Conservation(Refused):
    """A count that must hold does not. The message names partition, offsets or table, and both counts."""


class Fenced(SluiceError):
    """A successor has taken the table's lease: this attempt stops, and its work is the successor's."""

    retryable = True


class Busy(SluiceError):
    """Another attempt holds the lease and is alive; it will finish, or its lease will stand still."""

    exit_code = 3
    retryable = True


@dataclass(eq=False)
class Blocked(SluiceError):
    """A mutation that fails is in the way of a deletion; nothing was changed."""

    table: str
    mutation: str
    reason: str
    remedy: str
    exit_code = 3
    retryable = True

    def __str__(self) -> str:
        return (
            f"table {self.table}: mutation {self.mutation} fails again and again ({self.reason}), and no row "
            f"can be deleted behind it: remove what it fails at, or {self.remedy}"
        )


class NotSent(OutOfReach):
    """An alarm could not be delivered; the next watch tries it again."""


class SourceChanged(SluiceError):
    """A rollup's source was loaded again while the rollup read it: making it again takes the new rows."""

    exit_code = 3
    retryable = True


class Relanded(SluiceError):
    """A slice was landed again while its older files were being loaded: loading it again takes the new."""

    exit_code = 3
    retryable = True
