"""Types as numbers: of those that are refused nothing is kept, and others take little for each."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from sluice.flow.land.task.type_folders import Admission, TypeCodes
from tests.support.long_form import per_commit


@pytest.mark.parametrize("kind", per_commit([pa.string(), pa.binary()]), ids=["field", "header"])
def test_refused_types_are_not_held(kind):
    codes = TypeCodes()
    batches = [[f"t{batch}", *(f"{batch}-{n}".ljust(10_000, "x") for n in range(100))] for batch in range(50)]
    TypeCodes().encode(pa.array(["pyarrow imports what it needs"]))
    tracemalloc.start()
    for batch, names in enumerate(batches):
        found, refused = codes.encode(pa.array([name.encode() for name in names]).cast(kind))
        assert (found[0], refused) == (batch, dict.fromkeys(range(1, 101), "type too long"))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert codes.names == [f"t{batch}" for batch in range(50)]
    assert held < 1 << 20


@pytest.mark.long
def test_accepted_types_take_so_much():
    """Each of a task's rows may bring another one: what it holds of them is known for `rows_per_read`."""
    count, characters = 100_000, 200
    codes, admission = TypeCodes(), Admission((), 1_000)
    names = [f"{number:0{characters}}" for number in range(count)]
    slices = np.zeros(10_000, np.int64)
    tracemalloc.start()
    for at in range(0, count, 10_000):
        found, refused = codes.encode(pa.array(names[at : at + 10_000]))
        assert not refused
        admission.codes(slices, found, slices, codes.names)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert codes.names == names
    assert held < count * (characters + 200)
