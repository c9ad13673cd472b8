"""`pyk config` and `pyk cluster`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import pyk, pyk_process


def test_values_are_set_got_and_unset(broker: str) -> None:
    pyk("topic", "create", "mine", bootstrap=broker)
    done = pyk(
        "config", "set", "topic/mine", "retention.ms=77", "cleanup.policy+=compact", "-b", broker
    )
    assert done.lines[1].split() == ["topic/mine", "retention.ms", "set", "77"]
    assert done.lines[2].split() == ["topic/mine", "cleanup.policy", "append", "compact"]
    got = pyk("config", "get", "--type", "topic", "--name", "mine", bootstrap=broker)
    assert [line.split() for line in got.lines[1:]] == [
        ["cleanup.policy", "delete,compact", "DYNAMIC_TOPIC_CONFIG"],
        ["retention.ms", "77", "DYNAMIC_TOPIC_CONFIG"],
    ]
    assert pyk("config", "unset", "topic/mine", "retention.ms", bootstrap=broker).code == 0
    got = pyk("config", "get", "topic/mine", "retention.ms", "--format", "json", bootstrap=broker)
    (found,) = json.loads(got.out)
    assert (found["value"], found["source"]) == ("604800000", "DEFAULT_CONFIG")


def test_a_dry_run_changes_nothing(broker: str) -> None:
    pyk("topic", "create", "dry", bootstrap=broker)
    flags = ("config", "set", "topic/dry", "--dry-run")
    assert pyk(*flags, "retention.ms=77", bootstrap=broker).code == 0
    assert pyk(*flags, "retention.ms=x", bootstrap=broker).code == 1
    assert len(pyk("config", "get", "topic/dry", bootstrap=broker).lines) == 1


def test_brokers_have_values_of_their_own_and_defaults(broker: str) -> None:
    assert pyk("config", "set", "broker", "message.max.bytes=2000000", bootstrap=broker).code == 0
    got = pyk("config", "get", "broker/1", "message.max.bytes", bootstrap=broker)
    assert got.lines[1].split() == [
        "message.max.bytes", "2000000", "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ]  # fmt: skip
    explained = pyk(
        "config", "explain", "broker/1", "message.max.bytes", "--format", "json", bootstrap=broker
    )
    document = json.loads(explained.out)
    assert [each["source"] for each in document["synonyms"]] == [
        "DYNAMIC_DEFAULT_BROKER_CONFIG", "DEFAULT_CONFIG",
    ]  # fmt: skip
    assert document["documentation"]
    pyk("config", "unset", "broker", "message.max.bytes", bootstrap=broker)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("get", "topic/nobody"), 1, "there is no topic/nobody"),
        (("get", "broker/9"), 1, "there is no broker 9"),
        (("get", "broker/1", "no.key"), 1, "broker/1 has no setting no.key"),
        (("get",), 2, "say whose"),
        (("get", "topic"), 2, "a topic has a name"),
        (("set", "broker"), 2, "say what to set"),
        (("set", "broker", "x"), 2, "'x' is not of the form key=value"),
        (("unset", "broker"), 2, "say which keys"),
        (("explain",), 2, "say which key"),
        (("explain", "no.such.key"), 1, "there is no setting no.such.key"),
        (("explain", "broker/1", "node.id", "-o", "a=b"), 2, "offline"),
    ],
)
def test_what_is_wrong_is_one_line(
    broker: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = pyk("config", *arguments, bootstrap=broker)
    assert done.code == code
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_servers_file_is_explained_without_a_server(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.retention.hours=24\nnum.partitions=3\n")
    options = ("--config", str(file), "-o", "num.partitions=5", "--format", "json")
    document = json.loads(pyk("config", "explain", "num.partitions", *options).out)
    assert (document["value"], document["source"]) == ("5", "-o")
    assert [each["source"] for each in document["synonyms"]] == ["-o", str(file), "default"]
    document = json.loads(pyk("config", "explain", "retention.ms", *options).out)
    assert (document["value"], document["source"]) == (str(24 * 3_600_000), str(file))
    assert document["synonyms"][0]["name"] == "log.retention.hours"


def test_variables_of_the_environment_are_explained() -> None:
    command = ("config", "explain", "num.partitions", "--format", "json")
    document = json.loads(pyk(*command, variables={"KAFKA_NUM_PARTITIONS": "8"}).out)
    assert (document["value"], document["source"]) == ("8", "KAFKA_*")


def test_a_value_that_a_server_would_refuse_is_refused_here() -> None:
    done = pyk_process("config", "explain", "num.partitions", "-o", "num.partitions=x")
    assert done.code == 1
    assert "num.partitions" in done.err


def test_the_cluster_is_described(broker: str) -> None:
    found = json.loads(pyk("cluster", "describe", "--format", "json", bootstrap=broker).out)
    port = int(broker.rpartition(":")[2])
    assert found["brokers"] == [
        {"id": 1, "host": "127.0.0.1", "port": port, "rack": None, "controller": True}
    ]
    assert len(found["cluster_id"]) == 22
    assert "metadata.version" in {each["feature"] for each in found["features"]}
    assert "CLUSTER-ID" in pyk("cluster", "describe", bootstrap=broker).out


def test_log_directories_are_described(broker: str) -> None:
    pyk("topic", "create", "sized", "-p", "2", bootstrap=broker)
    pyk("produce", "sized", "-p", "1", bootstrap=broker, stdin=b"x\n")
    flags = ("-t", "sized", "--format", "json")
    (found,) = json.loads(pyk("cluster", "logdirs", *flags, bootstrap=broker).out)
    assert (found["broker"], found["partitions"], found["status"]) == (1, 2, "OK")
    rows = json.loads(pyk("cluster", "logdirs", "-p", *flags, bootstrap=broker).out)
    assert [(row["partition"], row["size"] > 0) for row in rows] == [(0, False), (1, True)]
    assert found["size"] == rows[1]["size"]
