"""What a coordinator of transactions does, as the versions of transactions have it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyk.coordinator.transactions.listing import described, listed, unknown_states
from pyk.coordinator.transactions.transaction import LAST_EPOCH, NEXT, Status
from pyk.errors import ErrorCode, KafkaError
from pyk.turns import at_once
from pyk.wire.messages.list_transactions import ListTransactionsRequest
from pyk.wire.payloads.transaction_records import PartitionsSchema
from tests.coordinator.transactions.coordinator import (
    FIRST_PRODUCER_ID,
    ID,
    MIDNIGHT_MS,
    A,
    B,
    C,
    Coordinator,
    refusal,
)

P = FIRST_PRODUCER_ID
BOTH = pytest.mark.parametrize("version", [0, 2])


def ongoing(version: int = 2, **config: int) -> Coordinator:
    """A transaction of the first producer, in its first epoch, with two partitions."""
    coordinator = Coordinator(**config)
    coordinator.init()
    coordinator.add(P, 0, A, B, version=version)
    return coordinator


def at_epoch(epoch: int) -> Coordinator:
    """A producer that has come far."""
    coordinator = Coordinator()
    coordinator.init()
    transaction = replace(coordinator.transaction, producer_epoch=epoch)
    coordinator.machine.apply(transaction.record(1))
    return coordinator


# Producers


def test_a_new_transactional_id_gets_a_producer_id_and_its_first_epoch() -> None:
    coordinator = Coordinator()
    assert coordinator.init() == (P, 0)
    assert coordinator.status == "Empty"


def test_the_next_producer_gets_the_next_epoch_of_the_same_id() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.init() == (P, 1)


def test_a_producer_that_is_behind_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.init()
    for do in (
        lambda: coordinator.add(P, 0, A),
        lambda: coordinator.verify(P, 0, A),
        lambda: coordinator.commit(P, 0),
        lambda: coordinator.abort(P, 0, version=0),
    ):
        assert refusal(do) is ErrorCode.PRODUCER_FENCED


def test_a_producer_id_of_somebody_else_is_not_taken() -> None:
    coordinator = ongoing()
    for do in (
        lambda: coordinator.add(P + 7, 0, A),
        lambda: coordinator.verify(P + 7, 0, A),
        lambda: coordinator.commit(P + 7, 0),
        lambda: coordinator.commit(P + 7, 0, version=0),
    ):
        assert refusal(do) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_id_that_nobody_initialised_has_no_transactions() -> None:
    coordinator = Coordinator()
    for do in (
        lambda: coordinator.add(P, 0, A),
        lambda: coordinator.verify(P, 0, A),
        lambda: coordinator.commit(P, 0),
    ):
        assert refusal(do) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("timeout_ms", [-1, 0, 5001])
def test_a_timeout_has_its_bounds(timeout_ms: int) -> None:
    coordinator = Coordinator(transaction_max_timeout_ms=5000)
    refused = refusal(lambda: coordinator.init(timeout_ms=timeout_ms))
    assert refused is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_producer_that_knows_its_epoch_gets_the_next() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.init(P, 0) == (P, 1)


def test_a_producer_that_did_not_hear_the_answer_gets_it_again() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.init(P, 0) == (P, 1)
    assert coordinator.init(P, 0) == (P, 1)


def test_a_producer_that_was_replaced_cannot_come_back_by_its_epoch() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.init()
    assert refusal(lambda: coordinator.init(P, 0)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: coordinator.init(P + 7, 1)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_id_was_forgotten_gets_a_new_one() -> None:
    assert Coordinator().init(55, 3) == (P, 0)


def test_a_producer_without_epochs_left_gets_a_new_id() -> None:
    coordinator = at_epoch(LAST_EPOCH - 1)
    assert coordinator.init() == (P + 1, 0)
    assert coordinator.transaction.previous_producer_id == P


def test_a_producer_that_did_not_hear_of_its_new_id_gets_it_again() -> None:
    coordinator = at_epoch(LAST_EPOCH - 1)
    assert coordinator.init(P, LAST_EPOCH - 1) == (P + 1, 0)
    assert coordinator.init(P, LAST_EPOCH - 1) == (P + 1, 0)


def test_the_last_epoch_is_nobodys() -> None:
    coordinator = at_epoch(LAST_EPOCH)
    assert refusal(lambda: coordinator.add(P, LAST_EPOCH, A)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: coordinator.abort(P, LAST_EPOCH)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.init() == (P + 1, 0)


# A new producer while there is a transaction


@BOTH
def test_a_new_producer_has_the_transaction_aborted_first(version: int) -> None:
    coordinator = ongoing(version)
    assert refusal(coordinator.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.status == "PrepareAbort"
    assert refusal(coordinator.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    (marking,) = coordinator.tell_all()
    assert (marking.producer_epoch, marking.is_commit) == (1, False)
    assert coordinator.status == "CompleteAbort"
    assert coordinator.init() == (P, 2)


def test_whoever_is_fenced_cannot_go_on_with_the_transaction() -> None:
    coordinator = ongoing()
    refusal(coordinator.init)
    assert refusal(lambda: coordinator.add(P, 0, C)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: coordinator.commit(P, 0)) is ErrorCode.INVALID_TXN_STATE
    coordinator.tell_all()
    assert refusal(lambda: coordinator.commit(P, 0)) is ErrorCode.INVALID_TXN_STATE


def test_a_zombie_does_not_abort_the_transaction_of_the_one_that_replaced_it() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.init()
    coordinator.add(P, 1, A)
    assert refusal(lambda: coordinator.init(P, 0)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.status == "Ongoing"
    assert coordinator.commit(P, 1) == (P, 2)


def test_fencing_takes_the_last_epoch_and_then_there_is_a_new_id() -> None:
    coordinator = at_epoch(LAST_EPOCH - 1)
    coordinator.add(P, LAST_EPOCH - 1, A)
    assert refusal(coordinator.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    (marking,) = coordinator.tell_all()
    assert marking.producer_epoch == LAST_EPOCH
    assert coordinator.init() == (P + 1, 0)


def test_a_producer_whose_transaction_timed_out_in_its_last_epoch_gets_a_new_id() -> None:
    coordinator = at_epoch(LAST_EPOCH - 1)
    coordinator.add(P, LAST_EPOCH - 1, A)
    coordinator.pass_time(3600)
    coordinator.tell_all()
    assert coordinator.init(P, LAST_EPOCH - 1) == (P + 1, 0)
    assert coordinator.init(P, LAST_EPOCH - 1) == (P + 1, 0), "it asks again"
    coordinator.add(P + 1, 0, A)
    assert coordinator.commit(P + 1, 0) == (P + 1, 1)


# Partitions


def test_the_first_partition_begins_the_transaction() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.add(P, 0, A)
    assert coordinator.status == "Ongoing"
    assert coordinator.transaction.started_ms == coordinator.now_ms
    coordinator.now += 5
    coordinator.add(P, 0, B)
    assert coordinator.transaction.partitions == {A, B}
    assert coordinator.transaction.started_ms == coordinator.now_ms - 5000


def test_what_is_in_the_transaction_is_not_written_again() -> None:
    coordinator = ongoing()
    before = len(coordinator.log)
    coordinator.add(P, 0, B)
    assert len(coordinator.log) == before


def test_a_partition_is_verified_to_be_in_the_transaction() -> None:
    coordinator = ongoing()
    assert coordinator.verify(P, 0, A, B) == frozenset()
    assert coordinator.verify(P, 0, A, C) == {C}


@BOTH
def test_nothing_is_added_while_partitions_are_told_of_the_end(version: int) -> None:
    coordinator = ongoing(version)
    _, epoch = coordinator.commit(P, 0, version=version)
    for do in (
        lambda: coordinator.add(P, epoch, C, version=version),
        lambda: coordinator.verify(P, epoch, A),
        coordinator.init,
    ):
        assert refusal(do) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.tell_all()
    coordinator.add(P, epoch, C, version=version)
    assert coordinator.transaction.partitions == {C}


# The end


@pytest.mark.parametrize("commit", [True, False])
@BOTH
def test_the_outcome_is_decided_then_told_then_complete(version: int, commit: bool) -> None:
    coordinator = ongoing(version)
    coordinator.end(P, 0, commit=commit, version=version)
    assert coordinator.status == ("PrepareCommit" if commit else "PrepareAbort")
    (marking,) = coordinator.marked
    assert (marking.is_commit, marking.partitions) == (commit, (A, B))
    coordinator.written(marking, A)
    assert coordinator.status == ("PrepareCommit" if commit else "PrepareAbort")
    coordinator.written(marking, B)
    assert coordinator.status == ("CompleteCommit" if commit else "CompleteAbort")


def test_in_v1_the_epoch_stays() -> None:
    coordinator = ongoing(0)
    assert coordinator.commit(P, 0, version=0) == (P, 0)
    (marking,) = coordinator.tell_all()
    assert (marking.producer_epoch, marking.transaction_version) == (0, 0)


def test_in_v2_each_transaction_has_an_epoch_of_its_own() -> None:
    coordinator = ongoing()
    assert coordinator.commit(P, 0) == (P, 1)
    (marking,) = coordinator.tell_all()
    assert (marking.producer_epoch, marking.transaction_version) == (1, 2)
    coordinator.add(P, 1, A)
    assert coordinator.abort(P, 1) == (P, 2)


@pytest.mark.parametrize("commit", [True, False])
@BOTH
def test_an_end_that_comes_again_is_the_same_end(version: int, commit: bool) -> None:
    coordinator = ongoing(version)
    answer = coordinator.end(P, 0, commit=commit, version=version)

    def again() -> tuple[int, int]:
        return coordinator.end(P, 0, commit=commit, version=version)

    assert refusal(again) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.tell_all()
    written = len(coordinator.log)
    assert again() == answer
    assert len(coordinator.log) == written


@pytest.mark.parametrize("commit", [True, False])
@BOTH
def test_an_end_is_not_changed_to_the_other(version: int, commit: bool) -> None:
    coordinator = ongoing(version)
    coordinator.end(P, 0, commit=commit, version=version)

    def otherwise() -> tuple[int, int]:
        return coordinator.end(P, 0, commit=not commit, version=version)

    assert refusal(otherwise) is ErrorCode.INVALID_TXN_STATE
    coordinator.tell_all()
    assert refusal(otherwise) is ErrorCode.INVALID_TXN_STATE


def test_in_v2_a_late_end_does_not_end_the_next_transaction() -> None:
    coordinator = ongoing()
    coordinator.commit(P, 0)
    coordinator.tell_all()
    coordinator.add(P, 1, A)
    assert refusal(lambda: coordinator.commit(P, 0)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: coordinator.abort(P, 0)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.status == "Ongoing"


def test_the_known_hole_of_v1_is_that_it_does() -> None:
    coordinator = ongoing(0)
    coordinator.commit(P, 0, version=0)
    coordinator.tell_all()
    coordinator.add(P, 0, C, version=0)
    coordinator.abort(P, 0, version=0)
    assert coordinator.status == "PrepareAbort"


@BOTH
def test_there_is_nothing_to_commit_before_something_is_added(version: int) -> None:
    coordinator = Coordinator()
    coordinator.init()
    refused = refusal(lambda: coordinator.commit(P, 0, version=version))
    assert refused is ErrorCode.INVALID_TXN_STATE


def test_in_v1_there_is_nothing_to_abort_either() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert refusal(lambda: coordinator.abort(P, 0, version=0)) is ErrorCode.INVALID_TXN_STATE


def test_in_v2_an_abort_of_nothing_takes_the_epoch_with_it() -> None:
    """A producer that lost an answer cannot know whether something was added."""
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.abort(P, 0) == (P, 1)
    coordinator.tell_all()
    assert coordinator.status == "CompleteAbort"
    assert coordinator.abort(P, 1) == (P, 2)
    coordinator.tell_all()
    assert refusal(lambda: coordinator.commit(P, 2)) is ErrorCode.INVALID_TXN_STATE


def test_in_v2_the_end_may_use_up_the_epochs_of_an_id() -> None:
    coordinator = at_epoch(LAST_EPOCH - 1)
    coordinator.add(P, LAST_EPOCH - 1, A)
    assert coordinator.commit(P, LAST_EPOCH - 1) == (P + 1, 0)
    (marking,) = coordinator.tell_all()
    assert (marking.producer_id, marking.producer_epoch) == (P, LAST_EPOCH)
    assert coordinator.commit(P, LAST_EPOCH - 1) == (P + 1, 0)
    refused = refusal(lambda: coordinator.abort(P, LAST_EPOCH - 1))
    assert refused is ErrorCode.INVALID_TXN_STATE
    assert coordinator.init(P, LAST_EPOCH - 1) == (P + 1, 0)
    coordinator.add(P + 1, 0, A)


def test_what_is_written_twice_or_late_completes_nothing() -> None:
    coordinator = ongoing()
    coordinator.commit(P, 0)
    (marking,) = coordinator.tell_all()
    coordinator.add(P, 1, C)
    coordinator.abort(P, 1)
    before = len(coordinator.log)
    coordinator.written(marking, A, B, C)
    assert coordinator.status == "PrepareAbort"
    assert len(coordinator.log) == before


def test_clients_of_both_versions_may_take_turns() -> None:
    coordinator = ongoing(0)
    assert coordinator.commit(P, 0, version=2) == (P, 1)
    coordinator.tell_all()
    coordinator.add(P, 1, A, version=2)
    assert coordinator.commit(P, 1, version=0) == (P, 1)


# Time


@BOTH
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    version: int,
) -> None:
    coordinator = ongoing(version)
    coordinator.pass_time(59)
    assert coordinator.status == "Ongoing"
    coordinator.pass_time(2)
    assert coordinator.status == "PrepareAbort"
    (marking,) = coordinator.tell_all()
    assert (marking.producer_epoch, marking.is_commit) == (1, False)
    assert refusal(lambda: coordinator.add(P, 0, C)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_was_too_slow_may_go_on_with_the_next_epoch() -> None:
    """KIP-588: it asks with the epoch that it has."""
    coordinator = ongoing()
    coordinator.pass_time(61)
    coordinator.tell_all()
    assert coordinator.init(P, 0) == (P, 1)


def test_an_abort_that_comes_after_the_time_is_up_is_what_has_happened() -> None:
    coordinator = ongoing()
    coordinator.pass_time(61)
    coordinator.tell_all()
    assert coordinator.abort(P, 0) == (P, 1)


def test_a_transaction_that_is_prepared_does_not_time_out() -> None:
    coordinator = ongoing()
    coordinator.commit(P, 0)
    coordinator.pass_time(1000)
    assert coordinator.status == "PrepareCommit"


def test_the_next_transaction_has_its_own_time() -> None:
    coordinator = ongoing()
    coordinator.pass_time(50)
    coordinator.commit(P, 0)
    coordinator.tell_all()
    coordinator.add(P, 1, A)
    coordinator.pass_time(50)
    assert coordinator.status == "Ongoing"


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    coordinator = ongoing(transactional_id_expiration_ms=3_600_000)
    coordinator.commit(P, 0)
    coordinator.tell_all()
    coordinator.pass_time(3000)
    assert coordinator.machine.get(ID) is not None
    coordinator.pass_time(3 * 3600)
    assert coordinator.machine.get(ID) is None
    assert coordinator.last_record is None
    coordinator.restart()
    assert coordinator.machine.get(ID) is None


def test_of_many_that_are_forgotten_each_is() -> None:
    coordinator = Coordinator(transactional_id_expiration_ms=1000)
    for number in range(250):
        coordinator.init(transactional_id=f"id {number}")
    coordinator.pass_time(3 * 3600)
    assert list(coordinator.machine) == []


def test_an_id_whose_transaction_is_not_over_is_not_forgotten() -> None:
    coordinator = ongoing(transactional_id_expiration_ms=1000)
    coordinator.commit(P, 0)
    coordinator.pass_time(3 * 3600)
    assert coordinator.status == "PrepareCommit"


# Restarts, and a log that refuses


@pytest.mark.parametrize("commit", [True, False])
@BOTH
def test_what_was_decided_before_a_restart_is_told_after_it(version: int, commit: bool) -> None:
    coordinator = ongoing(version)
    coordinator.end(P, 0, commit=commit, version=version)
    (before,) = coordinator.marked
    coordinator.written(before, A)
    coordinator.restart()
    (after,) = coordinator.tell_all()
    assert after == before._replace(is_resumed=True)
    assert coordinator.status == ("CompleteCommit" if commit else "CompleteAbort")


def test_what_was_not_decided_goes_on_after_a_restart() -> None:
    coordinator = ongoing()
    coordinator.restart()
    assert coordinator.marked == []
    coordinator.add(P, 0, C)
    assert coordinator.transaction.partitions == {A, B, C}
    assert coordinator.commit(P, 0) == (P, 1)


def test_the_time_that_a_coordinator_was_away_does_not_count() -> None:
    coordinator = ongoing()
    coordinator.now += 1000
    coordinator.restart()
    coordinator.pass_time(59)
    assert coordinator.status == "Ongoing"
    coordinator.pass_time(2)
    assert coordinator.status == "PrepareAbort"


def test_an_end_that_comes_again_after_a_restart_is_the_same_end() -> None:
    coordinator = ongoing()
    coordinator.commit(P, 0)
    coordinator.tell_all()
    coordinator.restart()
    assert coordinator.commit(P, 0) == (P, 1)
    assert refusal(lambda: coordinator.abort(P, 0)) is ErrorCode.INVALID_TXN_STATE


def test_what_the_log_refuses_has_not_happened() -> None:
    coordinator = ongoing()
    before = coordinator.transaction
    coordinator.log_refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for do in (
        lambda: coordinator.add(P, 0, C),
        lambda: coordinator.commit(P, 0),
        coordinator.init,
    ):
        assert refusal(do) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.transaction == before
    assert coordinator.marked == []
    coordinator.log_refuses = None
    assert coordinator.commit(P, 0) == (P, 1)


def test_a_timeout_that_the_log_refuses_is_tried_again() -> None:
    coordinator = ongoing()
    coordinator.log_refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.pass_time(70)
    assert coordinator.status == "Ongoing"
    coordinator.log_refuses = None
    coordinator.pass_time(11)
    assert coordinator.status == "PrepareAbort"


# What is on the log


def test_a_record_says_what_kafka_would() -> None:
    coordinator = ongoing()
    coordinator.commit(P, 0)
    found = coordinator.last_record
    assert found is not None
    assert found.transaction_status == 2
    assert (found.producer_id, found.previous_producer_id, found.next_producer_id) == (P, P, -1)
    assert (found.producer_epoch, found.client_transaction_version) == (1, 2)
    assert found.transaction_partitions == [PartitionsSchema(topic="orders", partition_ids=[0, 1])]


def test_a_cluster_of_the_first_version_has_the_first_records() -> None:
    coordinator = Coordinator(transaction_version=0)
    coordinator.init()
    coordinator.add(P, 0, A, version=0)
    value = coordinator.log[-1][1]
    assert value is not None
    assert value[:2] == b"\0\0"
    coordinator.restart()
    assert coordinator.transaction.partitions == {A}


def test_no_status_follows_but_those_in_the_table() -> None:
    coordinator = ongoing()
    for status in set(Status) - NEXT[Status.ONGOING]:
        with pytest.raises(AssertionError):
            coordinator.transaction.becomes(status, MIDNIGHT_MS)


# Those who look after transactions


def test_a_transaction_is_described() -> None:
    coordinator = ongoing()
    found = described(coordinator.transaction)
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == ("Ongoing", P, 0)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("orders", [0, 1])]
    assert found.transaction_start_time_ms == coordinator.now_ms


def asked_for(coordinator: Coordinator, **wanted: object) -> list[str]:
    request = ListTransactionsRequest(
        **{"state_filters": [], "producer_id_filters": [], **wanted}  # type: ignore[arg-type]
    )
    found = at_once(listed(coordinator.machine, request, coordinator.now_ms))
    return [each.transactional_id for each in found]


def test_transactions_are_listed_by_what_is_asked_for() -> None:
    coordinator = ongoing()
    coordinator.init(transactional_id="other")
    coordinator.now += 10
    assert asked_for(coordinator) == [ID, "other"]
    assert asked_for(coordinator, state_filters=["Ongoing"]) == [ID]
    assert asked_for(coordinator, state_filters=["CompleteCommit", "Unheard of"]) == []
    assert asked_for(coordinator, producer_id_filters=[P + 1]) == ["other"]
    assert asked_for(coordinator, duration_filter=9_999, state_filters=["Ongoing"]) == [ID]
    assert asked_for(coordinator, duration_filter=10_000, state_filters=["Ongoing"]) == []
    assert asked_for(coordinator, transactional_id_pattern="o.*") == ["other"]
    assert asked_for(coordinator, transactional_id_pattern="oth") == []


def test_others_have_their_turn_between_two_transactions_that_are_listed() -> None:
    coordinator = ongoing()
    for number in range(9):
        coordinator.init(transactional_id=f"other-{number}")
    for pattern, turns in ((None, 10), ("other.*", 19)):
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
        )
        assert len(list(listed(coordinator.machine, request, coordinator.now_ms))) == turns


def test_a_state_that_nobody_knows_is_named() -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Odd"], producer_id_filters=[])
    assert unknown_states(request) == ["Odd"]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        asked_for(ongoing(), transactional_id_pattern="[")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


# Figures


def tallied(coordinator: Coordinator) -> tuple[int, int, int, int]:
    """How many were started, committed, aborted, and of these timed out."""
    tally = coordinator.machine.tally
    return tally.started, tally.committed, tally.aborted, tally.timed_out


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_counts_once_when_it_begins_and_once_when_it_is_decided(
    version: int, commit: bool
) -> None:
    coordinator = ongoing(version)
    coordinator.add(P, 0, C, version=version)
    assert tallied(coordinator) == (1, 0, 0, 0)
    coordinator.end(P, 0, commit=commit, version=version)
    assert coordinator.machine.outstanding == 3
    assert tallied(coordinator) == (1, commit, not commit, 0)
    coordinator.tell_all()
    assert coordinator.machine.outstanding == 0
    assert tallied(coordinator) == (1, commit, not commit, 0)


def test_one_that_takes_too_long_counts_as_timed_out_once_the_log_has_it() -> None:
    coordinator = ongoing()
    coordinator.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    coordinator.pass_time(61)
    assert tallied(coordinator) == (1, 0, 0, 0)
    coordinator.log_refuses = None
    coordinator.pass_time(10)
    assert tallied(coordinator) == (1, 0, 1, 1)


def test_one_that_is_fenced_counts_as_aborted_and_not_as_timed_out() -> None:
    coordinator = ongoing()
    assert refusal(coordinator.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert tallied(coordinator) == (1, 0, 1, 0)


def test_an_abort_of_nothing_is_no_transaction() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.abort(P, 0)
    coordinator.tell_all()
    assert tallied(coordinator) == (0, 0, 0, 0)


def test_what_was_before_a_restart_is_not_counted_again() -> None:
    coordinator = ongoing()
    coordinator.restart()
    assert tallied(coordinator) == (0, 0, 0, 0)
    coordinator.commit(P, 0)
    assert tallied(coordinator) == (0, 1, 0, 0)
