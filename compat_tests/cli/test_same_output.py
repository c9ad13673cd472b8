"""Every command prints the same and ends the same, whichever broker answers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator

import pytest

from compat_tests.cli.sides import Side, sides
from tests.cli.commands import Done

Both = tuple[Side, Side]

SETTLED = 15.0
LOOKS = ("config get", "config explain", "topic list", "topic describe")
MAY_BE_SILENT = ("topic describe --un", "produce", "consume", "config get topic/nobody")

STORY = [
    ("topic create orders audit -p 3 -c retention.ms=600000", b""),
    ("topic create orders", b""),
    ("topic create orders --if-not-exists --format json", b""),
    ("topic create never --dry-run", b""),
    ("topic create .. -p 1", b""),
    ("topic create -p 2 -r 9 wide", b""),
    ("topic create typo -c no.such.key=1", b""),
    ("topic create typo -c retention.ms=soon", b""),
    ("topic list", b""),
    ("topic list -r or.* --format json", b""),
    ("topic list --format wide", b""),
    ("topic list --format yaml", b""),
    ("topic describe nobody", b""),
    ("topic alter orders -p 5 -c segment.ms=700000 --unset retention.ms", b""),
    ("topic alter orders -p 2", b""),
    ("topic alter nobody -p 2", b""),
    ("topic alter orders -c retention.ms=soon", b""),
    ("produce orders -K : -o %p/%o/%k/%v\\n", b"a:1\nb:2\nc:3\nd:4\ne:5\n"),
    ("produce orders -p 4 -H x=y -H z -z gzip -o %p/%o\\n", b"one\ntwo\n"),
    ("produce orders -p 4 -k key -z snappy -Z -o %p/%o/%V\\n", b"\nthree\n"),
    ("produce orders -p 4 -z lz4 --acks 1 -o %p/%o\\n", b"four\n"),
    ("produce orders -p 4 -z zstd --acks 0 -o %p/%o\\n", b"five\n"),
    ("produce orders -p 4 -f %T,%v\\n -o %p/%o/%T\\n", b"1000000000,old\n2000000000,older\n"),
    ("produce orders -p 9", b"x\n"),
    ("produce orders -K :", b"nothing\n"),
    ("produce nobody --no-create", b"x\n"),
    ("produce made-by-sending -o %t/%p/%o\\n", b"x\n"),
    ("topic describe orders", b""),
    ("topic describe orders -s -p --format json", b""),
    ("topic describe audit orders -p --format yaml", b""),
    ("topic describe --under-replicated", b""),
    ("topic describe --unavailable --format json", b""),
    ("consume orders -e", b""),
    ("consume orders -e --format text", b""),
    ("consume orders -e -f %t/%p/%o/%k/%v/%h/%K/%S\\n", b""),
    ("consume orders -p 4 -o 2 -n 3 -f %o\\n", b""),
    ("consume orders -p 4 -e -o -2 -f %o\\n", b""),
    ("consume orders -p 4 -e -o +3 -f %o\\n", b""),
    ("consume orders -p 4 -o 1:4 -f %o\\n", b""),
    ("consume orders -p 4 -o @1000000:1970-01-20 -f %o\\n", b""),
    ("consume orders -p 4 -e -o @1500000000 -f %o\\n", b""),
    ("consume orders -p 4 -o 99 -n 1", b""),
    ("consume orders -p 9", b""),
    ("consume orders audit -e --isolation read_committed -f %t/%p/%o\\n", b""),
    ("consume nobody", b""),
    ("log dump DATA --partition orders-4 --records", b""),
    ("log dump DATA --partition orders-4 --records --format json --offsets 1:5", b""),
    ("log dump DATA --partition orders-4 --partition orders-9", b""),
    ("topic trim orders -p 4 -o 3", b""),
    ("topic trim orders -p 4 -o 99", b""),
    ("topic trim orders -p 9 -o 1", b""),
    ("topic trim orders -o end --format json", b""),
    ("consume orders -e", b""),
    ("config get topic/nobody", b""),
    ("config get topic/orders segment.ms retention.ms", b""),
    ("config get topic/orders no.such.key", b""),
    ("config set topic/orders retention.ms=5 cleanup.policy+=compact", b""),
    ("config set topic/orders cleanup.policy-=delete --format json", b""),
    ("config set topic/orders retention.ms=x", b""),
    ("config set topic/orders no.such.key=1", b""),
    ("config set topic/orders retention.ms=9 --dry-run", b""),
    ("config get topic/orders retention.ms cleanup.policy --format json", b""),
    ("config unset topic/orders retention.ms", b""),
    ("config set broker message.max.bytes=2000000", b""),
    ("config set broker/1 message.max.bytes=3000000", b""),
    ("config get broker/1 message.max.bytes num.partitions log.retention.hours", b""),
    ("config explain topic/orders max.message.bytes", b""),
    ("config explain topic/orders retention.ms --format json", b""),
    ("config unset broker message.max.bytes", b""),
    ("config unset broker/1 message.max.bytes", b""),
    ("config get broker/9", b""),
    ("config set broker/1 node.id=4", b""),
    ("cluster describe", b""),
    ("cluster logdirs -t orders", b""),
    ("cluster logdirs -p -t orders -t audit", b""),
    ("cluster logdirs --broker 9", b""),
    ("doctor", b""),
    ("doctor --format json", b""),
    ("topic delete audit nobody --format json", b""),
    ("topic delete orders made-by-sending", b""),
    ("topic list", b""),
]

GROUP_STORY = [
    "group list",
    "group describe",
    "group describe nobody",
    "group delete nobody --format json",
    "group delete-offsets nobody -t by-group",
    "group seek early --to 0",
    "group seek early --to 0 -t nowhere",
    "topic create by-group -p 3",
    "produce by-group -p 0",
    "produce by-group -p 2",
    "group seek early --to earliest -t by-group",
    "group seek early --to latest -t by-group --execute",
    "group seek late --to 1 -t by-group:0,2 --execute --format json",
    "group list",
    "group list --state empty --type classic --format yaml",
    "group list --state stable",
    "group list -r la.* --format wide",
    "group describe",
    "group describe late -a --format wide",
    "group describe late -a --format json",
    "group describe early -o -t by-group --format yaml",
    "group describe early -m",
    "topic trim by-group -p 0 -o 2",
    "group describe late -o",
    "group seek late --by -1",
    "group seek late --by 1 -t by-group:2 --execute",
    "group seek late --by 1 -t by-group:1",
    "group seek late --to current --export",
    "group seek late --to-group early -t by-group:0 --execute",
    "group seek late --to @-1h",
    "group seek early --to current",
    "group describe late -o --format json",
    "group delete-offsets late -t by-group:2",
    "group delete-offsets late -t by-group:1",
    "group delete-offsets late -t nowhere",
    "group describe late -o",
    "group delete late nobody",
    "group describe late",
    "topic delete by-group",
    "group delete early",
    "group list",
]
GIVEN = {
    "produce by-group -p 0": b"a\nb\nc\nd\n",
    "produce by-group -p 2": b"a\nb\n",
}


def without_sentences(text: str) -> str:
    """Without what brokers say in words of their own: refusals and documentation."""
    text = re.sub(r'"(message|documentation)": "(?:[^"\\]|\\.)*"', r'"\1": SAID', text)
    text = re.sub(r"^(\S+ [A-Z_]{5,}) .*", r"\1 SAID", text, flags=re.MULTILINE)
    return re.sub(r"^pyk: .* \(([A-Z_]+)\)$", r"pyk: \1", text, flags=re.MULTILINE)


def without_documentation(text: str) -> str:
    head, _, _ = text.partition("\n\n")
    synonyms = text.partition("\n\n")[2].partition("\n\n")[0]
    return f"{head}\n{synonyms}"


def brokers_and_not_features(text: str) -> str:
    # Kafka has features that pyk does not have yet: groups of new kinds, KRaft.
    lines = text.splitlines()
    known = [line for line in lines if not re.match(r"(eligible|kraft|share|streams)\.", line)]
    return "\n".join(known)


def without_numbers_of_apis(text: str) -> str:
    return re.sub(r"\b\d+ APIs", "APIS", text)


JUDGED: dict[str, Callable[[str], str]] = {
    "config explain topic/orders max.message.bytes": without_documentation,
    "cluster describe": brokers_and_not_features,
    "doctor": without_numbers_of_apis,
    "doctor --format json": without_numbers_of_apis,
}


def run(side: Side, command: str, stdin: bytes) -> Done:
    words = [str(side.data_dir) if word == "DATA" else word for word in command.split(" ")]
    return side.pyk(*words, stdin=stdin)


def told(side: Side, command: str, stdin: bytes) -> tuple[str, str, int]:
    judge = JUDGED.get(command, without_sentences)
    done = run(side, command, stdin)
    assert "Traceback" not in done.err
    return judge(side.plain(done.out)), without_sentences(side.plain(done.err)), done.code


@pytest.fixture(scope="module")
def with_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with sides(tmp_path_factory.mktemp("groups")) as both:
        yield both


@pytest.mark.parametrize("command", GROUP_STORY)
def test_a_command_about_groups_says_the_same(with_groups: Both, command: str) -> None:
    """Each goes on from where those before it have left the brokers."""
    kafka, ours = (told(side, command, GIVEN.get(command, b"")) for side in with_groups)
    assert ours == kafka
    assert kafka[0] or kafka[1] or command in (*GIVEN, "group describe")


@pytest.mark.parametrize(("command", "stdin"), STORY, ids=[command for command, _ in STORY])
def test_a_command_says_the_same(both: Both, command: str, stdin: bytes) -> None:
    """Each goes on from where those before it have left the brokers."""
    kafka, ours = (told(side, command, stdin) for side in both)
    deadline = time.monotonic() + SETTLED
    # Kafka's brokers hear of a change a moment after its controller has agreed to it.
    while ours != kafka and command.startswith(LOOKS) and time.monotonic() < deadline:
        kafka = told(both[0], command, stdin)
    assert ours == kafka
    # What is the same by being nothing twice would prove little.
    assert kafka[0] or kafka[1] or command.startswith(MAY_BE_SILENT)


def test_every_setting_of_a_topic_is_the_same(both: Both) -> None:
    values = []
    for side in both:
        side.pyk("topic", "create", "settings", "-c", "retention.ms=5")
        done = side.pyk("topic", "describe", "settings", "-c", "--format", "json")
        (document,) = json.loads(done.out)
        values.append(
            {each["key"]: (each["value"], each["source"]) for each in document["configs"]}
        )
    kafka, ours = values
    # With the feature of eligible leader replicas Kafka writes this one down for the cluster.
    assert kafka.pop("min.insync.replicas") == ("1", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    assert ours.pop("min.insync.replicas") == ("1", "DEFAULT_CONFIG")
    assert ours == kafka
