"""Any message, in any of its versions, comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyk.types import FileSlice, Records
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
