"""What may not stand together is refused, with its reason and before anything is changed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import yaml

from sluice.config.files import read
from sluice.errors import TargetRefused, WrongPipeline
from sluice.flow import steps
from tests.pairs.flow import Flow
from tests.pairs.log import Log
from tests.pairs.options import AXES, Case, covering_array, every_pair, pairs_of
from tests.pairs.places import Home, Services
from tests.pairs.refusals import BY_THE_FILE, BY_THE_TABLES, Entangled, Refusal
from tests.pairs.services import paired

pytestmark = pytest.mark.faults
assert paired


def test_every_two_options_are_in_a_case():
    cases = covering_array()
    assert set().union(*map(pairs_of, cases)) == every_pair()
    assert len(cases) < 2 * len(AXES["target"]) * len(AXES["columns"])


@pytest.mark.parametrize("refusal", BY_THE_FILE, ids=lambda one: f"{one.one} with {one.other}")
def test_the_file_is_refused(refusal: Refusal, tmp_path: Path):
    for name, text in {
        "event.avsc": '"string"',
        "event.proto": "",
        "any.sql": "SELECT 1 FROM {source}",
    }.items():
        (tmp_path / name).write_text(text)
    spec = {
        "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["alpha"]}],
        "event": {"type": {"field": "type"}, "time": {"field": "at"}},
        "lake": "file:///nowhere",
        "tables": {"click": "{db}.main", "bid": "{db}.bids"},
    }
    path = tmp_path / "paired.yaml"
    path.write_text(yaml.safe_dump({**spec, **refusal.spec}).replace("{db}", "db"))
    with pytest.raises(WrongPipeline) as raised:
        read(path, {})
    assert refusal.message in str(raised.value)


@pytest.mark.parametrize("entangled", BY_THE_TABLES, ids=lambda one: one.name)
def test_tables_that_would_take_each_others_rows_are_refused(
    entangled: Entangled, seed: int, tmp_path: Path, paired: Services
):
    """By `check_targets`, with which a run begins, and by the load of each: no row has come or gone."""
    case = Case(0)
    home = Home.make(case, tmp_path, paired)
    flow = Flow(home, Log(case, Random(seed), home.schemas).sent)
    for statement in entangled.statements:
        home.everywhere(statement)
    flow.resolve()
    flow.land(flow.slices, "fill", "t")
    with pytest.raises(TargetRefused) as raised:
        steps.check_targets(flow.pipeline)
    assert any(f"{home.db}.{name}" in str(raised.value) for name in entangled.named)
    for table in entangled.targets:
        with pytest.raises(TargetRefused):
            steps.load_table(flow.pipeline, f"{home.db}.{table}", flow.slices, "fill", "t", lambda line: None)
        assert home.rows(f"SELECT count() FROM {{db}}.{table}") == [(0,)]
    home.everywhere("DROP DATABASE {db} SYNC")
