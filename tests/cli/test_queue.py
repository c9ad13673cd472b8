"""`pyk queue`: what it tells of share groups, and where it lets them begin."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from pyk.types import ZERO_UUID
from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from pyk.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyk.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from pyk.wire.messages.share_group_describe import DescribedGroup, ShareGroupDescribeResponse
from tests.cli.commands import Done, pyk, pyk_on_terminal, pyk_process
from tests.cli.test_command import completed
from tests.client.peers import Script, peer, scripted
from tests.clients.open_transactions import begin
from tests.clients.sharing import ACCEPT, share_member

PLANNED = "pyk: nothing has been changed; add --execute to do it"


@pytest.fixture
def topic(broker: str) -> str:
    """One of two partitions, with five records and two."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    pyk("topic", "create", name, "-p", "2", bootstrap=broker)
    pyk("produce", name, "-p", "0", bootstrap=broker, stdin=b"a\nb\nc\nd\ne\n")
    pyk("produce", name, "-p", "1", bootstrap=broker, stdin=b"x\ny\n")
    return name


@pytest.fixture
def name(broker: str, topic: str) -> str:
    """A queue that begins at the start."""
    assert asked(broker, "reset", topic, "--to", "earliest", "-t", topic, "--execute").code == 0
    return topic


def asked(broker: str, *words: str) -> Done:
    return pyk("queue", *words, bootstrap=broker)


def rows(broker: str, *words: str) -> list[dict[str, Any]]:
    done = asked(broker, *words, "--format", "json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert isinstance(found, list)
    return found


def starts(broker: str, name: str) -> list[int | None]:
    (found,) = rows(broker, "describe", name, "-o")
    return [row["start"] for row in found["offsets"]]


def test_queues_are_listed_with_what_is_left_to_them(broker: str, name: str, topic: str) -> None:
    (found,) = rows(broker, "list", "-r", name)
    assert found == {
        "group": name,
        "state": "Empty",
        "member_count": 0,
        "topics": [topic],
        "total_lag": 7,
        "coordinator": 1,
    }
    pyk("group", "seek", f"{name}-other", "--to", "0", "-t", topic, "--execute", bootstrap=broker)
    assert [row["group"] for row in rows(broker, "list", "-r", f"{name}.*")] == [name]
    assert rows(broker, "list", "-r", name, "--state", "stable") == []
    with share_member(broker, name, topic):
        (found,) = rows(broker, "list", "-r", name, "--state", "STABLE")
        assert (found["state"], found["member_count"]) == ("Stable", 1)


def test_a_queue_is_described_with_its_members_and_what_is_done(
    broker: str, name: str, topic: str
) -> None:
    key = "share.record.lock.duration.ms"
    pyk("config", "set", f"group/{name}", f"{key}=20000", bootstrap=broker)
    with share_member(broker, name, topic) as member:
        assert member.fetch() == [(0, 0, 4), (1, 0, 1)]
        member.say(ACCEPT, 0, 0, 1)
        member.say(ACCEPT, 0, 3, 3)
        shown = asked(broker, "describe", name).lines
        assert shown == [
            f"GROUP         {name}",
            "STATE         Stable",
            "ASSIGNOR      simple",
            "COORDINATOR   1",
            "MEMBER-COUNT  1",
            "TOTAL-LAG     4",
            "",
            "TOPIC           PARTITION  START  LOG-END  LAG  MEMBERS",
            f"{topic}  0          2      5        2    1",
            f"{topic}  1          0      2        2    1",
        ]
        (found,) = rows(broker, "describe", name, "-a")
        (own,) = found["members"]
        assert (own["member"], own["client"]) == (member.member_id, "raw")
        assert (own["partitions"], own["assigned"]) == (2, {topic: [0, 1]})
        assert own["subscribed"] == [topic]
        assert found["configs"] == [{"key": key, "value": "20000"}]
    (only,) = rows(broker, "describe", name, "-m", "-c")
    assert (set(only), only["members"]) == ({"group", "members", "configs"}, [])
    (narrow,) = rows(broker, "describe", name, "-o", "-t", "other")
    assert narrow["offsets"] == []


def test_what_is_no_queue_is_told_from_what_is_not_there(broker: str, topic: str) -> None:
    done = asked(broker, "describe", f"{topic}-nobody")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"pyk: there is no queue {topic}-nobody; pyk queue list has those that are there "
        "(GROUP_ID_NOT_FOUND)\n"
    )
    pyk("group", "seek", topic, "--to", "0", "-t", topic, "--execute", bootstrap=broker)
    for words in (
        ("describe", topic),
        ("delete", topic),
        ("delete-offsets", topic, "-t", topic),
        ("reset", topic, "--to", "0", "-t", topic),
    ):
        done = asked(broker, *words)
        assert done.code == 1
        assert f"{topic} is a classic group, and no queue; pyk group is for those" in done.err


def test_a_peek_shows_what_comes_next_and_takes_nothing(broker: str, name: str, topic: str) -> None:
    with share_member(broker, name, topic) as member:
        member.fetch()
        member.say(ACCEPT, 0, 0, 1)
        member.say(ACCEPT, 0, 3, 3)
    done = asked(broker, "peek", name, "-f", r"%p %o %v\n")
    assert done.lines == ["0 2 c", "0 3 d", "0 4 e", "1 0 x", "1 1 y"]
    assert done.err == (
        "pyk: 1 offset after the start is done already: only the leader knows which\n"
    )
    assert asked(broker, "peek", name, "-n", "1", "-f", r"%v\n").lines == ["c", "x"]
    some = asked(broker, "peek", name, "-t", f"{topic}:1", "--format", "json")
    assert [json.loads(line)["value"] for line in some.lines] == ["x", "y"]
    with share_member(broker, name, topic) as member:
        assert member.fetch() == [(0, 2, 2), (0, 4, 4), (1, 0, 1)]


def test_a_peek_sees_what_members_would_see(broker: str, name: str, topic: str) -> None:
    begin(broker, f"{topic}-open", topic, partition=1)
    assert asked(broker, "peek", name, "-t", f"{topic}:1", "-f", r"%o\n").lines == ["0", "1", "2"]
    config = "share.isolation.level=read_committed"
    pyk("config", "set", f"group/{name}", config, bootstrap=broker)
    assert asked(broker, "peek", name, "-t", f"{topic}:1", "-f", r"%o\n").lines == ["0", "1"]
    pyk("transaction", "terminate", f"{topic}-open", "--execute", bootstrap=broker)


@pytest.mark.parametrize(
    ("reset", "expected"),
    [("earliest", "abcdexy"), ("latest", ""), ("by_duration:PT1H", "abcdexy")],
)
def test_a_peek_begins_where_a_queue_would_that_nobody_has_fetched_from(
    broker: str, topic: str, reset: str, expected: str
) -> None:
    config = f"share.auto.offset.reset={reset}"
    pyk("config", "set", f"group/{topic}", config, bootstrap=broker)
    with share_member(broker, topic, topic):
        assert starts(broker, topic) == [None, None]
        assert "".join(asked(broker, "peek", topic, "-f", r"%v\n").lines) == expected


def test_a_peek_into_nothing_says_so(broker: str, name: str) -> None:
    done = asked(broker, "peek", f"{name}-nobody")
    assert (done.code, done.out) == (1, "")
    assert f"there is no queue {name}-nobody that has begun to read something" in done.err
    done = asked(broker, "peek", name, "-t", "elsewhere")
    assert f"queue {name} has nothing of elsewhere" in done.err
    wrong = asked(broker, "peek", name, "-f", "%v", "--format", "json")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def test_a_reset_is_shown_first_and_then_done(broker: str, name: str, topic: str) -> None:
    planned = asked(broker, "reset", name, "--to", "latest")
    assert (planned.code, planned.err) == (0, f"{PLANNED}\n")
    assert [line.split() for line in planned.lines[1:]] == [
        [topic, "0", "0", "5", "PLANNED"],
        [topic, "1", "0", "2", "PLANNED"],
    ]
    assert starts(broker, name) == [0, 0]
    for where, expected in [
        (("--to", "latest"), [5, 2]),
        (("--by", "-1", "-t", f"{topic}:0"), [4, 2]),
        (("--to", "1"), [1, 1]),
        (("--to", "@2000-01-01"), [0, 0]),
        (("--by-duration", "0s"), [5, 2]),
        (("--to", "-1"), [4, 1]),
        (("--to", "99"), [5, 2]),
    ]:
        assert asked(broker, "reset", name, *where, "--execute").code == 0, where
        assert starts(broker, name) == expected, where
    (first, _) = rows(broker, "reset", name, "--to", "99")
    assert first["message"] == "99 is after the end"
    with share_member(broker, name, topic):
        refused = asked(broker, "reset", name, "--to", "0", "--execute")
        assert refused.code == 1
        assert f"queue {name} is Stable and has 1 member: stop them first" in refused.err


def test_a_queue_can_be_made_by_a_reset(broker: str, topic: str) -> None:
    planned = asked(broker, "reset", topic, "--to", "1", "-t", topic)
    assert planned.err == f"{PLANNED} and make the queue {topic}, which is not there yet\n"
    nothing = asked(broker, "reset", topic, "--to", "1")
    assert nothing.err == f"pyk: queue {topic} has begun nothing yet: say --topics\n"
    assert asked(broker, "reset", topic, "--to", "1", "-t", topic, "--execute").code == 0
    assert starts(broker, topic) == [1, 1]
    for wrong in ((), ("--to", "0", "--by", "1"), ("--to", "soon")):
        done = asked(broker, "reset", topic, *wrong)
        assert (done.code, done.err.count("\n")) == (2, 1)


def test_what_is_forgotten_and_deleted_is_gone(broker: str, name: str, topic: str) -> None:
    with share_member(broker, name, topic):
        refused = asked(broker, "delete-offsets", name, "-t", topic)
        assert (refused.code, "NON_EMPTY_GROUP" in refused.err) == (1, True)
        refused = asked(broker, "delete", name)
        assert refused.code == 1
        assert refused.lines[1].split()[:2] == [name, "NON_EMPTY_GROUP"]
    done = asked(broker, "delete-offsets", name, "-t", topic, "-t", "elsewhere")
    assert done.code == 1
    assert [line.split()[:2] for line in done.lines[1:]] == [
        [topic, "OK"],
        ["elsewhere", "UNKNOWN_TOPIC_OR_PARTITION"],
    ]
    assert starts(broker, name) == []
    assert asked(broker, "delete", "-r", f"{name}-.*", "--yes").code == 1
    assert asked(broker, "delete").code == 2
    assert asked(broker, "delete", name).lines[1].split() == [name, "OK"]
    assert rows(broker, "list", "-r", name) == []


def test_a_pipe_and_a_terminal_show_the_same(broker: str, name: str) -> None:
    words = ("queue", "describe", name)
    piped, shown = (run(*words, bootstrap=broker) for run in (pyk_process, pyk_on_terminal))
    assert piped.lines == shown.lines
    assert piped.lines[0] == f"GROUP         {name}"


def test_verbs_and_queues_are_completed(broker: str, name: str) -> None:
    assert completed("pyk queue ", broker) == [
        "delete", "delete-offsets", "describe", "list", "peek", "redrive", "reset",
    ]  # fmt: skip
    assert completed(f"pyk queue describe {name}", broker) == [name]
    assert completed(f"pyk queue redrive {name}", broker) == [name]


def test_one_that_goes_while_all_are_described_is_left_out() -> None:
    listed = ListedGroup(
        group_id="x", protocol_type="share", group_state="Empty", group_type="share"
    )
    gone = DescribedGroup(
        error_code=69,
        group_id="x",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
    found = FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=1)])
    script: Script = {
        ApiKey.LIST_GROUPS: (5, [ListGroupsResponse(groups=[listed])]),
        ApiKey.FIND_COORDINATOR: (6, [found]),
        ApiKey.SHARE_GROUP_DESCRIBE: (1, [ShareGroupDescribeResponse(groups=[gone])]),
    }
    with peer(scripted(script)) as address:
        done = pyk("queue", "list", "--format", "json", bootstrap=str(address))
    assert (done.code, done.out, done.err) == (0, "[]\n", "")


def test_a_broker_without_share_groups_is_told_from_one_that_has_none() -> None:
    found = FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=1)])
    script: Script = {ApiKey.FIND_COORDINATOR: (6, [found])}
    with peer(scripted(script)) as address:
        done = pyk("queue", "describe", "x", bootstrap=str(address))
    assert done.code == 1
    assert "has no share groups" in done.err


def test_a_broker_that_does_not_tell_the_lag_leaves_it_open() -> None:
    """Kafka 4.1."""
    partition = DescribeShareGroupOffsetsResponsePartition(
        partition_index=0, start_offset=3, leader_epoch=0
    )
    topic = DescribeShareGroupOffsetsResponseTopic(
        topic_name="t", topic_id=ZERO_UUID, partitions=[partition]
    )
    group = DescribeShareGroupOffsetsResponseGroup(group_id="x", topics=[topic])
    described = DescribedGroup(
        group_id="x",
        group_state="Empty",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="simple",
        members=[],
    )
    found = FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=1)])
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [found]),
        ApiKey.SHARE_GROUP_DESCRIBE: (1, [ShareGroupDescribeResponse(groups=[described])]),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
            0,
            [DescribeShareGroupOffsetsResponse(groups=[group])],
        ),
    }
    with peer(scripted(script)) as address:
        done = pyk("queue", "describe", "x", "-s", "--format", "json", bootstrap=str(address))
    assert (done.code, json.loads(done.out)[0]["total_lag"]) == (0, None)
