"""Lands a batch although some of its units cannot: the part that fails is halved until these are alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluice.errors import (
    LakeRefused,
    LakeUnavailable,
    NotAllLanded,
    SluiceError,
    SparkFailed,
    TopicRecreated,
    WouldReject,
)
from sluice.flow.land.read_plan import UnitRead
from sluice.manifest import Manifest


@dataclass(frozen=True)
class Parts:
    """The manifests of what could land; `failed` are the others, each part with its error."""

    manifests: tuple[Manifest, ...]
    failed: tuple[tuple[Sequence[UnitRead], SluiceError], ...] = ()

    @property
    def refused(self) -> bool:
        """Returns whether a unit was read, and then not replaced."""
        return any(isinstance(error, WouldReject) for _, error in self.failed)

    @property
    def error(self) -> SluiceError | None:
        """Names the units, unless all failed in one part: its own error says it then."""
        if not self.failed:
            return None
        units = [str(read.unit) for part, _ in self.failed for read in part]
        first = self.failed[0][1]
        if not self.manifests and len(self.failed) == 1:
            return first
        return NotAllLanded.of(units, len(self.manifests), first)


LandUnits = Callable[[Sequence[UnitRead]], Parts]


def in_parts(reads: Sequence[UnitRead], land: LandUnits, answers: Callable[[], bool]) -> Parts:
    """Lands all of `reads`, and where that fails for what may be a unit's own cause, its halves.

    One unit of n costs some log2(n) reads more, each half as large; after twice as many failures what is left
    fails undivided. `answers` says whether Kafka can be asked now: where not, no unit is to blame. Raises
    what the lake raises.
    """
    left, most = [tuple(reads)], 2 * len(reads).bit_length() + 2
    manifests: list[Manifest] = []
    failed: list[tuple[Sequence[UnitRead], SluiceError]] = []
    tries = 0
    while left:
        part = left.pop()
        try:
            done = land(part)
            manifests += done.manifests
            failed += done.failed
        except (LakeUnavailable, LakeRefused):
            raise
        except SluiceError as error:
            tries += 1
            unit_at_fault = _of_a_unit(error) and answers()
            if unit_at_fault and len(part) > 1 and tries <= most:
                half = len(part) // 2
                left += [part[half:], part[:half]]
                continue
            failed.append((part, error))
            if not unit_at_fault:
                failed += ((other, error) for other in reversed(left))
                break
    return Parts(tuple(manifests), tuple(failed))


def _of_a_unit(error: SluiceError) -> bool:
    """Returns whether one unit may have caused the error: not a retryable one, nor one of a topic or a
    file."""
    if isinstance(error, TopicRecreated):
        return False
    return isinstance(error, SparkFailed) or (not error.retryable and error.exit_code == 1)
