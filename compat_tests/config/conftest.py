"""One Kafka for all tests of configuration, with something in its file to be described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from compat_tests.config.answers import Address, created
from compat_tests.kafka.server import kafka_server
from pyk.config.properties import parse_properties
from pyk.config.settings import BrokerSettings
from pyk.errors import ErrorCode

WRITTEN = {
    "log.retention.hours": "5",
    "log.roll.hours": "7",
    "log.roll.jitter.ms": "11",
    "log.flush.scheduler.interval.ms": " 70000 ",
    "log.segment.bytes": "2097152",
    "log.cleanup.policy": "compact, delete",
    "log.cleaner.min.cleanable.ratio": "1e-4",
    "ssl.keystore.password": "secret",
    "broker.rack": "north",
    "my.own.key": "also a secret",
}

SET_WHEN_FORMATTED = {"min.insync.replicas": "1"}
"""Kafka writes this into its metadata where eligible leader replicas (KIP-966) are on."""


class Running(NamedTuple):
    address: Address
    settings: BrokerSettings
    """As pyk would have them from the same file."""


@pytest.fixture(scope="package")
def kafka() -> Iterator[Running]:
    with kafka_server(WRITTEN) as server:
        static = parse_properties((server.data_dir.parent / "server.properties").read_text())
        settings = BrokerSettings(static, cluster_wide=SET_WHEN_FORMATTED)
        address = (server.host, server.port)
        assert created(address, "bystander", {}) is ErrorCode.NONE
        yield Running(address, settings)
