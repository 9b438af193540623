"""Values of logical types, held against a reading of the message's own bytes: this file decodes Avro and
Protobuf by hand, and shares no code with the libraries or with the landing.

Sources: https://avro.apache.org/docs/1.12.0/specification/ and https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.flow.land.formats import avro, proto_source, protobuf

# By hand: bytes of a message, and the text that a value has to become.


def zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def unzigzag(content: bytes) -> int:
    number = sum((byte & 127) << 7 * place for place, byte in enumerate(content))
    return number >> 1 if number % 2 == 0 else -((number + 1) >> 1)


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day, by counting eras of 400 years from the first of March of the year 0."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    date = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return 400 * era + year + (month <= 2), month, date


def day_text(days: int) -> str:
    """A year that has not four digits has a sign."""
    year, month, date = civil(days)
    return f"{year:04}-{month:02}-{date:02}" if 1 <= year <= 9999 else f"{year:+05}-{month:02}-{date:02}"


def instant(number: int, per_second: int, zone: str) -> str:
    """A fraction is compared by its value: it may be written with more zeros."""
    seconds, fraction = divmod(number, per_second)
    days, second = divmod(seconds, 86_400)
    digits = f"{fraction:0{len(str(per_second)) - 1}}".rstrip("0")
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{day_text(days)}T{clock}{'.' + digits if digits else ''}{zone}"


def short(value: Any) -> Any:
    """Without zeros at the end of a fraction of a second."""
    if not isinstance(value, str) or "." not in value:
        return value
    zone = value[-1] if value[-1] in "Zs" else ""
    return value.rstrip("Zs").rstrip("0").rstrip(".") + zone


INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
INSTANTS = {
    "timestamp-millis": (10**3, "Z"),
    "timestamp-micros": (10**6, "Z"),
    "timestamp-nanos": (10**9, "Z"),
    "local-timestamp-millis": (10**3, ""),
    "local-timestamp-micros": (10**6, ""),
    "local-timestamp-nanos": (10**9, ""),
}


def read_avro(kind: dict, content: bytes) -> Any:
    event = {"type": "record", "name": "Event", "fields": [{"name": "v", "type": kind}]}
    return json.loads(avro.decoded(content, avro.schema_of(json.dumps(event))))["v"]


@pytest.mark.parametrize("name", INSTANTS)
@given(number=LONG)
@example(number=0)
@example(number=-1)
@example(number=1_784_412_800_123_456_789)
@example(number=253_402_300_799_999)
@example(number=253_402_300_800_000)
@example(number=-62_135_596_800_001)
@example(number=999_999_999)
def test_an_instant_of_any_range_is_shown(name, number):
    content = zigzag(number)
    assert unzigzag(content) == number
    found = read_avro({"type": "long", "logicalType": name}, content)
    assert short(found) == instant(number, *INSTANTS[name])


@given(number=INT)
@example(number=3_000_000)
@example(number=2_932_896)
@example(number=2_932_897)
@example(number=-719_162)
@example(number=-719_163)
def test_a_day_of_any_range_is_shown(number):
    found = read_avro({"type": "int", "logicalType": "date"}, zigzag(number))
    assert found == day_text(number)


@pytest.mark.parametrize(
    ("base", "name", "per"), [("int", "time-millis", 10**3), ("long", "time-micros", 10**6)]
)
@given(number=INT | st.integers(-2, 86_400 * 10**6))
@example(number=-1)
@example(number=0)
def test_a_time_outside_of_its_day_stays_its_number(base, name, per, number):
    if base == "int" and number >= 2**31:
        return
    found = read_avro({"type": base, "logicalType": name}, zigzag(number))
    if not 0 <= number < 86_400 * per:
        assert found == number
    else:
        whole = instant(number, per, "")
        assert short(found) == str(whole).removeprefix("1970-01-01T")


@given(
    unscaled=st.binary(min_size=1, max_size=40),
    precision=st.integers(1, 60),
    scale=st.integers(0, 60),
    fixed=st.booleans(),
)
@example(unscaled=b"\0", precision=18, scale=18, fixed=False)
@example(unscaled=b"\0" * 8, precision=18, scale=18, fixed=True)
@example(unscaled=b"\x12\xd6\x87", precision=4, scale=2, fixed=False)
@example(unscaled=b"\x80", precision=1, scale=1, fixed=False)
def test_a_decimal_has_every_digit_of_its_unscaled_number(unscaled, precision, scale, fixed):
    kind: dict = {"logicalType": "decimal", "precision": precision, "scale": scale}
    size = len(unscaled)
    if scale > precision or (fixed and 10**precision - 1 > (1 << 8 * size - 1) - 1):
        return  # no decimal, as the specification has it
    if fixed:
        found = read_avro({"type": "fixed", "name": "F", "size": size, **kind}, unscaled)
    else:
        found = read_avro({"type": "bytes", **kind}, zigzag(size) + unscaled)
    number = sum(byte << 8 * place for place, byte in enumerate(reversed(unscaled)))
    number -= (1 << 8 * size) if unscaled[0] > 127 else 0
    sign, _, rest = found.rpartition("-")
    whole, _, fraction = rest.partition(".")
    assert len(fraction) == scale and (len(whole) == 1 or whole[0] != "0")
    assert int(whole + fraction) == abs(number) and (sign or found[0] == "-") == (found[0] == "-")
    assert found.startswith("-") == (number < 0)


@given(content=st.binary(min_size=16, max_size=16))
def test_a_fixed_uuid_is_hyphenated(content):
    found = read_avro({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, content)
    digits = content.hex()
    assert found == "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


@pytest.mark.parametrize(
    "text", ["6F9619FF-8B86-D011-B42D-00C04FC964FF", "urn:uuid:6f9619ff8b86d011b42d00c04fc964ff", "none", ""]
)
def test_a_uuid_that_is_text_stays_as_it_was_written(text):
    content = zigzag(len(text)) + text.encode()
    assert read_avro({"type": "string", "logicalType": "uuid"}, content) == text


@given(months=st.integers(0, 2**32 - 1), days=st.integers(0, 2**32 - 1), millis=st.integers(0, 2**32 - 1))
@example(months=1, days=2, millis=3_004)
@example(months=0, days=0, millis=0)
def test_a_duration_is_iso_8601(months, days, millis):
    kind = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    found = read_avro(kind, struct.pack("<III", months, days, millis))
    whole, thousandths = str(millis).zfill(4)[:-3], str(millis).zfill(4)[-3:]
    assert found == f"P{months}M{days}DT{whole}.{thousandths}S"


@pytest.mark.parametrize(("name", "size"), [("uuid", 15), ("uuid", 17), ("duration", 16), ("uuid", 0)])
def test_a_fixed_type_of_another_size_is_bytes(name, size):
    kind = {"type": "fixed", "name": "F", "size": size, "logicalType": name}
    assert (
        read_avro(kind, b"\0" * size) == {15: "A" * 20, 17: "A" * 23 + "=", 16: "A" * 22 + "==", 0: ""}[size]
    )


# Protobuf.

SOURCE = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/wrappers.proto";
message All {
  google.protobuf.Timestamp at = 1; google.protobuf.Duration took = 2; google.protobuf.Value any = 3;
  google.protobuf.FieldMask mask = 4; google.protobuf.DoubleValue number = 5;
  google.protobuf.Int32Value small = 6;
}
"""


@pytest.fixture(scope="module")
def read_proto(tmp_path_factory):
    file = tmp_path_factory.mktemp("logical") / "all.proto"
    file.write_text(SOURCE)
    decode = protobuf.MessageDecoder(protobuf.message_type(proto_source.compiled(file), "All"))
    return lambda message: json.loads(decode(message))


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def part(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def pair(seconds: int, nanos: int) -> bytes:
    return b"\x08" + varint(seconds) + b"\x10" + varint(nanos)


@given(
    seconds=st.integers(-62_135_596_801, 253_402_300_801) | LONG,
    nanos=st.integers(0, 999_999_999) | INT,
)
@example(seconds=253_402_300_800, nanos=0)
@example(seconds=0, nanos=-1)
@example(seconds=0, nanos=120_000_000)
def test_a_timestamp_that_cannot_be_shown_keeps_its_numbers(read_proto, seconds, nanos):
    found = read_proto(part(1, pair(seconds, nanos)))["at"]
    shown = instant(seconds * 10**9 + nanos, 10**9, "Z")
    if shown[0] in "+-" or not 0 <= nanos < 10**9:
        assert found == {"seconds": seconds, "nanos": nanos}
    else:
        assert short(found) == shown


@given(seconds=st.integers(-315_576_000_001, 315_576_000_001), nanos=st.integers(-(10**9), 10**9))
@example(seconds=0, nanos=-1)
@example(seconds=1, nanos=-1)
@example(seconds=-1, nanos=-500_000_000)
def test_a_duration_that_cannot_be_shown_keeps_its_numbers(read_proto, seconds, nanos):
    found = read_proto(part(2, pair(seconds, nanos)))["took"]
    if abs(seconds) > 315_576_000_000 or abs(nanos) == 10**9 or seconds * nanos < 0:
        assert found == {"seconds": seconds, "nanos": nanos}
    else:
        total = abs(seconds * 10**9 + nanos)
        digits = f"{total % 10**9:09}".rstrip("0")
        sign = "-" if seconds * 10**9 + nanos < 0 else ""
        assert short(found) == f"{sign}{total // 10**9}{'.' + digits if digits else ''}s"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (3.0, 3),
        (1e18, 10**18),
        (1e300, 1e300),
        (0.5, 0.5),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_number_of_any_size_is_one_in_a_struct_too(read_proto, number, said):
    double = struct.pack("<d", number)
    assert read_proto(part(3, b"\x11" + double)) == {"any": said}
    assert read_proto(part(5, b"\x09" + double)) == {"number": said}


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["user_name", "id"], "userName,id"),
        (["a.b_c"], "a.bC"),
        ([], ""),
        (["userName"], {"paths": ["userName"]}),
        (["a_", "b"], {"paths": ["a_", "b"]}),
        (["a,b"], {"paths": ["a,b"]}),
    ],
)
def test_a_field_mask_that_cannot_be_shown_keeps_its_paths(read_proto, paths, said):
    assert read_proto(part(4, b"".join(part(1, path.encode()) for path in paths))) == {"mask": said}


def test_a_wrapped_number_is_what_its_bytes_say(read_proto):
    assert read_proto(part(6, b"\x08" + varint(-5))) == {"small": -5}
    assert read_proto(part(6, b"")) == {"small": 0}
