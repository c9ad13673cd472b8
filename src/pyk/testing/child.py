"""The process of `serve_in_subprocess`: a broker that lives as long as its standard input is open.

    python -m pyk.testing.child '{"config": {...}, "port": 1234, "data_dir": "..."}'

It says `ready` when it serves, or else in one line what keeps it from that.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import trio

from pyk.broker import World, open_broker
from pyk.disk import DirectoryInUse
from pyk.errors import KafkaError
from pyk.offload import at_once
from pyk.testing.disk import ScratchDisk
from pyk.testing.options import settings_for

READY = "ready"


async def serve(options: dict[str, Any]) -> None:
    settings = settings_for(options["config"], options["port"], Path(options["data_dir"]))
    world = World(disk=ScratchDisk(), offload=at_once, grace=0.0)
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with open_broker(settings, world), trio.open_nursery() as nursery:
            nursery.start_soon(_end_at_signal, signals, nursery.cancel_scope)
            print(READY, flush=True)
            # Whoever started us is gone when nobody holds the other end.
            await trio.lowlevel.wait_readable(sys.stdin.fileno())
            nursery.cancel_scope.cancel()


async def _end_at_signal(signals: Any, scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


def main() -> None:
    # Ctrl-C goes to the whole group of processes. The test ends the broker when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        trio.run(serve, json.loads(sys.argv[1]))
    except (KafkaError, DirectoryInUse, OSError) as refused:
        print(refused, flush=True)
        sys.exit(1)
    except BaseExceptionGroup as group:
        print(repr(group), flush=True)
        raise


if __name__ == "__main__":
    main()
