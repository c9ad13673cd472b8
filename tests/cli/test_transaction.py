"""`pyk transaction`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)
from pyk.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyk.wire.messages.list_transactions import ListTransactionsResponse
from pyk.wire.messages.list_transactions import TransactionState as ListedState
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.cli.commands import Done, pyk, pyk_on_terminal, pyk_process
from tests.cli.test_command import completed
from tests.client.peers import Script, peer, scripted
from tests.clients.brokers import running
from tests.clients.hanging import UNVERIFIED, hang, initialised
from tests.clients.raw import RawClient

WAIT = 90.0
PLANNED = "pyk: nothing has been changed; add --execute to do it\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One that takes writes of which no coordinator knows."""
    ((key, value),) = UNVERIFIED.items()
    with running(tmp_path_factory.mktemp("data"), "-o", f"{key}={value}") as broker:
        yield broker.address


@pytest.fixture
def topic(broker: str) -> str:
    """One of two partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    pyk("topic", "create", name, "-p", "2", bootstrap=broker)
    return name


@contextmanager
def opened(broker: str, transactional_id: str, topic: str) -> Iterator[Producer]:
    """A producer that has written a record to partition 1, and nothing more yet."""
    producer = Producer(
        {"bootstrap.servers": broker, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(WAIT)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(WAIT)
    try:
        yield producer
    finally:
        # Whatever became of it, no test is to find it open.
        pyk("transaction", "terminate", transactional_id, "--execute", bootstrap=broker)


def asked(broker: str, *words: str) -> Done:
    return pyk("transaction", *words, bootstrap=broker)


def rows(broker: str, *words: str) -> list[dict[str, Any]]:
    done = asked(broker, *words, "--format", "json")
    found = json.loads(done.out)
    assert isinstance(found, list)
    return found


def committed(broker: str, topic: str, partition: int) -> list[str]:
    """What a reader of committed records comes to."""
    options = ("-p", str(partition), "-e", "--isolation", "read_committed", "-f", r"%v\n")
    return pyk("consume", topic, *options, bootstrap=broker).lines


def test_transactions_are_listed_by_state_producer_age_and_id(broker: str, topic: str) -> None:
    idle = hang(broker, topic, f"{topic}-idle")
    with opened(broker, f"{topic}-busy", topic):
        found = rows(broker, "list", "-r", f"{topic}-.*")
        assert [each["transactional_id"] for each in found] == [f"{topic}-busy", f"{topic}-idle"]
        assert [each["state"] for each in found] == ["Ongoing", "Empty"]
        assert found[1] == {
            "transactional_id": f"{topic}-idle",
            "coordinator": 1,
            "producer_id": idle,
            "state": "Empty",
        }
        pattern = ("--transactional-id-pattern", f"{topic}-.*")
        for filters, expected in {
            ("--state", "ongoing"): ["busy"],
            ("--state", "EMPTY"): ["idle"],
            ("--state", "empty", "--state", "ongoing"): ["busy", "idle"],
            ("--open",): ["busy"],
            ("--producer-id", str(idle)): ["idle"],
            ("--running-longer-than", "0s"): ["busy"],
            ("--running-longer-than", "1h"): [],
        }.items():
            chosen = rows(broker, "list", *pattern, *filters)
            names = [each["transactional_id"].removeprefix(f"{topic}-") for each in chosen]
            assert names == expected, filters
    assert asked(broker, "list", "-r", "nobody").lines == [
        "TRANSACTIONAL-ID  COORDINATOR  PRODUCER-ID  STATE"
    ]


def test_a_transaction_is_described_with_its_age_and_partitions(broker: str, topic: str) -> None:
    with opened(broker, topic, topic):
        (found,) = rows(broker, "describe", topic)
        assert (found["state"], found["coordinator"]) == ("Ongoing", 1)
        assert (found["producer_epoch"], found["timeout_ms"]) == (0, 60_000)
        assert 0 <= found["duration_ms"] < 60_000
        assert found["started"].startswith("20")
        assert found["partitions"] == [{"topic": topic, "partition": 1}]
        lines = asked(broker, "describe", topic).lines
        assert lines[:3] == [
            f"TRANSACTIONAL-ID  {topic}",
            "STATE             Ongoing",
            "COORDINATOR       1",
        ]
        assert lines[-1].split() == [topic, "1"]
        # Without an id it is about all that are open.
        assert topic in [each["transactional_id"] for each in rows(broker, "describe")]
    (found,) = rows(broker, "describe", topic)
    assert (found["state"], found["started"], found["duration_ms"]) == ("Empty", None, None)
    assert topic not in [each["transactional_id"] for each in rows(broker, "describe")]


def test_a_transaction_that_is_over_has_a_beginning_and_no_age(broker: str, topic: str) -> None:
    with opened(broker, topic, topic) as producer:
        producer.commit_transaction(WAIT)
        (found,) = rows(broker, "describe", topic)
    assert (found["state"], found["duration_ms"]) == ("CompleteCommit", None)
    assert found["started"].startswith("20")
    assert found["partitions"] == []


def test_producers_of_a_topic_show_where_their_transactions_begin(broker: str, topic: str) -> None:
    lost = hang(broker, topic, f"{topic}-lost")
    pyk("produce", topic, "-p", "0", bootstrap=broker, stdin=b"plain\n")
    with opened(broker, topic, topic):
        found = rows(broker, "producers", topic)
        shown = [(each["partition"], each["start_offset"]) for each in found]
        assert shown == [(0, 0), (0, None), (1, 0)]
        assert found[0]["producer_id"] == lost
        assert (found[0]["last_sequence"], found[0]["coordinator_epoch"]) == (2, None)
        still = rows(broker, "producers", topic, "--open")
        assert [each["partition"] for each in still] == [0, 1]
        (only,) = rows(broker, "producers", topic, "-p", "1", "--broker", "1")
        assert only["partition"] == 1
    (ended,) = rows(broker, "producers", topic, "-p", "1")
    assert ended["start_offset"] is None
    assert ended["coordinator_epoch"] is not None


def test_what_hangs_is_found_and_aborted_and_readers_go_on(broker: str, topic: str) -> None:
    lost = hang(broker, topic, topic)
    pyk("produce", topic, "-p", "0", bootstrap=broker, stdin=b"after\n")
    assert committed(broker, topic, 0) == []
    (found,) = rows(broker, "find-hanging", "-t", topic)
    assert (found["partition"], found["producer_id"], found["start_offset"]) == (0, lost, 0)
    assert 3_600_000 <= found["duration_ms"] < 3_700_000
    told = asked(broker, "find-hanging", "--broker", "1")
    assert any(line.split()[:3] == [topic, "0", str(lost)] for line in told.lines)
    assert "pyk: to end the first of them: pyk transaction abort " in told.err
    where = ("abort", topic, "-p", "0", "-o", "0")
    planned = asked(broker, *where)
    assert (planned.code, planned.err) == (0, PLANNED)
    assert planned.lines[1].split() == [topic, "0", str(lost), "0", "0", "PLANNED"]
    assert committed(broker, topic, 0) == []
    done = asked(broker, *where, "--execute")
    assert (done.code, done.err) == (0, "")
    assert done.lines[1].split()[-1] == "OK"
    assert committed(broker, topic, 0) == ["after"]
    assert rows(broker, "find-hanging", "-t", topic) == []
    again = asked(broker, *where, "--execute")
    assert (again.code, again.out) == (1, "")
    assert again.err == (
        f"pyk: no open transaction begins at offset 0 of {topic}:0; "
        f"pyk transaction producers {topic} -p 0 --open has those that are open\n"
    )


def test_what_was_written_to_lately_is_not_said_to_hang(broker: str, topic: str) -> None:
    hang(broker, topic, topic)
    in_two_hours = ("--max-transaction-timeout", "2h")
    assert rows(broker, "find-hanging", "-t", topic, *in_two_hours) == []
    assert len(rows(broker, "find-hanging", "-t", topic, "-p", "0")) == 1
    assert rows(broker, "find-hanging", "-t", topic, "-p", "1") == []


def test_offsets_that_hang_are_found_in_the_topic_of_groups(broker: str, topic: str) -> None:
    with RawClient(broker) as client:
        client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[topic]))
        producer_id, epoch = initialised(client, topic)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_metadata=""
        )
        commit = TxnOffsetCommitRequest(
            transactional_id=topic,
            group_id=topic,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        answer = client.ask(ApiKey.TXN_OFFSET_COMMIT, 3, commit)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert stable_offset(client, topic) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        always = ("--max-transaction-timeout", "0s")
        (found,) = rows(broker, "find-hanging", "-t", "__consumer_offsets", *always)
        assert found["producer_id"] == producer_id
        where = (found["topic"], "-p", str(found["partition"]), "-o", str(found["start_offset"]))
        assert asked(broker, "abort", *where, "--execute").code == 0
        assert stable_offset(client, topic) is ErrorCode.NONE


def stable_offset(client: RawClient, name: str) -> ErrorCode:
    """What the group hears that asks where to go on, and wants to know for certain."""
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=name, topics=topics)], require_stable=True
    )
    (group,) = client.ask(ApiKey.OFFSET_FETCH, 8, request).groups
    return ErrorCode(group.topics[0].partitions[0].error_code)


def test_what_its_coordinator_will_end_does_not_hang(broker: str, topic: str) -> None:
    with opened(broker, topic, topic) as producer:
        always = ("--max-transaction-timeout", "0s")
        assert rows(broker, "find-hanging", "-t", topic, *always) == []
        where = ("abort", topic, "-p", "1", "-o", "0")
        for more in ((), ("--execute",)):
            refused = asked(broker, *where, *more)
            assert refused.code == 1
            assert f"NOT_HANGING  {topic} will end it" in refused.lines[1]
            assert f"pyk transaction terminate {topic}" in refused.lines[1]
        producer.commit_transaction(WAIT)
    assert committed(broker, topic, 1) == ["open"]


def test_what_is_forced_is_aborted_in_that_partition_alone(broker: str, topic: str) -> None:
    with opened(broker, topic, topic) as producer:
        producer.produce(topic, b"kept", partition=0)
        producer.flush(WAIT)
        done = asked(broker, "abort", topic, "-p", "1", "-o", "0", "--force", "--execute")
        assert (done.code, done.lines[1].split()[-1]) == (0, "OK")
        producer.commit_transaction(WAIT)
    assert committed(broker, topic, 0) == ["kept"]
    assert committed(broker, topic, 1) == []


def test_a_live_transaction_is_ended_by_its_id_and_its_producer_fenced(
    broker: str, topic: str
) -> None:
    with opened(broker, topic, topic) as producer:
        planned = asked(broker, "terminate", topic)
        assert (planned.code, planned.err) == (0, PLANNED)
        assert planned.lines[1].split()[-1] == "PLANNED"
        assert rows(broker, "describe", topic)[0]["state"] == "Ongoing"
        done = asked(broker, "terminate", topic, "--execute")
        assert (done.code, done.err) == (0, "")
        assert [done.lines[1].split()[at] for at in (0, 1, -1)] == [topic, "Ongoing", "OK"]
        (after,) = rows(broker, "describe", topic)
        assert (after["state"], after["timeout_ms"]) == ("Empty", 60_000)
        with pytest.raises(KafkaException, match="fenced"):
            producer.commit_transaction(WAIT)
        idle = rows(broker, "terminate", topic)
        assert idle[0]["message"] == "nothing is open: only its producer is fenced"
    assert committed(broker, topic, 1) == []


def test_a_pipe_and_a_terminal_show_the_same(broker: str, topic: str) -> None:
    hang(broker, topic, topic)
    words = ("transaction", "list", "-r", topic)
    piped, shown = (run(*words, bootstrap=broker) for run in (pyk_process, pyk_on_terminal))
    assert piped.lines == shown.lines
    assert piped.lines[1].split() == [topic, "1", piped.lines[1].split()[2], "Empty"]
    where = ("transaction", "abort", topic, "-p", "0", "-o", "0", "--execute")
    done = pyk_on_terminal(*where, bootstrap=broker)
    assert (done.code, done.lines[1].split()[-1]) == (0, "OK")


def test_verbs_and_ids_are_completed(broker: str, topic: str) -> None:
    hang(broker, topic, f"{topic}-id")
    assert completed("pyk transaction ", broker) == [
        "abort", "describe", "find-hanging", "list", "producers", "terminate",
    ]  # fmt: skip
    assert completed(f"pyk transaction describe {topic}", broker) == [f"{topic}-id"]
    assert completed(f"pyk transaction terminate {topic}", broker) == [f"{topic}-id"]
    assert completed(f"pyk transaction producers {topic}", broker) == [topic]


def test_one_that_goes_while_all_are_described_is_left_out() -> None:
    listed = ListedState(transactional_id="x", producer_id=1, transaction_state="Ongoing")
    gone = TransactionState(
        error_code=105,
        transactional_id="x",
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
    script: Script = {
        ApiKey.LIST_TRANSACTIONS: (
            2,
            [ListTransactionsResponse(unknown_state_filters=[], transaction_states=[listed])],
        ),
        ApiKey.FIND_COORDINATOR: (
            6,
            [FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=1)])],
        ),
        ApiKey.DESCRIBE_TRANSACTIONS: (
            0,
            [DescribeTransactionsResponse(transaction_states=[gone])],
        ),
    }
    with peer(scripted(script)) as address:
        done = pyk("transaction", "describe", "--format", "json", bootstrap=str(address))
    assert (done.code, done.out, done.err) == (0, "[]\n", "")
