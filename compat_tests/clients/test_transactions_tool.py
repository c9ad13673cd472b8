"""kafka-transactions.sh says and does the same with pyk as with Kafka.

Both were told to take writes without asking the coordinator, as all brokers did before KIP-890, so
that a transaction can hang.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from compat_tests.clients.test_java_tools import TRANSACTIONS, Both, Broker
from compat_tests.kafka.server import kafka_server
from tests.cli.commands import pyk
from tests.clients.brokers import running
from tests.clients.hanging import UNVERIFIED, hang
from tests.clients.open_transactions import WAIT, CommittedReader, begin, commit

pytestmark = [pytest.mark.timeout(300), pytest.mark.transactions]
"""Each of its words takes the tool seconds, and some minutes of a busy machine."""

MOMENT = re.compile(r"\b1[789]\d{11}\b")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    options = [word for pair in UNVERIFIED.items() for word in ("-o", "=".join(pair))]
    with (
        kafka_server(UNVERIFIED) as kafka,
        running(tmp_path_factory.mktemp("data"), *options) as ours,
    ):
        yield Both(
            Broker(kafka.bootstrap_servers, kafka.data_dir), Broker(ours.address, ours.data_dir)
        )


@pytest.fixture
def name(both: Both) -> str:
    """Of a topic of two partitions, of which nobody has heard."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    for each in both:
        assert pyk("topic", "create", name, "-p", "2", bootstrap=each.address).code == 0
    return name


def plain(said: str) -> list[str]:
    """Its lines in any order, since the tool has none, and without moments."""
    lines = (" ".join(MOMENT.sub("MOMENT", line).split()) for line in said.splitlines())
    return sorted(line for line in lines if line)


def ask(both: Both, *words: str, own: str = "") -> str:
    """What the tool says, which is the same of both but for what `own` matches."""
    kafka, ours = (plain(said) for said in both.ask_each(TRANSACTIONS, *words))
    kafka, ours = (
        [re.sub(own, "OWN", line) if own else line for line in found] for found in (kafka, ours)
    )
    assert ours == kafka
    return "\n".join(ours)


def test_transactions_are_listed_and_described(both: Both, name: str) -> None:
    for each in both:
        commit(begin(each.address, f"{name}-done", name), each.address, f"{name}-done")
    producers = [begin(each.address, f"{name}-open", name, partition=1) for each in both]
    mine = ("--transactional-id-pattern", f"{name}.*")
    # Producer ids are each broker's own, which other tests have taken some of.
    said = ask(both, "list", *mine, own=r"(?<= 1) \d+(?= \w)")
    assert f"{name}-open 1OWN Ongoing" in said
    assert f"{name}-done 1OWN CompleteCommit" in said
    assert "Ongoing" not in ask(both, "list", *mine, "--duration-filter", "3600000")
    described = ("describe", "--transactional-id")
    took = r"(?<=MOMENT )\d+|(?<=-open )\d+|(?<=-done )\d+"
    said = ask(both, *described, f"{name}-open", own=took)
    assert f"1 {name}-open OWN 0 Ongoing 600000 MOMENT OWN {name}-1" in said
    said = ask(both, *described, f"{name}-done", own=took)
    assert "CompleteCommit" in said
    assert "ended with 1" in ask(both, *described, "nobody")
    for producer in producers:
        producer.abort_transaction(WAIT)


def test_producers_of_a_partition_are_described(both: Both, name: str) -> None:
    for each in both:
        hang(each.address, name, name)
        pyk("produce", name, "-p", "0", bootstrap=each.address, stdin=b"plain\n")
    where = ("--topic", name, "--partition", "0")
    for more in ((), ("--broker-id", "1")):
        said = ask(both, "describe-producers", *where, *more, own=r"^\d+")
        assert "OWN 0 -1 2 MOMENT 0" in said
        assert "OWN 0 -1 0 MOMENT None" in said
    abort_first(both, name)


def abort_first(both: Both, topic: str) -> None:
    """Leave nothing behind that other tests would find."""
    for each in both:
        words = ("transaction", "abort", topic, "-p", "0", "-o", "0", "--execute")
        assert pyk(*words, bootstrap=each.address).code == 0


def test_what_hangs_is_found_and_aborted_and_a_reader_goes_on(both: Both, name: str) -> None:
    for each in both:
        hang(each.address, name, name)
        pyk("produce", name, "-p", "0", bootstrap=each.address, stdin=b"after\n")
    readers = [CommittedReader(each.address, name) for each in both]
    for reader in readers:
        assert reader.read_to_the_end() == []
    own = rf"(?<={name} 0 )\d+|(?<=MOMENT )6\d$"
    for where in (("--topic", name, "--partition", "0"), ("--broker-id", "1")):
        said = ask(both, "find-hanging", *where, own=own)
        assert f"{name} 0 OWN 0 -1 0 MOMENT OWN" in said
    place = ("--topic", name, "--partition", "0")
    assert "Could not find any open transactions" in ask(
        both, "abort", *place, "--start-offset", "2"
    )
    assert ask(both, "abort", *place, "--start-offset", "0") == "ended with 0"
    for reader in readers:
        assert reader.next() == b"after"
        reader.close()
    assert name not in ask(both, "find-hanging", "--topic", name)
    assert "OWN 0 0 2 MOMENT None" in ask(both, "describe-producers", *place, own=r"^\d+")


def test_what_was_written_to_lately_is_not_said_to_hang(both: Both, name: str) -> None:
    for each in both:
        hang(each.address, name, name)
    later = ("--max-transaction-timeout", "120")
    assert name not in ask(both, "find-hanging", "--topic", name, *later)
    abort_first(both, name)


def test_what_has_a_coordinator_does_not_hang(both: Both, name: str) -> None:
    producers = [begin(each.address, name, name) for each in both]
    always = ("--max-transaction-timeout", "0")
    assert name not in ask(both, "find-hanging", "--topic", name, *always)
    for producer in producers:
        producer.commit_transaction(WAIT)


def test_the_arguments_of_older_brokers_abort_too(both: Both, name: str) -> None:
    """By producer id, epoch and coordinator epoch, of which the broker is asked nothing."""
    place = ("--topic", name, "--partition", "0")
    for each in both:
        producer_id = hang(each.address, name, name)
        who = ("--producer-id", str(producer_id), "--producer-epoch", "0")
        said = each.ask(TRANSACTIONS, "abort", *place, *who, "--coordinator-epoch", "0")
        assert said == "ended with 0"
    assert name not in ask(both, "find-hanging", "--topic", name)
    assert "ended with 1" in ask(both, "abort", *place, "--producer-id", "7")


def test_a_live_transaction_is_terminated_and_its_producer_fenced(both: Both, name: str) -> None:
    producers = [begin(each.address, name, name) for each in both]
    force = ("forceTerminateTransaction", "--transactionalId")
    assert ask(both, *force, name) == "ended with 0"
    described = ask(
        both, "describe", "--transactional-id", name, own=rf"(?<={name} )\d+|(?<=MOMENT )\d+"
    )
    # The tool leaves its own time-out behind, where there were ten minutes.
    assert f"{name} OWN 2 Empty 30000 None None" in described
    for producer in producers:
        with pytest.raises(KafkaException, match="fenced"):
            producer.commit_transaction(WAIT)
    # An id that nobody has used is made, with both.
    assert ask(both, *force, f"{name}-new") == "ended with 0"
    said = ask(both, "list", "--transactional-id-pattern", f"{name}-new", own=r"(?<= 1) \d+")
    assert f"{name}-new 1OWN Empty" in said
