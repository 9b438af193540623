"""Where a server finds the lake's files, which rows are a shard's, and types as trees."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.shards import ALONE, Placement, placement_of, stamp
from sluice.clients.clickhouse.sql import Sql
from sluice.clients.clickhouse.types import Type, parse
from sluice.config.clickhouse import ClickHouse
from sluice.flow.load.source.pull import Bucket, FolderSource, place_of
from sluice.manifest import LandedFile, Traffic
from tests.unit.flow.load.test_load_decide import file, pipeline

FILES = (file("click", 3), file("view", 2), file(None, 5, {"click": 1, "odd": 4}), file("none", 0))
COUNTS = (
    LandedFile("_counts/a", "", "db.n", "", 7, 1, ""),
    LandedFile("_counts/b", "", "db.n", "", 2, 1, ""),
)
TRAFFIC = Traffic("db.n", {}, (), {}, COUNTS)


STRUCTURE = {"columns": Sql("a, b"), "slice_": Sql("1"), "structure": Sql("'x'")}


def test_files_of_a_folder():
    place = FolderSource("/la'ke")
    assert (
        place.rows(["a=1/x"], **STRUCTURE)
        == "SELECT a, b, 1 AS _slice\nFROM file('/la\\'ke/a=1/x', 'Parquet', 'x')"
    )
    assert "file('/la\\'ke/{a=1/x,y}', 'Parquet', 'x')" in place.rows(["a=1/x", "y"], **STRUCTURE)
    assert place.content("k'") == "SELECT bytes FROM file('/la\\'ke/k\\'', 'RawBLOB', 'bytes String')"
    assert place.remedy == "give it the folder at the same path (below its user_files_path)"


def test_objects_of_a_bucket():
    place = Bucket("co`l", "p%/a b/")
    assert place.rows(["type=a%2Fb/x y"], **STRUCTURE) == (
        "SELECT a, b, 1 AS _slice\nFROM s3(`co\\`l`, filename = 'p%25/a%20b/type=a%252Fb/x%20y', "
        "format = 'Parquet', structure = 'x')"
    )
    assert "filename = 'p%25/a%20b/{x%201,y}'" in place.rows(["x 1", "y"], **STRUCTURE)
    assert place.content("x'y") == (
        "SELECT bytes FROM s3(`co\\`l`, filename = 'p%25/a%20b/x%27y', format = 'RawBLOB', "
        "structure = 'bytes String')"
    )
    assert place.remedy == (
        "make the named collection that `named_collection` names, with the bucket's URL and a key that may "
        "read it, and grant it to the user (docs/guide/production.md)"
    )


@pytest.mark.parametrize("mark", "{}*?,")
def test_names_that_are_patterns_cannot_be_told(mark):
    for place in (FolderSource("/lake"), Bucket("c", "p/")):
        assert place.reads("type=aX/x'ü %")
        assert not place.reads(f"type={mark}/x")
    assert FolderSource("/lake").follows and not Bucket("c", "p/").follows  # links are a folder's
    assert not FolderSource(f"/la{mark}ke").reads("x")
    assert not Bucket("c", f"p{mark}/").reads("x")


@pytest.mark.parametrize(
    ("url", "collection", "place"),
    [
        ("file:///data/lake/p", None, FolderSource("/data/lake/p")),
        ("file:///data/lake/p", "c", FolderSource("/data/lake/p")),
        ("s3://bucket/a/b/p", "c", Bucket("c", "a/b/p/")),
        ("s3://bucket/p", None, None),
        ("memory://p", "c", None),
    ],
)
def test_where_a_server_finds_the_lake(url, collection, place):
    spec = pipeline(click="clicks").model_copy(update={"clickhouse": ClickHouse(named_collection=collection)})
    assert place_of(spec, url) == place


def test_rows_of_a_shard():
    two = Placement("s2", 1, 2, "cityHash64(n)", "s1, s2 by cityHash64(n)")
    assert (two.alone, two.by_partition, two.stamp) == (False, False, "s2 of s1, s2 by cityHash64(n)")
    assert two.own_row == "(ifNull(positiveModulo((cityHash64(n)), 2), 0) = 1)"
    assert two.own_record == "(ifNull(positiveModulo(_partition, 2), 0) = 1)"
    assert two.own_rejected_row == "(ifNull(positiveModulo(partition, 2), 0) = 1)"
    assert Placement("s1", 0, 2).by_partition
    assert Placement("s1", 0, 2).own_record == "(ifNull(positiveModulo(_partition, 2), 0) = 0)"


def test_one_place_takes_all_rows():
    assert Placement("", 0, 1, "partition", "") == ALONE
    assert (ALONE.alone, ALONE.stamp, ALONE.own_row, ALONE.own_rejected_row) == (True, "", "1", "1")
    assert stamp("", "s1") == ""
    assert stamp("s1, s2 by n", "s1") == "s1 of s1, s2 by n"


def test_places_of_a_pipeline_files_shards():
    given = {"shards": [{"name": n, "connection": n} for n in ("s1", "s2", "s3")], "shard_by": {"db.a": "n"}}
    three = ClickHouse.model_validate(given)
    assert placement_of(three, three.shards[2], "db.a") == Placement("s3", 2, 3, "n", "s1, s2, s3 by n")
    assert placement_of(three, three.shards[0], "db.b") == Placement(
        "s1", 0, 3, "partition", "s1, s2, s3 by partition"
    )
    alone = ClickHouse(connection="c")
    assert placement_of(alone, alone.parts[0], "db.a") is ALONE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("String", Type("String", "String")),
        (" UInt8 ", Type("UInt8", "UInt8")),
        ("Nullable(UInt8)", Type("Nullable(UInt8)", "Nullable", ("UInt8",))),
        (" Decimal( 18 , 4 ) ", Type("Decimal( 18 , 4 )", "Decimal", ("18", "4"))),
        (
            "Map(String, Tuple(a UInt8, b Array(Nullable(String))))",
            Type(
                "Map(String, Tuple(a UInt8, b Array(Nullable(String))))",
                "Map",
                ("String", "Tuple(a UInt8, b Array(Nullable(String)))"),
            ),
        ),
        (
            "Enum8('a,b' = 1, 'c)' = 2)",
            Type("Enum8('a,b' = 1, 'c)' = 2)", "Enum8", ("'a,b' = 1", "'c)' = 2")),
        ),
        ("Enum8('it\\'s, ok' = 1)", Type("Enum8('it\\'s, ok' = 1)", "Enum8", ("'it\\'s, ok' = 1",))),
        (
            "Tuple(`a,(b` UInt8, `c\\`)` String)",
            Type("Tuple(`a,(b` UInt8, `c\\`)` String)", "Tuple", ("`a,(b` UInt8", "`c\\`)` String")),
        ),
        (
            "Enum8('a\nb' = 1, 'x\\\ny' = 2)",
            Type("Enum8('a\nb' = 1, 'x\\\ny' = 2)", "Enum8", ("'a\nb' = 1", "'x\\\ny' = 2")),
        ),
        (
            "Tuple(a Array(UInt8), b Map(String, UInt8), c Decimal(9, 2))",
            Type(
                "Tuple(a Array(UInt8), b Map(String, UInt8), c Decimal(9, 2))",
                "Tuple",
                ("a Array(UInt8)", "b Map(String, UInt8)", "c Decimal(9, 2)"),
            ),
        ),
        ("DateTime64(3, 'UTC')", Type("DateTime64(3, 'UTC')", "DateTime64", ("3", "'UTC'"))),
    ],
)
def test_types_as_trees(text, expected):
    assert parse(text) == expected
    assert "(" in text or parse(text).arguments == ()


@pytest.mark.parametrize(
    ("text", "plain", "nullable"),
    [
        ("UInt8", "UInt8", False),
        ("Nullable(UInt8)", "UInt8", True),
        ("LowCardinality(String)", "String", False),
        ("LowCardinality(Nullable(FixedString(3)))", "FixedString(3)", True),
        ("Array(Nullable(UInt8))", "Array(Nullable(UInt8))", False),
    ],
)
def test_what_a_value_may_be(text, plain, nullable):
    assert (parse(text).plain.text, parse(text).nullable) == (plain, nullable)
    assert parse("Map(String, UInt8)").argument(1) == Type("UInt8", "UInt8")


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("Tuple(a UInt8, `b c` Array(String))", [("a", "UInt8"), ("b c", "Array(String)")]),
        ("Tuple(UInt8, Decimal(9, 2))", [("", "UInt8"), ("", "Decimal(9, 2)")]),
        ("JSON(`a.b` UInt8, c.d DateTime64(3, 'UTC'))", [("a.b", "UInt8"), ("c.d", "DateTime64(3, 'UTC')")]),
        (r"Tuple(`x\`y\\z` String)", [(r"x`y\z", "String")]),
        ("Tuple(e Enum8('a\nb' = 1), `f\n` Int8)", [("e", "Enum8('a\nb' = 1)"), ("f\n", "Int8")]),
        ("String", []),
    ],
)
def test_named_elements_of_a_type(text, elements):
    found = parse(text).named_arguments()
    assert [(name, kind.text) for name, kind in found] == elements
    assert all(kind == parse(kind.text) for _, kind in found)
