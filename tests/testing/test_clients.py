"""Failures as librdkafka, kafka-python and aiokafka report them, or survive them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyk.testing import ThreadBroker, serve_in_thread
from tests.testing.clients import PYTHON_CLIENTS, python_client, running
from tests.testing.provoked import check_reported, check_survived

SAID = {
    "confluent": {
        "not allowed": "TOPIC_AUTHORIZATION_FAILED",
        "too large": "MSG_SIZE_TOO_LARGE",
        "never answered": "_MSG_TIMED_OUT",
        "frozen": "_MSG_TIMED_OUT",
        "full": "_MSG_TIMED_OUT",
    },
    "kafka-python": {
        "not allowed": "TopicAuthorizationFailedError",
        "too large": "MessageSizeTooLargeError",
        "never answered": "KafkaTimeoutError",
        "frozen": "KafkaTimeoutError",
        "full": "KafkaTimeoutError",
    },
    "aiokafka": {
        "not allowed": "TopicAuthorizationFailedError",
        "too large": "MessageSizeTooLargeError",
        "never answered": "RequestTimedOutError",
        "frozen": "RequestTimedOutError",
        "full": "KafkaStorageError",
    },
}


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with serve_in_thread() as broker:
        yield broker


@pytest.mark.parametrize("name", PYTHON_CLIENTS)
def test_an_idempotent_producer_delivers_once_in_spite_of_it(
    name: str, broker: ThreadBroker
) -> None:
    command = [*python_client(name, broker.bootstrap_servers), "-i"]
    with running(command) as client:
        check_survived(broker, client)


@pytest.mark.parametrize("name", PYTHON_CLIENTS)
def test_a_producer_reports_it_and_is_well_afterwards(name: str, broker: ThreadBroker) -> None:
    with running(python_client(name, broker.bootstrap_servers)) as client:
        check_reported(broker, client, SAID[name])
