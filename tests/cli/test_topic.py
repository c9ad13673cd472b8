"""`pyk topic`."""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import pyk, pyk_on_terminal


def test_topics_are_created_listed_and_deleted(broker: str) -> None:
    created = pyk(
        "topic", "create", "one", "two", "-p", "3", "-c", "retention.ms=5000", "-b", broker
    )
    assert created.lines == ["TOPIC  STATUS", "one    OK", "two    OK"]
    listed = pyk("topic", "list", "-r", "one|two", bootstrap=broker)
    assert listed.lines == [
        "NAME  PARTITIONS  REPLICAS",
        "one   3           1",
        "two   3           1",
    ]
    again = pyk("topic", "create", "one", bootstrap=broker)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.out
    assert pyk("topic", "create", "one", "--if-not-exists", bootstrap=broker).code == 0
    assert pyk("topic", "delete", "one", "-r", "tw.", "--yes", bootstrap=broker).code == 0
    assert pyk("topic", "list", "-r", "one|two", bootstrap=broker).lines[1:] == []


def test_a_topic_is_described_in_sections(broker: str) -> None:
    pyk("topic", "create", "told", "-p", "2", "-c", "retention.ms=5000", bootstrap=broker)
    pyk("produce", "told", "-p", "1", bootstrap=broker, stdin=b"a\nb\n")
    text = pyk("topic", "describe", "told", bootstrap=broker).lines
    assert text[0] == "NAME                told"
    assert "OVERRIDES           retention.ms=5000" in text
    assert text[-1].split() == ["1", "1", "0", "1", "1", "0", "2"]
    (found,) = json.loads(
        pyk("topic", "describe", "told", "-a", "--format", "json", bootstrap=broker).out
    )
    assert found["partitions"][1]["high_watermark"] == 2
    configs = {each["key"]: each for each in found["configs"]}
    assert configs["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    only = pyk("topic", "describe", "told", "-s", "--format", "json", bootstrap=broker)
    assert set(json.loads(only.out)[0]) == {
        "name", "id", "internal", "partition_count", "replication_factor", "overrides",
    }  # fmt: skip


def test_health_filters_show_only_what_is_ill(broker: str) -> None:
    pyk("topic", "create", "healthy", bootstrap=broker)
    pyk("topic", "create", "strict", "-c", "min.insync.replicas=2", bootstrap=broker)
    flags = ("--under-replicated", "--unavailable", "--format", "json")
    assert json.loads(pyk("topic", "describe", *flags, bootstrap=broker).out) == []
    found = pyk("topic", "describe", "--under-min-isr", "--format", "json", bootstrap=broker)
    assert [each["name"] for each in json.loads(found.out)] == ["strict"]
    summary = pyk("topic", "describe", "-s", "--under-min-isr", bootstrap=broker).lines
    assert summary[0] == "NAME                strict"


def test_a_topic_is_altered(broker: str) -> None:
    pyk("topic", "create", "altered", "-c", "retention.ms=5", bootstrap=broker)
    more = ("-p", "4", "-c", "segment.ms=9", "--unset", "retention.ms")
    assert pyk("topic", "alter", "altered", *more, bootstrap=broker).lines[1] == "altered  OK"
    summary = pyk("topic", "describe", "altered", "-s", "--format", "json", bootstrap=broker)
    (found,) = json.loads(summary.out)
    assert (found["partition_count"], found["overrides"]) == (4, {"segment.ms": "9"})
    fewer = pyk("topic", "alter", "altered", "-p", "2", bootstrap=broker)
    assert fewer.code == 1
    assert "INVALID_PARTITIONS" in fewer.out
    both = pyk("topic", "alter", "altered", "-p", "2", "-c", "segment.ms=8", bootstrap=broker)
    assert both.code == 1
    assert "INVALID_PARTITIONS  its settings are altered, and then: " in both.out
    got = pyk("config", "get", "topic/altered", "segment.ms", bootstrap=broker)
    assert got.lines[1].split()[1] == "8"
    assert pyk("topic", "alter", "altered", bootstrap=broker).code == 2


def test_a_topic_is_trimmed(broker: str) -> None:
    pyk("topic", "create", "trimmed", "-p", "2", bootstrap=broker)
    pyk("produce", "trimmed", "-p", "1", bootstrap=broker, stdin=b"a\nb\nc\n")
    done = pyk("topic", "trim", "trimmed", "-p", "1", "-o", "2", bootstrap=broker)
    assert done.lines[1].split() == ["trimmed", "1", "2", "OK"]
    done = pyk("topic", "trim", "trimmed", "-o", "end", "--format", "json", bootstrap=broker)
    assert [row["log_start"] for row in json.loads(done.out)] == [0, 3]
    beyond = pyk("topic", "trim", "trimmed", "-o", "99", bootstrap=broker)
    assert beyond.code == 1
    assert "OFFSET_OUT_OF_RANGE" in beyond.out


@pytest.mark.parametrize(
    ("offset", "start"),
    [
        ("@2025-11-17T11:50", 3),
        ("@2025-11-17T13:50:00+02:00", 3),
        ("@2025-11-17T12:00:00Z", 3),
        ("@1969-12-31T23:59:59.999Z", 0),
    ],
)
def test_a_topic_is_trimmed_by_time(broker: str, offset: str, start: int) -> None:
    name = f"by-time-{abs(hash(offset))}"
    pyk("topic", "create", name, "-c", "retention.ms=-1", bootstrap=broker)
    # 09:30, 11:00, 11:40, 12:00 and 12:30 of that day.
    times = (1763371800, 1763377200, 1763379600, 1763380800, 1763382600)
    lines = "".join(f"{seconds}000 x\n" for seconds in times)
    pyk("produce", name, "-f", r"%T %v\n", bootstrap=broker, stdin=lines.encode())
    done = pyk("topic", "trim", name, "-o", offset, "--format", "json", bootstrap=broker)
    assert [row["log_start"] for row in json.loads(done.out)] == [start]
    read = pyk("consume", name, "-e", "-o", offset, "-f", r"%o\n", bootstrap=broker)
    assert read.lines == [str(number) for number in range(start, 5)]


@pytest.mark.parametrize("offset", ["1:2", "2:", ":2", "@-1h:end", "@2025-11-17T11:50:1h", "@-1h:"])
def test_a_range_is_not_where_to_trim(offset: str) -> None:
    done = pyk("topic", "trim", "t", "-o", offset, bootstrap="localhost:1")
    assert (done.code, done.out) == (2, "")


def test_deleting_by_pattern_needs_a_yes(broker: str) -> None:
    pyk("topic", "create", "safe-1", bootstrap=broker)
    refused = pyk("topic", "delete", "-r", "safe-.", bootstrap=broker)
    assert refused.code == 2
    assert "Delete safe-1? Say --yes" in refused.err
    answered = pyk_on_terminal("topic", "delete", "safe-1", bootstrap=broker, typed="n\n")
    assert "Delete safe-1? [y/N]" in answered.out
    assert answered.code == 1
    assert "pyk: nothing was deleted" in answered.out
    assert "safe-1" in pyk("topic", "list", bootstrap=broker).out
    answered = pyk_on_terminal("topic", "delete", "safe-1", bootstrap=broker, typed="y\n")
    assert answered.code == 0
    assert "safe-1" not in pyk("topic", "list", bootstrap=broker).out


def test_format_help_lists_the_fields_without_a_broker() -> None:
    done = pyk("topic", "describe", "--format", "help", "-b", "localhost:1")
    assert done.code == 0
    assert "partitions[].high_watermark  the offset after" in done.out


@pytest.mark.parametrize("format_", ["json", "yaml"])
def test_an_empty_list_is_still_a_document(broker: str, format_: str) -> None:
    done = pyk("topic", "list", "-r", "nobody", "--format", format_, bootstrap=broker)
    assert done.out == "[]\n"
