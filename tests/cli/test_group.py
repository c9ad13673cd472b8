"""`pyk group`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from pyk.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyk.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from tests.cli.commands import pyk, pyk_on_terminal
from tests.cli.test_command import completed
from tests.client.peers import Script, peer, scripted

PLANNED = "pyk: nothing has been changed; add --execute to do it"


@pytest.fixture(scope="module")
def topics(broker: str) -> str:
    """A broker with the topics `two`, of five records and two, and `one`, of one."""
    pyk("topic", "create", "two", "-p", "2", "-c", "retention.ms=-1", bootstrap=broker)
    pyk("topic", "create", "one", bootstrap=broker)
    given = "".join(f"{1_700_000_000_000 + n} {n}\n" for n in range(5)).encode()
    pyk("produce", "two", "-p", "0", "-f", r"%T %v\n", bootstrap=broker, stdin=given)
    pyk("produce", "two", "-p", "1", bootstrap=broker, stdin=b"a\nb\n")
    pyk("produce", "one", bootstrap=broker, stdin=b"a\n")
    return broker


def made(broker: str, group: str, *where: str) -> None:
    """A group without members that has committed offsets."""
    done = pyk("group", "seek", group, *where, "--execute", bootstrap=broker)
    assert done.code == 0, done.err


@contextmanager
def member(broker: str, group: str, *topics: str) -> Iterator[Consumer]:
    """A consumer that has its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": group,
            "client.id": f"of-{group}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(list(topics))
    try:
        while not consumer.assignment():
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()


def described(broker: str, group: str, *options: str) -> dict[str, Any]:
    done = pyk("group", "describe", group, *options, "--format", "json", bootstrap=broker)
    assert done.code == 0, done.err
    (found,) = json.loads(done.out)
    assert isinstance(found, dict)
    return found


def committed(broker: str, group: str) -> dict[str, int | None]:
    rows = described(broker, group, "-o")["offsets"]
    return {f"{row['topic']}:{row['partition']}": row["committed"] for row in rows}


def test_groups_are_listed_by_state_type_and_name(topics: str) -> None:
    made(topics, "listed-1", "--to", "2", "-t", "two")
    made(topics, "listed-2", "--to", "2", "-t", "two")
    found = pyk("group", "list", "-r", "listed-.", bootstrap=topics)
    assert found.lines == [
        "GROUP     STATE  TYPE     PROTOCOL  COORDINATOR",
        'listed-1  Empty  classic  ""        1',
        'listed-2  Empty  classic  ""        1',
    ]
    chosen = ("--state", "empty", "--type", "CLASSIC", "-r", "listed-.*", "--format", "json")
    rows = json.loads(pyk("group", "list", *chosen, bootstrap=topics).out)
    assert [row["group"] for row in rows] == ["listed-1", "listed-2"]
    for other in (("--state", "stable"), ("--type", "consumer")):
        assert pyk("group", "list", "-r", "listed-.", *other, bootstrap=topics).lines[1:] == []
    wrong = pyk("group", "list", "--state", "sleepy", bootstrap=topics)
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def test_a_group_without_members_is_described(topics: str) -> None:
    made(topics, "told", "--to", "2", "-t", "two")
    assert pyk("group", "describe", "told", bootstrap=topics).lines == [
        "GROUP         told",
        "STATE         Empty",
        "TYPE          classic",
        'PROTOCOL      ""',
        "ASSIGNOR      -",
        "COORDINATOR   1",
        "MEMBER-COUNT  0",
        "TOTAL-LAG     3",
        "",
        "TOPIC  PARTITION  COMMITTED  LOG-END  LAG  MEMBER  CLIENT  HOST",
        "two    0          2          5        3    -       -       -",
        "two    1          2          2        0    -       -       -",
    ]
    found = described(topics, "told", "-a")
    assert (found["total_lag"], found["members"]) == (3, [])
    assert set(described(topics, "told", "-s")) == {
        "group", "state", "type", "protocol", "assignor", "coordinator", "epoch",
        "assignment_epoch", "member_count", "total_lag",
    }  # fmt: skip
    assert set(described(topics, "told", "-m")) == {"group", "members"}


def test_a_member_is_described_with_what_it_reads(topics: str) -> None:
    with member(topics, "live", "two", "one") as consumer:
        while (message := consumer.poll(10)) is not None and message.topic() != "one":
            pass
        assert message is not None
        consumer.commit(message=message, asynchronous=False)
        found = described(topics, "live", "-a")
    assert (found["state"], found["assignor"], found["member_count"]) == ("Stable", "range", 1)
    (only,) = found["members"]
    assert (only["client"], only["host"], only["partitions"]) == ("of-live", "127.0.0.1", 3)
    assert only["assigned"] == {"one": [0], "two": [0, 1]}
    assert only["subscribed"] == ["one", "two"]
    rows = {(row["topic"], row["partition"]): row for row in found["offsets"]}
    assert list(rows) == [("one", 0), ("two", 0), ("two", 1)]
    assert {row["member"] for row in rows.values()} == {only["member"]}
    # What was never committed has no lag: where to begin is for the member to say.
    assert [(row["committed"], row["lag"]) for row in rows.values()] == [
        (1, 0), (None, None), (None, None),
    ]  # fmt: skip


def test_what_was_trimmed_is_no_lag(topics: str) -> None:
    pyk("topic", "create", "shortened", bootstrap=topics)
    pyk("produce", "shortened", bootstrap=topics, stdin=b"a\nb\nc\nd\n")
    made(topics, "late", "--to", "1", "-t", "shortened")
    pyk("topic", "trim", "shortened", "-o", "3", bootstrap=topics)
    (row,) = described(topics, "late", "-o")["offsets"]
    assert (row["committed"], row["log_start"], row["log_end"], row["lag"]) == (1, 3, 4, 1)


def test_groups_are_chosen_by_pattern_and_offsets_by_topic(topics: str) -> None:
    for name in ("chosen-1", "chosen-2"):
        made(topics, name, "--to", "0", "-t", "two", "-t", "one")
    options = ("-r", "chosen-.", "-o", "-t", "one", "--format", "json")
    found = json.loads(pyk("group", "describe", *options, bootstrap=topics).out)
    assert [each["group"] for each in found] == ["chosen-1", "chosen-2"]
    assert [[row["topic"] for row in each["offsets"]] for each in found] == [["one"], ["one"]]


def test_a_group_that_is_not_there_is_one_line_with_a_way_on(topics: str) -> None:
    done = pyk("group", "describe", "nobody", bootstrap=topics)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("pyk: there is no consumer group nobody")
    assert "pyk group list" in done.err
    assert done.err.endswith("(GROUP_ID_NOT_FOUND)\n")


def test_a_group_that_goes_while_all_are_described_is_left_out() -> None:
    listed = ListGroupsResponse(groups=[ListedGroup(group_id="g", protocol_type="consumer")])
    found = FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1)])
    gone = DescribedGroup(
        group_id="g", group_state="Dead", protocol_type="", protocol_data="", members=[]
    )
    script: Script = {
        ApiKey.LIST_GROUPS: (5, [listed]),
        ApiKey.FIND_COORDINATOR: (6, [found]),
        ApiKey.DESCRIBE_GROUPS: (5, [DescribeGroupsResponse(groups=[gone])]),
    }
    with peer(scripted(script)) as address:
        done = pyk("group", "describe", "--format", "json", bootstrap=str(address))
    assert (done.code, done.out, done.err) == (0, "[]\n", "")


def test_a_seek_shows_what_it_would_do_and_does_it_when_told_to(topics: str) -> None:
    made(topics, "moving", "--to", "latest", "-t", "two")
    planned = pyk("group", "seek", "moving", "--to", "earliest", bootstrap=topics)
    assert (planned.code, planned.err) == (0, f"{PLANNED}\n")
    assert planned.lines == [
        "TOPIC  PARTITION  BEFORE  AFTER  STATUS",
        "two    0          5       0      PLANNED",
        "two    1          2       0      PLANNED",
    ]
    assert committed(topics, "moving") == {"two:0": 5, "two:1": 2}
    done = pyk("group", "seek", "moving", "--to", "earliest", "--execute", bootstrap=topics)
    assert (done.code, done.err) == (0, "")
    assert [line.split()[-1] for line in done.lines] == ["STATUS", "OK", "OK"]
    assert committed(topics, "moving") == {"two:0": 0, "two:1": 0}


@pytest.mark.parametrize(
    ("where", "after"),
    [
        (("--to", "earliest"), [0, 0]),
        (("--to", "latest"), [5, 2]),
        (("--to", "current"), [2, 1]),
        (("--to", "1"), [1, 1]),
        (("--to", "4"), [4, 2]),
        (("--to", "+1"), [1, 1]),
        (("--to", "-1"), [4, 1]),
        (("--to", "@1700000000003"), [3, 0]),
        (("--to", "@-1d"), [5, 0]),
        (("--by", "1"), [3, 2]),
        (("--by", "-2"), [0, 0]),
        (("--by-duration", "1d"), [5, 0]),
        (("--by-duration", "P1D"), [5, 0]),
        (("--to-group", "ahead"), [4, 2]),
    ],
)
def test_a_seek_goes_by_place_time_shift_or_another_group(
    topics: str, where: tuple[str, ...], after: list[int]
) -> None:
    made(topics, "ahead", "--to", "4", "-t", "two")
    made(topics, "anywhere", "--to", "2", "-t", "two:0")
    made(topics, "anywhere", "--to", "1", "-t", "two:1")
    options = ("--format", "json")
    done = pyk("group", "seek", "anywhere", *where, *options, bootstrap=topics)
    assert [row["after"] for row in json.loads(done.out)] == after
    assert [row["before"] for row in json.loads(done.out)] == [2, 1]


def test_an_offset_that_is_not_there_becomes_one_that_is_and_says_so(topics: str) -> None:
    done = pyk("group", "seek", "new", "--to", "4", "-t", "two", bootstrap=topics)
    assert done.lines[1:] == [
        "two    0          -       4      PLANNED  -",
        "two    1          -       2      PLANNED  4 is after the end",
    ]
    assert done.err == f"{PLANNED} and make the group new, which is not there yet\n"


def test_a_plan_is_saved_and_taken_up_again(topics: str, tmp_path: Path) -> None:
    made(topics, "saved", "--to", "1", "-t", "two", "-t", "one")
    exported = pyk("group", "seek", "saved", "--to", "current", "--export", bootstrap=topics)
    assert exported.lines == ["one,0,1", "two,0,1", "two,1,1"]
    file = tmp_path / "saved.csv"
    file.write_text(exported.out)
    made(topics, "saved", "--to", "latest")
    for option in ("--from-file", "--to-file"):
        made(topics, "saved", option, str(file), "-t", "two:0")
        assert committed(topics, "saved") == {"one:0": 1, "two:0": 1, "two:1": 2}
    done = pyk("group", "seek", "saved", "--from-file", "-", bootstrap=topics, stdin=b"two 1 0\n")
    assert done.lines[1].split() == ["two", "1", "2", "0", "PLANNED"]
    assert file.read_text() == exported.out


def test_a_group_with_members_is_not_moved_or_deleted(topics: str) -> None:
    with member(topics, "busy", "two"):
        sought = pyk("group", "seek", "busy", "--to", "0", "-t", "two", bootstrap=topics)
        deleted = pyk("group", "delete", "busy", bootstrap=topics)
        forgotten = pyk("group", "delete-offsets", "busy", "-t", "two", bootstrap=topics)
    assert (sought.code, sought.out) == (1, "")
    assert "group busy is Stable and has 1 member: stop them first" in sought.err
    assert deleted.code == 1
    assert deleted.lines[1].startswith("busy   NON_EMPTY_GROUP  it has members: stop them first")
    assert forgotten.code == 1
    assert forgotten.lines[1].split()[:3] == ["two", "0", "GROUP_SUBSCRIBED_TO_TOPIC"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "say where to, once"),
        (("--to", "0", "--by", "1"), 2, "say where to, once"),
        (("--to", "0", "--export", "--execute"), 2, "--export only prints"),
        (("--to", "10:20"), 2, "is not an offset: earliest, latest, current"),
        (("--by-duration", "soon"), 2, "is not a duration"),
        (("--to", "0", "-t", "two:x"), 2, "is not a topic"),
        (("--to", "0"), 1, "group fresh has committed nothing yet: say --topics"),
        (("--to", "0", "-t", "none"), 1, "there is no topic none"),
        (("--to", "0", "-t", "two:7"), 1, "two has no partition 7; it has 2"),
        (("--by", "1", "-t", "two:1"), 1, "no committed offset of two:1 to go on from: say --to"),
        (("--to-group", "nobody"), 1, "group nobody has committed nothing to go by"),
        (("--from-file", "/nowhere"), 2, "No such file"),
    ],
)
def test_a_seek_that_cannot_be_is_one_line(
    topics: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = pyk("group", "seek", "fresh", *arguments, bootstrap=topics)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err


def test_groups_are_deleted_with_a_yes(topics: str) -> None:
    for name in ("gone-1", "gone-2", "gone-3"):
        made(topics, name, "--to", "0", "-t", "one")
    unsaid = pyk("group", "delete", "-r", "gone-.", bootstrap=topics)
    assert (unsaid.code, unsaid.out) == (2, "")
    assert "Delete gone-1, gone-2, gone-3? Say --yes" in unsaid.err
    asked = pyk_on_terminal("group", "delete", "gone-1", bootstrap=topics, typed="n\n")
    assert asked.code == 1
    assert "pyk: nothing was deleted" in asked.out
    done = pyk("group", "delete", "gone-1", "nobody", bootstrap=topics)
    assert done.code == 1
    assert [line.split()[:2] for line in done.lines[1:]] == [
        ["gone-1", "OK"],
        ["nobody", "GROUP_ID_NOT_FOUND"],
    ]
    assert pyk("group", "delete", "-r", "gone-.", "--yes", bootstrap=topics).lines == [
        "GROUP   STATUS",
        "gone-2  OK",
        "gone-3  OK",
    ]
    assert pyk("group", "list", "-r", "gone-.", bootstrap=topics).lines[1:] == []
    assert pyk("group", "delete", "-r", "gone-.", "--yes", bootstrap=topics).code == 1
    assert pyk("group", "delete", bootstrap=topics).code == 2


def test_a_pattern_deletes_neither_queues_nor_how_far_a_redrive_is(topics: str) -> None:
    made(topics, "kinds-plain", "--to", "0", "-t", "one")
    made(topics, "pyk.redrive/kinds/one", "--to", "0", "-t", "one")
    queued = pyk(
        "queue", "reset", "kinds-q", "--to", "0", "-t", "one", "--execute", bootstrap=topics
    )
    assert queued.code == 0, queued.err
    done = pyk("group", "delete", "-r", ".*kinds.*", "--yes", bootstrap=topics)
    assert (done.code, done.lines) == (0, ["GROUP        STATUS", "kinds-plain  OK"])
    assert done.err.splitlines() == [
        "pyk: kinds-q matches, and is left alone: it is a share group",
        "pyk: pyk.redrive/kinds/one matches, and is left alone: it is how far a redrive is",
    ]
    named = pyk("group", "delete", "kinds-q", "pyk.redrive/kinds/one", bootstrap=topics)
    assert named.code == 1
    assert [line.split()[:2] for line in named.lines[1:]] == [
        ["pyk.redrive/kinds/one", "OK"],
        ["kinds-q", "GROUP_ID_NOT_FOUND"],
    ]
    assert "pyk queue delete is for those" in named.out
    listed = pyk("group", "list", "-r", ".*kinds.*", bootstrap=topics).lines[1:]
    assert [line.split()[0] for line in listed] == ["kinds-q"]


def test_offsets_are_forgotten_by_topic_and_partition(topics: str) -> None:
    made(topics, "forgetful", "--to", "0", "-t", "one,two")
    done = pyk("group", "delete-offsets", "forgetful", "-t", "two:1", bootstrap=topics)
    assert done.lines == ["TOPIC  PARTITION  STATUS", "two    1          OK"]
    assert committed(topics, "forgetful") == {"one:0": 0, "two:0": 0}
    asked = pyk_on_terminal(
        "group", "delete-offsets", "forgetful", "-t", "two", bootstrap=topics, typed="n\n"
    )
    assert asked.code == 1
    assert committed(topics, "forgetful") == {"one:0": 0, "two:0": 0}
    assert pyk("group", "delete-offsets", "forgetful", "-t", "two", bootstrap=topics).code == 0
    assert committed(topics, "forgetful") == {"one:0": 0}
    assert pyk("group", "delete-offsets", "forgetful", bootstrap=topics).code == 2
    missing = pyk("group", "delete-offsets", "nobody", "-t", "one", bootstrap=topics)
    assert missing.code == 1
    assert "group nobody: there is no such group; pyk group list" in missing.err


def test_groups_are_completed(topics: str) -> None:
    made(topics, "complete-1", "--to", "0", "-t", "one")
    made(topics, "complete-2", "--to", "0", "-t", "one")
    for command in ("describe", "seek", "delete", "delete-offsets"):
        assert completed(f"pyk group {command} compl", topics) == ["complete-1", "complete-2"]
    assert completed("pyk group seek g --to-group complete-2", topics) == ["complete-2"]
    assert completed("pyk group describe compl", "127.0.0.1:1") == []
