"""Producers of all clients, of both versions, in the same partitions at the same time."""

from __future__ import annotations

from random import Random

import pytest

from compat_tests.groups.kinds import BUILD_SECONDS
from compat_tests.transactions.kinds import ALL_KINDS, FRANZ, JAVA_KINDS
from tests.clients.groups.processes import Processes
from tests.clients.groups.programs.member import Partition
from tests.clients.transactions.kinds import PYTHON_KINDS, Kind
from tests.clients.transactions.play import Play, Producer

ROUNDS = 8
SENDS = 3
CHANCE_OF_COMMIT = 0.6


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param((*JAVA_KINDS, *PYTHON_KINDS), id="Java's and Python's"),
        pytest.param(
            (FRANZ, *JAVA_KINDS),
            id="Go's and Java's",
            marks=[pytest.mark.clients, pytest.mark.timeout(BUILD_SECONDS)],
        ),
        pytest.param(
            ALL_KINDS,
            id="all",
            marks=[pytest.mark.clients, pytest.mark.transactions, pytest.mark.timeout(300)],
        ),
    ],
)
def test_readers_of_all_clients_agree_about_what_producers_of_all_have_written(
    address: str, kinds: tuple[Kind, ...], processes: Processes
) -> None:
    play = Play(address, kinds[0], processes)
    partitions = play.topic(2)
    committed = written(play, [play.producer(kind=kind) for kind in kinds], partitions)
    for kind in kinds:
        reader = play.reader(partitions, kind=kind)
        for each in partitions:
            reader.wait_for(each, *committed[each])
        reader.close()
    play.end()


def written(
    play: Play, producers: list[Producer], partitions: list[Partition]
) -> dict[Partition, list[str]]:
    """What is committed of each partition. In every round all producers have a transaction each,
    all at once; the next round begins when the last of them has ended."""
    chance = Random(1)
    committed: dict[Partition, list[str]] = {each: [] for each in partitions}
    for number in range(ROUNDS):
        fates = {each: chance.random() < CHANCE_OF_COMMIT for each in producers}
        for producer in producers:
            producer.begin()
        turns = producers * SENDS
        chance.shuffle(turns)
        for turn, producer in enumerate(turns):
            partition, value = chance.choice(partitions), f"{number}-{turn}"
            producer.send(partition, value)
            if fates[producer]:
                committed[partition].append(value)
        for producer in chance.sample(producers, len(producers)):
            producer.do("commit" if fates[producer] else "abort")
    for producer in producers:
        producer.close()
    for each in partitions:
        play.write(each, "last")
        committed[each].append("last")
    return committed
