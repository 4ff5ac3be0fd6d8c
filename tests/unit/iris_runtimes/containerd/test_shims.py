"""Which shim a sandbox gets, with keepers that are only told of."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from iris_runtimes.containerd.keepers import KEEPER_LABEL, Keepers
from iris_runtimes.containerd.proto import containers_pb2
from iris_runtimes.containerd.shims import GROUP_LABEL, Room, Shims
from iris_runtimes.protocol import CgroupParent

pytestmark = pytest.mark.asyncio

POD, OTHER_POD = CgroupParent("/pod"), CgroupParent("/other-pod")


class Told:
    """Keepers of no containerd. `slow`: the second and later ones start when `go` is set."""

    def __init__(self, records: list[Any] | None = None, *, possible: bool = True, slow: bool = False) -> None:
        self.found, self.can, self.slow = records or [], possible, slow
        self.there: list[str] = []
        self.dead: set[str] = set()
        self.go = asyncio.Event()

    async def possible(self) -> bool:
        return self.can

    async def records(self) -> list[Any]:
        return self.found

    async def runs(self, keeper: str) -> bool:
        return keeper not in self.dead

    async def start(self, keeper: str, cgroup: CgroupParent) -> str:
        if self.slow and self.there:
            await self.go.wait()
        self.there.append(keeper)
        return f"/helper/{keeper}"

    async def remove(self, keeper: str) -> None:
        if keeper in self.there:
            self.there.remove(keeper)


def shims(told: Told, most: int = 32, spare_seconds: float = 0) -> Shims:
    return Shims(cast("Keepers", told), most, spare_seconds)


async def made(one: Shims, *names: str, cgroup: CgroupParent = POD) -> list[Room]:
    """Sandboxes one after the other."""
    rooms = []
    for name in names:
        rooms.append(await one.room(cgroup, name))
        one.entered(rooms[-1])
    return rooms


def record(name: str, **labels: str) -> Any:
    found = containers_pb2.Container(id=name, labels={key.replace("__", "/"): value for key, value in labels.items()})
    found.runtime.name = "/helper/before"
    return found


async def test_one_after_the_other_they_share_one_until_it_is_full() -> None:
    told = Told()
    a, b, c = await made(shims(told, most=2), "a", "b", "c")
    assert a == b == Room(told.there[0], f"/helper/{told.there[0]}")
    assert c == Room(told.there[1], f"/helper/{told.there[1]}")


async def test_who_asks_again_gets_the_same() -> None:
    told = Told()
    one = shims(told, most=1 + 1)
    first, _, again = await made(one, "a", "b", "a")
    assert first == again
    assert len(told.there) == 1


async def test_those_that_wait_get_another_beside_it() -> None:
    told = Told(slow=True)
    one = shims(told)
    rooms = [await one.room(POD, name) for name in "abcd"]  # none has entered
    assert len({room.group for room in rooms}) == 1
    late = asyncio.create_task(one.room(POD, "e"))
    await asyncio.sleep(0)
    assert not late.done()  # too many are before it: the other shim is worth waiting for
    told.go.set()
    assert (await late).group == told.there[1]
    for room in rooms:
        one.entered(room)
    assert (await made(one, "f"))[0].group == told.there[0]  # the fullest of those that nobody waits for


async def test_the_spare_ones_go_and_the_last_one_stays() -> None:
    told = Told()
    one = shims(told, most=2)
    await made(one, "a", "b", "c")
    for name in "abc":
        await one.left(name)
    assert len(told.there) == 1
    await one.release()
    assert told.there == []


async def test_a_spare_one_stays_for_a_while() -> None:
    told = Told()
    one = shims(told, most=2, spare_seconds=0.01)
    await made(one, "a", "b", "c")
    for name in "abc":
        await one.left(name)
    assert len(told.there) == 2
    async with asyncio.timeout(10):
        while len(told.there) > 1:
            await asyncio.sleep(0.01)
    await one.release()


async def test_a_dead_one_takes_no_more() -> None:
    told = Told()
    one = shims(told)
    (a,) = await made(one, "a")
    one.ended(a.group)
    (b,) = await made(one, "b")
    assert b.group != a.group
    await one.left("a")
    assert told.there == [b.group]


async def test_what_an_earlier_process_left_is_gone_on_with() -> None:
    told = Told(
        [
            record("shim-1", **{KEEPER_LABEL: POD.path}),
            record("shim-2", **{KEEPER_LABEL: POD.path}),
            record("a", **{GROUP_LABEL: "shim-1"}),
        ]
    )
    told.there, told.dead = ["shim-1", "shim-2"], {"shim-2"}
    one = shims(told)
    await one.load()
    assert told.there == ["shim-1"]
    assert one.keeps("shim-1")
    assert await made(one, "b") == [Room("shim-1", "/helper/before")]


async def test_another_pods_spare_one_goes_when_ours_is_made() -> None:
    told = Told()
    one = shims(told)
    await made(one, "a", cgroup=OTHER_POD)
    await one.left("a")
    (b,) = await made(one, "b")
    assert told.there == [b.group]


@pytest.mark.parametrize(("most", "possible"), [(1, True), (32, False)])
async def test_each_its_own_where_they_cant_or_shall_not_share(most: int, possible: bool) -> None:
    told = Told(possible=possible)
    assert await made(shims(told, most), "a", "b") == [Room(), Room()]
    assert told.there == []
