"""Kafka's tool for groups and its console consumer say the same of pyk as of Kafka."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from compat_tests.clients.test_java_tools import CONSUMER, PRODUCER, Both, Broker
from compat_tests.kafka.server import kafka_server
from tests.clients.brokers import running
from tests.clients.groups.brokers import BROKER_SETTINGS, options
from tests.clients.groups.group import Group, Groups, Member
from tests.clients.groups.kinds import CONFLUENT, CONFLUENT_CONSUMER, Kind
from tests.clients.groups.processes import Processes

IDS = {
    re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"): "UUID",
    re.compile(r"(?<![\w/+-])[\w/+-]{22}(?![\w/+-])"): "ID",
}
"""What members are called by brokers, and call themselves in the consumer protocol."""
KINDS = [CONFLUENT, CONFLUENT_CONSUMER]
CLASSIC_FIRST = [CONFLUENT, pytest.param(CONFLUENT_CONSUMER, marks=pytest.mark.groups)]
"""The tool takes seconds for every word: what is much the same has its turn in `make groups`."""
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    settings = {key: str(value) for key, value in BROKER_SETTINGS.items()}
    data_dir = tmp_path_factory.mktemp("data")
    with kafka_server(settings) as kafka, running(data_dir, *options()) as pyk:
        yield Both(
            Broker(kafka.bootstrap_servers, kafka.data_dir), Broker(pyk.address, pyk.data_dir)
        )


@pytest.fixture
def name() -> str:
    # Its topic's name must be shorter than an id, so as not to be taken for one.
    return f"group-{uuid.uuid4().hex[:6]}"


class Twins:
    """The same group with both brokers, and in each one member that has read all."""

    def __init__(self, both: Both, groups: list[Group]) -> None:
        self.both = both
        self.groups = groups
        self.members: list[Member] = []

    def fill(self) -> None:
        """Of three records of each partition, two are committed."""
        for group in self.groups:
            member = group.join(instance="first")
            self.members.append(member)
            group.wait_until_shared_by(member)
            group.wait_until_read(group.produce(2))
            member.commit()
            group.wait_until_read(group.produce(1))

    def describe(self, *what: str) -> str:
        return self.ask("--describe", "--group", self.groups[0].name, *what)

    def ask(self, *words: str) -> str:
        """What the tool says of both, but for ids, spaces and the order of its lines."""
        kafka, pyk = (plain(said) for said in self.both.ask_each(GROUPS, *words))
        assert pyk == kafka
        return "\n".join(pyk)


def plain(said: str) -> list[str]:
    for own, told in IDS.items():
        said = own.sub(told, said)
    return sorted(" ".join(line.split()) for line in said.splitlines() if line.strip())


@pytest.fixture
def twins(both: Both, kind: Kind, name: str, processes: Processes) -> Iterator[Twins]:
    with ExitStack() as stack:
        groups = [
            stack.enter_context(Groups(each.address, kind, processes).new(partitions=2, name=name))
            for each in both
        ]
        yield Twins(both, groups)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_group_with_members_is_described(twins: Twins) -> None:
    twins.fill()
    name = twins.groups[0].name
    said = twins.describe()
    assert f"{name} {name}-topic-0 1 2 3 1" in said
    assert f"{name}-topic-0:0,1" in twins.describe("--members", "--verbose")
    assert "Stable 1" in twins.describe("--state")
    assert f"{name} Stable" in twins.ask("--list", "--state")


@pytest.mark.parametrize("kind", CLASSIC_FIRST, ids=lambda kind: kind.name)
def test_offsets_of_a_group_with_members_are_not_reset(twins: Twins) -> None:
    twins.fill()
    name = twins.groups[0].name
    where = ("--group", name, "--topic", f"{name}-topic-0")
    said = twins.ask("--reset-offsets", *where, "--to-earliest", "--execute")
    assert "Assignments can only be reset if the group" in said
    assert "The group is not empty" in twins.ask("--delete", "--group", name)
    twins.ask("--delete-offsets", *where)
    assert " 1 2 3 1 " in twins.describe()


@pytest.mark.parametrize("kind", CLASSIC_FIRST, ids=lambda kind: kind.name)
def test_offsets_of_an_empty_group_are_reset_and_deleted(twins: Twins) -> None:
    for group in twins.groups:
        member = group.join()
        group.wait_until_read(group.produce(3))
        member.leave()
    name = twins.groups[0].name
    where = ("--group", name, "--topic", f"{name}-topic-0")
    twins.ask("--reset-offsets", *where, "--to-earliest", "--dry-run")
    assert " 0 3 3 0 " in twins.describe()
    twins.ask("--reset-offsets", *where, "--shift-by", "-2", "--execute")
    assert " 0 1 3 2 " in twins.describe()
    twins.ask(
        "--reset-offsets",
        "--group",
        name,
        "--topic",
        f"{name}-topic-0:1",
        "--to-offset",
        "2",
        "--execute",
    )
    assert " 1 2 3 1 " in twins.describe()
    assert "Empty" in twins.describe("--state")
    twins.ask("--delete-offsets", "--group", name, "--topic", f"{name}-topic-0:0")
    assert " 0 1 3 2 " not in twins.describe()
    twins.ask("--delete", "--group", name)
    assert "GroupIdNotFoundException" in twins.describe()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_reads_in_a_group(both: Both, name: str, protocol: str) -> None:
    both.create(name)
    both.ask(PRODUCER, "--topic", name, given="one\ntwo\nthree\n")
    where = ("--topic", name, "--group", name, "--command-property", f"group.protocol={protocol}")
    first = both.ask(CONSUMER, *where, "--from-beginning", "--max-messages", "2")
    assert first.splitlines()[:2] == ["one", "two"]
    assert both.ask(CONSUMER, *where, "--max-messages", "1").splitlines()[0] == "three"
