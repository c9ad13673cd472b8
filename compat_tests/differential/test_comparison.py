"""That the comparison sees what it should: a suite that finds nothing must not be blind."""

from __future__ import annotations

from typing import Any

from compat_tests.differential.comparison import Comparison, Listed
from compat_tests.differential.sides import Side, Sides
from pyk.types import ZERO_UUID, Uuid
from pyk.wire.messages.create_topics import CreatableTopicResult

NOWHERE = Sides(Side("kafka", ""), Side("pyk", ""))


def found(kafka: Any, pyk: Any, **listed: Listed) -> list[str]:
    comparison = Comparison(NOWHERE, listed)
    comparison.judge("a case", kafka, pyk)
    return comparison.differences


def test_a_difference_is_found_wherever_it_is() -> None:
    kafka = {"topics": [{"name": "a", "error_code": 0}, {"name": "b", "error_code": 0}]}
    pyk = {"topics": [{"name": "a", "error_code": 0}, {"name": "b", "error_code": 3}]}
    assert found(kafka, kafka) == []
    assert found(kafka, pyk) == ["a case: .topics[b].error_code: kafka 0, pyk 3"]


def test_what_one_side_lacks_is_found() -> None:
    kafka, pyk = [{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "c"}]
    assert found(kafka, pyk) == [
        "a case: [a]: kafka {'name': 'a'}, pyk 'absent'",
        "a case: [c]: kafka 'absent', pyk {'name': 'c'}",
    ]
    assert found([1], [1, 2]) == ["a case: : kafka [1], pyk [1, 2]"]


def test_another_order_is_a_difference() -> None:
    kafka, pyk = [{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}]
    assert len(found(kafka, pyk)) == 2


def test_a_listed_difference_is_let_pass_while_it_is_there() -> None:
    listed = Listed("a case", "error_code", "It is meant.")
    assert found({"error_code": 0}, {"error_code": 3}, meant=listed) == []
    assert found({"error_code": 0}, {"error_code": 0}, meant=listed) == [
        "not there any more: meant"
    ]
    assert len(found({"size": 0, "error_code": 0}, {"size": 1, "error_code": 3}, meant=listed)) == 1


def test_words_count_by_being_there_and_ids_by_what_they_name() -> None:
    side = Side("pyk", "")
    topic_id = Uuid(b"0123456789abcdef")

    def plain(message: str | None, topic_id: Uuid) -> dict[str, Any]:
        result = CreatableTopicResult(
            name="a", error_message=message, topic_id=topic_id, configs=[]
        )
        shown: dict[str, Any] = side.plain(result)
        return shown

    assert plain("why", ZERO_UUID) == plain("another reason", ZERO_UUID)
    assert plain("why", ZERO_UUID) != plain(None, ZERO_UUID)
    assert plain(None, topic_id)["topic_id"] == "new"
    side.topic_ids[topic_id] = "a"
    assert plain(None, topic_id)["topic_id"] == "a"
