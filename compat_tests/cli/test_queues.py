"""What `pyk queue` tells and does is the same with Kafka as with pyk, command by command, and what
kafka-share-groups tells and does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.cli.sides import Side, sides
from compat_tests.cli.test_groups import cells, table
from compat_tests.cli.test_same_output import without_sentences
from compat_tests.kafka.jars import run_java
from tests.cli.commands import Done, pyk_on_terminal, pyk_process
from tests.clients.sharing import ACCEPT, REJECT, share_member

Both = tuple[Side, Side]
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"

STORY = [
    "list",
    "list --format json",
    "list --format yaml",
    "list --state stable",
    "list -r w.* --format wide",
    "list -r (",
    "list --state sleepy",
    "describe",
    "describe workers idle",
    "describe workers -s",
    "describe workers -o --format wide",
    "describe workers -c",
    "describe workers -m -c --format yaml",
    "describe workers -o -t other --format json",
    "describe idle -a --format json",
    "describe nobody",
    "describe consumers",
    "describe -r id.*",
    "peek workers",
    "peek workers -n 1 --format text",
    "peek workers -t jobs:1 -f %t/%p/%o/%v\\n",
    "peek workers -t other",
    "peek nobody",
    "reset idle --to earliest",
    "reset idle",
    "reset idle --to soon",
    "reset idle --by 1",
    "reset idle --to 1 -t jobs:0",
    "reset idle --to 1 -t jobs:0 --execute",
    "reset idle --to 99 -t jobs --execute --format json",
    "reset idle --to @2000-01-01 --execute",
    "reset idle --by -9 -t jobs --execute",
    "reset idle --by-duration 1h --execute",
    "reset idle --to earliest -t nowhere",
    "reset idle --to earliest -t jobs:9",
    "reset consumers --to earliest",
    "reset fresh --to latest",
    "reset fresh --to latest -t jobs",
    "reset fresh --to latest -t jobs --execute",
    "describe fresh",
    "describe idle --format json",
    "delete-offsets fresh",
    "delete-offsets fresh -t jobs -t nowhere -t other",
    "delete-offsets fresh -t jobs",
    "delete-offsets nobody -t jobs",
    "describe fresh -o",
    "redrive dead",
    "redrive dead --format json",
    "redrive dead -n 1 --execute",
    "redrive dead -g bank --execute",
    "redrive dead -g nobody",
    "redrive dead -t jobs -o 1:2 --format wide",
    "redrive dead -o 3: --execute",
    "redrive dead --execute --format yaml",
    "redrive dead --execute",
    "redrive nowhere",
    "redrive dead -p 9",
    "delete nobody",
    "delete consumers",
    "delete",
    "delete fresh idle",
    "delete -r no.* --yes",
    "delete -r wor.*",
    "list",
]
"""`workers` has done a record of the first five of `jobs` and one out of turn; `idle` begins at the
start; `dead` has four dead letters, of `shop` and of `bank`, and a record that is none."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with sides(tmp_path_factory.mktemp("data")) as both:
        for side in both:
            prepare(side)
        yield both


def prepare(side: Side) -> None:
    for words in (
        "topic create jobs other -p 2",
        "topic create dead",
        "config set group/workers share.auto.offset.reset=earliest",
        "config set group/workers share.record.lock.duration.ms=60000",
        "group seek consumers --to 0 -t jobs --execute",
        "queue reset idle --to earliest -t jobs --execute",
        "queue reset workers --to earliest -t jobs --execute",
    ):
        assert (done := side.pyk(*words.split())).code == 0, done.err
    side.pyk("produce", "jobs", "-p", "0", stdin=b"a\nb\nc\nd\ne\n")
    side.pyk("produce", "jobs", "-p", "1", stdin=b"x\ny\n")
    for group, partition in (("shop", 0), ("bank", 0), ("shop", 1), ("shop", 1)):
        headers = ("own=1", f"__dlq.errors.group={group}", "__dlq.errors.topic=jobs",
                   f"__dlq.errors.partition={partition}")  # fmt: skip
        named = [word for header in headers for word in ("-H", header)]
        side.pyk("produce", "dead", *named, stdin=f"{group} {partition}\n".encode())
    side.pyk("produce", "dead", stdin=b"plain\n")
    work(side)


def work(side: Side) -> None:
    """Until it is where the story begins, in both partitions."""
    with share_member(side.address, "workers", "jobs") as member:
        held = set(member.fetch())
        while held != {(0, 0, 4), (1, 0, 1)}:
            held |= set(member.fetch())
        member.say(ACCEPT, 0, 0, 0)
        member.say(REJECT, 0, 2, 2)
        member.say(ACCEPT, 1, 0, 0)


def told(side: Side, done: Done) -> tuple[str, str, int]:
    assert "Traceback" not in done.err
    out, err = (without_sentences(side.plain(text)) for text in (done.out, done.err))
    return out, err, done.code


@pytest.mark.parametrize("command", STORY)
def test_a_command_says_the_same(both: Both, command: str) -> None:
    """Each goes on from where those before it have left the brokers."""
    kafka, ours = (told(side, side.pyk("queue", *command.split())) for side in both)
    assert ours == kafka
    assert kafka[0] or kafka[1]


def test_what_was_redriven_is_there_once(both: Both) -> None:
    for side in both:
        shown = side.pyk("consume", "jobs", "-e", "-f", r"%p %v %h\n").lines
        back = sorted(line for line in shown if "own" in line)
        assert back == ["0 bank 0 own=1", "0 shop 0 own=1", "1 shop 1 own=1", "1 shop 1 own=1"]


@pytest.mark.parametrize("command", ["list", "describe workers -s", "peek workers", "redrive dead"])
def test_a_pipe_and_a_terminal_show_the_same_of_both(both: Both, command: str) -> None:
    words = ("queue", *command.split())
    for run in (pyk_process, pyk_on_terminal):
        kafka, ours = (told(side, run(*words, bootstrap=side.address)) for side in both)
        assert ours == kafka
        assert kafka[0] or kafka[1]


def tool(side: Side, *arguments: str) -> str:
    return run_java(TOOL, "--bootstrap-server", side.address, *arguments)


def described(side: Side, name: str) -> dict[str, Any]:
    (found,) = json.loads(side.pyk("queue", "describe", name, "-a", "--format", "json").out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("number", [0, 1], ids=["kafka", "pyk"])
def test_a_queue_is_described_as_kafkas_tool_describes_it(both: Both, number: int) -> None:
    side = both[number]
    side.pyk("topic", "create", "tooled", "-p", "2")
    side.pyk("produce", "tooled", "-p", "0", stdin=b"a\nb\nc\n")
    begun = side.pyk("queue", "reset", "tool", "--to", "earliest", "-t", "tooled", "--execute")
    assert begun.code == 0
    with share_member(side.address, "tool", "tooled") as member:
        member.fetch()
        member.say(ACCEPT, 0, 0, 0)
        ours = described(side, "tool")
        offsets = table(tool(side, "--describe", "--group", "tool"))
        (state,) = table(tool(side, "--describe", "--group", "tool", "--state", "--verbose"))
        (only,) = table(tool(side, "--describe", "--group", "tool", "--members", "--verbose"))
    names: tuple[str, ...] = ("topic", "partition", "start", "lag")
    theirs = [
        [row[name] for name in ("TOPIC", "PARTITION", "START-OFFSET", "LAG")] for row in offsets
    ]
    assert [cells(row, *names) for row in ours["offsets"]] == sorted(theirs)
    names = ("state", "epoch", "assignment_epoch", "member_count")
    assert cells(ours, *names) == [
        state[name] for name in ("STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS")
    ]
    (own,) = ours["members"]
    assert [own["member"], own["client"]] == [only["CONSUMER-ID"], only["CLIENT-ID"]]
    assert str(own["partitions"]) == only["#PARTITIONS"]
    tool(
        side, "--reset-offsets", "--group", "tool", "--topic", "tooled", "--to-latest", "--execute"
    )
    assert [row["start"] for row in described(side, "tool")["offsets"]] == [3, 0]
    assert side.pyk("queue", "delete", "tool").code == 0
    assert "tool" not in tool(side, "--list").split()
