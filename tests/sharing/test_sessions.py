"""Share sessions: epochs, partitions, and what an answer has to mention."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode, KafkaError
from pyk.sharing.sessions import SessionKey, SharedPartition, ShareSessions
from pyk.types import Uuid

ANN, BOB = SessionKey("group", "ann"), SessionKey("group", "bob")
TOPIC = Uuid(bytes(15) + b"\1")
FIRST, SECOND, THIRD = (SharedPartition(TOPIC, number) for number in range(3))
CONNECTION = object()


def sessions(limit: int = 10) -> ShareSessions:
    return ShareSessions(lambda: limit)


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code is code)


def test_each_request_has_the_next_epoch() -> None:
    it = sessions()
    it.begin(ANN, [FIRST], CONNECTION)
    it.go_on(ANN, 1)
    it.go_on(ANN, 2)
    with refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
        it.go_on(ANN, 2)
    it.go_on(ANN, 3)


def test_after_the_last_epoch_comes_the_first() -> None:
    it = sessions()
    it.begin(ANN, [FIRST], CONNECTION).epoch = 2**31 - 1
    it.go_on(ANN, 2**31 - 1)
    it.go_on(ANN, 1)


def test_a_member_without_a_session_is_told_so() -> None:
    it = sessions()
    it.begin(BOB, [FIRST], CONNECTION)
    with refused(ErrorCode.SHARE_SESSION_NOT_FOUND):
        it.go_on(ANN, 1)
    with refused(ErrorCode.SHARE_SESSION_NOT_FOUND):
        it.find(ANN)


def test_partitions_come_and_go() -> None:
    it = sessions()
    it.begin(ANN, [FIRST, SECOND], CONNECTION)
    session = it.go_on(ANN, 1, wanted=[THIRD], forgotten=[FIRST])
    assert list(session.partitions) == [SECOND, THIRD]


def test_another_partition_is_first_each_time() -> None:
    session = sessions().begin(ANN, [FIRST, SECOND, THIRD], CONNECTION)
    assert session.in_turn(0) == [FIRST, SECOND, THIRD]
    assert session.in_turn(1) == [SECOND, THIRD, FIRST]
    assert session.in_turn(2) == [THIRD, FIRST, SECOND]
    assert session.in_turn(3) == [FIRST, SECOND, THIRD]


def test_a_session_in_the_place_of_another_begins_anew() -> None:
    it = sessions()
    before = it.begin(ANN, [FIRST], CONNECTION)
    it.go_on(ANN, 1)
    after = it.begin(ANN, [SECOND], CONNECTION)
    assert not it.end(before), "the end of the old connection is not the end of the new session"
    assert it.go_on(ANN, 1) is after
    assert it.end(after)
    assert len(it) == 0


def test_there_is_room_for_so_many() -> None:
    it = sessions(limit=1)
    it.begin(ANN, [FIRST], CONNECTION)
    with refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        it.begin(BOB, [FIRST], CONNECTION)
    it.begin(ANN, [FIRST], CONNECTION)


def test_what_has_no_news_is_not_mentioned() -> None:
    session = sessions().begin(ANN, [FIRST], CONNECTION)
    assert not session.is_told(FIRST, has_records=False, is_error=False)
    assert session.is_told(FIRST, has_records=True, is_error=False)
    assert not session.is_told(FIRST, has_records=False, is_error=False)


def test_an_error_is_followed_by_a_word_that_it_is_over() -> None:
    session = sessions().begin(ANN, [FIRST], CONNECTION)
    assert session.is_told(FIRST, has_records=False, is_error=True)
    assert session.is_told(FIRST, has_records=False, is_error=True)
    assert session.is_told(FIRST, has_records=False, is_error=False)
    assert not session.is_told(FIRST, has_records=False, is_error=False)


def test_a_partition_that_is_new_to_the_session_is_mentioned_once() -> None:
    it = sessions()
    it.begin(ANN, [FIRST], CONNECTION)
    session = it.go_on(ANN, 1, wanted=[SECOND])
    assert session.is_told(SECOND, has_records=False, is_error=False)
    assert not session.is_told(SECOND, has_records=False, is_error=False)


def test_what_had_records_is_asked_last_the_next_time() -> None:
    session = sessions().begin(ANN, [FIRST, SECOND], CONNECTION)
    session.is_told(FIRST, has_records=True, is_error=False)
    assert session.in_turn(0) == [SECOND, FIRST]


def test_groups_are_known_by_their_sessions() -> None:
    it = sessions()
    session = it.begin(ANN, [FIRST], CONNECTION)
    assert it.has_group("group")
    assert not it.has_group("other")
    it.end(session)
    assert not it.has_group("group")


def test_sessions_end_with_their_connection() -> None:
    it = sessions()
    assert not it.knows(CONNECTION)
    session = it.begin(ANN, [FIRST], CONNECTION)
    it.end(it.begin(BOB, [FIRST], CONNECTION))
    assert it.knows(CONNECTION)
    assert it.forget(CONNECTION) == [session]
    assert not it.knows(CONNECTION)
    assert it.forget(CONNECTION) == []


def test_a_session_that_goes_on_elsewhere_does_not_end_with_the_old_connection() -> None:
    it = sessions()
    it.begin(ANN, [FIRST], CONNECTION)
    it.begin(ANN, [FIRST], object())
    assert it.forget(CONNECTION) == []
