"""A lease as it lies in the lake, and from holder to holder."""

from __future__ import annotations

import json

import pytest

from sluice.clients.lake.base import StoredObject
from sluice.errors import SluiceError
from sluice.state.lease import LeaseState, LeaseWatch, decode, encode, may_take, observe

TEXT = (
    b'{"holder":"a1","generation":3,"serial":7,"term_seconds":30.0,"pid":12,"host":"h","released":false,'
    b'"replica":"%s"}'
)


@pytest.mark.parametrize("replica", ["", "r1"])
def test_a_lease_as_it_is_stored(replica: str):
    lease = LeaseState("a1", 3, 7, 30.0, 12, "h", replica=replica)
    assert encode(lease) == TEXT % replica.encode()
    assert decode(encode(lease), "there") == lease


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generation", 2**64 - 2),
        ("generation", -1),
        ("serial", 2**63),
        ("term_seconds", 1e300),
        ("term_seconds", 1e9 + 1),
    ],
)
def test_a_number_that_no_holder_writes_is_told_with_its_place(field: str, value: float):
    """The next generation would begin again at 0 in the ledger, below all that was loaded before."""
    damaged = json.dumps(json.loads(TEXT % b"") | {field: value}).encode()
    with pytest.raises(SluiceError, match="^there is not a lease (.*): remove it while no load runs$"):
        decode(damaged, "there")


def test_the_longest_term_of_a_lease_without_a_replica():
    stored = json.loads(TEXT % b"") | {"term_seconds": 1e9}
    del stored["replica"]
    assert decode(json.dumps(stored).encode(), "there") == LeaseState("a1", 3, 7, 1e9, 12, "h")
    assert LeaseState("a1", 3, 7, 1e9, 12, "h").replica == ""


def test_what_is_no_lease_is_told_with_its_place():
    with pytest.raises(SluiceError, match="^there is not a lease (.*): remove it while no load runs$"):
        decode(b"[]", "there")


def test_a_lease_that_has_gone_is_watched_on():
    watch = LeaseWatch("v1", 3.0)
    assert observe(watch, None, 9.0) == watch
    assert observe(watch, StoredObject(b"", "v1"), 9.0) == watch
    assert observe(watch, StoredObject(b"", "v2"), 9.0) == LeaseWatch("v2", 9.0)
    assert observe(None, None, 9.0) is None


LEASE = LeaseState("a1", 3, 7, 30.0, 12, "h", replica="r1")


def test_a_lease_from_holder_to_holder():
    assert LEASE.renewed() == LeaseState("a1", 3, 8, 30.0, 12, "h", False, "r1")
    assert LEASE.settled("r2") == LeaseState("a1", 3, 8, 30.0, 12, "h", False, "r2")
    released = LEASE.given_back()
    assert released == LeaseState("a1", 3, 8, 30.0, 12, "h", True, "r1")
    new = LeaseState("a2", 0, 5, 10.0, 13, "i", True, "r9")
    assert new.after(released) == LeaseState("a2", 4, 0, 10.0, 13, "i", False, "r1")
    assert new.after(released, above=9) == LeaseState("a2", 10, 0, 10.0, 13, "i", False, "r1")
    assert new.after(None) == LeaseState("a2", 1, 0, 10.0, 13, "i", False, "")
    assert new.after(None, above=4).generation == 5
    assert str(LEASE) == "a1 (process 12 on h)"


def test_a_lease_that_nobody_has_watched_is_not_free():
    assert may_take(None, None, 0.0) is True
    assert may_take(LEASE.given_back(), None, 0.0) is True
    assert may_take(LEASE, None, 1e9) is False
    assert may_take(LEASE, LeaseWatch("v", 100.0), 130.0) is True
    assert may_take(LEASE, LeaseWatch("v", 100.0), 129.9) is False
