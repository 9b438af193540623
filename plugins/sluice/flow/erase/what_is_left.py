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
    """What a later call, or a person, still has to do."""
    found = [f"not searched: {line}" for line in unsearched]
    for one in removed.left:
        found.append(
            f"attempt {one.slice}/{one.attempt} may be at work, and has {one.files:,} files that nobody "
            f"reads: the same words remove it after {one.removable}"
        )
    for server in servers if force else ():
        if not server.nothing:
            replaced = sum(part.replaced for part in server.tables)
            found.append(
                f"{server.server} still has {replaced:,} replaced parts and {server.dropped:,} dropped "
                "tables on its disk: the same words with --now wait again"
            )
    return found


def forgotten_lines(manifests: Iterable[Manifest]) -> list[str]:
    """Of rejected records that the lake forgot before, where it still holds the rows of their units."""
    whole = [m for m in manifests if not m.forgotten_on and not m.half_forgotten]
    gone = [sum(m.forgotten_by_reason().values()) for m in whole]
    some = [count for count in gone if count]
    if not some:
        return []
    return [
        f"the lake forgot the bytes of {sum(some):,} rejected records of {len(some):,} units before, as "
        "`keep` says: none of them was searched, and nothing of them but their number is in the lake"
    ]


def note_lines(kafka: Iterable[LeftInKafka], servers: Iterable[LeftOnDisk], force: bool) -> list[str]:
    """What goes by itself, and when."""
    return [*_of_kafka(kafka), *([] if force else _of_disks(servers))]


def _of_kafka(found: Iterable[LeftInKafka]) -> Iterator[str]:
    for one in found:
        place = f"Kafka {one.cluster}/{one.topic}/{one.partition}"
        span = f"offsets [{one.first}, {one.last}]"
        if one.holds is None:
            yield f"{place}: whether it still has {span} is not known: {one.why}"
        elif not one.holds:
            yield f"{place}: {span} are deleted"
        elif one.why:
            yield f"{place}: has some of {span}: {one.why}"
        else:
            until = f", and by {one.latest} if records keep coming" if one.latest else ""
            yield f"{place}: has some of {span}; the newest stays until {one.earliest} at least{until}"


def _of_disks(servers: Iterable[LeftOnDisk]) -> Iterator[str]:
    for server in servers:
        for part in server.tables:
            if part.hidden or part.replaced:
                yield (
                    f"{server.server}, {part.table}: no query shows the rows; their bytes are in "
                    f"{part.hidden:,} parts until these are merged, and in {part.replaced:,} replaced "
                    f"ones for {part.lifetime:,} s and until the server cleans up: --now forces it"
                )
        if server.dropped:
            yield (
                f"{server.server}: {server.dropped:,} temporary tables of loads are dropped, and on disk "
                f"for at most {server.drop_delay:,} s"
            )
