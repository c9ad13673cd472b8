"""As `worker`, but on the wire: no client is in between that waits, reads ahead or tries again.

    python -m tests.clients.queueing.wire_worker ADDRESS DIARY

What it has worked on it acknowledges in turns with the next fetch, and in a request of its own.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyk.sharing.delivery import Acknowledge
from tests.clients.queueing.member import Member, Record, Refused, Said, records_of
from tests.clients.queueing.work import GROUP, TOPIC, Diary, Entry, Event, Kind, kind_of

AT_ONCE: Final = 20
RECORDS_MAX: Final = 100
HEARTBEAT: Final = 0.3
ANSWERS: Final = {
    Kind.GOOD: [int(Acknowledge.ACCEPT)],
    Kind.REJECTED: [int(Acknowledge.REJECT)],
    Kind.RELEASED: [int(Acknowledge.RELEASE)],
}


class Worker:
    def __init__(self, address: str, diary: Diary) -> None:
        self._address, self._diary = address, diary

    def run(self) -> None:
        while True:
            try:
                with Member(self._address, GROUP, TOPIC, str(uuid.uuid4())) as member:
                    self._live(member)
            except (Refused, OSError, EOFError):
                # It is not known what the broker took: it hands out again what it did not.
                continue

    def _live(self, member: Member) -> None:
        member.join()
        beat_at = time.monotonic() + HEARTBEAT
        last: Sequence[Record] = ()
        while True:
            found = list(records_of(*member.fetch(said_of(last), records_max=RECORDS_MAX)))
            self._write(Event.ACKNOWLEDGED, [each for each in last if is_good(each)])
            self._write(Event.DELIVERED, found)
            for first in range(0, len(found), AT_ONCE):
                last = found[first : first + AT_ONCE]
                self._work_on(last)
                if first + AT_ONCE < len(found):
                    member.acknowledge(said_of(last))
                    self._write(Event.ACKNOWLEDGED, [each for each in last if is_good(each)])
            if not found:
                last = ()
            if time.monotonic() >= beat_at:
                member.heartbeat()
                beat_at = time.monotonic() + HEARTBEAT

    def _work_on(self, records: Sequence[Record]) -> None:
        if any(kind_of(int(each.value)) is Kind.DEADLY for each in records):
            os.kill(os.getpid(), signal.SIGKILL)
        self._write(Event.PROCESSED, [each for each in records if is_good(each)])

    def _write(self, event: Event, records: Sequence[Record]) -> None:
        self._diary.write(Entry(event, int(each.value), each.delivery_count) for each in records)


def is_good(record: Record) -> bool:
    return kind_of(int(record.value)) is Kind.GOOD


def said_of(records: Sequence[Record]) -> list[Said]:
    return [
        Said(each.partition, each.offset, each.offset, ANSWERS[kind_of(int(each.value))])
        for each in records
    ]


if __name__ == "__main__":
    Worker(sys.argv[1], Diary(Path(sys.argv[2]))).run()
