"""Why a broker cannot be used from here: one step after the other, and what each failure means.

    resolve -> connect -> ApiVersions -> Metadata -> the same for every address it advertises

A client talks to bootstrap servers only to learn the advertised addresses. What it needs is those,
so most trouble is there.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from pyk.client.address import Address
from pyk.client.connection import (
    Connection,
    NotKafka,
    Unreachable,
    describe,
    guess_language,
    resolve,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.apis import ApiKey
from pyk.wire.messages.metadata import MetadataRequest, MetadataResponse

PROBE_TIMEOUT: Final = 2.0
_CONTAINER_ID: Final = re.compile(r"[0-9a-f]{12}")


class Status(Enum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """The outcome of one step at one address."""

    role: str
    address: Address
    step: str
    status: Status
    detail: str
    advice: str | None = None


class Checkup:
    """The steps at one address. What is learnt on the way is kept for whoever goes on."""

    def __init__(self, role: str, address: Address, connect_timeout: float, timeout: float) -> None:
        self.role = role
        self.address = address
        self.metadata: MetadataResponse | None = None
        self._connect_timeout = connect_timeout
        self._timeout = timeout

    def run(self) -> Iterator[Finding]:
        """Findings up to the first that leaves nothing to try."""
        try:
            found = resolve(self.address)
        except OSError as failed:
            yield self._failed("resolve", describe(failed), advice_on_name(self.address.host))
            return
        yield self._ok("resolve", ", ".join(dict.fromkeys(where[0] for _, where in found)))
        connected = yield from self._connect(found)
        if connected:
            yield from self._converse()

    def _connect(self, found: list[tuple[int, tuple[str, int]]]) -> Generator[Finding, None, bool]:
        """Whether any of them takes a connection."""
        outcomes = {
            where[0]: _try_to_connect(family, where, self._connect_timeout)
            for family, where in found
        }
        status, detail, advice = judge_connections(self.address, outcomes)
        yield self._finding("connect", status, detail, advice)
        return status is not Status.FAILED

    def _converse(self) -> Iterator[Finding]:
        try:
            connection = Connection.open(
                self.address, connect_timeout=self._connect_timeout, timeout=self._timeout
            )
        except Unreachable as failed:
            yield self._failed("versions", failed.reason, self._advice_on_silence(failed))
            return
        with connection:
            apis = len(connection.api_versions.api_keys)
            yield self._ok("versions", f"{apis} APIs")
            try:
                connection.version_of(ApiKey.METADATA)
                self.metadata = connection.ask(MetadataRequest(topics=[]), MetadataResponse)
            except KafkaError as refused:
                advice = (
                    "It has no Metadata: this is the port of a controller, not of a broker. "
                    "Use a broker's listener."
                )
                yield self._failed("metadata", str(refused), advice)
                return
            except Unreachable as failed:
                advice = (
                    "It knows Kafka's protocol but hangs up on an ordinary request, as listeners "
                    "do that want SASL first. Use a PLAINTEXT listener; SASL is not supported yet."
                )
                yield self._failed("metadata", failed.reason, advice)
                return
        found = self.metadata
        if found.error_code:
            yield self._failed("metadata", ErrorCode(found.error_code).name)
            return
        names = ", ".join(
            f"{broker.node_id} at {Address(broker.host, broker.port)}" for broker in found.brokers
        )
        yield self._ok("metadata", f"cluster {found.cluster_id}, brokers {names}")

    def _advice_on_silence(self, failed: Unreachable) -> str:
        language = probe_language(self.address)
        if language == "TLS":
            return (
                "It speaks TLS. Use the broker's plaintext listener, or a client with "
                "security.protocol=SSL; pyk's command line does not support it yet."
            )
        if language is not None:
            return f"It speaks {language}: this is not a broker's port. 9092 is the usual one."
        if isinstance(failed, NotKafka):
            return "This is not a broker's port. 9092 is the usual one."
        return (
            "Something accepts connections there and does not answer as a broker: another program, "
            "a proxy without a broker behind it, or a broker that is still starting."
        )

    def _ok(self, step: str, detail: str) -> Finding:
        return self._finding(step, Status.OK, detail)

    def _failed(self, step: str, detail: str, advice: str | None = None) -> Finding:
        return self._finding(step, Status.FAILED, detail, advice)

    def _finding(
        self, step: str, status: Status, detail: str, advice: str | None = None
    ) -> Finding:
        return Finding(self.role, self.address, step, status, detail, advice)


def diagnose(
    bootstrap: tuple[Address, ...], connect_timeout: float, timeout: float
) -> Iterator[Finding]:
    """Everything there is to find, as it is found."""
    known: MetadataResponse | None = None
    working: set[Address] = set()
    for address in bootstrap:
        checkup = Checkup("bootstrap", address, connect_timeout, timeout)
        yield from checkup.run()
        if checkup.metadata is not None:
            working.add(address)
            known = known or checkup.metadata
            yield from judge_identity(checkup, known)
    if known is None:
        return
    for broker in sorted(known.brokers, key=lambda each: each.node_id):
        address = Address(broker.host, broker.port)
        role = f"broker {broker.node_id}"
        yield from judge_advertised(role, address, bootstrap)
        if address in working:
            yield Finding(role, address, "reach", Status.OK, "the same address as the bootstrap")
            continue
        checkup = Checkup(role, address, connect_timeout, timeout)
        yield from checkup.run()
        if checkup.metadata is not None:
            yield from judge_identity(checkup, known)


def judge_connections(
    address: Address, outcomes: Mapping[str, str | None]
) -> tuple[Status, str, str | None]:
    """What it means that these addresses of a host took a connection, or why they did not."""
    failures = {host: why for host, why in outcomes.items() if why is not None}
    if not failures:
        return Status.OK, f"port {address.port} is open", None
    detail = ", ".join(f"{host}: {why}" for host, why in failures.items())
    if len(failures) == len(outcomes):
        return Status.FAILED, detail, advice_on_connecting(address, detail)
    good = next(host for host in outcomes if host not in failures)
    advice = (
        f"{address.host} has several addresses, and only some of them answer. Clients that try the "
        f"first alone fail: use {good}, or have the broker listen on all of them."
    )
    return Status.WARNING, detail, advice


def judge_advertised(
    role: str, address: Address, bootstrap: tuple[Address, ...]
) -> Iterator[Finding]:
    """What can be said against an advertised address before it is tried."""
    host = address.host
    setting = "Set advertised.listeners on the broker to a name that clients can resolve"
    if host in ("0.0.0.0", "::", ""):
        yield Finding(
            role,
            address,
            "advertised",
            Status.FAILED,
            f"{host or 'nothing'} is every address of a host, and so none to connect to",
            f"{setting}, and leave 0.0.0.0 to listeners.",
        )
    elif is_loopback(host) and not all(is_loopback(each.host) for each in bootstrap):
        yield Finding(
            role,
            address,
            "advertised",
            Status.WARNING,
            "it is the broker's own loopback: for clients elsewhere that is another host",
            f"{setting}, such as {bootstrap[0].host}.",
        )


def judge_identity(checkup: Checkup, known: MetadataResponse) -> Iterator[Finding]:
    """Whether the broker that was found is of the cluster that was found first."""
    found = checkup.metadata
    assert found is not None
    if found.cluster_id != known.cluster_id:
        yield Finding(
            checkup.role,
            checkup.address,
            "identity",
            Status.FAILED,
            f"it belongs to cluster {found.cluster_id}, not to {known.cluster_id}",
            f"From here {checkup.address} leads to another cluster: see advertised.listeners, and "
            "whether another broker has the same port.",
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def advice_on_name(host: str) -> str:
    if _CONTAINER_ID.fullmatch(host):
        return (
            "It looks like the id of a container, which is a container's host name. Have the "
            "broker advertise one that clients can resolve: set advertised.listeners."
        )
    if host.endswith((".svc", ".cluster.local")):
        return (
            "It is a name inside of a Kubernetes cluster. From outside use a listener that "
            "advertises a node or a load balancer."
        )
    if host == "host.docker.internal":
        return "Only containers of Docker Desktop know it. On the host itself use localhost."
    if "." not in host and ":" not in host:
        return (
            "A name without dots is often a service of docker compose, which only containers on "
            "its network know. Advertise a second listener for clients outside, such as "
            "EXTERNAL://localhost:9093, or put the name into /etc/hosts."
        )
    return "Check the spelling, and whether this machine's DNS or /etc/hosts has the name."


def advice_on_connecting(address: Address, detail: str) -> str:
    if "refused" in detail:
        hint = "Is the broker up, and on this port? `pyk serve` starts one on localhost:9092."
        if is_loopback(address.host):
            return f"{hint} In a container localhost is the container itself: publish the port."
        return f"{hint} It may listen on its loopback only: see listeners in its configuration."
    if "unreachable" in detail or "no route" in detail:
        return "There is no way to that network from here: check address, VPN and routes."
    return "Packets get lost: a firewall, a security group, or an address of another network."


def probe_language(address: Address) -> str | None:
    """What else than Kafka's protocol is spoken there, by trying it."""
    if _speaks_tls(address):
        return "TLS"
    try:
        with socket.create_connection(address, PROBE_TIMEOUT) as probe:
            probe.settimeout(PROBE_TIMEOUT)
            probe.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            return guess_language(probe.recv(16))
    except OSError:
        return None


def _speaks_tls(address: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, PROBE_TIMEOUT) as probe,
            context.wrap_socket(probe, server_hostname=address.host),
        ):
            return True
    except ssl.SSLError as failed:
        # Whoever wants a certificate of ours has understood that much.
        return "ALERT" in (failed.reason or "")
    except OSError:
        return False


def _try_to_connect(family: int, where: tuple[str, int], timeout: float) -> str | None:
    """Why not, or None."""
    with socket.socket(family, socket.SOCK_STREAM) as attempt:
        attempt.settimeout(timeout)
        try:
            attempt.connect(where)
        except TimeoutError:
            return f"no connection within {timeout:g} s"
        except OSError as failed:
            return describe(failed)
    return None
