"""Apache Kafka and pyk, for tests that meet both by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat_tests.kafka.server import kafka_server, wait_until_it_leads
from tests.clients.brokers import running
from tests.clients.mortal import MortalBroker, mortal_pyk
from tests.clients.ports import HOST, free_ports

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


def both(mark: pytest.MarkDecorator) -> list[ParameterSet]:
    """Their names, of which Kafka's has that mark."""
    return [
        # That Kafka does so is what the tests are judged by, and does not change with pyk. It takes
        # its time to start, and after a kill it looks through its logs.
        pytest.param("kafka", marks=[mark, pytest.mark.timeout(600)]),
        pytest.param("pyk"),
    ]


@contextmanager
def serving(
    name: str, data_dir: Path, *, settings: Mapping[str, str], options: Sequence[str]
) -> Iterator[str]:
    """The address of the broker of that name, with Kafka's settings or the options of pyk, which
    keeps its data there."""
    if name == "kafka":
        with kafka_server(settings) as kafka:
            yield kafka.bootstrap_servers
    else:
        with running(data_dir, *options) as pyk:
            yield pyk.address


def mortal_broker(
    name: str, home: Path, *, settings: Mapping[str, str], options: Sequence[str]
) -> MortalBroker:
    """The broker of that name, as `serving` has it, but to be killed."""
    if name == "kafka":
        return mortal_kafka(settings, home)
    return mortal_pyk(home / "data", *options)


def mortal_kafka(settings: Mapping[str, str], home: Path) -> MortalBroker:
    port, controller_port = free_ports(2)

    @contextmanager
    def life() -> Iterator[int]:
        with kafka_server(settings, home=home, ports=(port, controller_port)) as kafka:
            wait_until_it_leads(kafka)
            yield kafka.pid

    return MortalBroker(f"{HOST}:{port}", life)
