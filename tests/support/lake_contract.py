"""What every lake promises, as tests: a subclass gives the fixture `lake`, empty and picklable."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta

import pendulum
import pytest

from sluice.clients.lake.base import Lake

RACERS = 16
# Type names as Hive escapes them, spaces, signs that URLs and XML treat in their own way, and a key that
# sorts between a folder's name and the keys in it ("!", "." and "-" come before "/").
ODD_KEYS = [
    "type=Größe/date=2026-11-20/hour=10/a.parquet",
    "type=a%2Fb%3Dc/x.parquet",
    "type=a+b & c<d>/x y.parquet",
    "type=日本 🎉/x.parquet",
    "type=~tilde;semi,comma@at$/x.parquet",
    "s/a!b",
    "s/a-b",
    "s/a.b",
    "s/a/b",
    "s/a0b",
    "s/ab",
]


def create_as(work: tuple[bytes, str, int]) -> bool:
    lake = pickle.loads(work[0])
    return lake.create(work[1], f"racer {work[2]}".encode())


def count_up(work: tuple[bytes, str, int]) -> int:
    """Adds one to the number in the object, `work[2]` times, and returns how often it was beaten."""
    lake, key, beaten = pickle.loads(work[0]), work[1], 0
    for turn in range(work[2]):
        while True:
            found = lake.read(key)
            number = int(found.data.split()[0]) + 1
            if lake.replace(
                key, f"{number} {multiprocessing.current_process().pid} {turn}".encode(), found.version
            ):
                break
            beaten += 1
    return beaten


def keys(lake: Lake, prefix: str = "") -> list[str]:
    return [item.key for item in lake.list(prefix)]


class LakeContract:
    no_races = ""  # why racing processes would prove nothing

    @pytest.fixture
    def lake(self) -> Iterator[Lake]:
        raise NotImplementedError

    @pytest.fixture
    def race(self, lake: Lake) -> Iterator[Callable]:
        if self.no_races:
            pytest.skip(self.no_races)
        with ProcessPoolExecutor(RACERS, multiprocessing.get_context("fork")) as pool:
            yield lambda work, *arguments: list(pool.map(work, ((pickle.dumps(lake), *a) for a in arguments)))

    def test_absent(self, lake: Lake) -> None:
        assert lake.read("a/b") is None
        assert lake.size("a/b") is None
        assert keys(lake) == []
        with pytest.raises(FileNotFoundError), lake.local("a/b"):
            pass

    def test_create_once(self, lake: Lake) -> None:
        assert lake.create("a/b.json", b"first")
        assert not lake.create("a/b.json", b"second")
        assert lake.read("a/b.json").data == b"first"

    def test_create_repeated_after_a_lost_answer(self, lake: Lake) -> None:
        assert lake.create("a", b"mine")
        assert lake.create("a", b"mine")

    def test_create_each_answers_in_turn_and_writes_what_is_asked_for(self, lake: Lake) -> None:
        lake.create("a/1", b"another's")
        objects = [(f"a/{number}", b"mine") for number in range(3)]
        assert list(lake.create_each(objects)) == [True, False, True]
        assert [lake.read(key).data for key, _ in objects] == [b"mine", b"another's", b"mine"]
        assert list(lake.create_each(objects)) == [True, False, True]
        assert list(lake.create_each([])) == []

    def test_many_writes_that_are_synced_at_the_end(self, lake: Lake) -> None:
        with lake.synced_at_end() as many:
            for number in range(70):
                many.put(f"a/{number:02}", b"1")
            begun = many.begin("b")
            begun.path.write_bytes(b"2")
            many.finish("b", begun)
            assert many.create("c", b"3")
            assert not many.create("c", b"4")
        assert keys(lake) == [*(f"a/{number:02}" for number in range(70)), "b", "c"]
        assert [lake.read(key).data for key in ("a/69", "b", "c")] == [b"1", b"2", b"3"]

    def test_replace_compares_the_version(self, lake: Lake) -> None:
        lake.create("a", b"one")
        first = lake.read("a").version
        assert lake.replace("a", b"two", first)
        assert not lake.replace("a", b"three", first)
        assert lake.read("a").data == b"two"
        assert lake.replace("a", b"three", lake.read("a").version)
        assert lake.read("a").data == b"three"

    def test_replace_repeated_after_a_lost_answer(self, lake: Lake) -> None:
        lake.create("a", b"one")
        first = lake.read("a").version
        assert lake.replace("a", b"two", first)
        assert lake.replace("a", b"two", first)

    def test_replace_of_nothing_is_refused(self, lake: Lake) -> None:
        lake.create("a", b"one")
        version = lake.read("a").version
        assert not lake.replace("b", b"two", version)
        assert lake.read("b") is None

    def test_put_and_empty_objects(self, lake: Lake) -> None:
        lake.put("a/_SUCCESS", b"")
        lake.put("a/_SUCCESS", b"")
        assert lake.read("a/_SUCCESS").data == b""
        assert lake.size("a/_SUCCESS") == 0
        assert [(item.key, item.size) for item in lake.list("a/")] == [("a/_SUCCESS", 0)]

    def test_delete(self, lake: Lake) -> None:
        for key in ("a/b/c", "a/b/d", "e"):
            lake.put(key, b"x")
        lake.delete(["a/b/c", "a/never", "e"])
        lake.delete(["a/b/c"])
        assert keys(lake) == ["a/b/d"]

    def test_more_than_a_page(self, lake: Lake) -> None:
        names = [f"n/{n:04d}" for n in range(1100)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: lake.put(name, b""), names))
        assert keys(lake, "n/") == names
        assert [item.key for item in lake.present(names[3::50])] == names[3::50]
        lake.delete(iter(names))
        assert keys(lake) == []

    def test_list_in_key_order_by_prefix(self, lake: Lake) -> None:
        for key in reversed(ODD_KEYS):
            lake.put(key, b"x")
        assert keys(lake) == sorted(ODD_KEYS, key=str.encode)
        assert keys(lake, "s/a") == ["s/a!b", "s/a-b", "s/a.b", "s/a/b", "s/a0b", "s/ab"]
        assert keys(lake, "s/a/") == ["s/a/b"]
        assert keys(lake, "type=a%2Fb%3D") == ["type=a%2Fb%3Dc/x.parquet"]
        assert keys(lake, "s/a/b") == ["s/a/b"]
        assert keys(lake, "s/a/b/") == keys(lake, "nothing/") == keys(lake, "type=a/") == []

    def test_list_tells_size_and_time(self, lake: Lake) -> None:
        before = pendulum.now("UTC") - timedelta(seconds=2)  # S3 counts whole seconds
        lake.put("a", b"12345")
        [item] = lake.list("")
        assert item.size == 5
        assert before <= item.modified <= pendulum.now("UTC") + timedelta(seconds=2)
        assert item.modified.utcoffset() == timedelta(0)

    def test_present_is_what_the_listing_has_of_the_keys(self, lake: Lake) -> None:
        for key in ODD_KEYS:
            lake.put(key, b"x" * len(key))
        listed = {item.key: item for item in lake.list("")}
        asked = [*ODD_KEYS[::2], "s/a", "nothing", "s/a/b/c", "zz/last"]
        found = list(lake.present(reversed(asked)))
        assert [item.key for item in found] == sorted(ODD_KEYS[::2], key=str.encode)
        assert all(item == listed[item.key] for item in found)
        assert list(lake.present([])) == list(lake.present(["nothing", "s/nobody"])) == []
        assert [item.key for item in lake.present(["s/a/b"])] == ["s/a/b"]
        assert [item.key for item in lake.present(["s/a/b", "nothing", "s/a/b"])] == ["s/a/b"]

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_odd_keys(self, lake: Lake, key: str) -> None:
        assert lake.create(key, b"1")
        assert lake.replace(key, b"2", lake.read(key).version)
        lake.move(key, "m/" + key)
        with lake.local("m/" + key) as path:
            assert path.read_bytes() == b"2"
        lake.delete(["m/" + key])
        assert keys(lake) == []

    def test_begin_and_finish(self, lake: Lake) -> None:
        begun = lake.begin("a/b.parquet")
        begun.path.write_bytes(b"half")
        assert lake.read("a/b.parquet") is None
        assert keys(lake) == []
        begun.path.write_bytes(b"whole")
        lake.finish("a/b.parquet", begun)
        assert lake.read("a/b.parquet").data == b"whole"
        assert not begun.path.exists()

    def test_local_is_only_for_a_while(self, lake: Lake) -> None:
        lake.put("a", b"x")
        with lake.local("a") as path:
            assert path.read_bytes() == b"x"
        assert lake.read("a").data == b"x"

    def test_parts(self, lake: Lake) -> None:
        data = bytes(range(256)) * 40
        lake.put("a/b", data)
        for start, until in ((0, 1), (0, len(data)), (100, 300), (len(data) - 5, len(data) + 5), (7, 7)):
            assert lake.part("a/b", start, until) == data[start:until]
        assert lake.part("a/b", len(data), len(data) + 1) == lake.part("a/b", 2, 1) == b""
        with pytest.raises(FileNotFoundError):
            lake.part("a/c", 0, 10)

    def test_move_is_repeatable(self, lake: Lake) -> None:
        lake.put("_attempts/s/a/1", b"x")
        for _ in range(3):
            lake.move("_attempts/s/a/1", "type=a/date=d/hour=10/1")
        assert keys(lake) == ["type=a/date=d/hour=10/1"]
        assert lake.read("type=a/date=d/hour=10/1").data == b"x"

    def test_move_of_nothing(self, lake: Lake) -> None:
        with pytest.raises(FileNotFoundError):
            lake.move("a/b", "c/d")

    def test_move_over_an_earlier_half_done_move(self, lake: Lake) -> None:
        lake.put("a", b"x")
        lake.put("b", b"x")
        lake.move("a", "b")
        assert keys(lake) == ["b"]

    def test_large_file(self, lake: Lake) -> None:
        block = bytes(range(256)) * 4096
        begun = lake.begin("a/large")
        with begun.path.open("wb") as file:
            for _ in range(30):
                file.write(block)
        lake.finish("a/large", begun)
        lake.move("a/large", "b/large")
        assert lake.size("b/large") == 30 * 1024 * 1024
        with lake.local("b/large") as path, path.open("rb") as file:
            assert all(file.read(len(block)) == block for _ in range(30))
            assert file.read() == b""

    def test_one_of_many_creates_wins(self, lake: Lake, race: Callable) -> None:
        for turn in range(5):
            won = race(create_as, *[(f"race/{turn}", racer) for racer in range(RACERS)])
            assert won.count(True) == 1
            assert lake.read(f"race/{turn}").data == f"racer {won.index(True)}".encode()

    def test_no_replace_is_lost(self, lake: Lake, race: Callable) -> None:
        lake.create("number", b"0 start")
        race(count_up, *[("number", 5)] * RACERS)
        assert lake.read("number").data.split()[0] == str(5 * RACERS).encode()

    def test_threads_share_a_lake(self, lake: Lake) -> None:
        with ThreadPoolExecutor(RACERS) as pool:
            list(pool.map(lambda n: lake.put(f"t/{n:03d}", str(n).encode()), range(100)))
        assert [int(lake.read(key).data) for key in keys(lake, "t/")] == list(range(100))
