"""Keys with revisions, compare-and-swap transactions, watches and leases: what etcd offers and a
broker needs, and no more.

Every implementation passes `tests/metadata/test_store.py`. What they all promise:

- There is one revision for all keys. A transaction that changes something makes it one more.
- Transactions are strictly serializable, and reads see the last of them. What was committed or
  read was durable before it was answered.
- A transaction that was interrupted or failed may have happened. Reading tells.
- A watch sees every change once, in order, those of one revision together, or raises `Compacted`.
- A lease ends late, never early, and its keys with it in one revision.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, NewType, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

LeaseId = NewType("LeaseId", int)


class Compacted(Exception):
    """What happened then is not known any more. Read everything, and watch from there."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"changes are known from revision {oldest} on")
        self.oldest = oldest


class LeaseNotFound(Exception):
    """It was revoked, has expired, or never was."""

    def __init__(self, lease: LeaseId) -> None:
        super().__init__(f"there is no lease {lease}")
        self.lease = lease


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A key, and what a put has made of it."""

    key: str
    value: bytes
    create_revision: int
    """Of the put before which the key was not there."""
    mod_revision: int
    """Of the last put."""
    version: int
    """How many puts there were since it was created, that one included."""
    lease: LeaseId | None = None


class Removed(msgspec.Struct, frozen=True, gc=False):
    """A key that is not there any more."""

    key: str
    mod_revision: int
    """When it was deleted."""


Change: TypeAlias = Entry | Removed


class Changes(msgspec.Struct, frozen=True):
    """All that one transaction changed, each key once, in the order of its operations."""

    revision: int
    changes: tuple[Change, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """Entries as they were together at one revision, sorted by key."""

    revision: int
    entries: list[Entry]


class ModifiedAt(msgspec.Struct, frozen=True):
    """The key is there and its last put was at that revision."""

    key: str
    revision: int


class CreatedAt(msgspec.Struct, frozen=True):
    """The key is there and has been since that revision."""

    key: str
    revision: int


class Absent(msgspec.Struct, frozen=True):
    """The key is not there."""

    key: str


class NonePutSince(msgspec.Struct, frozen=True):
    """No key that is there and begins with the prefix was put after that revision."""

    prefix: str
    revision: int


Compare: TypeAlias = ModifiedAt | CreatedAt | Absent | NonePutSince


class Put(msgspec.Struct, frozen=True):
    key: str
    value: bytes
    lease: LeaseId | None = None
    """The key goes with it. One that it had before is forgotten, also if this is None."""


class Delete(msgspec.Struct, frozen=True):
    key: str


class DeletePrefix(msgspec.Struct, frozen=True):
    prefix: str


Operation: TypeAlias = Put | Delete | DeletePrefix


class Commit(msgspec.Struct, frozen=True):
    succeeded: bool
    """Whether all compares were true and the operations done."""
    revision: int
    """Of the transaction, or where the store was if that changed nothing."""


class Store(Protocol):
    async def get(self, key: str) -> Entry | None: ...

    async def range(self, prefix: str) -> Snapshot:
        """All entries whose keys begin with the prefix; with an empty one, all."""

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Commit:
        """Do all operations at once if all compares are true, or else nothing.

        A key may be put only once, and not deleted beside that: ValueError, as for an empty key.
        Raise LeaseNotFound if one that a put names is gone; then nothing was done either.
        """

    def watch(
        self, prefix: str, from_revision: int
    ) -> AbstractAsyncContextManager[AsyncIterator[Changes]]:
        """What happens to keys with that prefix, from that revision, which may be past or to come.

        Of changes to several keys only those of the prefix are given. It ends by leaving the
        block, or by raising Compacted: before the first one, or if whoever watches is too slow.
        A revision below 1 is a ValueError.
        """

    async def compact(self, revision: int) -> None:
        """Forget what happened before that revision. It may have been forgotten already; one that
        is to come is a ValueError. The store may do this by itself to what is old."""

    async def grant_lease(self, ttl: float) -> LeaseId:
        """A lease that ends when it was not kept alive for that long. The store may give more."""

    async def keep_alive(self, lease: LeaseId) -> None:
        """Have it begin anew. Raise LeaseNotFound."""

    async def revoke_lease(self, lease: LeaseId) -> None:
        """End it now, and delete its keys. Raise LeaseNotFound."""
