"""Types as numbers: of those that are refused nothing is kept."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest

from sluice.landing.types import TypeCodes


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=["field", "header"])
def test_refused_types_are_not_held(kind):
    codes = TypeCodes()
    batches = [
        [f"t{batch}", *(f"{batch}-{n}".ljust(10_000, "x") for n in range(100))] for batch in range(50)
    ]
    TypeCodes().encode(pa.array(["pyarrow imports what it needs"]))
    tracemalloc.start()
    for batch, names in enumerate(batches):
        found, refused = codes.encode(pa.array([name.encode() for name in names]).cast(kind))
        assert (found[0], refused) == (batch, dict.fromkeys(range(1, 101), "type too long"))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert codes.names == [f"t{batch}" for batch in range(50)]
    assert held < 1 << 20
