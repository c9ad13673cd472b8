"""What a crash of the simulated disk may lose, and what it may not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.disk import SyncFailed
from tests.simulated_disk import ROOT, Crashed, SimulatedDisk, SimulatedFile
from tests.test_disk import ON_A_PATH

A, B, C = ROOT / "a", ROOT / "b", ROOT / "c"


def simulated(**files: bytes) -> SimulatedDisk:
    """A disk on which these files are, durably."""
    disk = SimulatedDisk()
    for name, data in files.items():
        disk.replace(ROOT / name, data)
    return disk


def after_power(disk: SimulatedDisk, path: Path, tries: int = 2_000) -> set[bytes | None]:
    """Whatever may be found in the file, None where it may be missing."""
    rng = Random(0)
    return {disk.power(rng).contents().get(path) for _ in range(tries)}


def test_a_simulated_file_has_no_descriptor() -> None:
    with pytest.raises(OSError, match="no descriptor"):
        SimulatedDisk().open(A).fileno()


def test_nothing_is_found_outside_of_the_root() -> None:
    disk = SimulatedDisk()
    for path in (Path("/elsewhere/a"), Path("/data2/a"), Path("/data2")):
        with pytest.raises(FileNotFoundError):
            disk.open(path)


def test_kill9_finds_everything_that_was_written() -> None:
    disk = simulated(a=b"one")
    disk.open(A).append(b"two")
    disk.make_directory(ROOT / "x" / "y")
    disk.open(ROOT / "x" / "b").append(b"three")
    found = disk.kill9()
    assert found.contents() == {A: b"onetwo", ROOT / "x" / "b": b"three"}
    assert found.directories() == [ROOT / "x", ROOT / "x" / "y"]


def test_what_was_not_synced_before_a_kill9_may_still_be_lost_after_it() -> None:
    disk = simulated(a=b"one")
    disk.open(A).append(b"two")
    disk.remove(A)
    disk.open(B)
    assert disk.kill9().synced().contents() == {A: b"one"}


def test_disks_found_after_a_crash_share_nothing_that_is_written_later() -> None:
    disk = simulated(a=b"one")
    file = disk.open(A)
    file.append(b"two")
    found = [disk.kill9(), disk.kill9(), disk.synced()]
    file.append(b"live")
    for number, other in enumerate(found):
        other.open(A).append(b"%d" % number)
        other.open(A).sync()
        other.open(B)
        other.sync_directory(ROOT)
    assert disk.contents() == {A: b"onetwolive"}
    assert [other.read(A) for other in found] == [b"onetwo0", b"onetwo1", b"one2"]
    assert [other.synced().read(A) for other in found] == [b"onetwo0", b"onetwo1", b"one2"]
    assert disk.synced().contents() == {A: b"one"}


def test_power_keeps_what_was_synced() -> None:
    disk = simulated(a=b"one")
    file = disk.open(A)
    file.append(b"two")
    file.sync()
    assert after_power(disk, A) == {b"onetwo"}


def test_power_keeps_none_a_prefix_or_a_subset_of_appends_and_tears_the_last() -> None:
    disk = simulated(a=b"=")
    file = disk.open(A)
    for data in (b"11", b"22", b"33"):
        file.append(data)
    found = after_power(disk, A)
    assert {b"=", b"=11", b"=1122", b"=112233"} <= found, "none, a prefix, all"
    assert {b"=\0\00022", b"=\0\0\0\00033", b"=11\0\00033"} <= found, "a subset, with a hole"
    assert {b"=1", b"=11223"} <= found, "the last one torn at a byte"
    assert {b"=11\0\0", b"=11223\0"} <= found, "the size without the data"
    assert b"=1\00022" not in found, "only the last one is torn"


def test_power_tears_at_sectors_and_pages_of_the_file() -> None:
    disk = simulated(a=b"=" * 100)
    disk.open(A).append(b"x" * 9_000)
    found = [data for data in after_power(disk, A) if data is not None]
    cuts = {len(data) for data in found}
    assert {512 * n for n in range(1, 18)} <= cuts
    holes = [data for data in found if len(data) == 9_100 and b"x\0" in data and b"\0x" in data]
    assert holes, "pages are not written in order"
    assert all(data.index(b"x\0") % 512 == 511 for data in holes)
    pages = [data for data in holes if data.index(b"x\0") == 4095 and data.rindex(b"\0x") == 8191]
    assert pages


def test_power_may_bring_back_what_a_truncation_removed_even_behind_later_appends() -> None:
    disk = simulated(a=b"123456")
    file = disk.open(A)
    file.truncate(2)
    file.append(b"xx")
    assert {b"123456", b"12", b"12xx", b"12xx56", b"12\0\0"} <= after_power(disk, A)
    file.sync()
    assert after_power(disk, A) == {b"12xx"}


def test_files_lose_independently_of_each_other() -> None:
    disk = simulated(a=b"", b=b"")
    for path in (A, B):
        disk.open(path).append(b"x")
    rng = Random(0)
    found = {tuple(disk.power(rng).contents().values()) for _ in range(200)}
    assert {(b"", b""), (b"x", b""), (b"", b"x"), (b"x", b"x")} <= found


def test_the_same_seed_loses_the_same() -> None:
    disk = simulated(a=b"")
    for data in (b"1" * 1_000, b"2" * 5_000):
        disk.open(A).append(data)
        disk.open(B).append(data)
    found = [disk.power(Random(seed)).contents() for seed in range(50)]
    assert found == [disk.kill9().power(Random(seed)).contents() for seed in range(50)]


def test_what_was_found_after_power_was_restored_is_durable() -> None:
    disk = SimulatedDisk()
    disk.open(A).append(b"one")
    rng = Random(0)
    for _ in range(100):
        found = disk.power(rng)
        before = found.contents()
        assert found.synced().contents() == found.power(rng).contents() == before
        found.open(A).append(b"two")
        assert found.synced().contents() == before, "what is appended from then on is not"


def test_a_synced_file_is_gone_if_its_directory_was_not_synced() -> None:
    disk = SimulatedDisk()
    file = disk.open(A)
    file.append(b"one")
    file.sync()
    assert after_power(disk, A) == {None, b"one"}
    disk.sync_directory(ROOT)
    assert after_power(disk, A) == {b"one"}


def test_a_durable_name_says_nothing_about_the_bytes() -> None:
    disk = simulated(b=b"old")
    disk.open(A).append(b"x")
    disk.rename(A, B)
    disk.sync_directory(ROOT)
    assert after_power(disk, B) == {b"", b"\0", b"x"}


def test_a_directory_is_gone_with_all_in_it_if_its_parent_was_not_synced() -> None:
    disk = SimulatedDisk()
    disk.make_directory(ROOT / "x")
    disk.replace(ROOT / "x" / "a", b"one")
    assert after_power(disk, ROOT / "x" / "a") == {None, b"one"}
    assert disk.synced().directories() == []
    disk.sync_directory(ROOT)
    assert after_power(disk, ROOT / "x" / "a") == {b"one"}


def test_changes_of_names_are_lost_from_the_end() -> None:
    disk = simulated(a=b"")
    disk.open(B)
    disk.rename(A, C)
    disk.remove(B)
    rng = Random(0)
    found = {tuple(disk.power(rng).names(ROOT)) for _ in range(200)}
    assert found == {("a",), ("a", "b"), ("b", "c"), ("c",)}
    disk.sync_directory(ROOT)
    assert disk.synced().names(ROOT) == ["c"]


def test_directories_lose_independently_but_a_rename_between_them_is_whole() -> None:
    disk = SimulatedDisk()
    for name in ("x", "y"):
        disk.make_directory(ROOT / name)
    disk.replace(ROOT / "x" / "a", b"")
    disk.sync_directory(ROOT)
    disk.open(ROOT / "y" / "b")
    disk.rename(ROOT / "x" / "a", ROOT / "y" / "a")
    disk.open(ROOT / "x" / "c")
    rng = Random(0)
    found = {tuple(sorted(str(p)[6:] for p in disk.power(rng).contents())) for _ in range(500)}
    before = {("x/a",), ("x/a", "y/b")}
    after = {("y/a", "y/b"), ("x/c", "y/a", "y/b")}
    assert found == before | after
    disk.sync_directory(ROOT / "x")
    synced = disk.synced().contents()
    assert set(synced) == {ROOT / "x" / "c", ROOT / "y" / "a", ROOT / "y" / "b"}


def test_syncing_a_directory_leaves_the_names_in_the_others_as_they_are() -> None:
    disk = SimulatedDisk()
    disk.make_directory(ROOT / "x")
    disk.sync_directory(ROOT)
    disk.open(ROOT / "x" / "a")
    disk.open(ROOT / "x" / "b")
    disk.sync_directory(ROOT)
    rng = Random(0)
    found = {tuple(disk.power(rng).names(ROOT / "x")) for _ in range(200)}
    assert found == {(), ("a",), ("a", "b")}


def test_a_replaced_disk_is_empty() -> None:
    disk = simulated(a=b"one")
    disk.capacity = 100
    assert disk.replaced().contents() == {}
    assert disk.replaced().capacity == 100
    assert disk.read(A) == b"one"


def test_every_operation_is_a_crash_point_and_reading_is_not() -> None:
    disk = SimulatedDisk()
    file = disk.open(A)
    file.append(b"one")
    file.truncate(1)
    file.sync()
    disk.rename(A, B)
    disk.remove(B)
    disk.make_directory(ROOT / "x")
    disk.remove_directory(ROOT / "x")
    disk.sync_directory(ROOT)
    assert disk.operations == 9
    disk.replace(A, b"two")
    assert disk.operations == 14, "a draft, its bytes, its sync, the rename and its sync"
    disk.open(A).read(0, disk.size(A))
    disk.make_directory(ROOT)
    assert disk.exists(A)
    assert disk.names(ROOT) == ["a"]
    assert disk.read(A) == b"two"
    assert disk.operations == 14


def test_the_numbered_operation_does_not_happen_and_nothing_works_after_it() -> None:
    disk = SimulatedDisk(crash_after=3)
    file = disk.open(A)
    file.append(b"one")
    with pytest.raises(Crashed):
        file.append(b"two")
    everything: list[Callable[[], object]] = [
        lambda: file.read(0, 1),
        lambda: file.append(b""),
        lambda: file.truncate(0),
        file.sync,
        lambda: disk.open(A),
        lambda: disk.replace(A, b""),
        lambda: disk.exists(A),
        lambda: disk.make_directory(ROOT / "x"),
        *(lambda operation=operation: operation(disk, A) for operation in ON_A_PATH.values()),
    ]
    for call in everything:
        with pytest.raises(Crashed):
            call()
    assert disk.crashed
    assert disk.contents() == disk.kill9().contents() == {A: b"one"}
    assert not disk.kill9().crashed


def test_an_append_may_be_interrupted_in_its_middle() -> None:
    disk = SimulatedDisk(crash_after=2, crash_progress=0.5)
    file = disk.open(A)
    with pytest.raises(Crashed):
        file.append(b"123456")
    assert disk.kill9().contents() == {A: b"123"}


def test_no_handler_of_exceptions_survives_a_crash() -> None:
    assert not issubclass(Crashed, Exception)


def test_replacing_leaves_the_old_or_the_new_wherever_it_is_interrupted() -> None:
    rng = Random(0)
    for crash_after in range(1, 7):
        disk = simulated(a=b"old")
        disk.crash_after = disk.operations + crash_after
        try:
            disk.replace(A, b"new and longer")
        except Crashed:
            allowed = {b"old"} if crash_after < 5 else {b"old", b"new and longer"}
        else:
            allowed = {b"new and longer"}
        assert {disk.power(rng).contents()[A] for _ in range(200)} == allowed
        assert disk.kill9().read(A) == (b"old" if crash_after < 5 else b"new and longer")


def test_a_watcher_meets_every_crash_point_in_one_run() -> None:
    def work(disk: SimulatedDisk) -> None:
        file = disk.open(A)
        file.append(b"one")
        disk.replace(B, b"two")

    watched: list[dict[Path, bytes]] = []
    disk = SimulatedDisk()
    disk.watch = lambda: watched.append(disk.kill9().contents())
    work(disk)
    for number, contents in enumerate(watched, 1):
        crashed = SimulatedDisk(crash_after=number)
        with pytest.raises(Crashed):
            work(crashed)
        assert crashed.contents() == contents


def test_a_full_disk_refuses_and_the_file_stays_as_it_was() -> None:
    disk = SimulatedDisk(capacity=10)
    file = disk.open(A)
    file.append(b"sixsix")
    with pytest.raises(OSError, match="No space") as refusal:
        file.append(b"more than fits")
    assert refusal.value.errno == errno.ENOSPC
    assert file.size == disk.size(A) == disk.used == 6
    file.append(b"four")
    assert disk.read(A) == b"sixsixfour"


def test_a_crash_finds_the_part_that_a_full_disk_took() -> None:
    disk = SimulatedDisk(capacity=4, crash_after=3)
    file = disk.open(A)
    with pytest.raises(Crashed):
        file.append(b"more than fits")
    assert disk.kill9().contents() == {A: b"more"}


def test_service_resumes_when_there_is_space_again() -> None:
    disk = SimulatedDisk(capacity=4)
    disk.open(A).append(b"four")
    file = disk.open(B)
    with pytest.raises(OSError, match="No space"):
        file.append(b"b")
    with pytest.raises(OSError, match="No space"):
        disk.replace(C, b"c")
    disk.capacity = 5
    file.append(b"b")
    disk.remove(A)
    disk.replace(C, b"c")
    assert disk.kill9().contents() == {B: b"b", C: b"c"}
    assert disk.kill9().capacity == 5


def test_a_failed_sync_is_an_error_and_trying_again_does_not_help() -> None:
    disk = simulated(a=b"one")
    file = disk.open(A)
    file.append(b"two")
    disk.fail_syncs = True
    for sync in (file.sync, lambda: disk.sync_directory(ROOT), lambda: disk.replace(B, b"")):
        with pytest.raises(SyncFailed, match="not synced"):
            sync()
    disk.fail_syncs = False
    file.sync()
    assert file.read(0, 6) == b"onetwo", "the cache still has it"
    assert disk.synced().read(A) == b"one"
    assert {b"one", b"onetwo"} <= after_power(disk, A)
    restarted = disk.kill9()
    restarted.open(A).sync()
    assert restarted.synced().read(A) == b"one", "nor does another process: its pages look clean"


def test_a_flipped_bit_is_flipped_on_the_disk_and_in_the_cache() -> None:
    disk = simulated(a=b"\0\0")
    file = disk.open(A)
    file.append(b"\0\0")
    disk.flip_bit(A, 1, 0)
    disk.flip_bit(A, 3, 7)
    assert file.read(0, 4) == b"\0\1\0\x80"
    assert disk.synced().read(A) == b"\0\1"
    file.sync()
    assert disk.synced().read(A) == b"\0\1\0\x80"


def test_zeroing_goes_no_further_than_the_file() -> None:
    disk = simulated(a=b"123")
    file = disk.open(A)
    file.append(b"456")
    disk.zero(A, 2, 4)
    assert file.read(0, 10) == b"12\0\00056"
    assert disk.synced().read(A) == b"12\0"
    disk.zero(A, 5, 100)
    file.sync()
    assert disk.synced().read(A) == b"12\0\0005\0"


@dataclass(eq=False)
class Written:
    """What was done to a file: enough to judge what is found of it."""

    durable: bytes = b""
    live: bytes = b""
    unsynced: list[tuple[int, bytes]] = field(default_factory=list)
    """Where each append went and what it wrote."""
    size_max: int = 0
    untouched: int = 0
    """Where the durable bytes end that no truncation since the sync has reached."""

    def append(self, data: bytes) -> None:
        self.unsynced.append((len(self.live), data))
        self.live += data
        self.size_max = max(self.size_max, len(self.live))

    def truncate(self, size: int) -> None:
        self.live = self.live[:size].ljust(size, b"\0")
        self.size_max = max(self.size_max, size)
        self.untouched = min(self.untouched, size)

    def sync(self) -> None:
        self.durable = self.live
        self.unsynced.clear()
        self.size_max = self.untouched = len(self.live)

    def explains(self, found: bytes) -> bool:
        return (
            self.untouched <= len(found) <= self.size_max
            and found.startswith(self.durable[: self.untouched])
            and all(byte in self._bytes_at(position) for position, byte in enumerate(found))
        )

    def _bytes_at(self, position: int) -> set[int]:
        """Zero, what was durable there, and what was written there since."""
        writes = [(0, self.durable), *self.unsynced]
        return {0} | {
            data[position - start]
            for start, data in writes
            if start <= position < start + len(data)
        }


class Model:
    """A disk of one directory, and every set of names it has had since that was synced."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.open: dict[str, SimulatedFile] = {}
        self.names: list[dict[str, Written]] = [{}]

    def step(self, verb: str, name: str, other: str, number: int) -> None:
        path, now = ROOT / name, self.names[-1]
        match verb:
            case "sync_directory":
                self.disk.sync_directory(ROOT)
                del self.names[:-1]
            case "replace":
                self.disk.replace(path, bytes([number]) * number)
                self.open.pop(name, None)
                fresh = Written()
                fresh.append(bytes([number]) * number)
                fresh.sync()
                self.names = [{**now, name: fresh}]
            case "rename" if name in now and name != other:
                self.disk.rename(path, ROOT / other)
                self.open.pop(name, None)
                self.open.pop(other, None)
                self.names.append({**{k: v for k, v in now.items() if k != name}, other: now[name]})
            case "remove" if name in now:
                self.disk.remove(path)
                self.open.pop(name, None)
                self.names.append({k: v for k, v in now.items() if k != name})
            case "append" | "truncate" | "sync":
                self.change(verb, name, number)

    def change(self, verb: str, name: str, number: int) -> None:
        if name not in self.open:
            self.open[name] = self.disk.open(ROOT / name)
        if name not in self.names[-1]:
            self.names.append({**self.names[-1], name: Written()})
        file, written = self.open[name], self.names[-1][name]
        match verb:
            case "append":
                file.append(bytes([number]) * number)
                written.append(bytes([number]) * number)
            case "truncate":
                file.truncate(number)
                written.truncate(number)
            case _:
                file.sync()
                written.sync()

    def explains(self, contents: dict[Path, bytes]) -> bool:
        found = {path.name: data for path, data in contents.items()}
        # The draft of a replacement is never seen: no crash falls into one here.
        return any(
            names.keys() == found.keys()
            and all(names[name].explains(data) for name, data in found.items())
            for names in self.names
        )


NAMES = st.sampled_from(["a", "b", "c"])
ON_FILES = ["append", "append", "append", "truncate", "sync"]
ON_NAMES = ["replace", "rename", "remove", "sync_directory"]
VERBS = st.sampled_from([*ON_FILES, *ON_NAMES])
STEPS = st.lists(st.tuples(VERBS, NAMES, NAMES, st.integers(1, 9)), max_size=30)


@given(STEPS, st.integers(0, 2**32))
def test_whatever_is_found_after_power_was_lost_is_explained(
    steps: list[tuple[str, str, str, int]], seed: int
) -> None:
    model = Model()
    for step in steps:
        model.step(*step)
    rng = Random(seed)
    for _ in range(10):
        found = model.disk.power(rng)
        assert model.explains(found.contents()), found.contents()
        assert found.synced().contents() == found.contents()
    assert model.explains(model.disk.synced().contents())


@given(STEPS, st.integers(1, 60), st.floats(0, 1))
def test_kill9_finds_what_was_live_and_not_more_is_durable(
    steps: list[tuple[str, str, str, int]], crash_after: int, progress: float
) -> None:
    model = Model()
    model.disk.crash_after, model.disk.crash_progress = crash_after, progress
    try:
        for step in steps:
            model.step(*step)
    except Crashed:
        assert model.disk.operations == crash_after
    else:
        live = {ROOT / name: written.live for name, written in model.names[-1].items()}
        assert model.disk.contents() == live
    found = model.disk.kill9()
    assert found.contents() == model.disk.contents()
    assert found.synced().contents() == model.disk.synced().contents()
    assert found.kill9().power(Random(1)).contents() == model.disk.power(Random(1)).contents()


def test_a_replacement_that_fails_leaves_the_old_file_and_no_draft() -> None:
    disk = SimulatedDisk()
    path = disk.root / "checkpoint"
    disk.replace(path, b"old")
    disk.capacity = 10
    with pytest.raises(OSError, match="No space left"):
        disk.replace(path, bytes(50))
    assert disk.contents() == {path: b"old"}
