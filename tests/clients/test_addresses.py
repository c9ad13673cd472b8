"""The addresses that clients reach, and those that they are told: IPv6, names, many listeners."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_cluster import DescribeClusterRequest
from pyk.wire.messages.metadata import MetadataRequest
from tests.clients.adapters.aio import Aiokafka
from tests.clients.adapters.client import Client, Sent
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.brokers import running
from tests.clients.ports import free_ports
from tests.clients.raw import RawClient


def told(address: str) -> str:
    """Where a client that reaches this address is sent to."""
    with RawClient(address) as raw:
        (node,) = raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[])).brokers
        (same,) = raw.ask(
            ApiKey.DESCRIBE_CLUSTER,
            1,
            DescribeClusterRequest(include_cluster_authorized_operations=False),
        ).brokers
    assert (node.host, node.port) == (same.host, same.port)
    host = f"[{node.host}]" if ":" in node.host else node.host
    return f"{host}:{node.port}"


def goes_around(kind: type[Client], address: str) -> bool:
    """Whether what this client puts in by this address comes out again."""
    client = kind(address)
    try:
        sent = [Sent(value=kind.name.encode())]
        client.produce(kind.name, sent)
        return [each.value for each in client.consume(kind.name)][-1:] == [sent[0].value]
    finally:
        client.close()


@pytest.mark.parametrize(
    "kind", [Confluent, KafkaPython, Aiokafka], ids=lambda kind: str(kind.name)
)
def test_ipv6_is_as_good_as_any(kind: type[Client], tmp_path: Path) -> None:
    with running(tmp_path, host="::1") as broker:
        assert broker.address.startswith("[::1]:")
        assert told(broker.address) == broker.address
        assert goes_around(kind, broker.address)


def test_a_name_is_all_the_addresses_that_it_has(tmp_path: Path) -> None:
    found = socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)
    hosts = {f"[{at[0]}]" if ":" in str(at[0]) else at[0] for _, _, _, _, at in found}
    with running(tmp_path, host="localhost", addresses=len(hosts)) as broker:
        assert {each.rpartition(":")[0] for each in broker.addresses} == hosts
        for address in broker.addresses:
            assert told(address) == address
            assert goes_around(Confluent, address)


def listeners(**hosts: str) -> list[str]:
    """The options for listeners of these names, on ports that are free."""
    parts = [
        f"{name}://[{host}]:{port}".replace("[127.0.0.1]", host)
        for (name, host), port in zip(hosts.items(), free_ports(len(hosts)), strict=True)
    ]
    protocols = ",".join(f"{name}:PLAINTEXT" for name in hosts)
    keys = {
        "listeners": ",".join(parts),
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": next(iter(hosts)),
    }
    return [word for key, value in keys.items() for word in ("-o", f"{key}={value}")]


def test_each_listener_is_told_to_those_who_reach_it(tmp_path: Path) -> None:
    options = listeners(FOUR="127.0.0.1", SIX="::1")
    with running(tmp_path, *options, host=None, addresses=2) as broker:
        four, six = broker.addresses
        assert (told(four), told(six)) == (four, six)
        assert goes_around(Confluent, four)
        assert goes_around(Confluent, six)


def test_what_is_advertised_is_told_by_listener(tmp_path: Path) -> None:
    options = listeners(FOUR="127.0.0.1", SIX="::1")
    advertised = "advertised.listeners=FOUR://four.example:1,SIX://[2001:db8::6]:2"
    with running(tmp_path, *options, "-o", advertised, host=None, addresses=2) as broker:
        four, six = broker.addresses
        assert (told(four), told(six)) == ("four.example:1", "[2001:db8::6]:2")


def test_clients_go_to_where_they_are_told(tmp_path: Path) -> None:
    options = listeners(FOUR="127.0.0.1", SIX="::1")
    _, six = options[1].removeprefix("listeners=").split(",")
    to_six = f"advertised.listeners={six.replace('SIX', 'FOUR')},{six}"
    with running(tmp_path, *options, "-o", to_six, host=None, addresses=2) as broker:
        four, six = broker.addresses
        assert (told(four), told(six)) == (six, six)
        client = Confluent(four)
        assert client.describe_cluster().nodes == {1: six.replace("[::1]", "::1")}
        assert goes_around(Confluent, four)
