"""Every recipe of docs/guide/recipes.md is short, and can be decoded; test_documents.py reads them all."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sluice.config.files import read
from sluice.flow.land.task.decode import decoding_of
from tests.support.documents import ROOT, Sample, samples

FOUND = list(samples((ROOT / "docs" / "guide" / "recipes.md").read_text(encoding="utf-8")))
RECIPES = [sample for sample in FOUND if sample.language == "yaml"]
MOST_LINES = 25


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.section)
def test_a_recipe_is_short_and_its_schema_can_be_used(recipe: Sample, tmp_path: Path):
    """Each has the first one's keys, and its own over them."""
    assert len(recipe.text.splitlines()) <= MOST_LINES
    whole = {**yaml.safe_load(RECIPES[0].text), **yaml.safe_load(recipe.text)}
    for other in FOUND:
        if other.file and other.section == recipe.section:
            (tmp_path / other.file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / other.file).write_text(other.text)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(whole))
    pipeline = read(tmp_path / "recipe.yaml", {})
    if pipeline.event.registry is None:
        decoding_of(pipeline.event)


def test_there_is_a_recipe_for_each_way_to_read_a_message():
    texts = "".join(recipe.text for recipe in RECIPES)
    words = ["header:", "{field:", "{topic: true}", "rows: array", "{avro:", "{protobuf:", "format: avro"]
    assert [word for word in [*words, "format: protobuf", "registry:"] if word not in texts] == []
