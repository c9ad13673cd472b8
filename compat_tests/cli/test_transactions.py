"""What `pyk transaction` tells and does is the same with Kafka as with pyk, command by command.

Both are told, while they run, to take writes without asking the coordinator: so one can hang.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from compat_tests.cli.sides import Side, sides
from compat_tests.cli.test_same_output import without_sentences
from pyk.errors import ErrorCode
from tests.cli.commands import Done, pyk_on_terminal, pyk_process
from tests.clients.hanging import UNVERIFIED, initialised, write
from tests.clients.open_transactions import WAIT, CommittedReader, begin, commit
from tests.clients.raw import RawClient

STORY = [
    "list",
    "list --format json",
    "list --format yaml",
    "list --state completecommit",
    "list --state empty --state Ongoing --format wide",
    "list --state sleepy",
    "list --open",
    "list --running-longer-than 0s",
    "list --running-longer-than 1h",
    "list --producer-id 0",
    "list -r l.*",
    "list -r (",
    "describe",
    "describe lost live done",
    "describe live --format json",
    "describe done live --format yaml",
    "describe live nobody",
    "producers work",
    "producers work -p 1 --format wide",
    "producers work --open --format json",
    "producers work --broker 1",
    "producers work --broker 9",
    "producers work -p 9",
    "producers nowhere",
    "find-hanging",
    "find-hanging -t work --format wide",
    "find-hanging -t work -p 0 --format json",
    "find-hanging -t work -p 1 --max-transaction-timeout 0s",
    "find-hanging --broker 1 --max-transaction-timeout 2h",
    "find-hanging -p 1",
    "abort work -p 0",
    "abort work -p 0 -o 1 --execute",
    "abort work -p 1 -o 2",
    "abort work -p 1 -o 2 --execute --format json",
    "abort nowhere -p 0 -o 0",
    "abort work -p 0 -o 0",
    "abort work -p 0 -o 0 --execute",
    "abort work -p 0 -o 0 --execute",
    "find-hanging",
    "producers work -p 0 --format wide",
    "terminate nobody --execute",
    "terminate",
    "terminate live done",
    "describe live --format json",
    "terminate live done --execute",
    "list",
    "describe live done",
    "terminate live --format json",
    "producers work",
]
"""`work` has `lost`, which hangs, at offset 0 of partition 0 and a record after it; in partition 1
`done`, which is committed, and at offset 2 `live`, which is open."""


class World(NamedTuple):
    side: Side
    live: Producer
    reader: CommittedReader


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[World]]:
    with sides(tmp_path_factory.mktemp("data")) as both:
        worlds = []
        for side in both:
            assert side.pyk("topic", "create", "work", "-p", "2").code == 0
            hang_once_it_may(side, "work", "lost")
            side.pyk("produce", "work", "-p", "0", stdin=b"after\n")
            done = begin(side.address, "done", "work", partition=1)
            commit(done, side.address, "done")
            live = begin(side.address, "live", "work", partition=1)
            reader = CommittedReader(side.address, "work")
            assert reader.read_to_the_end() == []
            worlds.append(World(side, live, reader))
        yield worlds
        for world in worlds:
            world.reader.close()


def hang_once_it_may(side: Side, topic: str, name: str) -> None:
    """A transaction hangs only if the broker was told that it may."""
    with RawClient(side.address) as client:
        producer = initialised(client, name)
        assert write(client, topic, name, producer) is ErrorCode.INVALID_TXN_STATE
        for pair in UNVERIFIED.items():
            assert side.pyk("config", "set", "broker", "=".join(pair)).code == 0
        deadline = time.monotonic() + WAIT
        # Kafka's broker hears of it a moment after its controller has agreed.
        while (code := write(client, topic, name, producer)) is ErrorCode.INVALID_TXN_STATE:
            assert time.monotonic() < deadline
        assert code is ErrorCode.NONE


def told(side: Side, done: Done) -> tuple[str, str, int]:
    assert "Traceback" not in done.err
    out, err = (without_sentences(side.plain(text)) for text in (done.out, done.err))
    # How long something is open is for the clock to say.
    out = re.sub(r"(?<=DURATION-MS )\d+|(?<=duration_ms: )\d+|(?<=\"duration_ms\": )\d+", "MS", out)
    return re.sub(r"(?<=TIME )36\d{5}\b", "MS", out), err, done.code


@pytest.mark.parametrize("command", STORY)
def test_a_command_says_the_same(worlds: list[World], command: str) -> None:
    """Each goes on from where those before it have left the brokers."""
    kafka, ours = (
        told(world.side, world.side.pyk("transaction", *command.split())) for world in worlds
    )
    assert ours == kafka
    assert kafka[0] or kafka[1]


def test_the_reader_has_gone_on_and_the_producer_is_fenced(worlds: list[World]) -> None:
    for world in worlds:
        assert world.reader.next() == b"after"
        with pytest.raises(KafkaException, match="fenced"):
            world.live.commit_transaction(WAIT)


@pytest.mark.parametrize("command", ["list", "producers work", "describe nobody", "find-hanging"])
def test_a_pipe_and_a_terminal_show_the_same_of_both(worlds: list[World], command: str) -> None:
    words = ("transaction", *command.split())
    for run in (pyk_process, pyk_on_terminal):
        kafka, ours = (
            told(world.side, run(*words, bootstrap=world.side.address)) for world in worlds
        )
        assert ours == kafka
        assert kafka[0] or kafka[1]
