from __future__ import annotations

from pyk.replication.readers import FORGOTTEN_AFTER_MS, READERS_MAX, Readers


def test_how_far_a_client_has_come_is_what_it_was_sent_last() -> None:
    readers = Readers()
    readers.note("spark", 0, 10, now_ms=1)
    readers.note("spark", 10, 15, now_ms=2)
    readers.note("other", 3, 5, now_ms=2)
    found = {client_id: (r.offset, r.records) for client_id, r in readers.recent(now_ms=2)}
    assert found == {"spark": (15, 15), "other": (5, 2)}


def test_who_reads_no_more_is_forgotten() -> None:
    readers = Readers()
    readers.note("old", 0, 10, now_ms=1)
    readers.note("new", 0, 10, now_ms=2)
    later = 1 + FORGOTTEN_AFTER_MS + 1
    assert [client_id for client_id, _ in readers.recent(later)] == ["new"]


def test_clients_with_ever_new_names_do_not_pile_up() -> None:
    readers = Readers()
    for number in range(10 * READERS_MAX):
        readers.note(f"client-{number}", 0, 1, now_ms=number)
    found = [client_id for client_id, _ in readers.recent(now_ms=10 * READERS_MAX)]
    assert len(found) <= READERS_MAX
    assert found[-1] == f"client-{10 * READERS_MAX - 1}"
