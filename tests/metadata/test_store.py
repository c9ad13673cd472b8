"""What every store promises, whoever implements it. An etcd is one more line in `STORES`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from pyk.metadata.store import (
    Absent,
    Changes,
    Compacted,
    Compare,
    CreatedAt,
    Delete,
    DeletePrefix,
    Entry,
    LeaseId,
    LeaseNotFound,
    ModifiedAt,
    NonePutSince,
    Operation,
    Put,
    Removed,
    Store,
)
from tests.metadata.stores import STORES, seen


@pytest.fixture
def clock() -> trio.abc.Clock:
    """The one that leases end by. A store in another process would need the real one."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with STORES[request.param]() as opened:
        yield opened


async def put(store: Store, key: str, value: bytes = b"", lease: LeaseId | None = None) -> int:
    commit = await store.commit([], [Put(key, value, lease)])
    assert commit.succeeded
    return commit.revision


async def keys(store: Store, prefix: str = "") -> list[str]:
    return [entry.key for entry in (await store.range(prefix)).entries]


async def test_a_key_knows_when_it_was_created_and_changed_and_how_often(store: Store) -> None:
    first = await put(store, "a", b"1")
    second = await put(store, "a", b"2")
    assert second == first + 1
    assert await store.get("a") == Entry("a", b"2", first, second, 2)
    await store.commit([], [Delete("a")])
    assert await store.get("a") is None
    third = await put(store, "a", b"3")
    assert await store.get("a") == Entry("a", b"3", third, third, 1)


async def test_a_value_is_any_bytes_and_a_key_any_text(store: Store) -> None:
    for key, value in {"\0\n": b"\0\n", "ключ": b"\xff\xfe", " ": b"", '"': b'{"a": "\\"}'}.items():
        await put(store, key, value)
        entry = await store.get(key)
        assert entry is not None
        assert entry.value == value


async def test_a_range_has_the_keys_of_a_prefix_in_order_and_the_revision(store: Store) -> None:
    for key in ("b", "a/2", "a/10", "a", "a0", "ä"):
        last = await put(store, key)
    snapshot = await store.range("a/")
    assert [entry.key for entry in snapshot.entries] == ["a/10", "a/2"]
    assert snapshot.revision == last
    assert await keys(store) == ["a", "a/10", "a/2", "a0", "b", "ä"]
    assert await keys(store, "c") == []


async def test_all_operations_of_a_transaction_have_one_revision(store: Store) -> None:
    before = await put(store, "old")
    commit = await store.commit([], [Put("x", b"1"), Delete("old"), Put("a", b"2")])
    assert commit.revision == before + 1
    entries = (await store.range("")).entries
    assert [(entry.key, entry.mod_revision) for entry in entries] == [
        ("a", commit.revision),
        ("x", commit.revision),
    ]


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        (ModifiedAt("twice", 1), True),
        (ModifiedAt("twice", 0), False),
        (ModifiedAt("none", 0), False),
        (CreatedAt("twice", 0), True),
        (CreatedAt("twice", 1), False),
        (CreatedAt("none", 0), False),
        (Absent("none"), True),
        (Absent("twice"), False),
        (NonePutSince("tw", 1), True),
        (NonePutSince("tw", 0), False),
        (NonePutSince("none", -1), True),
        (NonePutSince("", 2), True),
        (NonePutSince("", 1), False),
    ],
)
async def test_a_transaction_happens_if_its_compares_are_true(
    store: Store, compare: Compare, holds: bool
) -> None:
    # The revisions above are counted from the first put, wherever the store begins.
    first = await put(store, "twice")
    await put(store, "twice")
    last = await put(store, "z")
    if not isinstance(compare, Absent):
        name = compare.prefix if isinstance(compare, NonePutSince) else compare.key
        compare = type(compare)(name, compare.revision + first)
    commit = await store.commit([Absent("new"), compare], [Put("new", b"")])
    assert commit.succeeded == holds
    assert commit.revision == (last + 1 if holds else last)
    assert (await store.get("new") is not None) == holds


async def test_a_key_that_is_gone_counts_as_never_put(store: Store) -> None:
    first = await put(store, "a/1")
    await store.commit([], [Delete("a/1")])
    commit = await store.commit([NonePutSince("a/", first - 1)], [Put("b", b"")])
    assert commit.succeeded


@pytest.mark.parametrize("operations", [[], [Delete("none")], [DeletePrefix("none/")]])
async def test_what_changes_nothing_leaves_the_revision(
    store: Store, operations: list[Operation]
) -> None:
    revision = await put(store, "a")
    commit = await store.commit([], operations)
    assert (commit.succeeded, commit.revision) == (True, revision)


async def test_a_prefix_is_deleted_at_once(store: Store) -> None:
    await store.commit([], [Put(key, b"") for key in ("a/1", "a/2", "b")])
    commit = await store.commit([], [DeletePrefix("a/"), Put("c", b"")])
    assert await keys(store) == ["b", "c"]
    [changes] = await seen(store, "a", commit.revision, 1)
    assert changes.changes == (Removed("a/1", commit.revision), Removed("a/2", commit.revision))


@pytest.mark.parametrize(
    "operations",
    [
        [Put("a", b"1"), Put("a", b"2")],
        [Put("a", b"1"), Delete("a")],
        [DeletePrefix("a"), Put("a/b", b"1")],
        [Put("", b"1")],
        [Delete("")],
    ],
)
async def test_a_transaction_that_contradicts_itself_is_refused(
    store: Store, operations: list[Operation]
) -> None:
    revision = await put(store, "other")
    with pytest.raises(ValueError, match="is"):
        await store.commit([], operations)
    assert (await store.range("")).revision == revision


async def test_of_many_who_compare_the_same_one_wins(store: Store) -> None:
    won: list[int] = []

    async def compete(number: int) -> None:
        commit = await store.commit([Absent("leader")], [Put("leader", b"%d" % number)])
        if commit.succeeded:
            won.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(compete, number)
    entry = await store.get("leader")
    assert entry is not None
    assert won == [int(entry.value)]


async def test_a_watch_gives_what_was_and_what_comes(store: Store) -> None:
    first = await put(store, "a", b"1")
    await put(store, "b")
    third = await put(store, "a", b"3")
    found: list[Changes] = []
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            found.extend(await seen(store, "a", first, 3))

        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        commit = await store.commit([], [Delete("a")])
    assert found == [
        Changes(first, (Entry("a", b"1", first, first, 1),)),
        Changes(third, (Entry("a", b"3", first, third, 2),)),
        Changes(commit.revision, (Removed("a", commit.revision),)),
    ]


async def test_a_watch_gives_all_of_a_revision_together_and_in_its_order(store: Store) -> None:
    await put(store, "a/old")
    revision = (
        await store.commit([], [Put("a/z", b""), Put("b", b""), Delete("a/old"), Put("a/y", b"")])
    ).revision
    [changes] = await seen(store, "a/", revision, 1)
    assert [change.key for change in changes.changes] == ["a/z", "a/old", "a/y"]


async def test_a_watch_of_the_future_waits_for_it(store: Store) -> None:
    revision = await put(store, "a")
    found: list[Changes] = []
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            found.extend(await seen(store, "", revision + 2, 1))

        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        await put(store, "early")
        late = await put(store, "late")
    assert [changes.revision for changes in found] == [late]


async def test_a_range_and_a_watch_from_the_next_revision_miss_nothing(store: Store) -> None:
    known: dict[str, int] = {}
    caught_up = trio.Event()

    async def follow() -> None:
        snapshot = await store.range("")
        known.update({entry.key: entry.mod_revision for entry in snapshot.entries})
        async with store.watch("", snapshot.revision + 1) as watched:
            async for changes in watched:
                for change in changes.changes:
                    assert change.key not in known
                    known[change.key] = change.mod_revision
                if len(known) == 20:
                    caught_up.set()

    async with trio.open_nursery() as nursery:
        for number in range(20):
            if number == 7:
                nursery.start_soon(follow)
            nursery.start_soon(put, store, f"k{number}")
        await caught_up.wait()
        nursery.cancel_scope.cancel()
    assert sorted(known.values()) == list(range(min(known.values()), min(known.values()) + 20))


async def test_a_watch_from_before_the_compaction_is_told(store: Store) -> None:
    first = await put(store, "a")
    await put(store, "a")
    third = await put(store, "a")
    await store.compact(third)
    await store.compact(first)
    async with store.watch("a", first) as changes:
        with pytest.raises(Compacted):
            await anext(changes)
    [found] = await seen(store, "a", third, 1)
    assert found.revision == third
    entry = await store.get("a")
    assert entry is not None
    assert entry.version == 3


async def test_a_watch_that_is_too_slow_is_told(store: Store) -> None:
    first = await put(store, "a")
    async with store.watch("a", first) as changes:
        assert (await anext(changes)).revision == first
        for _ in range(3):
            last = await put(store, "a")
        await store.compact(last)
        with pytest.raises(Compacted):
            await anext(changes)


async def test_what_is_to_come_cannot_be_compacted_and_watches_begin_somewhere(
    store: Store,
) -> None:
    revision = await put(store, "a")
    with pytest.raises(ValueError, match="to come"):
        await store.compact(revision + 1)
    with pytest.raises(ValueError, match="revision"):
        async with store.watch("a", 0):
            pass


async def test_a_lease_that_is_revoked_takes_its_keys_in_one_revision(store: Store) -> None:
    lease = await store.grant_lease(60)
    await put(store, "a", lease=lease)
    last = await put(store, "b", lease=lease)
    await put(store, "c")
    await store.revoke_lease(lease)
    assert await keys(store) == ["c"]
    [changes] = await seen(store, "", last + 2, 1)
    assert sorted(change.key for change in changes.changes) == ["a", "b"]
    with pytest.raises(LeaseNotFound):
        await store.revoke_lease(lease)
    with pytest.raises(LeaseNotFound):
        await store.keep_alive(lease)


async def test_a_lease_that_is_not_kept_alive_ends_late_not_early(
    store: Store, clock: trio.abc.Clock
) -> None:
    began = trio.current_time()
    lease = await store.grant_lease(5)
    revision = await put(store, "a", lease=lease)
    with trio.fail_after(60):
        [changes] = await seen(store, "a", revision + 1, 1)
    assert changes.changes == (Removed("a", revision + 1),)
    assert trio.current_time() >= began + 5
    with pytest.raises(LeaseNotFound):
        await store.keep_alive(lease)


async def test_a_lease_that_is_kept_alive_does_not_end(store: Store, clock: trio.abc.Clock) -> None:
    other, kept = await store.grant_lease(3), await store.grant_lease(5)
    revision = await put(store, "kept", lease=kept)
    for round_ in range(4):
        # Another lease's end is the clock.
        await put(store, f"other{round_}", lease=other)
        with trio.fail_after(60):
            await seen(store, "other", revision + 2, 1)
        await store.keep_alive(kept)
        revision += 2
        other = await store.grant_lease(3)
    assert await keys(store) == ["kept"]


async def test_a_key_has_the_lease_of_its_last_put(store: Store) -> None:
    old, new = await store.grant_lease(60), await store.grant_lease(60)
    await put(store, "moved", lease=old)
    await put(store, "moved", lease=new)
    await put(store, "freed", lease=old)
    await put(store, "freed")
    await put(store, "gone", lease=old)
    await store.commit([], [Delete("gone")])
    revision = await put(store, "gone")
    await store.revoke_lease(old)
    snapshot = await store.range("")
    assert [(entry.key, entry.lease) for entry in snapshot.entries] == [
        ("freed", None),
        ("gone", None),
        ("moved", new),
    ]
    assert snapshot.revision == revision


async def test_a_put_with_a_lease_that_is_gone_does_nothing(store: Store) -> None:
    lease = await store.grant_lease(60)
    await store.revoke_lease(lease)
    revision = await put(store, "a")
    with pytest.raises(LeaseNotFound):
        await store.commit([], [Put("b", b""), Put("c", b"", lease)])
    assert not (await store.commit([Absent("a")], [Put("c", b"", lease)])).succeeded
    assert (await store.range("")).revision == revision
    assert await keys(store) == ["a"]
