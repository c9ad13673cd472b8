"""What clients have asked of a broker, so that a test can tell what its client did."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyk.testing.fault import PATIENCE
from pyk.wire.apis import ApiKey, api_name

KEPT: Final = 100_000
"""How many are remembered; the oldest are forgotten first."""


class Request(NamedTuple):
    api: str
    """Kafka's name, such as Produce or InitProducerId."""
    version: int
    client_id: str | None


class Requests:
    """Those that were seen, the oldest first."""

    def __init__(self) -> None:
        self._seen: deque[Request] = deque(maxlen=KEPT)
        self._changed = threading.Condition()

    def add(self, request: Request) -> None:
        with self._changed:
            self._seen.append(request)
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Request]:
        return iter(self.of())

    def __len__(self) -> int:
        return len(self._seen)

    def __repr__(self) -> str:
        return f"<{len(self)} requests>"

    def of(self, api: ApiKey | str | None = None, client_id: str | None = None) -> list[Request]:
        """Those of an API, of a client, of both, or all."""
        name = None if api is None else api_name(to_api_key(api))
        with self._changed:
            seen = list(self._seen)
        return [
            each
            for each in seen
            if name in (None, each.api) and client_id in (None, each.client_id)
        ]

    def wait(
        self,
        api: ApiKey | str | None = None,
        count: int = 1,
        *,
        client_id: str | None = None,
        timeout: float = PATIENCE,
    ) -> list[Request]:
        """Those that `of` gives, once they are so many. Raise TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.of(api, client_id)) >= count, timeout):
                seen = len(self.of(api, client_id))
                raise TimeoutError(f"{seen} requests after {timeout} s, and not {count}")
            return self.of(api, client_id)

    def clear(self) -> None:
        with self._changed:
            self._seen.clear()


def to_api_key(api: ApiKey | str) -> ApiKey:
    """By Kafka's name in any spelling: InitProducerId, init_producer_id. Raise ValueError."""
    if isinstance(api, ApiKey):
        return api
    wanted = api.replace("_", "").casefold()
    for key in ApiKey:
        if api_name(key).casefold() == wanted:
            return key
    raise ValueError(f"Kafka has no API {api!r}")
