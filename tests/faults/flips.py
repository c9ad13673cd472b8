"""One bit of a file of a data directory, flipped while no broker runs: `make faults ARGS=--flips`.

Whoever starts on it and reads gets what is true, or an error, of the partition that is damaged; of
all others everything. Its clients check what they get as Kafka's do, by the CRC of each batch. Only
the file of the metadata may keep a broker from starting.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import trio

from pyk.broker import World, open_broker
from pyk.config.settings import BrokerSettings
from pyk.offload import at_once
from tests.faults.failing_disk import FailingDisk
from tests.faults.life import (
    BEGAN_MS,
    STATIC,
    Campaign,
    Lines,
    names_file,
    place_of,
    run_in_virtual_time,
)
from tests.faults.load import BAD_BATCH, RETIRED, Load, Refused
from tests.faults.truth import Place, Stored, Violation

LOADS: Final = 4
PATIENCE: Final = 4
MAY_REFUSE: Final = ("metadata.log", "meta.properties")
"""What a broker cannot do without, if the message says which of them it is."""
CHECKED_BY_CLIENTS: Final = "clients refuse a batch"
"""The broker sends it as it is, and there is nothing for it to log."""

Read = tuple[int, int, list[Stored]]
"""Where a log starts and ends, and its records."""


@dataclass
class Flip:
    """What was damaged, and what came of it."""

    seed: int
    what: str = ""
    result: str = ""
    violations: list[str] = field(default_factory=list)


@dataclass
class Directory:
    """As a broker has left it, and what is true of it."""

    disk: FailingDisk
    load: Load
    truth: dict[Place, Read]

    def copied(self) -> FailingDisk:
        disk = self.disk.kill9()
        assert isinstance(disk, FailingDisk)
        return disk


def flip(seed: int) -> Flip:
    rng = Random(seed)
    kills = rng.random() < 0.5
    directory = _left_behind(rng.randrange(LOADS), kills=kills)
    disk = directory.copied()
    files = [path for path, data in disk.contents().items() if data]
    path = rng.choice(files)
    size = len(disk.contents()[path])
    position, bit = rng.randrange(size), rng.randrange(8)
    disk.flip_bit(path, position, bit)
    what = (
        f"bit {bit} of byte {position} of {size} of {path}, after {'a kill' if kills else 'a stop'}"
    )
    found = Flip(seed, what)
    lines = Lines()
    with lines.collected():
        try:
            run_in_virtual_time(seed, _look, disk, directory, path, found)
        except BaseException as failure:
            if isinstance(failure, KeyboardInterrupt):
                raise
            found.result = "a start is refused"
            trace = "".join(traceback.format_exception(failure))
            if path.name not in MAY_REFUSE or path.name not in trace:
                found.violations.append(f"the broker does not start: {failure!r}\n{trace}")
    found.violations += [f"a bug: {line}" for line in lines.text if "a bug" in line]
    is_noticed = found.result not in ("nothing noticed", CHECKED_BY_CLIENTS)
    is_noticed = is_noticed and path.name not in MAY_REFUSE
    if is_noticed and not found.violations and not names_file(path, lines.text):
        found.violations.append(f"no line names the file, though {found.result}: {lines.text}")
    return found


async def _look(disk: FailingDisk, directory: Directory, path: Path, found: Flip) -> None:
    await trio.sleep(3600)
    world = World(disk=disk, now_ms=_now_ms, offload=at_once, grace=0.1)
    load = directory.load.again(PATIENCE)
    load.now_ms = _now_ms
    results = set[str]()
    async with open_broker(BrokerSettings(STATIC), world) as broker:
        load.meet(broker)
        for place, true in directory.truth.items():
            results.add(await _compare(load, place, true, place_of(path), found))
        try:
            await load.check_offsets()
        except Refused:
            results.add("offsets are refused")
            if (place_of(path) or ("",))[0] != "__consumer_offsets":
                found.violations.append("offsets are refused")
        except Exception as wrong:
            found.violations.append(f"offsets: {wrong}")
    results.discard("")
    found.result = ", ".join(sorted(results)) or "nothing noticed"


async def _compare(load: Load, place: Place, true: Read, damaged: Place | None, found: Flip) -> str:
    try:
        start, end, records = await load.read(place)
    except Refused as refused:
        if place != damaged:
            found.violations.append(f"{place} is refused, which is not damaged: {refused}")
        return CHECKED_BY_CLIENTS if BAD_BATCH in str(refused) else "records are refused"
    except Violation as failure:
        found.violations.append(f"{place} has holes: {failure}")
        return "records are missing"
    wrong = [each for each in records if each not in true[2]]
    if wrong:
        found.violations.append(f"{place} serves {wrong[0]}")
    missing = [each for each in true[2] if each.offset >= start and each not in records]
    retires = place[0] == RETIRED and start >= true[0]
    if (start == true[0] or retires) and end == true[1] and not missing:
        return ""
    if place != damaged:
        found.violations.append(f"{place} has {start} to {end} of {true[:2]}, and is not damaged")
    elif end >= true[1] and missing and not wrong:
        found.violations.append(f"{place} has holes: {missing}")
    return "records are missing"


@cache
def _left_behind(seed: int, *, kills: bool) -> Directory:
    """Made once in each process."""
    campaign = Campaign(seed, None)

    async def live() -> None:
        await campaign.some_rounds(6, kills=kills)

    run_in_virtual_time(seed, live)
    directory = Directory(campaign.disk, campaign.load, {})

    async def look() -> None:
        await trio.sleep(3600)
        world = World(disk=directory.copied(), now_ms=_now_ms, offload=at_once, grace=0.1)
        load = directory.load
        async with open_broker(BrokerSettings(STATIC), world) as broker:
            load.meet(broker)
            for place in load.places:
                directory.truth[place] = await load.read(place)

    logging.getLogger("pyk").propagate = False
    run_in_virtual_time(seed, look)
    return directory


def _now_ms() -> int:
    return BEGAN_MS + int(trio.current_time() * 1000)
