"""What `pyk group` tells and does is what kafka-consumer-groups tells and does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from compat_tests.cli.sides import Side
from compat_tests.kafka.jars import run_java
from tests.cli.commands import pyk

Both = tuple[Side, Side]
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
FIRST_TIME = 1_700_000_000_000
TAGGED = {"metadata_hash": 0, "assignment_timestamp": 0, "classic_member_metadata": None}


@pytest.fixture(scope="module", params=["kafka", "pyk"])
def side(both: Both, request: pytest.FixtureRequest) -> Side:
    """One of the brokers, with the topics `two`, of five records and two, and `one`, of one."""
    (found,) = (each for each in both if each.name == request.param)
    found.pyk("topic", "create", "two", "-p", "2", "-c", "retention.ms=-1")
    found.pyk("topic", "create", "one")
    timed = "".join(f"{FIRST_TIME + number} {number}\n" for number in range(5))
    found.pyk("produce", "two", "-p", "0", "-f", r"%T %v\n", stdin=timed.encode())
    found.pyk("produce", "two", "-p", "1", stdin=b"a\nb\n")
    found.pyk("produce", "one", stdin=b"a\n")
    return found


@contextmanager
def member(side: Side, group: str, protocol: str, *topics: str) -> Iterator[Consumer]:
    """A consumer that has its partitions and has committed the first record of one of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.address,
            "group.id": group,
            "client.id": f"of-{group}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(list(topics))
    try:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        consumer.commit(message=message, asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def tool(side: Side, *arguments: str) -> str:
    return run_java(TOOL, "--bootstrap-server", side.address, *arguments)


def table(printed: str) -> list[dict[str, str]]:
    """The rows of Kafka's tool, by its headings."""
    lines = [line for line in printed.splitlines() if line.strip()]
    heads = [at for at, line in enumerate(lines) if line.startswith("GROUP ")]
    headings = lines[heads[0]].replace("COORDINATOR (ID)", "COORDINATOR ID").split()
    rows = [line.split() for line in lines[heads[0] + 1 :] if not line.startswith("GROUP ")]
    return [dict(zip(headings, row, strict=False)) for row in rows]


def ours(side: Side, *arguments: str) -> Any:
    done = side.pyk("group", *arguments, "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def cells(row: dict[str, Any], *names: str) -> list[str]:
    return ["-" if row[name] is None else str(row[name]) for name in names]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_lag_state_and_members_are_those_of_kafkas_tool(side: Side, protocol: str) -> None:
    group = f"live-{protocol}"
    with member(side, group, protocol, "two", "one"):
        (told,) = ours(side, "describe", group, "-a")
        offsets = table(tool(side, "--describe", "--group", group))
        (state,) = table(tool(side, "--describe", "--group", group, "--state", "--verbose"))
        (only,) = table(tool(side, "--describe", "--group", group, "--members", "--verbose"))
    names: tuple[str, ...]
    theirs: tuple[str, ...]
    names = ("topic", "partition", "committed", "log_end", "lag", "member", "client")
    theirs = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
              "CLIENT-ID")  # fmt: skip
    assert [cells(row, *names) for row in told["offsets"]] == sorted(
        [row[name] for name in theirs] for row in offsets
    )
    assert len(offsets) == 3
    assert [f"/{row['host']}" for row in told["offsets"]] == [row["HOST"] for row in offsets]
    assert told["total_lag"] == sum(int(row["LAG"]) for row in offsets if row["LAG"] != "-")
    names = ("assignor", "state", "epoch", "assignment_epoch", "member_count")
    theirs = ("ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS")
    assert cells(told, *names) == [state[name] for name in theirs]
    assert (told["type"], state["ID"]) == (protocol, f"({told['coordinator']})")
    (own,) = told["members"]
    names = ("member", "client", "partitions", "epoch")
    theirs = ("CONSUMER-ID", "CLIENT-ID", "#PARTITIONS", "CURRENT-EPOCH")
    assert cells(own, *names) == [only[name] for name in theirs]
    assert partitions(own["assigned"]) == partitions(only["CURRENT-ASSIGNMENT"])
    if protocol == "consumer":
        assert partitions(own["target"]) == partitions(only["TARGET-ASSIGNMENT"])


def partitions(assignment: dict[str, list[int]] | str) -> dict[str, list[int]]:
    """Kafka's tool has them as `one:0;two:0,1`, in any order."""
    if isinstance(assignment, dict):
        return assignment
    pairs = (each.partition(":") for each in assignment.split(";"))
    return {topic: sorted(map(int, numbers.split(","))) for topic, _, numbers in pairs}


def test_groups_are_listed_as_kafkas_tool_lists_them(side: Side) -> None:
    made(side, "idle", "--to", "0", "-t", "two")
    with member(side, "awake", "classic", "one"):
        listed = ours(side, "list")
        theirs = table(tool(side, "--list", "--state", "--type"))
    assert [cells(row, "group", "state", "type") for row in listed] == sorted(
        [row["GROUP"], row["STATE"], row["TYPE"].lower()] for row in theirs
    )
    states = {row["group"]: row["state"] for row in listed}
    assert (states["idle"], states["awake"]) == ("Empty", "Stable")


def made(side: Side, group: str, *where: str) -> None:
    done = side.pyk("group", "seek", group, *where, "--execute")
    assert done.code == 0, done.err


AIMS = [
    (("--to", "earliest"), ("--to-earliest",)),
    (("--to", "latest"), ("--to-latest",)),
    (("--to", "current"), ("--to-current",)),
    (("--to", "1"), ("--to-offset", "1")),
    (("--to", "4"), ("--to-offset", "4")),
    (("--by", "1"), ("--shift-by", "1")),
    (("--by", "-1"), ("--shift-by", "-1")),
    (("--by", "100"), ("--shift-by", "100")),
    (("--to", "@2023-11-14T22:13:20.003Z"), ("--to-datetime", "2023-11-14T22:13:20.003Z")),
    (("--by-duration", "P1D"), ("--by-duration", "P1D")),
]


@pytest.mark.parametrize(("where", "theirs"), AIMS, ids=[" ".join(each) for each, _ in AIMS])
def test_a_seek_goes_where_kafkas_tool_goes(
    side: Side, where: tuple[str, ...], theirs: tuple[str, ...]
) -> None:
    made(side, "sought", "--to", "2", "-t", "two:0")
    made(side, "sought", "--to", "1", "-t", "two:1")
    planned = ours(side, "seek", "sought", *where, "-t", "two")
    reset = ("--reset-offsets", "--group", "sought", "--topic", "two", "--dry-run")
    assert [cells(row, "topic", "partition", "after") for row in planned] == sorted(
        [row["TOPIC"], row["PARTITION"], row["NEW-OFFSET"]]
        for row in table(tool(side, *reset, *theirs))
    )


def committed(side: Side, group: str) -> dict[str, str]:
    rows = table(tool(side, "--describe", "--group", group))
    return {f"{row['TOPIC']}:{row['PARTITION']}": row["CURRENT-OFFSET"] for row in rows}


def test_a_plan_goes_from_tool_to_tool(side: Side, tmp_path: Path) -> None:
    made(side, "handed", "--to", "1", "-t", "two,one")
    reset = ("--reset-offsets", "--group", "handed")
    theirs = tmp_path / "theirs.csv"
    everything = ("--all-topics", "--to-current", "--export", "--dry-run")
    printed = tool(side, *reset, *everything)
    theirs.write_text("".join(f"{line}\n" for line in printed.splitlines() if "," in line))
    assert len(theirs.read_text().splitlines()) == 3
    own = tmp_path / "ours.csv"
    own.write_text(side.pyk("group", "seek", "handed", "--to", "latest", "--export").out)
    tool(side, *reset, "--from-file", str(own), "--execute")
    assert committed(side, "handed") == {"one:0": "1", "two:0": "5", "two:1": "2"}
    made(side, "handed", "--from-file", str(theirs))
    assert committed(side, "handed") == {"one:0": "1", "two:0": "1", "two:1": "1"}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_go_on_from_where_they_were_sent(side: Side, protocol: str) -> None:
    group = f"sent-{protocol}"
    with member(side, group, protocol, "two"):
        refused = side.pyk("group", "seek", group, "--to", "3", "-t", "two:0", "--execute")
        assert refused.code == 1
        assert "NON_EMPTY_GROUP" in refused.err
    made(side, group, "--to", "3", "-t", "two:0")
    made(side, group, "--to", "latest", "-t", "two:1")
    with member(side, group, protocol, "two"):
        (told,) = ours(side, "describe", group, "-o")
    assert [row["committed"] for row in told["offsets"]] == [4, 2]


def test_what_is_deleted_is_gone_for_kafkas_tool(side: Side) -> None:
    made(side, "shrinking", "--to", "0", "-t", "two,one")
    assert side.pyk("group", "delete-offsets", "shrinking", "-t", "two:1").code == 0
    assert committed(side, "shrinking") == {"one:0": "0", "two:0": "0"}
    assert side.pyk("group", "delete", "shrinking").code == 0
    assert "shrinking" not in tool(side, "--list").split()


def test_records_of_groups_are_dumped_as_kafka_dumps_them(side: Side) -> None:
    """All of them, field by field, of every kind that the tests before have left behind."""
    expected = {
        "OffsetCommit",
        "GroupMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    }
    with member(side, "dumped-classic", "classic", "two"):
        pass
    with member(side, "dumped-consumer", "consumer", "two"):
        pass
    seen: set[str] = set()
    for directory in sorted(side.data_dir.glob("__consumer_offsets-*")):
        file = directory / f"{0:020}.log"
        if not file.stat().st_size:
            continue
        printed = run_java(
            "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(file)
        )
        theirs = [parsed(line) for line in printed.splitlines() if line.startswith("| offset")]
        done = pyk("log", "dump", str(file), "--records", "--format", "json")
        found = [record for line in done.lines for record in json.loads(line)["records"]]
        # A broker may have written more meanwhile.
        assert [shortened(record) for record in found[: len(theirs)]] == theirs
        seen |= {record["type"] for record in found}
    assert seen >= expected


def parsed(line: str) -> dict[str, Any]:
    found = re.fullmatch(r"\| offset: (\d+) .*? key: (\{.*\}) payload: (.*)", line)
    assert found is not None, line
    key = json.loads(found[2])["data"]
    value = None if found[3] in ("<DELETE>", "null") else json.loads(found[3])["data"]
    return {"offset": int(found[1]), "key": plain(key), "value": plain(value)}


def shortened(record: dict[str, Any]) -> dict[str, Any]:
    assert "type" in record, record
    return {name: plain(record[name]) for name in ("offset", "key", "value")}


def plain(value: Any) -> Any:
    """Names as we write them; without tagged fields that have their default, which Kafka's tool
    leaves out, and what members keep in a form of their own, which it shows as bytes."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub(r"([A-Z])", r"_\1", name).lower(): plain(each) for name, each in value.items()}
    return {
        name: each
        for name, each in named.items()
        if name not in ("subscription", "assignment") and TAGGED.get(name, ...) != each
    }
