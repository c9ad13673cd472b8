"""Addresses, settings, and where keys go."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as aiokafkas_murmur2
from hypothesis import given
from hypothesis import strategies as st

from pyk.client.address import Address, parse_addresses
from pyk.client.partitioner import murmur2, partition_of
from pyk.client.settings import read_settings
from pyk.errors import KafkaError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("example.org", "example.org", 9092),
        ("example.org:19092", "example.org", 19092),
        ("PLAINTEXT://example.org:1", "example.org", 1),
        ("[::1]:9093", "::1", 9093),
        ("[::1]", "::1", 9092),
        ("::1", "::1", 9092),
    ],
)
def test_an_address_is_a_host_and_maybe_a_port(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == (host, port)
    assert Address.parse(str(Address.parse(text))) == (host, port)


@pytest.mark.parametrize("text", ["", ":9092", "host:port", "host:99999", "host:-1", ", ,"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(KafkaError, match=r"address|no bootstrap"):
        parse_addresses(text)


def test_settings_have_kafkas_names() -> None:
    given = {"client.id": "me", "request.timeout.ms": "1500", "security.protocol": "PLAINTEXT"}
    settings = read_settings("a:1,b:2", given)
    assert settings.bootstrap == (("a", 1), ("b", 2))
    assert (settings.client_id, settings.request_timeout) == ("me", 1.5)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("no.such.key", "1", "unknown: no.such.key"),
        ("security.protocol", "SSL", "security.protocol=SSL is not supported yet"),
        ("sasl.mechanism", "PLAIN", "sasl.mechanism: TLS and SASL are not supported yet"),
        ("request.timeout.ms", "soon", "request.timeout.ms=soon is not"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(key: str, value: str, said: str) -> None:
    with pytest.raises(KafkaError, match=said):
        read_settings("localhost", {key: value})


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_kafkas_own_tests_say(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32


@given(st.binary(max_size=64))
def test_keys_are_hashed_as_another_client_hashes_them(key: bytes) -> None:
    assert murmur2(key) == aiokafkas_murmur2(key) & 0xFFFF_FFFF
    assert 0 <= partition_of(key, 7) < 7
