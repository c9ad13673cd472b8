"""Its tests. `pyk_broker` and the others come with pyk, which pytest finds by itself."""

from __future__ import annotations

import json

import pytest
from orders import NotSent, Orders

from pyk.testing import SubprocessBroker, ThreadBroker


def test_an_order_is_sent(pyk_broker: ThreadBroker, pyk_topic: str) -> None:
    orders = Orders(pyk_broker.bootstrap_servers, pyk_topic)
    assert orders.send({"id": 1}) == 0
    assert [json.loads(record.value or b"") for record in pyk_broker.records(pyk_topic)] == [
        {"id": 1}
    ]


def test_a_lost_answer_does_not_send_it_twice(pyk_broker: ThreadBroker, pyk_topic: str) -> None:
    orders = Orders(pyk_broker.bootstrap_servers, pyk_topic)
    with pyk_broker.faults.on("Produce", topic=pyk_topic, times=1).cut_after() as fault:
        orders.send({"id": 1})
        assert fault.hits == 1
    assert len(pyk_broker.records(pyk_topic)) == 1


def test_a_broker_that_hangs_is_reported(pyk_broker: ThreadBroker, pyk_topic: str) -> None:
    orders = Orders(pyk_broker.bootstrap_servers, pyk_topic, timeout_ms=500)
    with pyk_broker.faults.freeze(), pytest.raises(NotSent):
        orders.send({"id": 1})


def test_orders_survive_a_restart(pyk_fresh_broker: ThreadBroker) -> None:
    orders = Orders(pyk_fresh_broker.bootstrap_servers, "orders", timeout_ms=60_000)
    orders.send({"id": 1})
    pyk_fresh_broker.kill()
    pyk_fresh_broker.start()
    assert orders.send({"id": 2}) == 1


def test_against_a_process(pyk_subprocess: SubprocessBroker) -> None:
    orders = Orders(pyk_subprocess.bootstrap_servers, "orders", timeout_ms=60_000)
    assert orders.send({"id": 1}) == 0
