"""What the embedded store does beyond what all stores promise: files, syncs, and their faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from pyk import turns
from pyk.disk import DirectoryInUse, RealDisk, SyncFailed
from pyk.metadata.embedded import WRITTEN_AT_ONCE, EmbeddedStore, open_embedded
from pyk.metadata.journal import FILE_NAME, DamagedStore
from pyk.metadata.state import FORGOTTEN_ONE_BY_ONE_MAX, State, Transaction
from pyk.metadata.store import Compacted, Delete, Entry, LeaseNotFound, Put
from pyk.offload import at_once
from tests.handlers.turns import counting_turns
from tests.metadata.stores import DIRECTORY, seen
from tests.simulated_disk import SimulatedDisk

PATH = DIRECTORY / FILE_NAME


class Gate:
    """Lets what is offloaded through when it is told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.limit = trio.Semaphore(0)

    async def offload(self, run: Callable[[], None]) -> None:
        self.runs += 1
        await self.limit.acquire()
        run()


async def fill(store: EmbeddedStore, count: int) -> None:
    for number in range(count):
        await store.commit([], [Put(f"k{number}", b"%d" % number)])


async def held(disk: SimulatedDisk) -> dict[str, bytes]:
    async with open_embedded(disk, DIRECTORY, at_once) as store:
        return {entry.key: entry.value for entry in (await store.range("")).entries}


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


async def test_what_was_committed_is_there_after_a_power_loss(disk: SimulatedDisk) -> None:
    async with open_embedded(disk, DIRECTORY, at_once) as store:
        await fill(store, 3)
        crashed = disk.synced()
    async with open_embedded(crashed, DIRECTORY, at_once) as again:
        assert await again.range("") == await store.range("")


async def test_commits_that_wait_together_share_a_sync(disk: SimulatedDisk) -> None:
    gate = Gate()
    done: list[int] = []

    async def commit(number: int) -> None:
        await store.commit([], [Put(f"k{number}", b"")])
        done.append(number)

    async with (
        open_embedded(disk, DIRECTORY, gate.offload) as store,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(commit, 0)
        await trio.testing.wait_all_tasks_blocked()
        for number in (1, 2, 3):
            nursery.start_soon(commit, number)
        await trio.testing.wait_all_tasks_blocked()
        assert (gate.runs, done) == (1, [])
        gate.limit.release()
        await trio.testing.wait_all_tasks_blocked()
        assert (gate.runs, done) == (2, [0])
        gate.limit.release()
    assert sorted(done) == [0, 1, 2, 3]
    assert gate.runs == 2


async def test_others_have_their_turn_while_very_many_operations_are_written(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)
    keys = [f"k{number:05}" for number in range(20 * WRITTEN_AT_ONCE)]
    async with open_embedded(disk, DIRECTORY, at_once) as store:
        async with counting_turns() as others:
            await store.commit([], [Put(key, b"v") for key in keys])
            assert others.count > 10
        await store.commit([], [Delete(key) for key in keys[1:]])
        assert [entry.key for entry in (await store.range("")).entries] == keys[:1]
    assert list(await held(disk)) == keys[:1]


def test_keys_that_stay_are_not_moved_for_each_of_many_that_go() -> None:
    class Counted(list[str]):
        deletions = 0

        def __delitem__(self, index: Any) -> None:
            self.deletions += 1
            super().__delitem__(index)

    state = State(0, [Entry(f"k{number:05}", b"", 1, 1, 1) for number in range(2_000)])
    keys = state._keys = Counted(state._keys)
    state.apply(Transaction(tuple(Delete(f"k{number:05}") for number in range(1_000))))
    assert len(state.range("k")) == 1_000
    assert keys.deletions <= FORGOTTEN_ONE_BY_ONE_MAX


async def test_nobody_sees_what_is_not_durable(disk: SimulatedDisk) -> None:
    gate = Gate()
    told: list[str] = []

    async def read() -> None:
        assert await store.get("a") is not None
        told.append("read")

    async def watch() -> None:
        await seen(store, "a", 1, 1)
        told.append("watch")

    async def lose() -> None:
        # What it lost to is not durable, so neither may its loss be known.
        await store.commit([], [])
        told.append("compare")

    async with (
        open_embedded(disk, DIRECTORY, gate.offload) as store,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(store.commit, [], [Put("a", b"")])
        await trio.testing.wait_all_tasks_blocked()
        for task in (read, watch, lose):
            nursery.start_soon(task)
        await trio.testing.wait_all_tasks_blocked()
        assert told == []
        gate.limit.release()
    assert sorted(told) == ["compare", "read", "watch"]


async def test_a_commit_that_is_cancelled_happens_all_the_same(disk: SimulatedDisk) -> None:
    gate = Gate()
    async with open_embedded(disk, DIRECTORY, gate.offload) as store:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, [], [Put("a", b"")])
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        gate.limit.release()
        assert len(await seen(store, "a", 1, 1)) == 1
    assert await held(disk.synced()) == {"a": b""}


async def test_a_failed_sync_reaches_all_who_wait_and_ends_the_store(disk: SimulatedDisk) -> None:
    heard: list[str] = []

    async def commit() -> None:
        try:
            await store.commit([], [Put("a", b"")])
        except SyncFailed:
            heard.append("failed")

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: PT012
        async with open_embedded(disk, DIRECTORY, at_once) as store:
            disk.fail_syncs = True
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(commit)
                    nursery.start_soon(commit)
    assert caught.group_contains(SyncFailed)
    assert heard == ["failed", "failed"]


async def test_a_full_disk_refuses_and_nothing_happened(disk: SimulatedDisk) -> None:
    async with open_embedded(disk, DIRECTORY, at_once) as store:
        await fill(store, 1)
        disk.capacity = disk.used + 40
        with pytest.raises(OSError, match="space"):
            await store.commit([], [Put("big", b"x" * 100)])
        assert [entry.key for entry in (await store.range("")).entries] == ["k0"]
        disk.capacity = None
        await store.commit([], [Put("next", b"")])
    assert await held(disk.synced()) == {"k0": b"0", "next": b""}


async def test_a_file_that_cannot_be_written_anew_stays_in_use(disk: SimulatedDisk) -> None:
    async with open_embedded(disk, DIRECTORY, at_once, appended_bytes_min=1_000) as store:
        disk.capacity = 4_000
        for _ in range(20):
            await store.commit([], [Put("a", b"x" * 900), Put("b", b"y" * 900)])
            disk.capacity += 2_000
        disk.capacity = None
        await store.commit([], [Put("c", b"")])
    assert (await held(disk.synced())).keys() == {"a", "b", "c"}


async def test_the_file_is_bounded_by_what_it_holds(disk: SimulatedDisk) -> None:
    async with open_embedded(disk, DIRECTORY, at_once, appended_bytes_min=2_000) as store:
        sizes = []
        for number in range(300):
            await store.commit([], [Put("same", b"x" * 100 + b"%d" % number)])
            sizes.append(disk.size(PATH))
        await trio.testing.wait_all_tasks_blocked()
    assert max(sizes) < 3_000
    async with open_embedded(disk.synced(), DIRECTORY, at_once) as again:
        entry = await again.get("same")
        assert entry is not None
        assert (entry.version, entry.create_revision, entry.mod_revision) == (300, 1, 300)


async def test_nothing_is_appended_while_the_file_is_written_anew(disk: SimulatedDisk) -> None:
    gate = Gate()
    async with open_embedded(disk, DIRECTORY, gate.offload, appended_bytes_min=1) as store:
        gate.limit.release()
        await store.commit([], [Put("a", b"x" * 500)])
        await trio.testing.wait_all_tasks_blocked()
        size = disk.size(PATH)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.commit, [], [Put("b", b"")])
            await trio.testing.wait_all_tasks_blocked()
            assert disk.size(PATH) == size, "the file that is replaced has lost this"
            gate.limit.release()
            gate.limit.release()
    assert (await held(disk.synced())).keys() == {"a", "b"}


async def test_what_was_before_the_snapshot_is_compacted_after_a_restart(
    disk: SimulatedDisk,
) -> None:
    async with open_embedded(disk, DIRECTORY, at_once, appended_bytes_min=1) as store:
        await fill(store, 10)
        await trio.testing.wait_all_tasks_blocked()
    async with (
        open_embedded(disk, DIRECTORY, at_once) as again,
        again.watch("", 1) as changes,
    ):
        with pytest.raises(Compacted) as caught:
            await anext(changes)
        commit = await again.commit([], [Put("new", b"")])
        oldest = caught.value.oldest
        found = await seen(again, "", oldest, commit.revision - oldest + 1)
        assert found[-1].revision == commit.revision == 11


async def test_the_past_is_bounded(disk: SimulatedDisk) -> None:
    async with open_embedded(disk, DIRECTORY, at_once, history_max=20) as store:
        await fill(store, 50)
        async with store.watch("", 1) as changes:
            with pytest.raises(Compacted) as caught:
                await anext(changes)
        assert 50 - 22 < caught.value.oldest <= 50 - 20 + 1


async def test_leases_begin_anew_with_the_store(
    disk: SimulatedDisk, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_embedded(disk, DIRECTORY, at_once) as store:
        lease = await store.grant_lease(10)
        ended = await store.grant_lease(10)
        await store.revoke_lease(ended)
        revision = (await store.commit([], [Put("a", b"", lease)])).revision
        autojump_clock.jump(9)
    async with open_embedded(disk, DIRECTORY, at_once) as again:
        began = trio.current_time()
        await seen(again, "a", revision + 1, 1)
        assert trio.current_time() == began + 10
        assert await again.get("a") is None
        assert await again.grant_lease(1) > ended, "the id of a lease is used again"
        with pytest.raises(LeaseNotFound):
            await again.keep_alive(lease)


async def test_a_store_has_its_directory_for_itself(tmp_path: Path) -> None:
    async with open_embedded(RealDisk(), tmp_path):
        with pytest.raises(DirectoryInUse):
            async with open_embedded(RealDisk(), tmp_path):
                pass
    async with open_embedded(RealDisk(), tmp_path):
        pass


async def test_in_threads_on_a_real_disk_all_is_kept(tmp_path: Path) -> None:
    async with open_embedded(RealDisk(), tmp_path / "m", appended_bytes_min=500) as store:
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(store.commit, [], [Put(f"k{number}", b"x" * 50)])
        before = await store.range("")
    async with open_embedded(RealDisk(), tmp_path / "m") as again:
        assert await again.range("") == before


async def test_an_operator_can_read_the_file(disk: SimulatedDisk) -> None:
    async with open_embedded(disk, DIRECTORY, at_once) as store:
        await store.commit([], [Put("topics/a", b'{"x": 1}'), Put("raw", b"\xff")])
    header, line = disk.read(PATH).decode().splitlines()
    assert header[9:].startswith('{"format":"pyk-metadata","version":1,"revision":0,')
    assert line[9:] == (
        '{"line":1,"synced":0,"operations":'
        '[{"put":"topics/a","text":"{\\"x\\": 1}"},{"put":"raw","data":"/w=="}]}'
    )


async def written(count: int = 5) -> bytes:
    """A file of some lines, each of which was synced before the next."""
    disk = SimulatedDisk()
    async with open_embedded(disk, DIRECTORY, at_once) as store:
        await fill(store, count)
    return disk.read(PATH)


def with_file(data: bytes) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    disk.replace(PATH, data)
    return disk


@pytest.mark.parametrize("left", [0, 1, 9, 30])
async def test_half_a_line_at_the_end_is_cut_off(left: int) -> None:
    data = await written()
    whole = data.rindex(b"\n", 0, -1) + 1
    for tail in (b"", bytes(10), bytes(5_000)):
        disk = with_file(data[: whole + left] + tail)
        assert list(await held(disk)) == ["k0", "k1", "k2", "k3"]
        assert disk.read(PATH) == data[:whole], "it is still there"


async def test_damage_to_what_was_synced_is_reported_and_not_touched() -> None:
    data = await written()
    for position in range(len(data)):
        for value in (0, data[position] ^ 1):
            damaged = bytearray(data)
            damaged[position] = value
            disk = with_file(bytes(damaged))
            is_last = position >= data.rindex(b"\n", 0, -1) + 1
            if is_last and (value == 0 or position == len(data) - 1):
                # As a crash would have left it.
                assert len(await held(disk)) == 4
                continue
            with pytest.raises(DamagedStore):
                await held(disk)
            assert disk.read(PATH) == damaged


async def test_lines_that_are_missing_are_reported() -> None:
    lines = (await written()).splitlines(keepends=True)
    for gone in range(len(lines) - 1):
        with pytest.raises(DamagedStore):
            await held(with_file(b"".join(lines[:gone] + lines[gone + 1 :])))


@pytest.mark.parametrize("size", [3, 40, 700, 5_000])
async def test_zeros_over_what_was_synced_are_reported(size: int) -> None:
    data = await written(100)
    end = data.rindex(b"\n", 0, len(data) - size - 200)
    for start in range(0, end, 97):
        damaged = data[:start] + bytes(size) + data[start + size :]
        with pytest.raises(DamagedStore):
            await held(with_file(damaged))


@given(data=st.binary(max_size=100))
async def test_what_is_no_store_is_reported(data: bytes) -> None:
    with pytest.raises(DamagedStore):
        await held(with_file(data))
