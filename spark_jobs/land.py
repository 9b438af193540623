"""The land application: one per batch.

    spark-submit … spark_jobs/land.py --config FILE --from A --to B --mode MODE [--token T]

Prints progress, and as its last line the result as JSON. An error of Sluice's is one line on stderr; the
exit code is the error's own, or 75 (sysexits.h, EX_TEMPFAIL) when it is retryable.
"""

from __future__ import annotations

import unzipped  # noqa: F401

# isort: split
import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pendulum
from engine import SparkEngine

from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, WrongUse
from sluice.flow.land.land import land
from sluice.flow.land.submit import ERROR, seconds_since_submit
from sluice.flow.metrics import handing_over
from sluice.plan.modes import MISSING_COLUMNS, MODES
from sluice.runtime import collect_seldom
from sluice.safe_text import line
from sluice.slices import SliceRange, parse_instant
from sluice.state.notes import timed

TEMPORARY = 75


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="the pipeline file")
    parser.add_argument("--from", dest="start", required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("--mode", choices=(*MODES, MISSING_COLUMNS), default="fill")
    parser.add_argument(
        "--token", help="names one reland or remake: repeated with the same token it lands nothing twice"
    )
    parser.add_argument("--cluster", action="append", help="only this cluster of the pipeline (repeatable)")
    parser.add_argument("--accept-loss", action="store_true", help="a remake may reject rows that are there")
    return parser.parse_args(words)


def run(options: argparse.Namespace) -> dict[str, object]:
    """Lands the range and returns the summary. Raises SluiceError."""
    started, before = time.monotonic(), seconds_since_submit(os.environ, time.time())
    pipeline = _only(read(options.config), options.cluster)
    now = pendulum.now("UTC")
    start, end = (parse_instant(text, now, pipeline.slice) for text in (options.start, options.to))
    slices = SliceRange.widen(start, end, pipeline.slice)
    lake, token = open_lake(pipeline), options.token or uuid.uuid4().hex
    with timed(lake, "land", slices, mode=options.mode, run=token) as count:
        metered = handing_over(lake, slices, ",".join(options.cluster or ()))
        with metered, SparkEngine(f"sluice {pipeline.name} {slices}", _say) as engine:
            how = {"accept_loss": options.accept_loss}
            landing = land(pipeline, lake, slices, options.mode, token, engine, _say, **how)
        summary = landing.summary()
        count({"units": summary["landed"], "rows": summary["records"], "bytes": summary["bytes"]})
        count({"before": before, "starting": engine.starting})
    seconds = time.monotonic() - started
    _say(
        f"landed {summary['landed']} of {summary['units']} units: {summary['records']:,} records in "
        f"{summary['files']:,} files, {summary['rejected_records']:,} rejected, {seconds:.1f} s, "
        f"{summary['records'] / seconds:,.0f} records/s"
    )
    return {**summary, "seconds": round(seconds, 1)}


def _only(pipeline: Pipeline, clusters: Sequence[str] | None) -> Pipeline:
    if not clusters:
        return pipeline
    unknown = set(clusters) - set(pipeline.clusters)
    if unknown:
        raise WrongUse(f"--cluster {sorted(unknown)[0]}: expected one of {', '.join(pipeline.clusters)}")
    return pipeline.model_copy(update={"kafka": [c for c in pipeline.kafka if c.cluster in clusters]})


def _say(text: str) -> None:
    print(line(text), flush=True)


def main(words: Sequence[str]) -> int:
    collect_seldom()
    try:
        result = run(arguments(words))
    except SluiceError as error:
        print(f"{ERROR}{line(str(error))}", file=sys.stderr, flush=True)
        return TEMPORARY if error.retryable else error.exit_code
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
