"""The lake's files against the manifests. Pure.

A file's name has its slice, cluster and generation. Files of a generation that a `reland` has replaced are
dead: verify removes them (`dead`), for a slow copy may bring one back. All others that no manifest lists are
anomalies, and are removed only when a person asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sluice.clients.lake.layout import FileName, parse_name
from sluice.errors import WrongUse
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Manifest
from sluice.slices import Slice
from sluice.state.status import UnitStatus


def check_files(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for status, manifest in facts.landed:
        for file in manifest.held_files:
            yield from _listed(facts, repairs, status, file)
    for key in sorted(_unnamed(facts).difference(dead(facts))):
        yield from _unlisted(facts, repairs, key)
    for key in facts.lake.attempts:
        advice = "its attempt died a week ago or more, and no manifest names it"
        yield Anomaly(AnomalyKind.ATTEMPT, "no file", "a file", repairs.clean(), advice, file=key)


def dead(facts: VerifyFacts) -> list[str]:
    """Returns files of superseded generations, which a newer manifest has replaced, and those that the lake
    has forgotten: a slow copy may have brought one back."""
    keys = []
    for key in _unnamed(facts):
        name = parse_name(key)
        manifest = _manifest(facts, name) if name else None
        if name and manifest and (name.generation < manifest.generation or key in _removed(manifest)):
            keys.append(key)
    return sorted(keys)


def _removed(manifest: Manifest) -> set[str]:
    """Returns the files that are gone for good. As long as `sluice forget` is not done they may have to
    stay."""
    done = manifest.forgotten is not None and manifest.forgotten.removed
    return {file.key for file in manifest.forgotten_files} if done else set()


def _unnamed(facts: VerifyFacts) -> set[str]:
    """Returns the files that no manifest lists."""
    named_or_landed = (*facts.lake.named.values(), *(manifest for _, manifest in facts.landed))
    manifests = [manifest for manifest in named_or_landed if manifest is not None]
    listed = {f.key for m in manifests for f in m.all_files}
    return facts.lake.sizes.keys() - listed.difference(*map(_removed, manifests))


def _listed(facts: VerifyFacts, repairs: Repairs, status: UnitStatus, file: LandedFile) -> Iterator[Anomaly]:
    size, sha = facts.lake.sizes.get(file.key), facts.lake.checksums.get(file.key)
    if size == file.bytes and sha in (None, file.sha256):
        return
    anomaly = partial(
        Anomaly,
        slice=status.unit.slice.id,
        cluster=status.unit.cluster,
        type=file.type or "",
        file=file.key,
    )
    command = repairs.reland(status.unit.slice)
    expected = f"{file.bytes:,} bytes"
    if size is None and file.key in facts.lake.unmoved and not status.state.done:
        fill = repairs.fill(status.unit.slice)
        yield anomaly(AnomalyKind.FILE_NOT_MOVED, expected, f"it is still at {file.attempt_key}", fill)
    elif size is None:
        yield anomaly(AnomalyKind.FILE_MISSING, expected, "no file", command)
    elif size != file.bytes:
        yield anomaly(AnomalyKind.FILE_SIZE, expected, f"{size:,} bytes", command)
    else:
        yield anomaly(AnomalyKind.FILE_CHECKSUM, f"SHA-256 {file.sha256}", sha or "", command)


def _unlisted(facts: VerifyFacts, repairs: Repairs, key: str) -> Iterator[Anomaly]:
    size = f"{facts.lake.sizes[key]:,} bytes"
    name = parse_name(key)
    slice_ = None if name is None else _slice(name, facts)
    if name is None or slice_ is None:
        advice = "Sluice did not write it, and does not delete it: move it out of the lake's folder"
        yield Anomaly(AnomalyKind.FILE_UNKNOWN, "no file", size, advice=advice, file=key)
        return
    anomaly = partial(Anomaly, slice=name.slice, cluster=name.cluster, file=key)
    if any(unit.slice.id == name.slice and unit.cluster == name.cluster for unit in facts.unreadable):
        return  # its manifest may well list it
    if (manifest := _manifest(facts, name)) is not None:
        if manifest.lost:
            # It landed without offsets that Kafka no longer had: an earlier landing's file may have them.
            advice = (
                "its hour landed with a loss, and the file may hold what was lost: look before you delete it"
            )
            yield anomaly(AnomalyKind.FILE_UNKNOWN, "no file", size, advice=advice)
        else:
            yield anomaly(AnomalyKind.FILE_UNKNOWN, "no file", size, repairs.clean(slice_))
        return
    # Its manifest is gone, and Kafka's records may be too: then this is the only copy.
    advice = f"when the hour has landed again, `{repairs.clean(slice_)}` removes what is left"
    command = repairs.fill(slice_) if name.cluster in facts.pipeline.clusters else ""
    yield anomaly(AnomalyKind.FILE_UNKNOWN, "a manifest that lists it", "none", command, advice)


def _manifest(facts: VerifyFacts, name: FileName) -> Manifest | None:
    return facts.lake.named.get((name.slice, name.cluster))


def _slice(name: FileName, facts: VerifyFacts) -> Slice | None:
    try:
        return Slice.from_id(name.slice, facts.pipeline.slice)
    except WrongUse:
        return None
