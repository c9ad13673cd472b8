"""Records that a group gives up are sent to the topic that it names for them.

Apache Kafka 4.3.1 knows the key of such a topic, and writes nothing to it yet.
"""

from __future__ import annotations

from tests.clients.queues.letters import dead_letters
from tests.clients.queues.play import Play, deliveries


def test_what_is_delivered_too_often_is_sent_as_a_dead_letter(play: Play) -> None:
    (partition,) = play.topic()
    (letters,) = play.topic()
    play.configure(
        share_auto_offset_reset="earliest",
        share_delivery_count_limit="2",
        errors_deadletterqueue_topic_name=letters.topic,
    )
    play.write(partition, "good", "bad")
    member = play.member(partition.topic)
    good, bad = member.poll()
    member.acknowledge([good])
    member.settle([bad], "release")
    again = member.poll()
    assert deliveries(again) == {"bad": 2}
    member.settle(again, "release")
    play.wait_until_left(partition, 0)
    (letter,) = dead_letters(play.address, letters, 1)
    assert letter.value == b"bad"
    assert letter.context == {
        "topic": partition.topic,
        "partition": "0",
        "offset": "1",
        "group": play.group,
        "delivery.count": "2",
        "message": "Offset delivery count exceeded the threshold.",
    }


def test_what_is_rejected_is_sent_as_a_dead_letter(play: Play) -> None:
    (partition,) = play.topic()
    (letters,) = play.topic()
    play.configure(
        share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=letters.topic
    )
    play.write(partition, "a", "b", "c")
    member = play.member(partition.topic)
    records = member.poll()
    member.acknowledge(records[1:2])
    member.settle([records[0], records[2]], "reject")
    found = dead_letters(play.address, letters, 2)
    assert [(each.value, each.context["offset"]) for each in found] == [(b"a", "0"), (b"c", "2")]
    assert {each.context["message"] for each in found} == {"Offset rejected by client."}
    assert {each.context["delivery.count"] for each in found} == {"1"}
