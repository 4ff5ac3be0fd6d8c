"""The token bucket of launches."""

from __future__ import annotations

from iris_operator.plan.groups.launch_rate import LaunchRate


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _granted(rate: LaunchRate, names: range, per_minute: int) -> list[int]:
    return [name for name in names if rate.take(str(name), per_minute) == 0]


def test_as_many_at_once_as_a_minute_has() -> None:
    clock = Clock()
    rate = LaunchRate(clock)
    assert _granted(rate, range(100), 60) == list(range(60))


def test_each_that_waits_has_its_own_turn_and_keeps_it() -> None:
    clock = Clock()
    rate = LaunchRate(clock)
    _granted(rate, range(60), 60)
    waits = {name: rate.take(name, 60) for name in ("a", "b", "c")}
    assert waits == {"a": 1.0, "b": 2.0, "c": 3.0}
    clock.now += 0.5
    assert rate.take("b", 60) == 1.5  # asking again costs nothing
    clock.now += 1.5
    assert rate.take("b", 60) == 0
    assert rate.take("a", 60) == 0  # late, its turn is still its own
    assert rate.take("b", 60) == 2.0  # its turn is used up: the next is after c's


def test_the_rate_holds_over_time() -> None:
    clock = Clock()
    rate = LaunchRate(clock)
    done, waiting, launched = 0, set(range(300)), []
    for _ in range(300):
        for name in sorted(waiting):
            if rate.take(str(name), 60) == 0:
                waiting.discard(name)
                launched.append(clock.now)
                done += 1
        clock.now += 1.0
    assert done == 300
    for begin in launched:
        assert sum(begin <= one < begin + 60 for one in launched) <= 2 * 60 - 1
    assert sum(one >= 1060 for one in launched) == 300 - 60 - 59  # one a second after the first 60


def test_full_again_after_a_minute() -> None:
    clock = Clock()
    rate = LaunchRate(clock)
    _granted(rate, range(60), 60)
    clock.now += 60
    assert len(_granted(rate, range(100, 200), 60)) == 60


def test_a_restart_is_no_way_around_it() -> None:
    rate = LaunchRate(Clock())
    assert [rate.take(name, 60, just_launched=59) for name in ("a", "b")] == [0, 1.0]
    assert LaunchRate(Clock()).take("a", 60, just_launched=500) == 1.0


def test_a_changed_rate_counts_at_once() -> None:
    clock = Clock()
    rate = LaunchRate(clock)
    assert [rate.take(name, 1) for name in ("a", "b", "c")] == [0, 60.0, 120.0]
    assert [rate.take(name, 60) for name in ("b", "c")] == [0, 0]
    assert [rate.take(name, 1) for name in ("d", "e")] == [60.0, 120.0]


def test_turns_that_nobody_takes_are_forgotten() -> None:
    clock = Clock()
    rate = LaunchRate(clock)
    rate.take("x", 1)
    for name in range(50):
        rate.take(str(name), 1)
    clock.now += 10_000
    rate.take("y", 1)
    assert len(rate._turns) == 0
