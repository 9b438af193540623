"""Names that Sluice makes beside columns that anybody has named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.clickhouse.sql import own_prefix
from sluice.clients.clickhouse.tables import Column


@pytest.mark.parametrize(
    ("columns", "prefix"),
    [
        ([], "sluice_"),
        (["a", "sluice", "sluic_e", "a_sluice_"], "sluice_"),
        (["sluice_"], "sluice1_"),
        (["sluice_key", "sluice1_key", "sluice3_"], "sluice2_"),
        (["Sluice_key"], "sluice_"),
    ],
)
def test_the_first_that_is_free(columns: list[str], prefix: str):
    assert own_prefix(columns) == prefix


@given(st.lists(st.from_regex(r"sluice[0-9]{0,1}_?(given|missing)? ?[x.]{0,3}", fullmatch=True), unique=True))
def test_no_column_has_a_name_of_ours(names: list[str]):
    """Nor is one of them a part of another, as ClickHouse sees names with dots."""
    own = own_prefix(names)
    made = [
        name
        for column in (Column(name, "UInt8", "DEFAULT", "1", own=own) for name in names)
        for name in (column.given, column.missing)
    ]
    every = [*names, *made]
    assert len(set(every)) == len(every)
    assert not [name for name in made for other in names if other.startswith(f"{name}.")]
