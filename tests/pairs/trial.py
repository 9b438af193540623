"""One case from its log to its last comparison."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from sluice.errors import SluiceError
from tests.pairs.expected import Expected
from tests.pairs.flow import Flow
from tests.pairs.lake_seen import lake_differs
from tests.pairs.log import Log
from tests.pairs.options import Case, covering_array
from tests.pairs.oracle import units_of
from tests.pairs.places import Home, Services
from tests.pairs.rollups import rollups_of
from tests.pairs.tables_seen import tables_differ

SHORT = 2  # cases, without `--long`: one of each half


def chosen(part: int, long_form: bool) -> list[Case]:
    """One half of the cases: of the whole covering array, or of its first ones, which hold the most pairs."""
    cases = covering_array()
    return (cases if long_form else cases[:SHORT])[part::2]


def try_case(case: Case, seed: int, folder: Path, services: Services) -> None:
    """Runs a case: filled, loaded again, landed again, and after each compared with what its log says.

    Raises AssertionError with the case, the seed and, for each of the three, the first rows that differ.
    """
    home = Home.make(case, folder, services)
    log = Log(case, Random(f"{seed} {case.number}"), home.schemas).sent
    expected, flow = Expected(case, units_of(case, log)), Flow(home, log)
    parts: dict[str, Callable[[], None]] = {
        "the first run": flow.first,
        "`reload`": partial(flow.again, "reload"),
        "`reland`": partial(flow.again, "reland"),
    }
    told: list[str] = []
    for name, run in parts.items():
        wrong = [line for line in _wrong(run, expected, flow) if line not in told]
        told += [f"after {name}", *wrong] if wrong else []
    assert not told, f"{case} (--seed {seed})\n{folder}\n" + "\n".join(told)
    home.everywhere("DROP DATABASE {db} SYNC")


def _wrong(run: Callable[[], None], expected: Expected, flow: Flow) -> list[str]:
    """What is wrong after a run: its error, else rows that differ, else what verify and publish say. A load
    that was refused has changed nothing, and what landed anew is not loaded: verify says so, rightly."""
    try:
        run()
        found = _differences(expected, flow)
        if not found and not flow.main_refused:
            flow.verify_contents()
            found = _published(expected, flow)
        elif flow.said:
            found = [*flow.said, *found]
    except SluiceError as error:
        found = [f"{type(error).__name__}: {error}", *flow.said]
    return found


def _differences(expected: Expected, flow: Flow) -> list[str]:
    wrong = [*lake_differs(expected, flow.lake), *tables_differ(expected, flow.home)]
    unfit = [f"{flow.home.db}.{one.name}" for one in rollups_of(expected.case) if not one.fits]
    return wrong + [
        f"{table}: a value of another type was taken" for table in unfit if table not in flow.refused
    ]


def _published(expected: Expected, flow: Flow) -> list[str]:
    seen = {key: rows for key, rows in flow.publish().items() if key[0] in expected.targets}
    wanted = {} if expected.case.expired == "fail" else dict(expected.published())
    return [] if seen == wanted else [f"published {seen}, not {wanted}"]
