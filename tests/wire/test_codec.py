"""Any message, in any of its versions, comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyk.types import ZERO_UUID, FileSlice, Records
from pyk.wire.messages.fetch import FetchRequest, ForgottenTopic
from pyk.wire.writer import has_more_elements_than
from tests.wire.catalogue import MESSAGES, versions
from tests.wire.strategies import messages
from tests.wire.ways import encode, read


def joined(chunks: list[Records]) -> bytes:
    assert not any(isinstance(chunk, FileSlice) for chunk in chunks)
    return b"".join(chunks)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_what_is_encoded_is_decoded(name: str) -> None:
    declared = MESSAGES[name]

    @settings(max_examples=10, deadline=None)
    @given(st.data())
    def every_version(data: st.DataObject) -> None:
        for version in versions(declared):
            message = data.draw(messages(declared, version))
            encoded = joined(encode(message, version))
            decoded: object
            decoded, end = read(declared, version, encoded)
            assert decoded == message
            assert end == len(encoded)

    every_version()


def test_the_elements_of_all_arrays_count() -> None:
    topics = [ForgottenTopic(topic_id=ZERO_UUID, partitions=[1, 2, 3, 4]) for _ in range(10)]

    def request(topics: list[ForgottenTopic]) -> FetchRequest:
        return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], forgotten_topics_data=topics)

    assert has_more_elements_than(request(topics), 49)
    assert not has_more_elements_than(request(topics), 50)
    assert not has_more_elements_than(request([]), 0)
