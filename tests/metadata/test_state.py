"""A store against a dictionary: any transactions, and watches from any revision."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.metadata.store import (
    Absent,
    Change,
    Changes,
    Compacted,
    Compare,
    CreatedAt,
    Delete,
    DeletePrefix,
    Entry,
    ModifiedAt,
    NonePutSince,
    Operation,
    Put,
    Removed,
    Store,
)
from tests.metadata.stores import STORES, seen

LAST = "\U0010ffff"
"""No character comes after it."""
KEYS = st.sampled_from(["a", "a/1", "a/2", "ab", "a" + LAST, "b"])
PREFIXES = st.sampled_from(["", "a", "a/", "a" + LAST, "b", "z"])
REVISIONS = st.integers(0, 8)
COMPARES = st.one_of(
    st.builds(Absent, KEYS),
    st.builds(ModifiedAt, KEYS, REVISIONS),
    st.builds(CreatedAt, KEYS, REVISIONS),
    st.builds(NonePutSince, PREFIXES, REVISIONS),
)
OPERATIONS = st.one_of(
    st.builds(Put, KEYS, st.binary(max_size=3)),
    st.builds(Delete, KEYS),
    st.builds(DeletePrefix, PREFIXES),
)
COMMITS = st.lists(
    st.tuples(st.lists(COMPARES, max_size=2), st.lists(OPERATIONS, max_size=4)), max_size=12
)


@dataclass
class Model:
    """What a store is, as plainly as it can be said."""

    base: int
    revision: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    history: list[Changes] = field(default_factory=list)

    def commit(self, compares: list[Compare], operations: list[Operation]) -> bool:
        """Whether the compares were true. Raise ValueError."""
        puts = [o.key for o in operations if isinstance(o, Put)]
        for operation in operations:
            clash = isinstance(operation, Delete) and operation.key in puts
            if isinstance(operation, DeletePrefix):
                clash = any(key.startswith(operation.prefix) for key in puts)
            if clash or len(set(puts)) < len(puts):
                raise ValueError("is contradictory")
        if not all(map(self.holds, compares)):
            return False
        self.revision += 1
        changes = [change for operation in operations for change in self.do(operation)]
        if changes:
            self.history.append(Changes(self.revision, tuple(changes)))
        else:
            self.revision -= 1
        return True

    def holds(self, compare: Compare) -> bool:
        match compare:
            case Absent(key):
                return key not in self.entries
            case ModifiedAt(key, revision):
                return [e.mod_revision for e in self.entries.values() if e.key == key] == [revision]
            case CreatedAt(key, revision):
                created = [e.create_revision for e in self.entries.values() if e.key == key]
                return created == [revision]
            case NonePutSince(prefix, revision):
                put = [e.mod_revision for k, e in self.entries.items() if k.startswith(prefix)]
                return max(put, default=0) <= revision

    def do(self, operation: Operation) -> list[Change]:
        if isinstance(operation, Put):
            old = self.entries.get(operation.key)
            entry = Entry(
                operation.key,
                operation.value,
                old.create_revision if old else self.revision,
                self.revision,
                old.version + 1 if old else 1,
            )
            self.entries[operation.key] = entry
            return [entry]
        if isinstance(operation, Delete):
            doomed = [key for key in self.entries if key == operation.key]
        else:
            doomed = [key for key in sorted(self.entries) if key.startswith(operation.prefix)]
        for key in doomed:
            del self.entries[key]
        return [Removed(key, self.revision) for key in doomed]

    def watched(self, prefix: str, revision: int) -> list[Changes]:
        parts = [
            Changes(c.revision, tuple(x for x in c.changes if x.key.startswith(prefix)))
            for c in self.history
            if c.revision >= revision
        ]
        return [part for part in parts if part.changes]


async def run(store: Store, commits: list[tuple[list[Compare], list[Operation]]]) -> Model:
    model = Model((await store.range("")).revision)
    assert model.base == 0, "the revisions of these compares are counted from a new store"
    for compares, operations in commits:
        try:
            succeeded = model.commit(compares, operations)
        except ValueError:
            with pytest.raises(ValueError, match="is"):
                await store.commit(compares, operations)
            continue
        commit = await store.commit(compares, operations)
        assert (commit.succeeded, commit.revision) == (succeeded, model.revision)
    return model


@pytest.mark.parametrize("name", STORES)
@given(commits=COMMITS, prefix=PREFIXES, revision=st.integers(1, 9), compacted=REVISIONS)
async def test_a_store_is_a_dictionary_with_a_past(
    name: str,
    commits: list[tuple[list[Compare], list[Operation]]],
    prefix: str,
    revision: int,
    compacted: int,
) -> None:
    async with STORES[name]() as store:
        model = await run(store, commits)
        snapshot = await store.range(prefix)
        wanted = [model.entries[key] for key in sorted(model.entries) if key.startswith(prefix)]
        assert (snapshot.revision, snapshot.entries) == (model.revision, wanted)
        for key in ("a", "a/1", "a/2", "ab", "b"):
            assert await store.get(key) == model.entries.get(key)
        watched = model.watched(prefix, revision)
        assert await seen(store, prefix, revision, len(watched)) == watched
        await store.compact(min(compacted, model.revision))
        if revision >= min(compacted, model.revision):
            assert await seen(store, prefix, revision, len(watched)) == watched
        else:
            async with store.watch(prefix, revision) as changes:
                with pytest.raises(Compacted):
                    await anext(changes)
