"""Kafka's tools for share groups say and do the same with pyk as with Kafka."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from compat_tests.clients.test_java_tools import CONFIGS, PRODUCER, Both, Broker
from compat_tests.kafka.server import kafka_server
from compat_tests.queues.conftest import KAFKA_SETTINGS
from tests.clients.brokers import running
from tests.clients.groups.processes import Processes
from tests.clients.groups.programs.member import Partition
from tests.clients.queues.brokers import options
from tests.clients.queues.kinds import CONFLUENT
from tests.clients.queues.play import Member, Play

pytestmark = [pytest.mark.queues, pytest.mark.timeout(600)]
"""Each of its words takes the tool seconds, and some minutes of a busy machine."""

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
IDS = {
    re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"): "UUID",
    re.compile(r"(?<![\w/+-])[\w/+-]{22}(?![\w/+-])"): "ID",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    data_dir = tmp_path_factory.mktemp("data")
    with kafka_server(KAFKA_SETTINGS) as kafka, running(data_dir, *options()) as pyk:
        yield Both(
            Broker(kafka.bootstrap_servers, kafka.data_dir), Broker(pyk.address, pyk.data_dir)
        )


@pytest.fixture
def name(both: Both) -> str:
    """Of a topic of two partitions and of a group, which begins with the first records."""
    # Shorter than an id, so as not to be taken for one.
    name = f"group-{uuid.uuid4().hex[:6]}"
    both.create(name, partitions=2)
    which = ("--entity-type", "groups", "--entity-name", name)
    both.ask(CONFIGS, "--alter", *which, "--add-config", "share.auto.offset.reset=earliest")
    return name


class Twins:
    """The same group with both brokers, and in each one member."""

    def __init__(self, both: Both, name: str, processes: Processes) -> None:
        self.name = name
        self.both = both
        self.plays = [Play(each.address, CONFLUENT, processes) for each in both]
        self.members: list[Member] = []
        for play in self.plays:
            play.group = name

    def fill(self) -> None:
        """Of three records of each partition the first is rejected, the last not read yet."""
        for play in self.plays:
            partitions = [Partition(self.name, number) for number in range(2)]
            for each in partitions:
                play.write(each, "one")
                play.write(each, "two")
            member = play.member(self.name)
            found = 0
            while found < 4:
                records = member.poll()
                found += len(records)
                firsts = [each for each in records if each.offset == 0]
                member.acknowledge(firsts, "reject")
                member.acknowledge([each for each in records if each.offset])
                member.commit()
            for each in partitions:
                play.write(each, "three")
            self.members.append(member)

    def leave(self) -> None:
        for each in self.members:
            each.close()

    def ask(self, *words: str, own: str = "") -> str:
        """What the tool says of both, but for ids, spaces, the order of its lines, and what `own`
        matches."""
        kafka, pyk = (plain(said, own) for said in self.both.ask_each(SHARE_GROUPS, *words))
        assert pyk == kafka
        return "\n".join(pyk)


def plain(said: str, own: str = "") -> list[str]:
    for pattern, told in IDS.items():
        said = pattern.sub(told, said)
    lines = [" ".join(line.split()) for line in said.splitlines()]
    return sorted(re.sub(own, "OWN", line) if own else line for line in lines if line)


@pytest.fixture
def twins(both: Both, name: str, processes: Processes) -> Iterator[Twins]:
    twins = Twins(both, name, processes)
    yield twins
    for play in twins.plays:
        play.end()


def test_a_group_with_members_is_described(twins: Twins) -> None:
    twins.fill()
    which = ("--describe", "--group", twins.name)
    assert f"{twins.name} Stable" in twins.ask("--list", "--state")
    assert "Stable 1" in twins.ask(*which, "--state")
    # pyk has begun with the partitions before it answers, Kafka an epoch later.
    assert "Stable OWN 1" in twins.ask(
        *which, "--state", "--verbose", own=r"(?<=Stable )\d+ \d+(?= 1)"
    )
    assert f"{twins.name}:0,1" in twins.ask(
        *which, "--members", "--verbose", own=rf"\d+(?= {twins.name}:0,1)"
    )
    twins.ask(*which, "--members")
    # Kafka writes where it has been, and moves on when that is written. The lag is the same.
    started = rf"(?<={twins.name} {twins.name} \d )\d+(?= 1)"
    assert f"{twins.name} {twins.name} 0 OWN 1" in twins.ask(*which, own=started)
    verbose = rf"(?<={twins.name} {twins.name} \d 0 )\d+(?= 1)"
    assert f"{twins.name} 0 0 OWN 1" in twins.ask(*which, "--offsets", "--verbose", own=verbose)
    assert "ended with 0" in twins.ask("--delete", "--group", twins.name)
    twins.ask("--delete-offsets", "--group", twins.name, "--topic", twins.name)
    where = ("--group", twins.name, "--topic", twins.name)
    twins.ask("--reset-offsets", *where, "--to-earliest", "--execute")


def test_offsets_of_an_empty_group_are_reset_and_deleted(twins: Twins) -> None:
    twins.fill()
    twins.leave()
    where = ("--group", twins.name, "--topic", twins.name)
    which = ("--describe", "--group", twins.name)
    assert "Empty 0" in twins.ask(*which, "--state")
    twins.ask("--reset-offsets", *where, "--to-earliest", "--dry-run")
    twins.ask("--reset-offsets", *where, "--to-earliest", "--execute")
    assert f"{twins.name} {twins.name} 1 0" in twins.ask(*which)
    twins.ask("--reset-offsets", *where, "--to-latest", "--execute")
    assert f"{twins.name} {twins.name} 1 3" in twins.ask(*which)
    when = ("--to-datetime", "2020-01-01T00:00:00.000")
    twins.ask("--reset-offsets", *where, *when, "--execute")
    assert f"{twins.name} {twins.name} 1 0" in twins.ask(*which)
    twins.ask("--delete-offsets", *where)
    assert f"{twins.name} {twins.name}" not in twins.ask(*which)
    twins.ask("--delete", "--group", twins.name)
    twins.ask(*which)
    assert twins.name not in twins.ask("--list")


def test_the_console_reads_accepts_releases_and_rejects(both: Both, name: str) -> None:
    both.ask(PRODUCER, "--topic", name, given="one\ntwo\nthree\n")
    where = ("--topic", name, "--group", name)
    shown = ("--formatter-property", "print.delivery=true")
    found = both.ask(CONSOLE, *where, "--max-messages", "3", "--release", *shown)
    assert "Delivery:1" in found
    found = both.ask(CONSOLE, *where, "--max-messages", "3", *shown)
    assert "Delivery:2" in found
    both.ask(PRODUCER, "--topic", name, given="four\n")
    assert "four" in both.ask(CONSOLE, *where, "--max-messages", "1", "--reject")
    assert "four" not in both.ask(CONSOLE, *where, "--timeout-ms", "3000")


def test_groups_are_configured(both: Both, name: str) -> None:
    which = ("--entity-type", "groups", "--entity-name", name)
    change = "share.record.lock.duration.ms=2000,share.isolation.level=read_committed"
    both.ask(CONFIGS, "--alter", *which, "--add-config", change)
    assert "share.record.lock.duration.ms=2000" in both.ask(CONFIGS, "--describe", *which)
    both.ask(CONFIGS, "--alter", *which, "--delete-config", "share.isolation.level")
    assert "share.isolation.level" not in both.ask(CONFIGS, "--describe", *which)
    for wrong in (
        "share.record.lock.duration.ms=1",
        "share.delivery.count.limit=1000",
        "share.auto.offset.reset=sometimes",
        "share.isolation.level=none",
        "share.no.such=1",
    ):
        said = both.ask(CONFIGS, "--alter", *which, "--add-config", wrong)
        assert "ended with 1" in said, wrong
