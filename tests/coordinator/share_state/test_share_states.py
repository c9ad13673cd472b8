"""What the coordinator of share partitions keeps, whom it fences, and what it writes."""

from __future__ import annotations

import pytest

from pyk.coordinator.share_state.batches import StateBatch
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.share_state.share_states import COPIED_AT_ONCE, DELETED_AT_ONCE
from pyk.coordinator.share_state.state import ShareState, Summary
from pyk.errors import ErrorCode, KafkaError
from pyk.types import Uuid
from tests.coordinator.share_state.coordinator import (
    INVOICE,
    INVOICES,
    KEY,
    ORDERS,
    OTHER,
    PARTITIONS,
    Coordinator,
    refusal,
    states,
)

FIVE_MINUTES = 300.0
ACKNOWLEDGED = StateBatch(10, 19, 2, 1)


def initialised(**config: int) -> Coordinator:
    coordinator = Coordinator(**config)
    coordinator.initialize(start_offset=10)
    return coordinator


# A partition begins


def test_a_partition_begins_where_it_is_told_to() -> None:
    coordinator = Coordinator()
    coordinator.initialize(state_epoch=3, start_offset=10)
    assert coordinator.read(leader_epoch=0) == ShareState(3, 10, ())
    assert coordinator.summary() == Summary(3, 0, 10, 0)


def test_a_partition_may_begin_before_anybody_knows_where() -> None:
    coordinator = Coordinator()
    coordinator.initialize(start_offset=-1)
    assert coordinator.read() == ShareState(0, -1, ())
    assert coordinator.summary() == Summary(0, 0, -1, -1)


def test_a_partition_that_begins_anew_has_forgotten_what_was_delivered() -> None:
    coordinator = initialised()
    coordinator.write(ACKNOWLEDGED, delivery_complete_count=10)
    coordinator.initialize(state_epoch=1, start_offset=5)
    assert coordinator.read() == ShareState(1, 5, ())
    assert coordinator.summary() == Summary(1, 0, 5, 0)


def test_each_snapshot_has_an_epoch_of_its_own() -> None:
    coordinator = initialised()
    coordinator.initialize(state_epoch=1)
    assert [value.snapshot_epoch for value in coordinator.values] == [0, 1]
    coordinator.delete()
    coordinator.initialize(state_epoch=0)
    assert coordinator.known().snapshot_epoch == 0


def test_a_state_epoch_that_is_over_does_not_begin_again() -> None:
    coordinator = Coordinator()
    coordinator.initialize(state_epoch=2)
    assert refusal(lambda: coordinator.initialize(state_epoch=1)) is ErrorCode.FENCED_STATE_EPOCH
    assert refusal(lambda: coordinator.initialize(state_epoch=2)) is None
    assert refusal(lambda: coordinator.initialize(state_epoch=-1)) is None


def test_what_was_never_initialised_has_a_summary_and_nothing_else() -> None:
    coordinator = Coordinator()
    assert coordinator.summary() == Summary(0, 0, -1, -1)
    assert refusal(coordinator.read) is ErrorCode.INVALID_REQUEST
    assert refusal(coordinator.write) is ErrorCode.INVALID_REQUEST
    assert refusal(coordinator.delete) is None
    assert coordinator.log == []


@pytest.mark.parametrize("partition", [-1, PARTITIONS])
@pytest.mark.parametrize("do", ["initialize", "summary", "delete"])
def test_a_partition_that_the_topic_does_not_have_is_refused(do: str, partition: int) -> None:
    coordinator, key = Coordinator(), SharePartitionKey("workers", ORDERS, partition)
    wanted = ErrorCode.INVALID_REQUEST if partition < 0 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(lambda: getattr(coordinator, do)(key)) is wanted


def test_a_topic_that_is_not_there_is_refused() -> None:
    coordinator = initialised()
    stranger = SharePartitionKey("workers", Uuid(b"nobody knows me."), 0)
    for do in (coordinator.initialize, coordinator.summary, coordinator.delete):
        assert refusal(lambda do=do: do(stranger)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[misc]


# Leaders read and write


def test_what_a_leader_writes_is_what_the_next_one_reads() -> None:
    coordinator = initialised()
    coordinator.write(ACKNOWLEDGED, StateBatch(30, 39, 0, 1), delivery_complete_count=10)
    assert coordinator.read() == ShareState(0, 10, (ACKNOWLEDGED, StateBatch(30, 39, 0, 1)))
    assert coordinator.summary() == Summary(0, 0, 10, 10)


def test_the_start_moves_and_takes_what_is_before_it_away() -> None:
    coordinator = initialised()
    coordinator.write(ACKNOWLEDGED, delivery_complete_count=10)
    coordinator.write(StateBatch(22, 25, 2, 1), start_offset=15, delivery_complete_count=9)
    wanted = ShareState(0, 15, (StateBatch(15, 19, 2, 1), StateBatch(22, 25, 2, 1)))
    assert coordinator.read() == wanted
    coordinator.write(start_offset=-1, delivery_complete_count=9)
    assert coordinator.read() == wanted


def test_a_leader_that_reads_first_fences_those_before_it() -> None:
    coordinator = initialised()
    coordinator.read(leader_epoch=5)
    assert coordinator.summary().leader_epoch == 5
    for do in (coordinator.read, coordinator.write):
        assert refusal(lambda do=do: do(leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH  # type: ignore[misc]
        assert refusal(lambda do=do: do(leader_epoch=5)) is None  # type: ignore[misc]


def test_a_write_does_not_make_anybody_leader() -> None:
    coordinator = initialised()
    coordinator.write(leader_epoch=7)
    assert coordinator.summary().leader_epoch == 0
    assert refusal(lambda: coordinator.write(leader_epoch=6)) is None


def test_who_gives_no_epochs_is_not_fenced() -> None:
    coordinator = Coordinator()
    coordinator.initialize(state_epoch=4)
    coordinator.read(leader_epoch=4)
    assert refusal(lambda: coordinator.read(leader_epoch=-1)) is None
    assert coordinator.summary().leader_epoch == 4
    assert refusal(lambda: coordinator.write(state_epoch=-1, leader_epoch=-1)) is None
    fenced = refusal(lambda: coordinator.write(state_epoch=3, leader_epoch=4))
    assert fenced is ErrorCode.FENCED_STATE_EPOCH


def test_a_leader_reads_again_without_writing_anything() -> None:
    coordinator = initialised()
    coordinator.read(leader_epoch=1)
    written = len(coordinator.log)
    coordinator.read(leader_epoch=1)
    assert len(coordinator.log) == written


def test_leaders_of_before_stay_fenced_when_a_partition_begins_anew() -> None:
    coordinator = initialised()
    coordinator.read(leader_epoch=5)
    coordinator.initialize(state_epoch=1)
    assert coordinator.summary().leader_epoch == 0
    assert refusal(lambda: coordinator.read(leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH


# What is written


def test_updates_come_between_snapshots() -> None:
    coordinator = initialised(snapshot_update_records_per_snapshot=2)
    for _ in range(7):
        coordinator.write()
    all_of_it = ["snapshot", "update", "update"]
    assert coordinator.kinds == [*all_of_it, *all_of_it, "snapshot", "update"]


def test_a_snapshot_for_another_reason_does_not_put_off_the_next_one() -> None:
    coordinator = initialised(snapshot_update_records_per_snapshot=2)
    coordinator.write()
    coordinator.initialize()
    coordinator.write()
    coordinator.write()
    assert coordinator.kinds == ["snapshot", "update", "snapshot", "update", "snapshot"]


def test_all_are_snapshots_if_no_updates_are_wanted() -> None:
    coordinator = initialised(snapshot_update_records_per_snapshot=0)
    coordinator.write()
    coordinator.read(leader_epoch=1)
    assert coordinator.kinds == ["snapshot"] * 3


def test_an_update_says_what_has_changed() -> None:
    coordinator = initialised()
    coordinator.read(leader_epoch=2)
    coordinator.write(ACKNOWLEDGED, delivery_complete_count=10, leader_epoch=2)
    _, read, write = coordinator.values
    assert (read.snapshot_epoch, read.leader_epoch, read.start_offset) == (0, 2, 10)
    assert (read.delivery_complete_count, read.state_batches) == (0, [])
    assert (write.snapshot_epoch, write.leader_epoch, write.start_offset) == (0, 2, -1)
    assert (write.delivery_complete_count, len(write.state_batches)) == (10, 1)


def test_a_snapshot_says_what_updates_have_said() -> None:
    with_updates = initialised()
    with_snapshots = initialised(snapshot_update_records_per_snapshot=0)
    for coordinator in (with_updates, with_snapshots):
        coordinator.read(leader_epoch=3)
        coordinator.write(StateBatch(10, 29, 0, 1), leader_epoch=3, delivery_complete_count=0)
        coordinator.write(ACKNOWLEDGED, leader_epoch=3, delivery_complete_count=10)
        coordinator.write(start_offset=12, leader_epoch=3, delivery_complete_count=8)
    assert states(with_updates.machine, [KEY]) == states(with_snapshots.machine, [KEY])
    assert with_updates.read(leader_epoch=3).batches == (
        StateBatch(12, 19, 2, 1),
        StateBatch(20, 29, 0, 1),
    )


def test_a_write_that_the_log_refuses_has_changed_nothing() -> None:
    coordinator = initialised()
    before = states(coordinator.machine, [KEY])
    coordinator.log_refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    for do in (coordinator.write, coordinator.delete, coordinator.initialize):
        assert refusal(do) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert states(coordinator.machine, [KEY]) == before


def test_after_a_restart_everything_is_as_it_was() -> None:
    coordinator = initialised()
    coordinator.initialize(OTHER, state_epoch=1, start_offset=3)
    coordinator.read(leader_epoch=3)
    coordinator.write(ACKNOWLEDGED, leader_epoch=3, delivery_complete_count=10)
    coordinator.initialize(INVOICE)
    coordinator.delete(INVOICE)
    keys = [KEY, OTHER, INVOICE]
    before = states(coordinator.machine, keys)
    coordinator.restart()
    assert states(coordinator.machine, keys) == before


# A partition ends


def test_what_is_deleted_is_as_if_it_never_was() -> None:
    coordinator = initialised()
    coordinator.read(leader_epoch=5)
    coordinator.delete()
    assert coordinator.summary() == Summary(0, 0, -1, -1)
    assert refusal(coordinator.read) is ErrorCode.INVALID_REQUEST
    coordinator.initialize()
    assert refusal(lambda: coordinator.read(leader_epoch=1)) is None


def test_partitions_go_with_their_topic() -> None:
    coordinator = initialised()
    coordinator.initialize(OTHER)
    coordinator.initialize(INVOICE)
    coordinator.show(INVOICES)
    assert list(coordinator.machine) == [INVOICE]
    assert coordinator.kinds[-2:] == ["tombstone"] * 2
    coordinator.restart()
    assert list(coordinator.machine) == [INVOICE]


def test_partitions_of_a_topic_that_went_while_nobody_was_there_go_later() -> None:
    coordinator = initialised()
    coordinator.image = coordinator.image.__class__()
    coordinator.restart()
    coordinator.pass_time(0)
    assert list(coordinator.machine) == []


def test_very_many_partitions_go_in_turns() -> None:
    coordinator = Coordinator()
    for number in range(DELETED_AT_ONCE + 1):
        coordinator.initialize(SharePartitionKey(f"group-{number}", ORDERS, 0))
    coordinator.show(INVOICES)
    assert len(coordinator.machine) == 1
    coordinator.pass_time(0)
    assert len(coordinator.machine) == 0


def test_what_the_log_does_not_let_go_goes_later() -> None:
    coordinator = initialised()
    coordinator.log_refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.show(INVOICES)
    assert list(coordinator.machine) == [KEY]
    coordinator.log_refuses = None
    coordinator.pass_time(1)
    assert list(coordinator.machine) == []


# The log is kept short


def test_the_log_is_needed_from_the_oldest_last_snapshot_on() -> None:
    coordinator = Coordinator(snapshot_update_records_per_snapshot=0)
    coordinator.initialize()
    coordinator.initialize(OTHER)
    assert coordinator.machine.needed_from == 0
    coordinator.write()
    assert coordinator.machine.needed_from == 1
    coordinator.write(key=OTHER)
    assert coordinator.machine.needed_from == 2
    coordinator.delete()
    assert coordinator.machine.needed_from == 3


def test_updates_do_not_make_anything_redundant() -> None:
    coordinator = initialised()
    for _ in range(10):
        coordinator.write()
    assert coordinator.machine.needed_from == 0


def test_a_partition_at_rest_does_not_hold_on_to_the_log_of_one_that_works() -> None:
    coordinator = Coordinator(snapshot_update_records_per_snapshot=5)
    coordinator.initialize(OTHER, start_offset=7)
    coordinator.write(StateBatch(8, 9, 2, 1), key=OTHER)
    coordinator.initialize()
    before = states(coordinator.machine, [OTHER])
    for _ in range(100):
        coordinator.write()
        coordinator.pass_time(FIVE_MINUTES / 50)
    coordinator.prune()
    assert len(coordinator.records) < 60
    assert states(coordinator.machine, [OTHER]) == before
    coordinator.restart()
    assert states(coordinator.machine, [OTHER]) == before


def test_nothing_is_written_while_all_are_at_rest() -> None:
    coordinator = initialised()
    coordinator.initialize(OTHER)
    coordinator.pass_time(FIVE_MINUTES)
    assert coordinator.kinds == ["snapshot"] * 4
    coordinator.pass_time(100 * FIVE_MINUTES)
    assert coordinator.kinds == ["snapshot"] * 4


def test_a_snapshot_of_one_at_rest_is_as_old_as_its_state() -> None:
    coordinator = initialised()
    began = coordinator.now_ms
    coordinator.pass_time(FIVE_MINUTES)
    again = coordinator.values[-1]
    assert (again.create_timestamp, again.write_timestamp) == (began, began + 300_000)
    assert again.snapshot_epoch == 1


def test_snapshots_of_very_many_at_rest_come_in_turns() -> None:
    coordinator = Coordinator()
    count = COPIED_AT_ONCE + 1
    for number in range(count):
        coordinator.initialize(SharePartitionKey(f"group-{number}", ORDERS, 0))
    coordinator.pass_time(0)
    coordinator.pass_time(FIVE_MINUTES)
    assert len(coordinator.log) == 2 * count
    assert max(coordinator.together) == COPIED_AT_ONCE


def test_snapshots_that_the_log_refuses_come_later() -> None:
    coordinator = initialised()
    coordinator.log_refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.pass_time(FIVE_MINUTES)
    coordinator.log_refuses = None
    coordinator.pass_time(FIVE_MINUTES)
    assert coordinator.kinds == ["snapshot"] * 2


def test_leaders_stay_fenced_when_the_log_is_cut_after_a_new_beginning() -> None:
    coordinator = initialised()
    coordinator.read(leader_epoch=5)
    coordinator.initialize(state_epoch=1)
    coordinator.prune()
    coordinator.restart()
    assert refusal(lambda: coordinator.read(leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    coordinator.pass_time(FIVE_MINUTES)
    coordinator.prune()
    assert len(coordinator.records) == 1
    coordinator.restart()
    assert refusal(lambda: coordinator.read(leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH


def test_a_refusal_says_why() -> None:
    with pytest.raises(KafkaError, match="uninitialized"):
        Coordinator().read()
