"""The broker in people's tests, and failures on demand.

    from pyk.testing import serve_in_thread

    with serve_in_thread() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

`serve_in_thread` for any code, `serve` for a test on trio, `serve_in_subprocess` for a process of
its own. The fixtures are in `pyk.testing.plugin`, which pytest finds by itself: importing this
package costs nothing until one of its names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyk.errors import ErrorCode, KafkaError
    from pyk.testing.clock import BrokerClock
    from pyk.testing.fault import BrokerFailed, Fault
    from pyk.testing.faults import Faults
    from pyk.testing.loop import LoopBroker, serve
    from pyk.testing.process import SubprocessBroker, serve_in_subprocess
    from pyk.testing.record import Record
    from pyk.testing.requests import Request, Requests
    from pyk.testing.thread import ThreadBroker, serve_in_thread
    from pyk.wire.apis import ApiKey

__all__ = [
    "ApiKey",
    "BrokerClock",
    "BrokerFailed",
    "ErrorCode",
    "Fault",
    "Faults",
    "KafkaError",
    "LoopBroker",
    "Record",
    "Request",
    "Requests",
    "SubprocessBroker",
    "ThreadBroker",
    "serve",
    "serve_in_subprocess",
    "serve_in_thread",
]

_HOMES = {
    "ApiKey": "pyk.wire.apis",
    "BrokerClock": "pyk.testing.clock",
    "BrokerFailed": "pyk.testing.fault",
    "ErrorCode": "pyk.errors",
    "Fault": "pyk.testing.fault",
    "Faults": "pyk.testing.faults",
    "KafkaError": "pyk.errors",
    "LoopBroker": "pyk.testing.loop",
    "Record": "pyk.testing.record",
    "Request": "pyk.testing.requests",
    "Requests": "pyk.testing.requests",
    "SubprocessBroker": "pyk.testing.process",
    "ThreadBroker": "pyk.testing.thread",
    "serve": "pyk.testing.loop",
    "serve_in_subprocess": "pyk.testing.process",
    "serve_in_thread": "pyk.testing.thread",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
