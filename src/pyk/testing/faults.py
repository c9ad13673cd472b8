"""Failures on demand: what a test wants to go wrong with its broker.

    with broker.faults.on("Produce", topic="orders", times=2).refuse("NOT_ENOUGH_REPLICAS"):
        ...

Several faults at once are around each other, the latest outermost. The broker's own helpers, such
as `broker.produce`, meet those of the disk only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from pyk.errors import KafkaError, ProtocolError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.table import ENDPOINTS, Endpoint, Endpoints
from pyk.server.listeners import Server
from pyk.testing.disk import DiskFault, ScratchDisk
from pyk.testing.fault import Fault, Provoked, Soon
from pyk.testing.outcome import Behaviour, Handle, Outcome, later
from pyk.testing.request_faults import RequestFault, Target
from pyk.testing.requests import Request, Requests, to_api_key
from pyk.testing.scope import Scope
from pyk.wire.apis import ApiKey, api_name

EXPECTED: Final = (KafkaError, ProtocolError, Provoked)
"""What handlers raise when all is well with them, or a test wanted it otherwise."""


F = TypeVar("F", bound=Fault)
G = TypeVar("G", bound=RequestFault)


class Faults:
    def __init__(self, disk: ScratchDisk, requests: Requests) -> None:
        self._disk = disk
        self._requests = requests
        self._lock = threading.Lock()
        self._faults: tuple[Fault, ...] = ()
        self._of_requests: tuple[tuple[RequestFault, Behaviour], ...] = ()
        self._of_connections: tuple[Fault, ...] = ()
        self._frozen_by: Fault | None = None
        self._soon: Soon | None = None
        self._may_freeze = True
        self.bugs: list[Exception] = []
        """What handlers raised and should not have."""

    def on(
        self,
        *apis: ApiKey | str,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
    ) -> Target:
        """Requests of these APIs, by Kafka's names, or of all; about a topic or a partition; of a
        client; all that come, or the next `times`."""
        keys = frozenset(map(to_api_key, apis))
        missing = keys - ENDPOINTS.keys()
        if missing:
            raise ValueError(f"pyk does not serve {', '.join(sorted(map(api_name, missing)))}")
        scope = Scope(apis=keys or None, topic=topic, partition=partition, client_id=client_id)
        return Target(self, scope, times)

    def refuse_connections(self) -> Fault:
        """Close new connections as soon as they are made. Those that are there go on."""
        fault = Fault("refuse connections", lambda: self.remove(fault))
        self._of_connections += (fault,)
        return self._note(fault)

    def freeze(self) -> Fault:
        """Stop everything, as SIGSTOP would. The system still takes connections and bytes."""
        if self._soon is None or not self._may_freeze or self._frozen_by is not None:
            raise RuntimeError("only a broker can be frozen that runs, not in the test's own loop")
        frozen, thaw = threading.Event(), threading.Event()
        fault = self._frozen_by = Fault("freeze", thaw.set)

        def stand_still() -> None:
            fault.hit()
            frozen.set()
            thaw.wait()
            self._frozen_by = None

        self._soon(stand_still)
        frozen.wait()
        return self._note(fault)

    def fill_disk(self, topic: str | None = None) -> Fault:
        """No space is left: for anything, or for what belongs to a topic."""
        fault = DiskFault("full disk", lambda: self.remove(fault))
        fault.topic = topic
        self._disk.full += (fault,)
        return self._note(fault)

    def fail_sync(self, topic: str | None = None) -> Fault:
        """The disk does not take what is to be durable. When the broker next syncs it dies of it,
        as it should: `wait` for the hit, lift the fault, and `restart`."""
        fault = DiskFault("failing sync", lambda: self.remove(fault))
        fault.topic = topic
        self._disk.failing += (fault,)
        return self._note(fault)

    def lift_all(self) -> None:
        for fault in self._faults:
            fault.lift()

    # For the broker and its faults

    def endpoints(self) -> Mapping[ApiKey, Endpoint]:
        """The broker's, with these faults and the record of requests in front of them."""

        def load(key: ApiKey) -> Endpoint:
            endpoint = ENDPOINTS[key]
            return replace(endpoint, handle=partial(self._handle, key, endpoint.handle))

        return Endpoints(ENDPOINTS.keys(), load)

    def attach(self, server: Server, soon: Soon, *, may_freeze: bool) -> None:
        """The broker runs."""
        self._soon, self._may_freeze = soon, may_freeze
        server.admits = self._admits

    def detach(self) -> None:
        """It does not any more."""
        self._soon = None

    def thaw(self) -> None:
        """One that is frozen can be killed, too."""
        if self._frozen_by is not None:
            self._frozen_by.lift()

    def call_soon(self, run: Callable[[], object]) -> None:
        """In the broker's loop, if it has one."""
        if self._soon is not None:
            self._soon(run)

    def add(self, fault: G, behaviour: Behaviour) -> G:
        with self._lock:
            self._of_requests += ((fault, behaviour),)
        return self._note(fault)

    def remove(self, fault: Fault) -> None:
        disk = self._disk
        with self._lock:
            self._faults = tuple(each for each in self._faults if each is not fault)
            self._of_requests = tuple(each for each in self._of_requests if each[0] is not fault)
            self._of_connections = tuple(each for each in self._of_connections if each is not fault)
            disk.full = tuple(each for each in disk.full if each is not fault)
            disk.failing = tuple(each for each in disk.failing if each is not fault)

    def _note(self, fault: F) -> F:
        with self._lock:
            self._faults += (fault,)
        return fault

    def _admits(self, host: str) -> bool:
        for fault in self._of_connections:
            fault.hit()
        return not self._of_connections

    def note_bug(self, bug: Exception) -> None:
        self.bugs.append(bug)

    def _handle(
        self, key: ApiKey, handle: Handle, request: Any, call: Call, broker: Context
    ) -> Outcome:
        self._requests.add(Request(api_name(key), call.version, call.client_id))
        for fault, behaviour in self._of_requests:
            if not fault.is_over and fault.scope.covers(key, request, call, broker):
                fault.hit()
                handle = partial(behaviour, handle)
        try:
            response = handle(request, call, broker)
        except EXPECTED:
            raise
        except Exception as bug:
            self.note_bug(bug)
            raise
        return later(self._watched(response), response) if isawaitable(response) else response

    async def _watched(self, response: Outcome) -> Any:
        try:
            return await response
        except EXPECTED:
            raise
        except Exception as bug:
            self.note_bug(bug)
            raise
