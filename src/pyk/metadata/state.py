"""What an embedded store holds, as a pure machine: records in, changes out.

    check_keys(operations), holds(compares) -> the shell writes a record -> apply(record): Changes

- Only `apply` changes anything. It is total: what is read back from the file is what was written.
- The same records in the same order make the same state, revisions included.
- Lease ids are never used again. When leases end is for the shell to know: time is not in here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

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
    LeaseId,
    LeaseNotFound,
    ModifiedAt,
    NonePutSince,
    Operation,
    Put,
    Removed,
)

FORGOTTEN_ONE_BY_ONE_MAX: Final = 16
"""Of more keys than that all that are left are looked at, which is quicker than to move them for
each of the others."""
_LAST: Final = "\U0010ffff"


class Transaction(msgspec.Struct, frozen=True):
    """Operations whose compares were true."""

    operations: tuple[Operation, ...]


class LeaseGranted(msgspec.Struct, frozen=True):
    lease: LeaseId
    ttl: float


class LeaseEnded(msgspec.Struct, frozen=True):
    lease: LeaseId


Record: TypeAlias = Transaction | LeaseGranted | LeaseEnded


class Lease:
    """How long it lasts, and the keys that go with it."""

    __slots__ = ("keys", "ttl")

    def __init__(self, ttl: float) -> None:
        self.ttl = ttl
        self.keys: set[str] = set()


class State:
    def __init__(
        self,
        revision: int = 0,
        entries: Iterable[Entry] = (),
        leases: Iterable[tuple[LeaseId, float]] = (),
        last_lease: int = 0,
    ) -> None:
        self.revision = revision
        self.entries = {entry.key: entry for entry in entries}
        self.leases = {lease: Lease(ttl) for lease, ttl in leases}
        self.last_lease = last_lease
        """The highest id that a lease ever had."""
        self._keys = sorted(self.entries)
        for entry in self.entries.values():
            self._attach(entry)

    def range(self, prefix: str) -> list[Entry]:
        return [self.entries[key] for key in self._keys_with(prefix)]

    def holds(self, compares: Iterable[Compare]) -> bool:
        """Whether all of them are true."""
        return all(map(self._is_true, compares))

    def check_leases(self, operations: Iterable[Operation]) -> None:
        """Raise LeaseNotFound."""
        for operation in operations:
            lease = operation.lease if isinstance(operation, Put) else None
            if lease is not None and lease not in self.leases:
                raise LeaseNotFound(lease)

    def would_change(self, operations: Iterable[Operation]) -> bool:
        """Whether they would do anything."""
        for operation in operations:
            match operation:
                case Put():
                    return True
                case Delete(key):
                    if key in self.entries:
                        return True
                case DeletePrefix(prefix):
                    if self._keys_with(prefix):
                        return True
        return False

    def apply(self, record: Record) -> Changes | None:
        """Do what the record says. What that changed, if it changed keys."""
        match record:
            case Transaction(operations):
                return self._commit(operations)
            case LeaseGranted(lease, ttl):
                self.leases[lease] = Lease(ttl)
                self.last_lease = max(self.last_lease, lease)
                return None
            case LeaseEnded(lease):
                ended = self.leases.pop(lease, None)
                return self._commit(map(Delete, sorted(ended.keys))) if ended else None
            case _:
                assert_never(record)

    def _is_true(self, compare: Compare) -> bool:
        match compare:
            case ModifiedAt(key, revision):
                entry = self.entries.get(key)
                return entry is not None and entry.mod_revision == revision
            case CreatedAt(key, revision):
                entry = self.entries.get(key)
                return entry is not None and entry.create_revision == revision
            case Absent(key):
                return key not in self.entries
            case NonePutSince(prefix, revision):
                entries = self.entries
                return all(entries[k].mod_revision <= revision for k in self._keys_with(prefix))
            case _:
                assert_never(compare)

    def _commit(self, operations: Iterable[Operation]) -> Changes | None:
        revision, entries = self.revision + 1, self.entries
        changes: list[Change] = []
        removed: list[str] = []
        for operation in operations:
            if isinstance(operation, Put):
                changes.append(self._put(operation, revision))
                continue
            if isinstance(operation, Delete):
                keys = [operation.key]
            else:
                keys = self._keys_with(operation.prefix)
            for key in keys:
                if key in entries:
                    self._detach(entries.pop(key))
                    removed.append(key)
                    changes.append(Removed(key, revision))
        if not changes:
            return None
        self._forget(removed)
        self.revision = revision
        return Changes(revision, tuple(changes))

    def _forget(self, removed: list[str]) -> None:
        if len(removed) > FORGOTTEN_ONE_BY_ONE_MAX:
            self._keys = [key for key in self._keys if key in self.entries]
            return
        for key in removed:
            del self._keys[bisect_left(self._keys, key)]

    def _put(self, put: Put, revision: int) -> Entry:
        before = self.entries.get(put.key)
        if before is None:
            insort(self._keys, put.key)
            entry = Entry(put.key, put.value, revision, revision, 1, put.lease)
        else:
            self._detach(before)
            created, version = before.create_revision, before.version + 1
            entry = Entry(put.key, put.value, created, revision, version, put.lease)
        self.entries[put.key] = entry
        self._attach(entry)
        return entry

    def _attach(self, entry: Entry) -> None:
        if entry.lease in self.leases:
            self.leases[entry.lease].keys.add(entry.key)

    def _detach(self, entry: Entry) -> None:
        if entry.lease in self.leases:
            self.leases[entry.lease].keys.discard(entry.key)

    def _keys_with(self, prefix: str) -> list[str]:
        start, end = bisect_left(self._keys, prefix), len(self._keys)
        if start < end and not self._keys[-1].startswith(prefix):
            end = bisect_left(self._keys, _after(prefix), start)
        return self._keys[start:end]


def _after(prefix: str) -> str:
    """The least key that comes after all that begin with the prefix, if there is one."""
    kept = prefix.rstrip(_LAST)
    return kept[:-1] + chr(ord(kept[-1]) + 1)


def check_keys(operations: Sequence[Operation]) -> None:
    """Raise ValueError unless these can be in one transaction."""
    puts = [operation.key for operation in operations if isinstance(operation, Put)]
    keys = set(puts)
    if len(keys) < len(puts):
        raise ValueError("a key is put twice")
    for operation in operations:
        # There may be tens of thousands, and a pattern takes three times as long.
        if isinstance(operation, DeletePrefix):
            prefix = operation.prefix
            if keys and any(key.startswith(prefix) for key in keys):
                raise ValueError(f"{prefix!r} is deleted and put")
        elif not operation.key:
            raise ValueError("a key is empty")
        elif isinstance(operation, Delete) and operation.key in keys:
            raise ValueError(f"{operation.key!r} is deleted and put")


class History:
    """The changes of all revisions from `oldest` on, which may be one that is to come."""

    def __init__(self, oldest: int) -> None:
        self.oldest = oldest
        self._changes: list[Changes] = []

    def __len__(self) -> int:
        return len(self._changes)

    def append(self, changes: Changes) -> None:
        assert changes.revision == self.oldest + len(self._changes)
        self._changes.append(changes)

    def at(self, revision: int) -> Changes:
        """Raise Compacted."""
        if revision < self.oldest:
            raise Compacted(self.oldest)
        return self._changes[revision - self.oldest]

    def compact(self, revision: int) -> None:
        """Forget what was before that one."""
        if revision > self.oldest:
            del self._changes[: revision - self.oldest]
            self.oldest = revision


def within(changes: Changes, prefix: str) -> Changes | None:
    """The part of changes that is about keys with a prefix."""
    part = tuple(change for change in changes.changes if change.key.startswith(prefix))
    if len(part) == len(changes.changes):
        return changes
    return Changes(changes.revision, part) if part else None
