"""`pyk doctor`: each mistake is found where it is, and explained."""

from __future__ import annotations

import json

import pytest

from pyk.cli.diagnosis import Finding, Status, advice_on_name, judge_advertised, judge_connections
from pyk.client.address import Address
from pyk.wire.apis import ApiKey
from tests.cli.commands import pyk
from tests.client.peers import (
    Behaviour,
    alerts,
    broker_like,
    hangs_up,
    peer,
    silent,
    speaks_http,
)
from tests.clients.ports import free_ports

QUICK = ("-X", "request.timeout.ms=500", "-X", "socket.connection.setup.timeout.ms=500")


def findings(bootstrap: str) -> tuple[list[dict[str, str]], int]:
    done = pyk("doctor", "--format", "json", *QUICK, bootstrap=bootstrap)
    assert done.err == ""
    return json.loads(done.out), done.code


def failed(bootstrap: str) -> dict[str, str]:
    """The one step that fails."""
    found, code = findings(bootstrap)
    (failure,) = [each for each in found if each["status"] == "failed"]
    assert code == 3
    return failure


def test_a_healthy_broker_passes_every_step(broker: str) -> None:
    done = pyk("doctor", bootstrap=broker)
    assert done.code == 0
    assert done.lines[-1] == "Every broker answers at the address that it advertises."
    steps = [(each["role"], each["step"], each["status"]) for each in findings(broker)[0]]
    assert steps == [
        ("bootstrap", "resolve", "ok"),
        ("bootstrap", "connect", "ok"),
        ("bootstrap", "versions", "ok"),
        ("bootstrap", "metadata", "ok"),
        ("broker 1", "reach", "ok"),
    ]


def test_a_closed_port() -> None:
    [port] = free_ports(1)
    found = failed(f"127.0.0.1:{port}")
    assert found["step"] == "connect"
    assert "connection refused" in found["detail"]
    assert "Is the broker up" in found["advice"]


def test_a_name_that_nobody_knows() -> None:
    found = failed("no-such-host.invalid:9092")
    assert found["step"] == "resolve"
    assert "DNS" in found["advice"]


@pytest.mark.parametrize(
    ("behave", "advice"),
    [
        (speaks_http, "It speaks HTTP"),
        (alerts, "It speaks TLS"),
        (silent, "does not answer as a broker"),
        (hangs_up, "does not answer as a broker"),
    ],
)
def test_a_port_where_something_else_is(behave: Behaviour, advice: str) -> None:
    with peer(behave) as address:
        found = failed(str(address))
    assert found["step"] == "versions"
    assert advice in found["advice"]


def test_a_listener_that_wants_sasl_first() -> None:
    with peer(broker_like()) as address:
        found = failed(str(address))
    assert found["step"] == "metadata"
    assert "SASL" in found["advice"]


def test_the_port_of_a_controller() -> None:
    with peer(broker_like(apis=(ApiKey.FETCH,))) as address:
        found = failed(str(address))
    assert "controller" in found["advice"]


@pytest.mark.parametrize(
    ("host", "advice"),
    [
        ("no-such-service", "docker compose"),
        ("0123456789ab", "id of a container"),
        ("broker.kafka.svc.cluster.local", "Kubernetes"),
    ],
)
def test_an_advertised_name_that_only_others_know(host: str, advice: str) -> None:
    with peer(broker_like((1, host, 9092))) as address:
        found = failed(str(address))
    assert (found["role"], found["step"]) == ("broker 1", "resolve")
    assert advice in found["advice"]
    assert advice in advice_on_name(host)


def test_an_advertised_broker_that_is_down() -> None:
    [port] = free_ports(1)
    with peer(broker_like((1, "127.0.0.1", port), (2, "localhost", port))) as address:
        found, code = findings(str(address))
    assert [each["role"] for each in found if each["status"] == "failed"] == [
        "broker 1",
        "broker 2",
    ]
    assert code == 3


def test_an_advertised_address_that_leads_to_another_cluster(broker: str) -> None:
    host, _, port = broker.rpartition(":")
    with peer(broker_like((1, host, int(port)))) as address:
        found = failed(str(address))
    assert found["step"] == "identity"
    assert "not to fake" in found["detail"]


def judged(host: str, bootstrap: str) -> list[Finding]:
    return list(judge_advertised("broker 1", Address(host, 9092), (Address(bootstrap, 9092),)))


def test_a_name_of_which_only_one_address_answers() -> None:
    address = Address("localhost", 9092)
    outcomes = {"::1": "connection refused", "127.0.0.1": None}
    status, detail, advice = judge_connections(address, outcomes)
    assert (status, detail) == (Status.WARNING, "::1: connection refused")
    assert advice is not None
    assert "use 127.0.0.1, or have the broker listen on all of them" in advice


def test_every_address_of_a_host_is_none_to_connect_to() -> None:
    (found,) = judged("0.0.0.0", "kafka.example.org")
    assert found.status is Status.FAILED
    assert found.advice is not None
    assert "advertised.listeners" in found.advice


def test_localhost_is_another_host_elsewhere() -> None:
    (found,) = judged("localhost", "kafka.example.org")
    assert found.status is Status.WARNING
    assert judged("localhost", "127.0.0.1") == []
    assert judged("kafka.example.org", "kafka.example.org") == []
