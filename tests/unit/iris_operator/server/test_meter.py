"""Node-seconds: each second once, whatever restarts and clocks do."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from iris_operator.server.meter import Meter
from tests.builders import NOW

G = ("team", "g")


class Clocks:
    """A monotonic clock and a wall clock, each set by hand."""

    def __init__(self) -> None:
        self.monotonic, self.wall = 1000.0, NOW

    def go(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += timedelta(seconds=seconds)

    def ago(self, seconds: float) -> datetime:
        return self.wall - timedelta(seconds=seconds)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def meter(clocks: Clocks) -> Meter:
    return Meter(lambda: clocks.monotonic, lambda: clocks.wall)


def test_rate_times_time(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 2)
    clocks.go(10)
    assert meter.totals() == {G: 20}
    clocks.go(5)
    assert meter.totals() == {G: 30}


def test_reading_twice_adds_nothing(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 2)
    clocks.go(10)
    assert meter.totals() == meter.totals() == {G: 20}


def test_labels_add_up_and_stay_apart(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 1)
    meter.set("b", G, 2)
    meter.set("c", ("team", ""), 4)
    clocks.go(10)
    assert meter.totals() == {G: 30, ("team", ""): 40}


def test_what_is_gone_is_counted_to_its_end_and_no_further(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 1)
    clocks.go(10)
    meter.drop("a")
    clocks.go(100)
    assert meter.totals() == {G: 10}
    meter.drop("a")
    assert meter.totals() == {G: 10}


def test_what_began_before_it_was_seen_counts_from_its_beginning(meter: Meter, clocks: Clocks) -> None:
    meter.set("first", ("other",), 1)
    clocks.go(100)
    meter.set("a", G, 1, clocks.ago(30))
    assert meter.totals()[G] == 30


def test_a_former_leader_s_time_is_not_counted_again(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 1, clocks.ago(3600))
    assert meter.totals() == {G: 0}
    clocks.go(10)
    assert meter.totals() == {G: 10}


def test_a_standby_counts_nothing_of_its_wait(meter: Meter, clocks: Clocks) -> None:
    clocks.go(1000)  # as a standby it is told of nothing
    meter.set("a", G, 1, clocks.ago(500))
    assert meter.totals() == {G: 0}


def test_the_same_news_again_changes_nothing(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 1)
    clocks.go(10)
    meter.set("a", G, 1, clocks.ago(10))
    clocks.go(10)
    assert meter.totals() == {G: 20}


def test_a_pause_is_not_counted(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 1)
    clocks.go(10)
    meter.set("a", G, 0)
    clocks.go(100)
    assert meter.totals() == {G: 10}
    meter.set("a", G, 3, clocks.ago(2))
    clocks.go(8)
    assert meter.totals() == {G: 10 + 30}


def test_a_pause_shorter_than_the_stamps_are_fine_is_no_second_count(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 1)
    clocks.go(10)
    meter.set("a", G, 0)
    clocks.go(0.5)
    meter.set("a", G, 1, clocks.ago(5))  # begins before the pause: stamps are whole seconds
    assert meter.totals() == {G: 10 + 0.5}


def test_another_rate_counts_from_now_on(meter: Meter, clocks: Clocks) -> None:
    meter.set("a", G, 1)
    clocks.go(10)
    meter.set("a", G, 5, clocks.ago(10))
    clocks.go(2)
    assert meter.totals() == {G: 10 + 10}


@pytest.mark.parametrize("jump", [-86400, 86400])
def test_a_jump_of_the_wall_clock_is_no_time(meter: Meter, clocks: Clocks, jump: int) -> None:
    meter.set("a", G, 1)
    clocks.go(10)
    clocks.wall += timedelta(seconds=jump)
    clocks.go(10)
    assert meter.totals() == {G: 20}


def test_a_stamp_from_the_future_takes_nothing_away(meter: Meter, clocks: Clocks) -> None:
    meter.set("first", ("other",), 1)
    meter.set("a", G, 1, clocks.ago(-60))
    clocks.go(10)
    assert meter.totals()[G] == 10
