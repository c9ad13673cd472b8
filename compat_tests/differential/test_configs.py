"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compat_tests.differential.comparison import Comparison, Listed, Make, comparing, versions
from compat_tests.differential.listed import MIN_ISR_IS_WRITTEN, MIN_ISR_OF_ALL
from compat_tests.differential.sides import Side, Sides
from pyk.config.client_metrics import CLIENT_METRICS_KEYS
from pyk.config.group import GROUP_KEYS
from pyk.config.keys import Key
from pyk.config.values import ValueType
from pyk.wire.apis import ApiKey
from pyk.wire.messages import alter_configs, incremental_alter_configs
from pyk.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyk.wire.messages.list_config_resources import ListConfigResourcesRequest

DESCRIBE, REPLACE = ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS
ALTER, LIST = ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.LIST_CONFIG_RESOURCES
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
THERE, MISSING = "configured", "missing"
UNKNOWN_TYPES = (-1, 0, 1, 3, 5, 64, 127)
Change = tuple[str, int, str | None]


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create(THERE, retention_ms="1000", cleanup_policy="compact")


def resource(kind: int, name: str, keys: Sequence[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(
        resource_type=kind,
        resource_name=name,
        configuration_keys=None if keys is None else list(keys),
    )


def describe(
    *resources: DescribeConfigsResource, synonyms: bool = True, documentation: bool = True
) -> Make:
    def make(version: int, side: Side) -> DescribeConfigsRequest:
        more = {"include_documentation": documentation} if version >= 3 else {}
        return DescribeConfigsRequest(resources=list(resources), include_synonyms=synonyms, **more)

    return make


def alter(*resources: tuple[int, str, Sequence[Change]], validate_only: bool = False) -> Make:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    return lambda version, side: request


def replace(
    *resources: tuple[int, str, Sequence[tuple[str, str | None]]], validate_only: bool = False
) -> Make:
    request = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=key, value=value) for key, value in configs
                ],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )
    return lambda version, side: request


OF_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
DEAD_LETTERS = "where dead letters of a share group go"
DEAD_LETTERS_ARE_NEW = Listed(
    "^DESCRIBE_CONFIGS",
    rf"\[{re.escape(OF_DEAD_LETTERS)}\]: kafka 'absent'",
    "Kafka 4.3 has no dead letters of share groups. The name is that of Kafka to come (KIP-1191).",
)
DESCRIBED_DIFFERENTLY = {
    MIN_ISR_OF_ALL: MIN_ISR_IS_WRITTEN,
    DEAD_LETTERS: DEAD_LETTERS_ARE_NEW,
}


@comparing("DESCRIBE_CONFIGS", DESCRIBED_DIFFERENTLY, ["results", "configs"])
def test_configurations_are_described_alike(compare: Comparison) -> None:
    compare.add(DESCRIBE, "nothing", describe())
    compare.add(DESCRIBE, "a topic", describe(resource(TOPIC, THERE)))
    bare = describe(resource(TOPIC, THERE), synonyms=False, documentation=False)
    compare.add(DESCRIBE, "a topic, bare", bare)
    for keys in ([], ["retention.ms"], ["nonsense"], ["retention.ms", "nonsense"], [""]):
        compare.add(DESCRIBE, f"keys {keys} of a topic", describe(resource(TOPIC, THERE, keys)))
    compare.add(DESCRIBE, "a missing topic", describe(resource(TOPIC, MISSING)))
    for name in ("", ".", "a b", "x" * 250):
        compare.add(DESCRIBE, f"the topic {name[:5]!r}", describe(resource(TOPIC, name)))
    keys = ["num.io.threads", "log.retention.ms", "log.retention.hours", "compression.type"]
    for name in ("1", "", "7", "-1", "x", " 1", "01", "+1"):
        compare.add(DESCRIBE, f"the broker {name!r}", describe(resource(BROKER, name, keys)))
        compare.add(DESCRIBE, f"the loggers {name!r}", describe(resource(LOGGER, name, ["none"])))
    for kind in (GROUP, METRICS):
        compare.add(DESCRIBE, f"{kind} that nobody made", describe(resource(kind, "nobody")))
        compare.add(DESCRIBE, f"{kind} without a name", describe(resource(kind, "")))
        compare.add(DESCRIBE, f"{kind} with a strange name", describe(resource(kind, "a/b ü\0")))
        bare = describe(resource(kind, "nobody"), synonyms=False, documentation=False)
        compare.add(DESCRIBE, f"{kind} bare", bare)
        for keys in ([], ["interval.ms"], ["consumer.session.timeout.ms", "nonsense"]):
            asked = describe(resource(kind, "nobody", keys))
            compare.add(DESCRIBE, f"keys {keys} of {kind}", asked)
    for kind in UNKNOWN_TYPES:
        compare.add(DESCRIBE, f"the type {kind}", describe(resource(kind, THERE)))
    several = describe(resource(TOPIC, THERE), resource(GROUP, "g"), resource(TOPIC, MISSING))
    compare.add(DESCRIBE, "several", several)
    twice = describe(resource(TOPIC, THERE, ["retention.ms"]), resource(TOPIC, THERE, []))
    compare.add(DESCRIBE, "twice the same", twice)


TOPIC_CHANGES: Mapping[str, Sequence[Change]] = {
    "nothing": [],
    "set": [("retention.ms", SET, "5")],
    "set and delete": [("retention.ms", SET, "5"), ("cleanup.policy", DELETE, None)],
    "set null": [("retention.ms", SET, None)],
    "set nothing": [("retention.ms", SET, "")],
    "delete what is not set": [("segment.ms", DELETE, None)],
    "delete the unknown": [("nonsense", DELETE, None)],
    "unknown": [("nonsense", SET, "5")],
    "without a name": [("", SET, "5")],
    "no number": [("retention.ms", SET, "x")],
    "out of range": [("segment.bytes", SET, "5")],
    "twice": [("retention.ms", SET, "5"), ("retention.ms", SET, "6")],
    "append": [("cleanup.policy", APPEND, "delete")],
    "append nonsense": [("cleanup.policy", APPEND, "nonsense")],
    "append null": [("cleanup.policy", APPEND, None)],
    "append to a number": [("retention.ms", APPEND, "5")],
    "subtract": [("cleanup.policy", SUBTRACT, "compact")],
    "subtract what is not there": [("cleanup.policy", SUBTRACT, "delete")],
    "one good, one bad": [("retention.ms", SET, "5"), ("segment.ms", SET, "x")],
    "remote": [("remote.storage.enable", SET, "true")],
}
BROKER_CHANGES: Mapping[str, Sequence[Change]] = {
    "nothing": [],
    "unknown": [("nonsense", SET, "5")],
    "set null": [("num.io.threads", SET, None)],
    "no number": [("num.io.threads", SET, "x")],
    "fixed": [("num.partitions", SET, "5")],
    "append": [("log.cleanup.policy", APPEND, "compact")],
    "append to a number": [("num.io.threads", APPEND, "5")],
    "twice": [("num.io.threads", SET, "5"), ("num.io.threads", SET, "6")],
    "assignment interval": [("group.consumer.assignment.interval.ms", SET, "2000")],
    "assignment interval of share groups": [("group.share.assignment.interval.ms", SET, "-1")],
    "session timeout": [("group.consumer.session.timeout.ms", SET, "50000")],
}
ALTERED_DIFFERENTLY = {
    MIN_ISR_OF_ALL: MIN_ISR_IS_WRITTEN,
    "an operation that does not exist": Listed(
        "operation (4|-1)$",
        "",
        "Kafka fails over it, with UNKNOWN_SERVER_ERROR. Here the request is refused.",
    ),
    "another way to write a broker's number": Listed(
        "'01'", "", "Two names for one layer would be two layers for one broker."
    ),
}
PATTERN = "a pattern of Java's that is none of Python's"
PATTERN_IS_REFUSED = Listed(r"", r"client_id=\(\?<name>", "Clients will be matched by Python's.")
LISTED_DIFFERENTLY = {
    PATTERN: PATTERN_IS_REFUSED,
    "a group with blanks around a number": Listed(
        "", " 5000 ", "Kafka keeps and describes it, but its coordinator cannot read it."
    ),
}
REPLACED_DIFFERENTLY = {
    MIN_ISR_OF_ALL: MIN_ISR_IS_WRITTEN,
    "nothing for all brokers": Listed(
        "of the broker ''$",
        "kafka 40|some words",
        "Kafka keeps min.insync.replicas there, where eligible leader replicas are on.",
    ),
}


@comparing("INCREMENTAL_ALTER_CONFIGS", ALTERED_DIFFERENTLY, ["responses", "configs"])
def test_configurations_are_altered_alike(compare: Comparison, sides: Sides) -> None:
    for name in [MISSING, "", "a b"]:
        for case in ("nothing", "set", "unknown", "set null", "twice", "append to a number"):
            asked = alter((TOPIC, name, TOPIC_CHANGES[case]))
            compare.add(ALTER, f"{case} of the topic {name!r}", asked)
    before: dict[str, Any] = {"retention_ms": "1", "cleanup_policy": "compact"}
    topics = [f"alter-{n}-v{v}" for n in range(len(TOPIC_CHANGES)) for v in versions(ALTER)]
    sides.create(*topics, **before)
    for number, (case, changes) in enumerate(TOPIC_CHANGES.items()):
        compare.add(ALTER, f"{case}, to try", alter((TOPIC, THERE, changes), validate_only=True))
        for version in versions(ALTER):
            asked = alter((TOPIC, f"alter-{number}-v{version}", changes))
            compare.ask(ALTER, version, case, asked)
    sides.settle()
    for number, case in enumerate(TOPIC_CHANGES):
        for version in versions(ALTER):
            asked = describe(resource(TOPIC, f"alter-{number}-v{version}"))
            compare.ask(DESCRIBE, 4, f"after {case} of v{version}", asked)
    for operation in (4, -1):
        asked = alter((TOPIC, THERE, [("retention.ms", operation, "5")]))
        compare.add(ALTER, f"operation {operation}", asked)
    for name in ("1", "", "7", "x", "01", "-1"):
        for case, changes in BROKER_CHANGES.items():
            asked = alter((BROKER, name, changes), validate_only=True)
            compare.add(ALTER, f"{case} of the broker {name!r}, to try", asked)
        asked = alter((LOGGER, name, [("root", SET, "INFO")]), validate_only=True)
        compare.add(ALTER, f"the loggers of {name!r}", asked)
    for kind in UNKNOWN_TYPES:
        asked = alter((kind, THERE, TOPIC_CHANGES["set"]))
        compare.add(ALTER, f"the type {kind}", asked)
    two = (TOPIC, THERE, TOPIC_CHANGES["set"]), (TOPIC, MISSING, TOPIC_CHANGES["set"])
    compare.add(ALTER, "one good, one missing", alter(*two))
    compare.add(ALTER, "twice the same", alter(two[0], two[0]))
    compare.add(ALTER, "twice the same, and another", alter(two[0], two[0], two[1]))
    compare.add(ALTER, "none", alter())


def values_to_try(key: Key) -> list[str | None]:
    match key.type:
        case ValueType.INT:
            edges = [0, 1, 2, 99, 100, 999, 1000, 4999, 5000, 15_000, 15_001, 44_999, 45_000]
            edges += [60_000, 60_001, 3_600_000, 3_600_001, -1, 2**31]
            return [*map(str, edges), "x", "", " 5000 ", None]
        case ValueType.BOOLEAN:
            return ["true", "FALSE", "x", "", None]
        case ValueType.LIST:
            return ["a", "a,b", "a, b", "a,a", "a,", ",", "", "*", None]
        case _:
            durations = ("PT1H", "P1D", "-PT1H", "PT-1H", "P1Y", "PT", "", "1h", "PT0.5S", "p1dt2h")
            words = ("earliest", "latest", "LATEST", "none", "read_committed", "READ_COMMITTED")
            return [*words, "by_duration", *(f"by_duration:{d}" for d in durations), "", None]


MATCHES = (
    "client_id=x",
    "client_id=.*, client_software_name=a|b",
    "client_id",
    "client_id=",
    "client_id==",
    "client_id=a=b",
    "client_id=a=",
    "=x",
    "nonsense=x",
    "client_id=[",
    " client_id = x ",
    "client_id=(?<name>x)",
    "client_id=x,client_id=y",
    "client_instance_id=1,client_software_version=2,client_source_address=3,client_source_port=4",
)


CONFIGURED_DIFFERENTLY = {PATTERN: PATTERN_IS_REFUSED, DEAD_LETTERS: DEAD_LETTERS_ARE_NEW}


@comparing("groups and clients' metrics", CONFIGURED_DIFFERENTLY, ["configs"])
def test_groups_and_metrics_are_configured_alike(compare: Comparison) -> None:
    for kind, keys in ((GROUP, GROUP_KEYS), (METRICS, CLIENT_METRICS_KEYS)):
        for key in (each for each in keys.values() if each.name != OF_DEAD_LETTERS):
            for value in (*values_to_try(key), *(MATCHES if key.name == "match" else ())):
                name = f"{key.name} {value}"
                asked = alter((kind, name, [(key.name, SET, value)]))
                compare.ask(ALTER, 1, f"{key.name}={value!r}", asked)
    pairs = [
        ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"),
        ("share.session.timeout.ms", "share.heartbeat.interval.ms"),
    ]
    for session, heartbeat in pairs:
        pair = [(session, SET, "45000"), (heartbeat, SET, "15000")]
        compare.add(ALTER, f"{session} and {heartbeat}", alter((GROUP, "pair", pair)))
    edits: dict[str, tuple[int, Sequence[Change]]] = {
        "nothing": (GROUP, []),
        "unknown": (GROUP, [("nonsense", SET, "1")]),
        "delete unknown": (GROUP, [("nonsense", DELETE, None)]),
        "of a broker": (GROUP, [("group.consumer.session.timeout.ms", SET, "50000")]),
        "twice": (GROUP, [("share.isolation.level", SET, "read_committed")] * 2),
        "append to no list": (GROUP, [("share.isolation.level", APPEND, "x")]),
        "no metrics": (METRICS, []),
        "unknown of metrics": (METRICS, [("nonsense", SET, "1")]),
        "delete unknown of metrics": (METRICS, [("nonsense", DELETE, None)]),
        "append metrics": (METRICS, [("metrics", APPEND, "org.apache")]),
        "append two metrics": (METRICS, [("metrics", APPEND, "org.apache,other")]),
        "subtract metrics": (METRICS, [("metrics", SUBTRACT, "other")]),
        "subtract what is not there": (METRICS, [("metrics", SUBTRACT, "never")]),
        "append to an interval": (METRICS, [("interval.ms", APPEND, "1")]),
        "one good, one bad": (METRICS, [("interval.ms", SET, "500"), ("match", SET, "x")]),
        "several": (METRICS, [("interval.ms", SET, "500"), ("match", SET, "client_id=x")]),
        "delete": (METRICS, [("interval.ms", DELETE, None)]),
    }
    for case, (kind, changes) in edits.items():
        compare.add(ALTER, f"{case}, to try", alter((kind, "edited", changes), validate_only=True))
        compare.add(ALTER, case, alter((kind, "edited", changes)))
        compare.sides.settle()
        compare.ask(DESCRIBE, 4, f"after {case}", describe(resource(kind, "edited")))
        for name in ("", "a/b ü"):
            asked = alter((kind, name, changes), validate_only=True)
            compare.add(ALTER, f"{case} of {name!r}", asked)


@comparing("LIST_CONFIG_RESOURCES", LISTED_DIFFERENTLY, ["config_resources"])
def test_resources_are_listed_alike(compare: Comparison) -> None:
    def ask(*kinds: int) -> Make:
        return lambda version, side: ListConfigResourcesRequest(resource_types=list(kinds))

    compare.ask(
        ALTER, 1, "a group", alter((GROUP, "listed", [("share.isolation.level", SET, "x")]))
    )
    made = [("share.isolation.level", SET, "read_committed")]
    compare.ask(ALTER, 1, "a group", alter((GROUP, "listed", made), (GROUP, "gone", made)))
    gone = [("share.isolation.level", DELETE, None)]
    compare.ask(ALTER, 1, "a group that goes", alter((GROUP, "gone", gone)))
    subscribed = alter((METRICS, "listed", [("interval.ms", SET, "500")]))
    compare.ask(ALTER, 1, "a subscription", subscribed)
    compare.sides.settle()
    compare.add(LIST, "before there were types", lambda *_: ListConfigResourcesRequest(), until=0)
    for kind in (BROKER, LOGGER, METRICS, GROUP, *UNKNOWN_TYPES):
        compare.add(LIST, f"the type {kind}", ask(kind), since=1)
    compare.add(LIST, "two types", ask(GROUP, METRICS), since=1)
    compare.add(LIST, "twice the same", ask(GROUP, GROUP), since=1)
    compare.add(LIST, "one known, one not", ask(GROUP, 3), since=1)
    compare.add(LIST, "topics", ask(TOPIC), since=1)
    compare.add(LIST, "all", ask(), since=1)


@comparing("ALTER_CONFIGS", REPLACED_DIFFERENTLY, ["responses", "configs"])
def test_configurations_are_replaced_alike(compare: Comparison, sides: Sides) -> None:
    replacements: dict[str, Sequence[tuple[str, str | None]]] = {
        "one": [("retention.ms", "7")],
        "none": [],
        "null": [("retention.ms", None)],
        "twice": [("retention.ms", "1"), ("retention.ms", "2")],
        "unknown": [("nonsense", "1")],
        "without a name": [("", "1")],
        "bad": [("cleanup.policy", "x")],
    }
    before: dict[str, Any] = {"retention_ms": "1", "cleanup_policy": "compact"}
    numbers = range(len(replacements))
    sides.create(*[f"replace-{n}-v{v}" for n in numbers for v in versions(REPLACE)], **before)
    for number, (case, configs) in enumerate(replacements.items()):
        for name in (MISSING, "", "a b"):
            compare.add(REPLACE, f"{case} of {name!r}", replace((TOPIC, name, configs)))
        asked = replace((TOPIC, THERE, configs), validate_only=True)
        compare.add(REPLACE, f"{case}, to try", asked)
        for version in versions(REPLACE):
            asked = replace((TOPIC, f"replace-{number}-v{version}", configs))
            compare.ask(REPLACE, version, case, asked)
    sides.settle()
    for number, case in enumerate(replacements):
        for version in versions(REPLACE):
            asked = describe(resource(TOPIC, f"replace-{number}-v{version}"))
            compare.ask(DESCRIBE, 4, f"after {case} of v{version}", asked)
    for name in ("1", "", "7", "x"):
        for configs in (
            [],
            [("nonsense", "1")],
            [("num.io.threads", "x")],
            [("num.partitions", "1")],
        ):
            asked = replace((BROKER, name, configs), validate_only=True)
            compare.add(REPLACE, f"{configs} of the broker {name!r}", asked)
        asked = replace((LOGGER, name, [("root", "INFO")]), validate_only=True)
        compare.add(REPLACE, f"the loggers of {name!r}", asked)
    for kind, good in ((GROUP, "share.isolation.level"), (METRICS, "interval.ms")):
        for name in ("replaced", ""):
            for configs in ([], [("nonsense", "1")], [(good, "x")], [(good, None)]):
                compare.add(
                    REPLACE, f"{configs} of {kind} {name!r}", replace((kind, name, configs))
                )
    for kind in UNKNOWN_TYPES:
        compare.add(REPLACE, f"the type {kind}", replace((kind, THERE, [])))
    good_one = (TOPIC, THERE, replacements["one"])
    compare.add(REPLACE, "one good, one missing", replace(good_one, (TOPIC, MISSING, [])))
    compare.add(REPLACE, "nothing", replace())
