"""Chooses the repair of a row of the lake that differs from its payload. Pure, but for the schema file.

| the row is wrong in | its slice was landed by | a remake | the repair |
| --- | --- | --- | --- |
| type or event hour | other rules of the pipeline file | gives every record again | `remake` |
| type or event hour | other rules of the pipeline file | is refused | `reland` |
| type or event hour | the same rules, or its manifest does not say | any | `reland` |
| anything else | any rules | any | `reland` |
"""

from __future__ import annotations

from sluice.config.pipeline import Pipeline
from sluice.flow.contents.recompute import WrongRows
from sluice.flow.land.parse_rules import rules_now
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest
from sluice.plan.auto_remake import other_rules, refusal
from sluice.slices import Unit

_BY_RULES = (AnomalyKind.ROW_TYPE, AnomalyKind.ROW_HOUR)
_NOW = "the pipeline file as it is now decides what a payload says"
_OTHER = "the slice was landed by other rules of the pipeline file than it has now"


def repair_of(
    pipeline: Pipeline, manifest: Manifest, unit: Unit, wrong: WrongRows, repairs: Repairs
) -> tuple[str, str]:
    """Returns the command, and an advice where the pipeline file's rules matter. Raises SchemaRefused."""
    reland = repairs.reland(unit.slice)
    if wrong.kind not in _BY_RULES or wrong.offset < 0:
        return reland, ""
    if wrong.place[0] not in other_rules(manifest, rules_now(pipeline)):
        return reland, _NOW
    if unit.cluster not in pipeline.clusters:
        return reland, _OTHER
    refused = refusal(pipeline, manifest)
    if refused is not None:
        return reland, f"{_OTHER}, and cannot be remade: {refused}"
    return repairs.remake(unit.slice), _OTHER
