"""Faults as a client sees them on the wire, and that they are gone when they are lifted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyk.testing import ApiKey, ErrorCode, KafkaError, ThreadBroker, serve_in_thread
from pyk.testing.wire import creation
from tests.clients.raw import RawClient
from tests.testing.asking import fetch, fetch_errors, metadata, produce, production

TOPIC = "orders"
OTHER = "others"


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with serve_in_thread(topics={TOPIC: 2, OTHER: 1}) as broker:
        yield broker


@pytest.fixture
def client(broker: ThreadBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def test_a_refusal_has_kafkas_shape_and_nothing_is_done(
    broker: ThreadBroker, client: RawClient
) -> None:
    with broker.faults.on("Produce").refuse("NOT_ENOUGH_REPLICAS") as fault:
        assert produce(client, TOPIC, 0, 1) == {0: 19, 1: 19}
        assert fault.hits == 1
    assert broker.records(TOPIC) == []
    assert produce(client, TOPIC, 0, 1) == {0: 0, 1: 0}
    assert fault.hits == 1
    assert len(broker.records(TOPIC)) == 2


def test_one_partition_is_refused_and_the_others_are_handled(
    broker: ThreadBroker, client: RawClient
) -> None:
    with broker.faults.on(topic=TOPIC, partition=1).refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        assert produce(client, TOPIC, 0, 1) == {0: 0, 1: 6}
        assert fetch_errors(fetch(client, TOPIC, 0, 1)) == {0: 0, 1: 6}
        assert produce(client, OTHER, 0) == {0: 0}
    assert [record.partition for record in broker.records(TOPIC)] == [0]


def test_a_fetch_session_that_names_nothing_any_more_is_in_the_scope_of_what_it_reads(
    broker: ThreadBroker, client: RawClient
) -> None:
    session = fetch(client, TOPIC, 0, 1, session=(0, 0)).session_id
    assert session
    with broker.faults.on("Fetch", topic=TOPIC, partition=1).refuse("UNKNOWN_LEADER_EPOCH") as on:
        assert fetch_errors(fetch(client, TOPIC, session=(session, 1))) == {1: 75}
    with broker.faults.on("Fetch", topic=OTHER).refuse("UNKNOWN_LEADER_EPOCH") as other:
        # As soon as the error is over, the session tells of the partition again.
        assert fetch_errors(fetch(client, TOPIC, session=(session, 2))) == {1: 0}
    assert (on.hits, other.hits) == (1, 0)


def test_a_refused_session_is_refused_as_a_whole(broker: ThreadBroker, client: RawClient) -> None:
    with broker.faults.on("Fetch").refuse("FETCH_SESSION_ID_NOT_FOUND"):
        response = fetch(client, TOPIC, 0)
    assert (response.error_code, response.responses) == (70, [])


def test_a_topic_is_refused_in_metadata_beside_one_that_is_not(
    broker: ThreadBroker, client: RawClient
) -> None:
    with broker.faults.on("Metadata", topic=TOPIC).refuse("LEADER_NOT_AVAILABLE"):
        assert metadata(client, TOPIC, OTHER) == {TOPIC: (5, 0), OTHER: (0, 1)}
        assert metadata(client, OTHER) == {OTHER: (0, 1)}
    assert metadata(client, TOPIC) == {TOPIC: (0, 2)}


def test_a_topic_that_is_made_meanwhile_is_refused_too(
    broker: ThreadBroker, client: RawClient
) -> None:
    with broker.faults.on("Metadata", topic="new").refuse("LEADER_NOT_AVAILABLE"):
        assert metadata(client, "new") == {"new": (5, 0)}


def test_a_scope_of_a_client_leaves_others_alone(broker: ThreadBroker, client: RawClient) -> None:
    with broker.faults.on(client_id="somebody").refuse("UNKNOWN_SERVER_ERROR") as somebody:
        assert produce(client, TOPIC, 0) == {0: 0}
    with broker.faults.on(client_id="raw").refuse("UNKNOWN_SERVER_ERROR") as raw:
        assert produce(client, TOPIC, 0) == {0: -1}
    assert (somebody.hits, raw.hits) == (0, 1)


def test_the_next_requests_only(broker: ThreadBroker, client: RawClient) -> None:
    fault = broker.faults.on("Produce", times=2).refuse("NOT_LEADER_OR_FOLLOWER")
    answers = [produce(client, TOPIC, 0)[0] for _ in range(3)]
    assert answers == [6, 6, 0]
    assert fault.hits == 2


def test_several_faults_at_once_are_around_each_other(
    broker: ThreadBroker, client: RawClient
) -> None:
    with (
        broker.faults.on("Produce").refuse("NOT_LEADER_OR_FOLLOWER") as inner,
        broker.faults.on("Produce").hold() as outer,
        ThreadPoolExecutor() as elsewhere,
    ):
        answer = elsewhere.submit(produce, client, TOPIC, 0)
        outer.wait()
        assert not answer.done()
        outer.release()
        assert answer.result(10) == {0: 6}
    assert (inner.hits, outer.hits) == (1, 1)


def test_what_is_held_is_done_and_answered_when_it_is_released(
    broker: ThreadBroker, client: RawClient
) -> None:
    with broker.faults.on("Produce", times=1).hold() as held, ThreadPoolExecutor() as elsewhere:
        answer = elsewhere.submit(produce, client, TOPIC, 0)
        held.wait()
        assert len(broker.records(TOPIC, 1)) == 1
        assert not answer.done()
        held.release()
        assert answer.result(10) == {0: 0}


def test_lifting_a_hold_releases_what_it_holds(broker: ThreadBroker, client: RawClient) -> None:
    held = broker.faults.on("Produce").hold()
    with ThreadPoolExecutor() as elsewhere:
        answer = elsewhere.submit(produce, client, TOPIC, 0)
        held.wait()
        held.lift()
        assert answer.result(10) == {0: 0}
    assert produce(client, TOPIC, 0) == {0: 0}


def test_a_delay_is_on_the_brokers_clock(broker: ThreadBroker, client: RawClient) -> None:
    with (
        broker.clock.hold(),
        broker.faults.on("Produce").delay(3600) as fault,
        ThreadPoolExecutor() as elsewhere,
    ):
        answer = elsewhere.submit(produce, client, TOPIC, 0)
        fault.wait()
        broker.clock.advance(3599)
        assert not answer.done()
        broker.clock.advance(1.5)
        assert answer.result(10) == {0: 0}


def test_an_answer_that_nobody_waits_for_any_more_is_forgotten(broker: ThreadBroker) -> None:
    broker.produce(TOPIC, b"v")  # The first one makes the log, and those behind it wait for that.
    fault = broker.faults.on("Produce").hold()
    with fault as held, RawClient(broker.bootstrap_servers) as client:
        client.send(ApiKey.PRODUCE, 12, production(TOPIC, 0))
        client.send(ApiKey.PRODUCE, 12, production(TOPIC, 0))
        held.wait(2)
    with RawClient(broker.bootstrap_servers) as client:
        assert produce(client, TOPIC, 0) == {0: 0}


def test_cut_before_and_it_is_not_done(broker: ThreadBroker, client: RawClient) -> None:
    with broker.faults.on("Produce").cut_before(), pytest.raises((EOFError, ConnectionError)):
        produce(client, TOPIC, 0)
    assert broker.records(TOPIC) == []


def test_cut_after_and_it_is_done(broker: ThreadBroker, client: RawClient) -> None:
    with broker.faults.on("Produce").cut_after(), pytest.raises((EOFError, ConnectionError)):
        produce(client, TOPIC, 0)
    assert len(broker.records(TOPIC)) == 1
    with RawClient(broker.bootstrap_servers) as again:
        assert produce(again, TOPIC, 0) == {0: 0}


def test_a_fetch_that_waits_is_cut_when_it_is_done(broker: ThreadBroker, client: RawClient) -> None:
    with (
        broker.faults.on("Fetch").cut_after() as fault,
        ThreadPoolExecutor() as elsewhere,
    ):
        answer = elsewhere.submit(fetch, client, TOPIC, 0, wait_ms=60_000)
        fault.wait()
        assert not answer.done()
        broker.produce(TOPIC, b"now")
        with pytest.raises((EOFError, ConnectionError)):
            answer.result(10)


@pytest.mark.parametrize(("is_handled", "found"), [(True, 1), (False, 0)])
def test_what_is_dropped_is_never_answered(
    is_handled: bool, found: int, broker: ThreadBroker, client: RawClient
) -> None:
    target = broker.faults.on("Produce", times=1)
    fault = target.drop_answer() if is_handled else target.drop_request()
    client.send(ApiKey.PRODUCE, 12, production(TOPIC, 0))
    fault.wait()
    # No answer may come before that one, so this connection is silent from now on.
    client._socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        metadata(client, TOPIC)
    assert len(broker.records(TOPIC)) == found
    with RawClient(broker.bootstrap_servers) as other:
        assert produce(other, TOPIC, 0) == {0: 0}


def test_nobody_new_is_admitted_and_who_is_there_goes_on(
    broker: ThreadBroker, client: RawClient
) -> None:
    assert produce(client, TOPIC, 0) == {0: 0}
    with broker.faults.refuse_connections() as fault:
        assert produce(client, TOPIC, 0) == {0: 0}
        with (
            pytest.raises((EOFError, ConnectionError)),
            RawClient(broker.bootstrap_servers) as late,
        ):
            produce(late, TOPIC, 0)
        assert fault.hits == 1
    with RawClient(broker.bootstrap_servers) as again:
        assert produce(again, TOPIC, 0) == {0: 0}


def test_a_frozen_broker_does_nothing_until_it_thaws(
    broker: ThreadBroker, client: RawClient
) -> None:
    with ThreadPoolExecutor() as elsewhere:
        with broker.faults.freeze():
            answer = elsewhere.submit(produce, client, TOPIC, 0)
            with pytest.raises(TimeoutError):
                answer.result(0.2)
            assert broker.requests.of("Produce") == []
        assert answer.result(10) == {0: 0}


def test_a_frozen_broker_can_be_killed(broker: ThreadBroker) -> None:
    broker.faults.freeze()
    broker.kill()
    broker.start()
    assert broker.produce(TOPIC, b"v")


def test_a_full_disk_is_a_storage_error_and_nothing_is_lost(
    broker: ThreadBroker, client: RawClient
) -> None:
    assert produce(client, TOPIC, 0) == {0: 0}
    with broker.faults.fill_disk() as full:
        assert produce(client, TOPIC, 0) == {0: ErrorCode.KAFKA_STORAGE_ERROR}
        with pytest.raises(KafkaError, match="No space left"):
            broker.produce(TOPIC, b"v")
    assert full.hits == 2
    assert produce(client, TOPIC, 0) == {0: 0}
    assert [record.offset for record in broker.records(TOPIC)] == [0, 1]


def test_no_topic_is_made_on_a_full_disk_and_that_is_no_bug(
    broker: ThreadBroker, client: RawClient
) -> None:
    with broker.faults.fill_disk():
        (made,) = client.ask(ApiKey.CREATE_TOPICS, 7, creation("new", 1, {})).topics
        assert made.error_code
    (made,) = client.ask(ApiKey.CREATE_TOPICS, 7, creation("new", 1, {})).topics
    assert made.error_code == 0
    broker.check()


def test_the_disk_is_full_for_one_topic(broker: ThreadBroker, client: RawClient) -> None:
    with broker.faults.fill_disk(topic=TOPIC):
        assert produce(client, TOPIC, 0) == {0: ErrorCode.KAFKA_STORAGE_ERROR}
        assert produce(client, OTHER, 0) == {0: 0}


def test_a_broker_dies_of_a_sync_that_fails_and_comes_back(
    broker: ThreadBroker, client: RawClient
) -> None:
    topic = broker.topic(configs={"flush.messages": "1"})
    with broker.faults.fail_sync() as fault:
        with pytest.raises((EOFError, ConnectionError)):
            produce(client, topic, 0, acks=-1)
        fault.wait()
    broker.restart()
    with RawClient(broker.bootstrap_servers) as again:
        assert produce(again, topic, 0, acks=-1) == {0: 0}


def test_requests_are_seen(broker: ThreadBroker, client: RawClient) -> None:
    produce(client, TOPIC, 0)
    fetch(client, TOPIC, 0)
    assert [tuple(each) for each in broker.requests] == [
        ("Produce", 12, "raw"),
        ("Fetch", 12, "raw"),
    ]
    assert len(broker.requests.of("fetch", client_id="raw")) == 1
    assert broker.requests.of(ApiKey.FETCH, client_id="somebody") == []
    with pytest.raises(TimeoutError):
        broker.requests.wait("Fetch", 2, timeout=0.01)
    broker.requests.clear()
    assert len(broker.requests) == 0


def test_waiting_for_a_hit_that_does_not_come_is_a_time_out(broker: ThreadBroker) -> None:
    with broker.faults.on("Produce").cut_after() as fault:
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="cut after for PRODUCE, in force, hit 0 times"):
            fault.wait(timeout=0.01)
        assert time.monotonic() - began < 5


def test_slips_are_refused(broker: ThreadBroker) -> None:
    with pytest.raises(ValueError, match="no API 'Prduce'"):
        broker.faults.on("Prduce")
    with pytest.raises(ValueError, match="pyk does not serve Vote"):
        broker.faults.on("Vote")
    with pytest.raises(ValueError, match="no error 'NOPE'"):
        broker.faults.on("Produce").refuse("NOPE")
