"""Fetch sessions: what each step of a conversation is answered, in every version that has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from compat_tests.differential.comparison import Comparison, Listed, Make, comparing, versions
from compat_tests.differential.requests import a_batch, produce, wanted
from compat_tests.differential.sides import Side, Sides
from pyk.wire.apis import ApiKey
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

FETCH, PRODUCE, DELETE = ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.DELETE_TOPICS
SINCE = 7
VERSIONS = range(SINCE, versions(FETCH).stop)
NONE, FIRST, CLOSE = 0, 0, -1
NOTHING: Mapping[str, Any] = {}
OUTLIVED_DIFFERENTLY = {
    "a topic that goes while a session reads it by its id": Listed(
        "",
        r"error_code: kafka (3|103), pyk 100$|aborted_transactions: kafka None, pyk \[\]$",
        "Kafka goes on to look for its name. Whichever the code, a client asks for metadata.",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create("session-other")


class Session:
    """A reader with a session of one version at each side."""

    def __init__(self, compare: Comparison, version: int) -> None:
        self._compare = compare
        self._version = version
        self._key = f"session {version}"
        for side in compare.sides:
            side.noted[self._key] = NONE

    def fetch(
        self,
        case: str,
        epoch: int,
        topics: Mapping[str, Sequence[FetchPartition]] = NOTHING,
        forgotten: Mapping[str, Sequence[int]] = NOTHING,
        **more: Any,
    ) -> None:
        def make(version: int, side: Side) -> FetchRequest:
            def named(topic: str) -> dict[str, Any]:
                return {"topic_id": side.id_of(topic)} if version >= 13 else {"topic": topic}

            options = {
                "max_wait_ms": 0,
                "min_bytes": 0,
                "session_id": side.noted[self._key],
                **more,
            }
            return FetchRequest(
                session_epoch=epoch,
                topics=[FetchTopic(partitions=list(p), **named(t)) for t, p in topics.items()],
                forgotten_topics_data=[
                    ForgottenTopic(partitions=list(p), **named(t)) for t, p in forgotten.items()
                ],
                **options,
            )

        answers = self._compare.ask(FETCH, self._version, case, make)
        for side, answer in zip(self._compare.sides, answers, strict=True):
            if epoch == FIRST and answer.error_code == 0:
                side.noted[self._key] = answer.session_id


def produced(compare: Comparison, topic: str, partition: int = 0) -> None:
    asked: Make = produce(a_batch(2), topic=topic, first=partition)
    compare.ask(PRODUCE, 12, "something new", asked)


@comparing("fetch sessions", unordered=["partitions"])
def test_sessions_are_kept_alike(compare: Comparison, sides: Sides) -> None:
    sides.create(*[f"session-{version}" for version in VERSIONS])
    for version in VERSIONS:
        topic, session = f"session-{version}", Session(compare, version)
        produced(compare, topic)
        session.fetch("a new session", FIRST, {topic: [wanted()]})
        session.fetch("from where it was", 1)
        session.fetch("from further on", 2, {topic: [wanted(offset=2)]})
        session.fetch("with nothing new", 3)
        produced(compare, topic)
        session.fetch("with something new", 4)
        session.fetch("the same once more", 5)
        session.fetch("with another topic", 6, {"session-other": [wanted()]})
        session.fetch("with a partition that is missing", 7, {topic: [wanted(7)]})
        session.fetch("which goes on to be missing", 8)
        session.fetch("forget that", 9, forgotten={topic: [7]})
        session.fetch("forget the first", 10, forgotten={topic: [0]})
        session.fetch("without the first", 11)
        session.fetch("add the first", 12, {topic: [wanted()]})
        session.fetch("forget what was never there", 13, forgotten={"session-other": [5]})
        session.fetch("add and forget at once", 14, {topic: [wanted()]}, {topic: [0]})
        session.fetch("after that", 15)
        session.fetch("out of range", 16, {topic: [wanted(offset=99)]})
        session.fetch("still out of range", 17)
        session.fetch("an epoch too far", 19)
        session.fetch("an old epoch", 3)
        session.fetch("the right epoch", 18)
        session.fetch("close", CLOSE)
        session.fetch("after the end", 19)
        session.fetch("a second one", FIRST, {topic: [wanted()]})
        session.fetch("begin again", FIRST, {topic: [wanted(offset=2)]})
        session.fetch("and go on", 1)
        session.fetch("close with a partition", CLOSE, {topic: [wanted()]})
        session.fetch("without any", CLOSE, {topic: [wanted()]}, session_id=NONE)
        session.fetch("of nothing", FIRST, session_id=NONE)
        session.fetch("a negative epoch", -2, {topic: [wanted()]})


@comparing("fetch sessions over topics that go and come", OUTLIVED_DIFFERENTLY)
def test_sessions_outlive_topics_alike(compare: Comparison, sides: Sides) -> None:
    sides.create(*[f"mortal-{version}" for version in VERSIONS])
    sessions = {version: Session(compare, version) for version in VERSIONS}
    for version, session in sessions.items():
        topic = f"mortal-{version}"
        produced(compare, topic)
        session.fetch("two topics", FIRST, {topic: [wanted()], "session-other": [wanted()]})
        session.fetch("caught up", 1, {topic: [wanted(offset=2)]})
        deletion = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        sides.each(partial(Side.ask, key=DELETE, version=5, request=deletion))
    sides.settle()
    for session in sessions.values():
        session.fetch("one is gone", 2)
        session.fetch("and still gone", 3)
    names = [f"mortal-{version}" for version in VERSIONS]
    sides.each(lambda side: side.create(*names, called="{} anew"))
    sides.settle()
    for version, session in sessions.items():
        topic = f"mortal-{version}"
        session.fetch("one is back", 4)
        produced(compare, topic)
        session.fetch("and has records", 5)
        session.fetch("asked for again", 6, {topic: [wanted()]})
        session.fetch("by its new id", 7, {f"{topic} anew": [wanted()]} if version >= 13 else {})
        session.fetch("the other goes on", 8, {"session-other": [wanted()]})
        session.fetch("forget the old one", 9, forgotten={topic: [0]})
        session.fetch("after that", 10)
