"""`sluice verify`: do the equations hold?"""

from __future__ import annotations

from dataclasses import asdict

import typer

from sluice.cli.options import Config, Json, Name, OptionalFrom, OptionalTo, known_range, load_pipeline
from sluice.cli.output import print_facts, print_json


def verify(
    pipeline: Name,
    start: OptionalFrom = None,
    to: OptionalTo = "now",
    config: Config = None,
    json: Json = False,
) -> None:
    """Checks every count from boundaries, manifests, the ledger and the tables themselves.

    Exit code 1 when an equation is broken; each is a line with its place and what repairs it. Without a
    range: every hour that is known.
    """
    from sluice.survey import audit

    spec = load_pipeline(pipeline, config)
    slices = known_range(spec, start, to)
    found, findings = audit(spec, slices)
    records = sum(s.manifest.read for s in found if s.manifest)
    if json:
        answer = {"slices": len(slices), "records": records, "findings": [asdict(f) for f in findings]}
        print_json(answer)
    else:
        for finding in findings:
            print(finding)
        print_facts({"slices": len(slices), "records": records, "broken": len(findings)})
    if findings:
        raise typer.Exit(1)
