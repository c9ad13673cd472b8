"""One classic group of two client libraries, of which one is not Python's."""

from __future__ import annotations

import pytest

from compat_tests.groups.kinds import FRANZ, JAVA, SARAMA, marked
from tests.clients.groups.group import Groups
from tests.clients.groups.kinds import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, Kind
from tests.clients.groups.test_mixed_groups import read_every_record_once


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        marked(JAVA, CONFLUENT),
        marked(KAFKA_PYTHON, JAVA),
        marked(FRANZ, CONFLUENT),
        marked(SARAMA, JAVA),
        marked(CONFLUENT, KAFKA_PYTHON),
        marked(KAFKA_PYTHON, AIOKAFKA),
        marked(AIOKAFKA, CONFLUENT),
    ],
)
def test_two_libraries_read_every_record_once(groups: Groups, other: Kind) -> None:
    read_every_record_once(groups, other)
