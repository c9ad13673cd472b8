"""A log for all who read one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyk.wire.compression import Compression
from tests.spark.stored import Writer, segments


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    """A hundred batches in some segments, the last of which has no indexes yet."""
    made = Writer(tmp_path)
    for number in range(100):
        made.put(codec=Compression(number % 5))
    assert len(segments(made)) > 5
    return made
