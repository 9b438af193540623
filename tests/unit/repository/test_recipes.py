"""Every pipeline file of docs/guide/recipes.md is read by the product's own reader, and is short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from sluice.config.files import read
from sluice.flow.land.task.decoding import decoding_of

RECIPES = Path(__file__).parents[3] / "docs" / "guide" / "recipes.md"
BLOCK = re.compile(r"(?:^`(?P<file>[^`]+)`:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
MOST_LINES = 25


class Recipe(NamedTuple):
    title: str
    pipelines: list[str]
    files: dict[str, str]


def recipes() -> list[Recipe]:
    found = []
    for section in re.split(r"^## ", RECIPES.read_text(), flags=re.M)[1:]:
        blocks = list(BLOCK.finditer(section))
        pipelines = [block["text"] for block in blocks if block["language"] == "yaml"]
        files = {block["file"]: block["text"] for block in blocks if block["file"]}
        found.append(Recipe(section.partition("\n")[0], pipelines, files))
    return found


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.title)
def test_a_recipe_is_a_pipeline_file_that_can_be_read(recipe: Recipe, tmp_path: Path):
    for name, text in recipe.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for text in recipe.pipelines:
        assert len(text.splitlines()) <= MOST_LINES
        (tmp_path / "recipe.yaml").write_text(text)
        pipeline = read(tmp_path / "recipe.yaml", {})
        if pipeline.event.registry is None:
            decoding_of(pipeline.event)


def test_there_is_a_recipe_for_each_way_to_read_a_message():
    texts = "".join(text for recipe in recipes() for text in recipe.pipelines)
    words = ["header:", "{field:", "{topic: true}", "rows: array", "{avro:", "{protobuf:", "format: avro"]
    assert [word for word in [*words, "format: protobuf", "registry:"] if word not in texts] == []
