"""The fixtures under Java's client: failures as it reports them, or survives them."""

from __future__ import annotations

from pathlib import Path

from compat_tests.kafka.jars import compiled, java_command
from pyk.testing import SubprocessBroker, ThreadBroker
from tests.testing.clients import running
from tests.testing.provoked import check_reported, check_survived

PROGRAM = Path(__file__).with_name("Deliver.java")
SAID = {
    "not allowed": "TopicAuthorizationException",
    "too large": "RecordTooLargeException",
    "never answered": "TimeoutException",
    "frozen": "TimeoutException",
    "full": "TimeoutException",
}


def command(servers: str, *options: str) -> list[str]:
    return java_command("Deliver", servers, *options, classes=compiled(PROGRAM))


def test_an_idempotent_producer_delivers_once_in_spite_of_it(
    pyk_fresh_broker: ThreadBroker,
) -> None:
    with running(command(pyk_fresh_broker.bootstrap_servers, "-i")) as client:
        check_survived(pyk_fresh_broker, client)


def test_a_producer_reports_it_and_is_well_afterwards(pyk_fresh_broker: ThreadBroker) -> None:
    with running(command(pyk_fresh_broker.bootstrap_servers)) as client:
        check_reported(pyk_fresh_broker, client, SAID)


def test_a_broker_in_a_process_is_killed_and_comes_back(pyk_subprocess: SubprocessBroker) -> None:
    topic = pyk_subprocess.topic()
    with running(command(pyk_subprocess.bootstrap_servers, "-i")) as client:
        assert client.deliver(topic) == "ok"
        pyk_subprocess.kill()
        client.begin(topic)
        pyk_subprocess.start()
        assert client.outcome() == "ok"
    assert [record.offset for record in pyk_subprocess.records(topic)] == [0, 1]
