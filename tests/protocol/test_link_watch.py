"""When a link is dialled, asked and given up."""

from __future__ import annotations

from tidegate.protocol.channels.link_watch import FIRST_PAUSE_MS, LinkAction, LinkWatch

TIMEOUT_MS = 10_000


def actions(watch: LinkWatch, to_ms: int, from_ms: int = 0, awaits: bool = False) -> dict[LinkAction, int]:
    """What the watch wants, and when for the first time."""
    first: dict[LinkAction, int] = {}
    for now_ms in range(from_ms, to_ms, 10):
        first.setdefault(watch.look(now_ms, is_dialing=False, awaits=awaits), now_ms)
    return first


def test_a_dialer_opens_a_connection_at_once_and_a_listener_waits_for_it() -> None:
    assert LinkWatch(TIMEOUT_MS, True, 0).look(0, False, False) is LinkAction.DIAL
    assert LinkWatch(TIMEOUT_MS, False, 0).look(0, False, False) is LinkAction.NOTHING


def test_a_lost_connection_is_opened_at_once_and_then_after_growing_pauses() -> None:
    watch = LinkWatch(TIMEOUT_MS, True, 0)
    watch.up()
    watch.works()
    watch.down("reset")
    assert watch.look(10, False, False) is LinkAction.DIAL
    pauses = []
    now_ms = 10
    for _ in range(4):
        watch.down("refused")
        began_ms = now_ms
        while watch.look(now_ms, False, False) is not LinkAction.DIAL:
            now_ms += 10
        pauses.append(now_ms - began_ms)
    assert pauses == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS, 8 * FIRST_PAUSE_MS]


def test_without_a_connection_for_the_timeout_the_link_fails_at_either_end() -> None:
    for dials in (True, False):
        watch = LinkWatch(TIMEOUT_MS, dials, 0)
        assert actions(watch, 2 * TIMEOUT_MS)[LinkAction.FAIL] == TIMEOUT_MS


def test_a_silent_peer_is_asked_and_then_left_if_data_waits_for_its_confirmation() -> None:
    watch = LinkWatch(TIMEOUT_MS, True, 0)
    watch.up()
    first = actions(watch, TIMEOUT_MS, awaits=True)
    assert first[LinkAction.PING] == 2_000
    assert first[LinkAction.BREAK] == 4_000


def test_silence_means_nothing_without_data_that_waits() -> None:
    watch = LinkWatch(TIMEOUT_MS, True, 0)
    watch.up()
    assert set(actions(watch, 10 * TIMEOUT_MS)) == {LinkAction.NOTHING}


def test_an_answer_restarts_the_wait() -> None:
    watch = LinkWatch(TIMEOUT_MS, True, 0)
    watch.up()
    actions(watch, 3_000, awaits=True)
    watch.heard()
    assert LinkAction.BREAK not in actions(watch, 6_900, from_ms=3_000, awaits=True)


def test_a_process_that_was_suspended_does_not_give_up_when_it_wakes() -> None:
    watch = LinkWatch(TIMEOUT_MS, True, 0)
    watch.up()
    watch.down("reset")
    assert watch.look(100, True, False) is LinkAction.NOTHING
    assert watch.look(1_000_000, True, False) is LinkAction.NOTHING


def test_a_connection_that_is_refused_after_the_handshake_is_an_attempt_that_failed() -> None:
    watch, dialed = LinkWatch(TIMEOUT_MS, True, 0), 0
    for now_ms in range(0, 2 * TIMEOUT_MS, 10):
        action = watch.look(now_ms, is_dialing=False, awaits=True)
        if action is LinkAction.FAIL:
            assert now_ms == TIMEOUT_MS
            assert dialed < 20
            return
        if action is LinkAction.DIAL:
            dialed += 1
            watch.up()
            watch.heard()
            watch.down("refused")
    raise AssertionError(f"it dialed {dialed} times and did not fail")


def test_connections_that_are_proved_and_then_silent_are_given_up() -> None:
    watch = LinkWatch(TIMEOUT_MS, True, 0)
    for now_ms in range(0, 3 * TIMEOUT_MS, 10):
        action = watch.look(now_ms, is_dialing=False, awaits=True)
        if action is LinkAction.DIAL:
            watch.up()
        elif action is LinkAction.BREAK:
            watch.down("silent")
        elif action is LinkAction.FAIL:
            assert now_ms <= 1.5 * TIMEOUT_MS
            return
    raise AssertionError("it did not fail")


def test_a_connection_that_has_nothing_to_carry_works_when_it_lasts() -> None:
    watch = LinkWatch(TIMEOUT_MS, True, 0)
    watch.down("refused")
    watch.up()
    actions(watch, TIMEOUT_MS)
    watch.down("reset")
    assert watch.look(TIMEOUT_MS, False, False) is LinkAction.DIAL
