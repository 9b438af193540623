"""What an erasure leaves behind, as lines of its receipt. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.flow.erase.left_files import Removed
from sluice.flow.erase.left_in_kafka import LeftInKafka
from sluice.flow.erase.left_parts import LeftOnDisk
from sluice.manifest import Manifest


def left_lines(
    removed: Removed, unsearched: Iterable[str], servers: Iterable[LeftOnDisk], force: bool
) -> list[str]:
    """Returns what a later call, or a person, still has to do."""
    lines = [f"not searched: {line}" for line in unsearched]
    for left_attempt in removed.left:
        lines.append(
            f"attempt {left_attempt.slice}/{left_attempt.attempt} may be at work, and has "
            f"{left_attempt.files:,} files that nobody reads: the same words remove it after "
            f"{left_attempt.removable}"
        )
    for server in servers if force else ():
        if not server.nothing:
            replaced = sum(parts.replaced for parts in server.tables)
            lines.append(
                f"{server.server} still has {replaced:,} replaced parts and {server.dropped:,} dropped "
                "tables on its disk: the same words with --now wait again"
            )
    return lines


def forgotten_lines(manifests: Iterable[Manifest]) -> list[str]:
    """Returns a line about rejected records that the lake forgot, in units whose rows it still holds."""
    held = [m for m in manifests if not m.forgotten_on and not m.half_forgotten]
    counts = [sum(m.forgotten_by_reason().values()) for m in held]
    positive = [count for count in counts if count]
    if not positive:
        return []
    return [
        f"the lake forgot the bytes of {sum(positive):,} rejected records of {len(positive):,} units before, "
        "as `keep` says: none of them was searched, and nothing of them but their number is in the lake"
    ]


def note_lines(kafka: Iterable[LeftInKafka], servers: Iterable[LeftOnDisk], force: bool) -> list[str]:
    """Returns what vanishes by itself, and when."""
    return [*_of_kafka(kafka), *([] if force else _of_disks(servers))]


def _of_kafka(left_offsets: Iterable[LeftInKafka]) -> Iterator[str]:
    for offsets in left_offsets:
        place = f"Kafka {offsets.cluster}/{offsets.topic}/{offsets.partition}"
        span = f"offsets [{offsets.first}, {offsets.last}]"
        if offsets.holds is None:
            yield f"{place}: whether it still has {span} is not known: {offsets.why}"
        elif not offsets.holds:
            yield f"{place}: {span} are deleted"
        elif offsets.why:
            yield f"{place}: has some of {span}: {offsets.why}"
        else:
            until = f", and by {offsets.latest} if records keep coming" if offsets.latest else ""
            yield f"{place}: has some of {span}; the newest stays until {offsets.earliest} at least{until}"


def _of_disks(servers: Iterable[LeftOnDisk]) -> Iterator[str]:
    for server in servers:
        for parts in server.tables:
            if parts.hidden or parts.replaced:
                yield (
                    f"{server.server}, {parts.table}: no query shows the rows; their bytes are in "
                    f"{parts.hidden:,} parts until these are merged, and in {parts.replaced:,} replaced "
                    f"ones for {parts.lifetime:,} s and until the server cleans up: --now forces it"
                )
        if server.dropped:
            yield (
                f"{server.server}: {server.dropped:,} temporary tables of loads are dropped, and on disk "
                f"for at most {server.drop_delay:,} s"
            )
