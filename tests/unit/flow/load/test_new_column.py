"""A statement that adds a column is printed only where a column can have the name."""

from __future__ import annotations

import pytest

from sluice.flow.load.new_column import remedy


@pytest.mark.parametrize("name", ["", "_fence", "_slice", "n", "a.b", "x" * 101, "a\nb"])
def test_no_statement_for_a_name_that_no_column_can_have(name: str):
    said = remedy("e.clicks", name, "String", {"n", "a"}, "take it out of `columns`")
    assert said.startswith("take it out of `columns`: ") and "ALTER" not in said


def test_the_statement():
    said = remedy("e.clicks", "price", "Float64", {"n", "prices"}, "take it out")
    assert said == "ALTER TABLE `e`.`clicks` ADD COLUMN `price` Float64"
