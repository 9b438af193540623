"""A week before the lake forgets its first hours: one notice. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta

import pendulum

from sluice.config.pipeline import Pipeline
from sluice.plan.due import FirstForgotten
from sluice.slices import utc
from sluice.watch.problems import Problem, ProblemKind, ProblemSource


def forgets(
    pipeline: Pipeline, first: FirstForgotten | None, raised: Collection[str] = ()
) -> Iterator[Problem]:
    """Yields what the lake forgets first, for each `keep` of the file once. While a table lacks the hours
    that are old enough, only a problem that is in `raised`, by its key, stays."""
    if first is None:
        return
    problem = _problem(pipeline, first)
    if first.complete or problem.key in raised:
        yield problem


def _problem(pipeline: Pipeline, first: FirstForgotten) -> Problem:
    keep = pipeline.keep
    lengths = [
        f"{name} {_words(length)}"
        for name, length in (("lake", keep.lake), ("rejected", keep.rejected))
        if length is not None
    ]
    message = (
        f"from {utc(first.at):%Y-%m-%dT%H:%MZ} on runs of DAG {pipeline.name} delete files of hours that are "
        f"older than `keep` says, the first of slice {first.slice.id}; "
        f"`{pipeline.command('forget', '--dry-run')}` says which, and a longer `keep` keeps them"
    )
    return Problem(ProblemKind.FORGETS, f"keep: {', '.join(lengths)}", message, (ProblemSource.LAKE,))


def _words(length: timedelta) -> str:
    return pendulum.duration(seconds=length.total_seconds()).in_words()
