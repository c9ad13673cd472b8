"""What share partitions are called, and what is no name of one."""

from __future__ import annotations

import pytest

from pyk.coordinator.share_state.key import SharePartitionKey
from tests.coordinator.share_state.coordinator import KEY


def test_a_key_is_read_as_it_is_written() -> None:
    assert KEY.text == "workers:b3JkZXJzJyB0b3BpYyBpZA:0"
    assert SharePartitionKey.parse(KEY.text) == KEY
    assert SharePartitionKey.parse(f" {KEY.text.replace(':0', ':+0')}:") == KEY


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:b", ":b3JkZXJzJyB0b3BpYyBpZA:0", " :b3JkZXJzJyB0b3BpYyBpZA:0", "a:short:0"]
    + [f"a:b3JkZXJzJyB0b3BpYyBpZA:{number}" for number in ("", "x", "1.5", "4294967296", "0:1")],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SharePartitionKey.parse(text)
