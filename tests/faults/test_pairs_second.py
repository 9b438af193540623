"""Every two options together, in the whole flow: the other half of the cases (tests/pairs)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pairs.options import Case
from tests.pairs.places import Services
from tests.pairs.services import paired
from tests.pairs.trial import chosen, try_case

pytestmark = pytest.mark.faults
assert paired


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        cases = chosen(1, metafunc.config.getoption("--long"))
        metafunc.parametrize("case", cases, ids=[f"case{case.number}" for case in cases])


@pytest.mark.long
def test_what_is_there_is_what_was_sent(case: Case, seed: int, tmp_path: Path, paired: Services):
    try_case(case, seed, tmp_path, paired)


@pytest.mark.long
def test_a_line_in_two_partitions_is_two_records(seed: int, tmp_path: Path, paired: Services):
    """Whichever task reads them: copies are told apart within a partition's records of one slice."""
    try_case(Case(0, batch="partitions"), seed, tmp_path, paired)
