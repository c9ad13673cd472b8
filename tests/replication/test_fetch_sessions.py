"""Fetch sessions: what clients have to hear of, and what they are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from pyk.errors import ErrorCode, KafkaError
from pyk.replication.fetch_sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Asked,
    Fetch,
    FetchSessions,
    PartitionKey,
)

A, B, C = (PartitionKey.named("topic", number) for number in range(3))


@dataclass
class Told:
    high_watermark: int = 0
    has_records: bool = False
    error_code: int = 0
    log_start_offset: int = 0

    @property
    def has_more_to_say(self) -> bool:
        return self.has_records


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(2, Random(1))


def begin(
    sessions: FetchSessions,
    *keys: PartitionKey,
    session_id: int = NO_SESSION,
    epoch: int = INITIAL_EPOCH,
    forgotten: Sequence[PartitionKey] = (),
    uses_topic_ids: bool = False,
    now_ms: int = 0,
    offset: int = 0,
) -> Fetch:
    asked = [(key, Asked(offset, 1000)) for key in keys]
    return sessions.begin(
        session_id, epoch, asked, forgotten, uses_topic_ids=uses_topic_ids, now_ms=now_ms
    )


def begun(sessions: FetchSessions, *keys: PartitionKey, now_ms: int = 0) -> int:
    """A new session whose client knows of high watermarks of 0."""
    fetch = begin(sessions, *keys, now_ms=now_ms)
    return fetch.answer([(key, Told()) for key in keys]).session_id


def keys_of(fetch: Fetch) -> list[PartitionKey]:
    return [key for key, _ in fetch.wanted]


def test_a_fetch_without_a_session_is_told_everything(sessions: FetchSessions) -> None:
    fetch = begin(sessions, A, B, epoch=FINAL_EPOCH)
    answer = fetch.answer([(A, Told()), (B, Told())])
    assert (answer.session_id, len(answer.results), len(sessions)) == (NO_SESSION, 2, 0)


def test_an_incremental_fetch_is_told_what_is_new(sessions: FetchSessions) -> None:
    session_id = begun(sessions, A, B, C)
    fetch = begin(sessions, session_id=session_id, epoch=1)
    assert keys_of(fetch) == [A, B, C]
    told = [(A, Told()), (B, Told(high_watermark=5)), (C, Told(log_start_offset=2))]
    assert fetch.answer(told).results == told[1:]
    again = begin(sessions, session_id=session_id, epoch=2)
    assert again.answer(told).results == []


def test_who_had_records_waits_for_the_others_next_time(sessions: FetchSessions) -> None:
    session_id = begun(sessions, A, B, C)
    fetch = begin(sessions, session_id=session_id, epoch=1)
    fetch.answer([(A, Told(has_records=True)), (B, Told()), (C, Told())])
    assert keys_of(begin(sessions, session_id=session_id, epoch=2)) == [B, C, A]


def test_after_an_error_the_client_hears_again_that_it_is_over(sessions: FetchSessions) -> None:
    session_id = begun(sessions, A)
    for epoch in (1, 2):
        fetch = begin(sessions, session_id=session_id, epoch=epoch)
        assert len(fetch.answer([(A, Told(error_code=6))]).results) == 1
    fetch = begin(sessions, session_id=session_id, epoch=3)
    assert len(fetch.answer([(A, Told())]).results) == 1
    fetch = begin(sessions, session_id=session_id, epoch=4)
    assert fetch.answer([(A, Told())]).results == []


def test_partitions_are_added_changed_and_forgotten(sessions: FetchSessions) -> None:
    session_id = begun(sessions, A, B)
    fetch = begin(sessions, C, A, session_id=session_id, epoch=1, forgotten=[B], offset=7)
    assert fetch.wanted == [(A, Asked(7, 1000)), (C, Asked(7, 1000))]


def test_a_session_may_begin_without_partitions(sessions: FetchSessions) -> None:
    session_id = begun(sessions)
    assert session_id != NO_SESSION
    assert keys_of(begin(sessions, A, session_id=session_id, epoch=1)) == [A]


def test_a_session_without_partitions_is_over(sessions: FetchSessions) -> None:
    session_id = begun(sessions, A)
    fetch = begin(sessions, session_id=session_id, epoch=1, forgotten=[A])
    assert fetch.answer([]).session_id == NO_SESSION
    assert len(sessions) == 0


def test_a_full_fetch_ends_the_session_it_names(sessions: FetchSessions) -> None:
    first = begun(sessions, A)
    begin(sessions, A, session_id=first, epoch=FINAL_EPOCH)
    assert len(sessions) == 0
    second = begun(sessions, A)
    begin(sessions, A, session_id=second, epoch=INITIAL_EPOCH).answer([(A, Told())])
    assert len(sessions) == 1


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"session_id": 12345}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"epoch": 2}, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ({"uses_topic_ids": True}, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_what_is_not_the_next_fetch_of_a_session_is_refused(
    sessions: FetchSessions, changed: dict[str, int], code: ErrorCode
) -> None:
    session_id = begun(sessions, A)
    with pytest.raises(KafkaError) as refused:
        begin(sessions, **{"session_id": session_id, "epoch": 1, **changed})  # type: ignore[arg-type]
    assert refused.value.code == code
    assert keys_of(begin(sessions, session_id=session_id, epoch=1)) == [A], "nothing has happened"


def test_epochs_begin_again_after_the_largest(sessions: FetchSessions) -> None:
    session_id = begun(sessions, A)
    sessions._sessions[session_id].epoch = 2**31 - 1
    begin(sessions, session_id=session_id, epoch=2**31 - 1)
    begin(sessions, session_id=session_id, epoch=1)


def test_without_room_a_fetch_gets_no_session(sessions: FetchSessions) -> None:
    first = begun(sessions, A)
    begun(sessions, A, now_ms=1)
    assert begun(sessions, A, now_ms=EVICTION_MS) == NO_SESSION
    assert begun(sessions, A, now_ms=EVICTION_MS + 1) != NO_SESSION, "the first was not used"
    with pytest.raises(KafkaError):
        begin(sessions, session_id=first, epoch=1)
