"""The rules of the pipeline file as it is now."""

from __future__ import annotations

from sluice.config.pipeline import Pipeline
from sluice.flow.land.task.decoding import schema_of
from sluice.state.rules import LandingRules, digest_of


def rules_now(pipeline: Pipeline) -> str:
    """Returns the digest of the rules by which a record would become rows now. Raises SchemaRefused."""
    return digest_of(LandingRules.of(pipeline, schema_of(pipeline.event)))
