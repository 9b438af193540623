from __future__ import annotations

import pytest

from sluice.manifest import FieldSeen, TypeFields
from sluice.state.field_changes import ChangeKind, FieldChange, changes_in, confirmed


def seen(rows: int, place: int = 0, **kinds: int) -> FieldSeen:
    counts = kinds or {"string": rows}
    return FieldSeen(rows, counts, place * rows)


def click(rows: int, others: int = 0, **fields: FieldSeen) -> TypeFields:
    return TypeFields("click", rows, True, {"type": seen(rows), **fields}, others)


def told(*window: TypeFields) -> list[tuple[ChangeKind, str, str]]:
    return [(change.kind, change.field, change.likely) for change in changes_in(window)]


OLD = click(100, user_id=seen(100, 3, integer=100))


def test_a_slice_like_those_before_shows_nothing() -> None:
    assert changes_in([OLD, OLD, OLD]) == []
    assert changes_in([OLD]) == []
    assert changes_in([]) == []


def test_a_new_field() -> None:
    (change,) = changes_in(
        [OLD, click(50, user_id=seen(50, 3, integer=50), coupon=seen(30, 4, string=20, null=10))]
    )
    assert change == FieldChange(ChangeKind.NEW, "click", "coupon", 50, 20, 100, 0, ("string",), ())
    assert str(change) == (
        "type click: field `coupon` is new: in 20 of 50 rows, 40 % (string); before in 0 of 100 rows, 0 %"
    )


def test_one_that_was_null_until_now_is_new_and_one_that_is_null_now_has_vanished() -> None:
    empty, full = click(100, coupon=seen(100, null=100)), click(100, coupon=seen(100))
    assert told(empty, full) == [(ChangeKind.NEW, "coupon", "")]
    assert told(full, empty) == [(ChangeKind.VANISHED, "coupon", "")]


def test_a_field_that_vanished() -> None:
    (change,) = changes_in([OLD, click(50)])
    assert str(change) == (
        "type click: field `user_id` vanished: in none of 50 rows, was in 100 of 100 rows, 100 % (integer)"
    )


def test_a_field_with_another_kind() -> None:
    mixed = click(50, user_id=seen(50, 3, integer=30, string=20))
    (change,) = changes_in([OLD, mixed])
    assert (change.kind, change.kinds, change.kinds_before) == (ChangeKind.KIND, ("string",), ("integer",))
    assert str(change) == (
        "type click: field `user_id` is string in 20 of 50 rows, 40 %; before in 0 of 100 rows, 0 %, "
        "and else integer"
    )
    assert told(OLD, mixed, mixed) == []
    assert told(OLD, click(50, user_id=seen(50, 3, string=50))) == [(ChangeKind.KIND, "user_id", "")]


def test_an_integer_may_be_written_where_numbers_have_fractions_and_not_the_other_way_round() -> None:
    whole, broken = click(100, price=seen(100, integer=100)), click(100, price=seen(100, number=100))
    assert told(broken, whole) == []
    assert told(whole, broken) == [(ChangeKind.KIND, "price", "")]


def test_the_same_field_under_another_name() -> None:
    (change,) = changes_in([OLD, click(50, uid=seen(50, 3, integer=50))])
    assert (change.kind, change.field, change.likely) == (ChangeKind.RENAMED, "user_id", "uid")
    assert str(change) == (
        "type click: field `user_id` vanished: in none of 50 rows, was in 100 of 100 rows, 100 % (integer); "
        "likely `uid` now, which is in 50 of 50 rows, 100 % (integer), at the same place"
    )


def test_the_slice_in_which_a_producer_changes_over_has_both_names() -> None:
    both = click(100, user_id=seen(40, 3, integer=40), uid=seen(60, 3, integer=60))
    after = click(100, uid=seen(100, 3, integer=100))
    assert told(OLD, both) == [(ChangeKind.NEW, "uid", "")]
    assert told(OLD, both, after) == [(ChangeKind.RENAMED, "user_id", "uid")]
    assert told(OLD, both, after, after) == []


@pytest.mark.parametrize(
    ("why", "after"),
    [
        ("another kind", {"uid": seen(50, 3)}),
        ("another share", {"uid": seen(30, 3, integer=30)}),
        ("another place", {"uid": seen(50, 5, integer=50)}),
        ("two names", {"uid": seen(50, 3, integer=50), "who": seen(50, 4, integer=50)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_that_comes_when_another_goes_is_not_always_the_same(
    why: str, after: dict[str, FieldSeen]
) -> None:
    found = told(OLD, click(50, **after))
    assert (ChangeKind.VANISHED, "user_id", "") in found
    assert [change for change in found if change[0] is ChangeKind.NEW] == [
        (ChangeKind.NEW, name, "") for name in sorted(after)
    ]


def test_two_fields_that_went_cannot_both_be_one_that_came() -> None:
    before = click(100, a=seen(100, 3), b=seen(100, 4))
    found = told(before, click(50, c=seen(50, 3)))
    assert found == [
        (ChangeKind.VANISHED, "a", ""),
        (ChangeKind.VANISHED, "b", ""),
        (ChangeKind.NEW, "c", ""),
    ]


def test_a_field_of_long_standing_is_not_the_new_name() -> None:
    before = click(100, user_id=seen(100, 3), uid=seen(100, 4))
    assert told(before, before, click(50, uid=seen(50, 3))) == [(ChangeKind.VANISHED, "user_id", "")]


def test_what_comes_and_goes_has_not_changed() -> None:
    (new,) = changes_in([OLD, click(50, user_id=seen(50, 3, integer=50), coupon=seen(20))])
    assert confirmed(new, [OLD, click(100, coupon=seen(9))])
    assert not confirmed(new, [OLD, click(100, coupon=seen(10)), OLD])
    assert confirmed(new, [click(100, coupon=seen(9)) for _ in range(9)])  # strays, to 40 % now
    (gone,) = changes_in([OLD, click(50)])
    assert confirmed(gone, [click(1000), OLD, click(19), OLD])
    assert not confirmed(gone, [OLD, click(20), OLD])
    (kind,) = changes_in([OLD, click(50, user_id=seen(50, 3, string=50))])
    assert confirmed(kind, [OLD, click(100)])
    assert not confirmed(kind, [click(100, user_id=seen(100, 3, integer=70, string=30))])


def test_names_are_made_safe() -> None:
    (change,) = changes_in([OLD, TypeFields("cl\x1b[1mick", 50, True, {**OLD.fields, "a\nb": seen(50)})])
    assert "\x1b" not in str(change) and "\n" not in str(change)
    assert "field `a\\nb` is new" in str(change)
