"""What is wrong with how records were worked through, by the diary and the dead letters."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from pyk.sharing.dead_letters import MESSAGES as SAID
from pyk.sharing.delivery import Reason
from pyk.wire.dead_letters import DELIVERY_COUNT, MESSAGE
from tests.clients.queueing.work import (
    DELIVERIES_MAX,
    LETTERS,
    Entry,
    Event,
    Kind,
    kind_of,
    poisoned,
)

PATIENCE: Final = 60.0
MESSAGES: Final = {
    Kind.DEADLY: SAID[Reason.DELIVERIES],
    Kind.RELEASED: SAID[Reason.DELIVERIES],
    Kind.REJECTED: SAID[Reason.REJECTED],
}


class Letter(NamedTuple):
    number: int
    at_ms: int
    delivery_count: int
    message: str


class Verdict(NamedTuple):
    mistakes: list[str]
    deliveries: int
    redelivered: int
    """Records that were delivered more than once."""
    letters_twice: int
    """Since the broker was killed between the letter and what it keeps of it."""


def judge(
    records: int,
    diary: Iterable[Entry],
    letters: Sequence[Letter],
    broker_kills_ms: Sequence[int],
) -> Verdict:
    deliveries: dict[int, list[int]] = defaultdict(list)
    processed, acknowledged = set[int](), set[int]()
    mistakes = Mistakes()
    for event, number, count in diary:
        if event is Event.DELIVERED:
            mistakes.note("delivered after it was acknowledged", number in acknowledged, number)
            deliveries[number].append(count)
        elif event is Event.PROCESSED:
            processed.add(number)
        else:
            mistakes.note("acknowledged twice", number in acknowledged, number)
            acknowledged.add(number)
    for number, counts in deliveries.items():
        is_orderly = all(one < other for one, other in pairwise(counts))
        mistakes.note("counted wrong", not is_orderly, (number, counts))
        mistakes.note("delivered too often", max(counts) > DELIVERIES_MAX, (number, counts))
    dead = Counter(letter.number for letter in letters)
    for letter in letters:
        _look_at(letter, mistakes)
        mistakes.note("dead though acknowledged", letter.number in acknowledged, letter)
        mistakes.note("dead though good", kind_of(letter.number) is Kind.GOOD, letter)
    for number in range(records):
        if kind_of(number) is Kind.GOOD:
            mistakes.note("not processed", number not in processed, number)
    for number in poisoned(records):
        mistakes.note("no dead letter", number not in dead, (number, deliveries[number]))
    twice = [number for number, times in dead.items() if times > 1]
    for number in twice:
        written = [letter.at_ms for letter in letters if letter.number == number]
        is_known = _are_apart(written, broker_kills_ms)
        mistakes.note("two dead letters, and no kill between them", not is_known, number)
    return Verdict(
        mistakes=mistakes.told(),
        deliveries=sum(len(counts) for counts in deliveries.values()),
        redelivered=sum(len(counts) > 1 for counts in deliveries.values()),
        letters_twice=len(twice),
    )


class Mistakes:
    def __init__(self) -> None:
        self._found: dict[str, list[object]] = defaultdict(list)

    def note(self, what: str, is_so: bool, example: object) -> None:
        if is_so:
            self._found[what].append(example)

    def told(self) -> list[str]:
        return [f"{len(each)} {what}, as {each[:3]}" for what, each in self._found.items()]


def _look_at(letter: Letter, mistakes: Mistakes) -> None:
    kind = kind_of(letter.number)
    expected = MESSAGES.get(kind, MESSAGES[Kind.DEADLY])
    mistakes.note("dead for a wrong reason", letter.message != expected, letter)
    if kind is not Kind.REJECTED:
        is_early = letter.delivery_count != DELIVERIES_MAX
        mistakes.note("dead too early or too late", is_early, letter)


def _are_apart(written_ms: Sequence[int], kills_ms: Sequence[int]) -> bool:
    """Whether there was a kill between each two."""
    at = sorted(written_ms)
    return all(any(one <= kill <= other for kill in kills_ms) for one, other in pairwise(at))


def read_letters(address: str) -> list[Letter]:
    """All, to the end."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "nobody", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(LETTERS, 0, OFFSET_BEGINNING)])
    letters: list[Letter] = []
    deadline = time.monotonic() + PATIENCE
    with closing(consumer):
        while True:
            assert time.monotonic() < deadline, f"{len(letters)} letters, and no end"
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return letters
                letters.append(_letter(message))


def _letter(message: Message) -> Letter:
    headers = dict[str, Any](message.headers() or [])
    return Letter(
        int(message.value() or b""),
        message.timestamp()[1],
        int(headers[DELIVERY_COUNT]),
        headers[MESSAGE].decode(),
    )
