"""Whatever the order of requests, time, restarts and cuts of the log: what must not happen.

A model keeps for each partition what was said of every single offset, and the highest epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyk.coordinator.share_state.batches import StateBatch
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode
from tests.coordinator.share_state.coordinator import (
    INVOICE,
    INVOICES,
    KEY,
    ORDERS,
    OTHER,
    Coordinator,
    refusal,
    states,
)

KEYS = (KEY, OTHER, INVOICE)
keys = st.sampled_from(KEYS)
epochs = st.integers(0, 4)
offsets = st.integers(0, 30)
batches = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        offsets,
        st.integers(0, 10),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 3),
    ),
    max_size=4,
)


@dataclass
class Model:
    state_epoch: int
    start_offset: int
    leader_epoch: int = 0
    complete: int = 0
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)


class AnyHistory(RuleBasedStateMachine):
    @initialize(updates=st.integers(0, 5))
    def begin(self, updates: int) -> None:
        self.coordinator = Coordinator(
            snapshot_update_records_per_snapshot=updates,
            cold_partition_snapshot_interval_ms=60_000,
        )
        self.model: dict[SharePartitionKey, Model] = {}

    @rule(key=keys, state_epoch=epochs, start_offset=offsets)
    def initialise(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        known = self.model.get(key)
        refused = refusal(
            lambda: self.coordinator.initialize(
                key, state_epoch=state_epoch, start_offset=start_offset
            )
        )
        if known is not None and state_epoch < known.state_epoch:
            assert refused is ErrorCode.FENCED_STATE_EPOCH
            return
        assert refused is None
        leader_epoch = 0 if known is None else known.leader_epoch
        self.model[key] = Model(state_epoch, start_offset, leader_epoch)

    @rule(key=keys, leader_epoch=epochs)
    def read(self, key: SharePartitionKey, leader_epoch: int) -> None:
        known = self.model.get(key)
        refused = refusal(lambda: self.coordinator.read(key, leader_epoch=leader_epoch))
        if known is None:
            assert refused is ErrorCode.INVALID_REQUEST
        elif leader_epoch < known.leader_epoch:
            assert refused is ErrorCode.FENCED_LEADER_EPOCH
        else:
            assert refused is None
            known.leader_epoch = leader_epoch

    @rule(key=keys, state=epochs, leader=epochs, start=st.none() | offsets, written=batches)
    def write(
        self,
        key: SharePartitionKey,
        state: int,
        leader: int,
        start: int | None,
        written: list[StateBatch],
    ) -> None:
        known = self.model.get(key)
        start_offset = -1 if start is None else start
        refused = refusal(
            lambda: self.coordinator.write(
                *written,
                key=key,
                state_epoch=state,
                leader_epoch=leader,
                start_offset=start_offset,
                delivery_complete_count=len(written),
            )
        )
        if known is None:
            assert refused is ErrorCode.INVALID_REQUEST
        elif leader < known.leader_epoch:
            assert refused is ErrorCode.FENCED_LEADER_EPOCH
        elif state < known.state_epoch:
            assert refused is ErrorCode.FENCED_STATE_EPOCH
        else:
            assert refused is None
            _take(known, start_offset, written)

    @rule(key=keys)
    def delete(self, key: SharePartitionKey) -> None:
        self.coordinator.delete(key)
        self.model.pop(key, None)

    @rule()
    def lose_a_topic(self) -> None:
        self.coordinator.show(INVOICES)
        self.coordinator.show(ORDERS, INVOICES)
        self.model = {key: known for key, known in self.model.items() if key.topic_id == INVOICES}

    @rule(seconds=st.sampled_from([1, 30, 60, 600]))
    def pass_time(self, seconds: int) -> None:
        self.coordinator.pass_time(seconds)

    @rule()
    def restart(self) -> None:
        before = states(self.coordinator.machine, KEYS)
        self.coordinator.restart()
        after = states(self.coordinator.machine, KEYS)
        assert after == before

    @rule()
    def cut_the_log(self) -> None:
        self.coordinator.prune()

    @invariant()
    def everything_is_known_as_it_was_said(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        assert set(self.coordinator.machine) == set(self.model)
        for key, known in self.model.items():
            partition = self.coordinator.known(key)
            state = partition.state
            assert (state.state_epoch, state.start_offset) == (
                known.state_epoch,
                known.start_offset,
            )
            assert partition.leader_epoch_seen == known.leader_epoch
            assert partition.delivery_complete_count == known.complete
            assert _offsets_of(state.batches) == known.offsets


def _take(known: Model, start_offset: int, written: list[StateBatch]) -> None:
    known.complete = len(written)
    for batch in written:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            known.offsets[offset] = max(known.offsets.get(offset, batch.rank), batch.rank)
    if start_offset >= 0:
        known.start_offset = start_offset
    known.offsets = {o: rank for o, rank in known.offsets.items() if o >= known.start_offset}


def _offsets_of(batches: tuple[StateBatch, ...]) -> dict[int, tuple[int, int]]:
    return {
        offset: batch.rank
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
