"""Every key takes the values that Kafka takes, and shows them as Kafka does."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.config.java import values
from pyk.config.broker import BROKER_KEYS
from pyk.config.keys import Key
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import ValueType, format_value
from pyk.errors import KafkaError

TEXTS = (
    *("", " ", "x", " x ", "true", "False", "yes", "a,b", "a, b ,a", "a,,b", ",", "*", "0:1,1:2"),
    *("-131073", "-131072", "-3", "-2", "-1", "-0", "0", "+1", " 1 ", "2", "3", "4", "9", "10"),
    *("17", "18", "22", "23", "99", "100", "1023", "1024", "9999", "10000", "1048575", "1048576"),
    *("32767", "32768", "524287", "524288", "2147483647", "2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "0x10", "1_0", "1e3", "\u0663", "1\u00a0"),
    *("0.5", "1.0", "1.0001", "-0.1", "1e-9", "12345678.9", "NaN", "1f", "0x1p3", ".", "1e400"),
    *("compact", "delete", "delete,compact", "DELETE", "gzip", "GZIP", "producer", "uncompressed"),
    *("CreateTime", "createtime", "LogAppendTime", "PLAINTEXT", "plaintext", "SASL_SSL"),
    *("required", "none", "None", "upgrade", "Upgrade", "classic", "consumer,classic", "range"),
    *("PLAINTEXT://:9092", "PLAINTEXT://a:1,SSL://b:2", "/a,/b", "TLSv1.3", "PLAINTEXT:SSL"),
)

REFUSED_EARLIER = {
    "group.consumer.assignors": "Kafka does not start with what it finds no class for",
    "offsets.topic.compression.codec": "Kafka does not start with a codec that there is not",
    "share.coordinator.state.topic.compression.codec": "Kafka does not start with such a codec",
    "replica.high.watermark.checkpoint.interval.ms": "Kafka's scheduler refuses 0, and below it"
    " checkpoints are written once",
}
"""Keys whose definition takes any value in Kafka. pyk refuses what cannot be as other values."""

DIFFERENCES = {
    ("leader.replication.throttled.replicas", ","): "Kafka takes two empty items for none",
    ("follower.replication.throttled.replicas", ","): "Kafka takes two empty items for none",
}


def shown(key: Key, text: str) -> str | None:
    try:
        return format_value(key.parse(text))
    except KafkaError:
        return None


def test_every_key_takes_and_shows_what_kafka_does(report: Callable[[str], None]) -> None:
    questions = [
        (scope, key, text)
        for scope, keys in (("topic", TOPIC_KEYS), ("broker", BROKER_KEYS))
        for key in keys.values()
        # Kafka looks for classes, and hides passwords even from itself.
        if key.type not in (ValueType.CLASS, ValueType.PASSWORD)
        for text in TEXTS
    ]
    answers = values((scope, key.name, text) for scope, key, text in questions)
    unlike = [
        (scope, key.name, text, answer, shown(key, text))
        for (scope, key, text), answer in zip(questions, answers, strict=True)
        if shown(key, text) != answer
    ]
    earlier = [each for each in unlike if each[1] in REFUSED_EARLIER and each[-1] is None]
    assert {name for _, name, *_ in earlier} == set(REFUSED_EARLIER)
    others = [each for each in unlike if each not in earlier]
    assert {(name, text) for _, name, text, *_ in others} == set(DIFFERENCES), others
    report(f"configuration: {len(questions) - len(unlike)} values taken or refused alike")
