"""One case from its log to its last comparison."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.pairs.expected import Expected
from tests.pairs.flow import Flow
from tests.pairs.lake_seen import lake_differs
from tests.pairs.log import Log
from tests.pairs.options import Case, covering_array
from tests.pairs.oracle import units_of
from tests.pairs.places import Home, Services
from tests.pairs.rollups import rollups_of
from tests.pairs.tables_seen import tables_differ

SHORT = 20  # cases, without `--long`


def chosen(part: int, long_form: bool) -> list[Case]:
    """One half of the cases: of the whole covering array, or of its first ones, which hold the most pairs."""
    cases = covering_array()
    return (cases if long_form else cases[:SHORT])[part::2]


def try_case(case: Case, seed: int, folder: Path, services: Services) -> None:
    """Runs a case: filled, loaded again, landed again, and after each compared with what its log says.

    Raises AssertionError with the case, the seed and the first rows that differ.
    """
    home = Home.make(case, folder, services)
    log = Log(case, Random(f"{seed} {case.number}"), home.schemas).sent
    expected, flow = Expected(case, units_of(case, log)), Flow(home, log)
    name = f"{case} (--seed {seed})\n{folder}"
    try:
        flow.first()
        _compare(f"{name}\nafter the first run", expected, flow)
        flow.again("reload")
        _compare(f"{name}\nafter `reload`", expected, flow)
        flow.again("reland")
        _compare(f"{name}\nafter `reland`", expected, flow)
    except Exception as error:
        error.add_note(name)
        raise
    home.everywhere("DROP DATABASE {db} SYNC")


def _compare(when: str, expected: Expected, flow: Flow) -> None:
    wrong = [*lake_differs(expected, flow.lake), *tables_differ(expected, flow.home)]
    main = expected.main[0]
    unfit = [f"{flow.home.db}.{one.name}" for one in rollups_of(expected.case) if not one.fits and main]
    wrong += [f"{table}: a value that does not fit was taken" for table in unfit if table not in flow.refused]
    assert not wrong, when + "\n" + "\n".join(wrong)
    flow.verify_contents()
    published = {key: rows for key, rows in flow.publish().items() if key[0] in expected.targets}
    wanted = {} if expected.case.expired == "fail" else dict(expected.published())
    assert published == wanted, f"{when}\npublished {published}, not {wanted}"
