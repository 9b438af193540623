"""Any order of landing, expiry, forgetting, reloads and edits against a plain model: the rows that a rollup
has of a unit are what its SELECT gives of all the unit's rows, or what they were before."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from sluice.slices import Unit
from sluice.state.unit_state import UnitState
from tests.integration.landed import World, client_of, unit
from tests.integration.summed import Summed, key
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

UNITS = (unit(0), unit(0, "dc2"), unit(1))
TABLES = {"clicks": 0, "views": 1000}
"""What each of them adds to a number."""

places = st.sampled_from(UNITS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("land"), places, st.integers(0, 5)),
        st.tuples(st.just("expire"), places, st.sampled_from([*TABLES])),
        st.tuples(st.just("expire half"), places, st.sampled_from([*TABLES])),
        st.tuples(st.just("forget"), places),
        st.tuples(st.just("reload"), places, st.sampled_from([*TABLES])),
        st.tuples(st.just("edit"), st.integers(1, 3)),
        st.tuples(st.just("source"), st.sampled_from([*TABLES])),
        st.tuples(st.just("fill")),
        st.tuples(st.just("fill")),
    ),
    min_size=3,
    max_size=12,
)


@dataclass
class Part:
    """What one table has of one unit: the number of its commit, and how many rows of it are there."""

    commit: int = 0
    rows: int = 0


@dataclass
class Modelled:
    """One unit: its numbers, whether the lake has them, what the tables have, and the rollup's row."""

    numbers: tuple[int, ...] = ()
    landings: int = 0
    held: bool = False
    loaded: int = 0
    tables: dict[str, Part] = field(default_factory=lambda: {name: Part() for name in TABLES})
    row: tuple[int, int] | None = None
    decided_by: object = None


@dataclass
class Model:
    units: dict[Unit, Modelled] = field(default_factory=lambda: {place: Modelled() for place in UNITS})
    commits: count = field(default_factory=lambda: count(1))

    def load(self, place: Unit, table: str) -> None:
        one = self.units[place]
        one.tables[table] = Part(next(self.commits), len(one.numbers))

    def fill(self, source: str, factor: int) -> None:
        for place, one in self.units.items():
            if one.loaded < one.landings:
                one.loaded = one.landings
                for table in TABLES:
                    self.load(place, table)
            part = one.tables[source]
            decides = (source, factor, part.commit)
            if not one.landings or one.decided_by == decides:
                continue
            one.decided_by = decides
            if one.held or part.rows == len(one.numbers):
                total = sum((number + TABLES[source]) * factor for number in one.numbers)
                one.row = (len(one.numbers), total)


def run(summed: Summed, sequence: list[tuple]) -> None:
    model = Model()
    for step, *arguments in [*sequence, ("fill",)]:
        if step == "edit":
            [summed.factor] = arguments
            continue
        if step == "source":
            [summed.source] = arguments
            continue
        if step == "fill":
            summed.fill(*UNITS)
            model.fill(summed.source, summed.factor)
            check(summed, model)
            continue
        place, *arguments = arguments
        one = model.units[place]
        where = f"_slice = toDateTime({key(place)[0]}, 'UTC') AND _cluster = '{place.cluster}'"
        if step == "land":
            one.landings += 1
            one.numbers, one.held = tuple(range(arguments[0])), True
            summed.land(place, *one.numbers, generation=one.landings)
        elif step == "forget" and one.held:
            [status] = summed.statuses(place)
            if status.state is UnitState.COMPLETE:  # nothing else is forgotten
                summed.forget(place)
                one.held = False
        elif step == "reload" and one.held and one.loaded == one.landings:
            summed.load(place, table=arguments[0], mode="reload")
            model.load(place, arguments[0])
        elif step == "expire":
            summed.expire(where, arguments[0])
            one.tables[arguments[0]].rows = 0
        elif step == "expire half":
            part = one.tables[arguments[0]]
            summed.expire(f"{where} AND x % 2 = 0", arguments[0])
            left = [number for number in one.numbers if number % 2]
            part.rows = min(part.rows, len(left))


def check(summed: Summed, model: Model) -> None:
    expected = {key(place): [one.row] for place, one in model.units.items() if one.row is not None}
    assert summed.sums() == expected
    landed = [place for place, one in model.units.items() if one.landings]
    assert all(status.state.done for status in summed.statuses(*landed)), "nothing is left to do"
    assert summed.fill(*UNITS) == [0, 0, 0]
    assert summed.sums() == expected


@pytest.fixture
def summed(clickhouse_server, tmp_path, name) -> Summed:
    return Summed(World(tmp_path, client_of(clickhouse_server), name))


@pytest.mark.parametrize("examples", per_commit([1, 100]))
def test_rows_are_of_all_input_or_what_they_were(summed: Summed, examples: int):
    runs = count()

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=examples < 10,
        database=None,
        print_blob=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(sequence=steps)
    def any_sequence(sequence: list[tuple]) -> None:
        root = summed.world.root / str(next(runs))
        root.mkdir()
        one = Summed(World(root, summed.world.client, f"{summed.world.database}_{root.name}"))
        note(f"database {one.world.database}")
        one.create()
        try:
            run(one, sequence)
        finally:
            one.drop()

    any_sequence()
