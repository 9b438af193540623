"""Hostile texts where a pipeline file takes names: what can be none is refused in one line that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sluice.config.files import read
from sluice.errors import WrongPipeline
from tests.support.hostile_texts import TEXTS, is_plain

SPEC = {
    "kafka": [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}],
    "event": {"type": {"field": "type"}, "time": {"field": "at"}},
    "lake": "file:///nowhere",
    "tables": {"click": "db.click"},
}
LEGAL_TOPICS = {"_overflow", "null", "*"}  # letters, digits, . _ and - are Kafka's; a star is a pattern
LEGAL_CLUSTERS = {"null"}
each = pytest.mark.parametrize("text", [t for t in TEXTS.values() if "${" not in t], ids=ascii)


def written(folder: Path, **changes: object) -> Path:
    path = folder / "ads.yaml"
    path.write_text(yaml.safe_dump({**SPEC, **changes}))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(WrongPipeline) as error:
        read(path)
    from sluice.safe_text import line

    told = line(str(error.value))
    assert ": kafka[0]" in told and is_plain(told) and len(told) < 1_000
    return told


@each
def test_topics(text: str, tmp_path: Path):
    path = written(tmp_path, kafka=[{**SPEC["kafka"][0], "topics": [text]}])
    if text in LEGAL_TOPICS:
        assert read(path).kafka[0].topics == [text]
    else:
        assert "expected letters, digits, . _ and -" in refusal(path)


@pytest.mark.parametrize(
    ("topic", "legal"),
    [(".", False), ("..", False), ("...", True), ("x" * 249, True), ("x" * 250, False), ("a\n", False)],
)
def test_topics_at_the_edge(topic: str, legal: bool, tmp_path: Path):
    path = written(tmp_path, kafka=[{**SPEC["kafka"][0], "topics": [topic]}])
    assert read(path).kafka[0].topics == [topic] if legal else refusal(path)


@each
def test_clusters(text: str, tmp_path: Path):
    path = written(tmp_path, kafka=[{**SPEC["kafka"][0], "cluster": text}])
    if text in LEGAL_CLUSTERS:
        assert read(path).clusters == (text,)
    else:
        assert "expected letters, digits, _ and . only, at most 63" in refusal(path)


@each
def test_types_headers_and_fields_may_be_any_text(text: str, tmp_path: Path):
    event = {"type": {"header": text}, "time": {"field": text}}
    spec = read(written(tmp_path, event=event, tables={text: {"table": "db.t", "columns": {text: text}}}))
    assert (spec.event.type.header, spec.event.time.field) == (text, text)
    assert spec.tables[text].columns == {text: text}


@pytest.mark.parametrize("start", ["0001-01-01T00:00+14:00", "1969-12-31T23:00Z", "9999-12-31T23:00-14:00"])
def test_a_start_that_no_slice_can_have(start: str, tmp_path: Path):
    for change in ({"start": start}, {"kafka": [{**SPEC["kafka"][0], "start": start}]}):
        with pytest.raises(WrongPipeline, match="expected an instant from 1970-01-01 to 2106-01-01"):
            read(written(tmp_path, **change))
