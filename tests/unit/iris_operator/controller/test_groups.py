"""What the fleet pass planned is carried out at the versions that it looked at; what changed meanwhile is left."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.controller.handlers.placement import PlacementReconciler
from iris_operator.controller.memo import Controller
from iris_operator.controller.routing import PLACE
from iris_operator.controller.workqueue import Key
from iris_operator.ports.errors import ForbiddenError
from iris_operator.ports.kube import EVENTS, IRIS_CLUSTERS, SCALE_GROUPS, SLICES, TASKS
from tests.builders import NAMESPACE, NOW, Builder, at, cluster, group, task
from tests.unit.iris_operator.plan.fleets import idle, retiring

_KEY = Key(PLACE, NAMESPACE)


class World:
    """An API, a controller that has seen it, and one pass at a time, far apart."""

    def __init__(self) -> None:
        self.api = FakeKube()
        self.controller = Controller(self.api, (NAMESPACE,), "1", now=lambda: NOW)
        self._time = 0.0
        self.reconciler = PlacementReconciler(self.controller, clock=lambda: self._time)

    async def have(self, kind: Any, built: Builder[Any]) -> dict[str, Any]:
        """An object, status included, that the controller has seen."""
        body = built.body()
        made = await self.api.create(kind, body, NAMESPACE)
        if "status" in body:
            version = {"resourceVersion": made["metadata"]["resourceVersion"]}
            patch = {"metadata": version, "status": body["status"]}
            made = await self.api.patch(
                kind, made["metadata"]["name"], patch, namespace=NAMESPACE, subresource="status"
            )
        self.controller.observe(kind, made)
        return made

    async def own(self, name: str, built: Builder[Any]) -> None:
        """A slice of the group that `start` made."""
        uid = (await self.api.get(SCALE_GROUPS, "g", NAMESPACE))["metadata"]["uid"]
        owner = {"apiVersion": "iris.dev/v1alpha1", "kind": "ScaleGroup", "name": "g", "uid": uid}
        await self.have(SLICES, built.meta(name=name, ownerReferences=[owner]))

    async def start(self, **spec: Any) -> None:
        await self.have(IRIS_CLUSTERS, cluster())
        await self.have(SCALE_GROUPS, group(**spec))

    async def passes(self, seconds: float = 10) -> None:
        """One more, so much later."""
        self._time += seconds
        await self.reconciler.reconcile(_KEY)

    async def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in (await self.api.list(SLICES, NAMESPACE)).items]

    def wrote(self, *verbs: tuple[str, str]) -> list[tuple[str, str]]:
        found = [(verb, plural) for verb, plural, _ in self.api.writes]
        return [one for one in found if not verbs or one in verbs]


@pytest.fixture
def world() -> World:
    return World()


async def test_makes_says_and_is_quiet(world: World) -> None:
    await world.start(minSlices=2)
    await world.passes()
    assert len(await world.names()) == 2
    assert [one["reason"] for one in (await world.api.list(EVENTS, NAMESPACE)).items] == ["ScaleUp"]
    await world.passes()  # "making 2" is no longer so
    before = world.wrote()
    for _ in range(3):
        await world.passes()
    assert world.wrote() == before


async def test_no_more_than_once_a_second(world: World) -> None:
    await world.start(minSlices=1)
    await world.passes()
    await world.have(SCALE_GROUPS, group("other", minSlices=1))
    await world.passes(0.4)
    assert len(await world.names()) == 1
    await world.passes(0.7)
    assert len(await world.names()) == 2


async def test_cordons_with_reason_and_time(world: World) -> None:
    await world.start(minSlices=0)
    await world.own("a", idle("a"))
    await world.passes()
    made = await world.api.get(SLICES, "a", NAMESPACE)
    assert made["spec"]["availability"] == "Cordoned"
    assert made["metadata"]["annotations"] == {
        "iris.dev/retiring": "ScaleDown", "iris.dev/retiring-since": "2026-11-21T12:00:00.000000Z"
    }  # fmt: skip


async def test_uncordons_without_a_trace(world: World) -> None:
    await world.start(minSlices=1)
    await world.own("a", retiring(idle("a")))
    await world.passes()
    made = await world.api.get(SLICES, "a", NAMESPACE)
    assert (made["spec"]["availability"], made["metadata"]["annotations"]) == ("Schedulable", {})


async def test_deletes_what_it_looked_at(world: World) -> None:
    await world.start(minSlices=0)
    await world.own("a", retiring(idle("a")).meta(finalizers=[]))
    await world.passes()
    assert await world.names() == []


@pytest.mark.parametrize("slice_", [idle("a"), retiring(idle("a")).meta(finalizers=[])])
async def test_what_changed_meanwhile_is_left_and_nothing_is_said(world: World, slice_: Builder[Any]) -> None:
    """Neither cordon nor deletion passes another's write."""
    await world.start(minSlices=0)
    await world.own("a", slice_)
    seen = await world.api.get(SLICES, "a", NAMESPACE)
    hold = {"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"]}, "spec": {"holdUntil": at(-600)}}
    after = await world.api.patch(SLICES, "a", hold, namespace=NAMESPACE)
    await world.passes()
    assert await world.api.get(SLICES, "a", NAMESPACE) == after
    assert world.wrote(("patch", "scalegroups/status"), ("create", "events")) == []


async def test_a_create_that_was_done_already_is_success(world: World) -> None:
    """The answer was lost: the slice exists, and the cache doesn't know it."""
    await world.start(minSlices=1)
    await world.passes()
    (name,) = await world.names()
    lost = await world.api.get(SLICES, name, NAMESPACE)
    forgetful = World()
    forgetful.api = world.api
    forgetful.controller = Controller(world.api, (NAMESPACE,), "1", now=lambda: NOW)
    forgetful.reconciler = PlacementReconciler(forgetful.controller, clock=lambda: 0.0)
    for kind in (IRIS_CLUSTERS, SCALE_GROUPS):
        for item in (await world.api.list(kind, NAMESPACE)).items:
            forgetful.controller.observe(kind, {**item, "status": {}})
    await forgetful.reconciler.reconcile(_KEY)
    assert await world.names() == [name]
    assert forgetful.controller.cache.slices[f"{NAMESPACE}/{name}"].metadata.uid == lost["metadata"]["uid"]


async def test_a_task_bound_in_this_very_pass_keeps_its_slice(world: World) -> None:
    await world.start(minSlices=0)
    await world.own("a", idle("a"))
    await world.have(TASKS, task("t").requests(cpu="1"))
    await world.passes()
    bound = await world.api.get(TASKS, "t", NAMESPACE)
    assert bound["spec"]["binding"]["sliceName"] == "a"
    assert (await world.api.get(SLICES, "a", NAMESPACE))["spec"].get("availability", "Schedulable") == "Schedulable"


async def test_a_person_s_drain_outlives_a_retirement_that_was_called_off(world: World) -> None:
    """It is no spare, so it may go; held meanwhile, it is drained as before, not open to Tasks."""
    await world.start(minSlices=0)
    await world.own("a", idle("a").spec(availability="Drained"))
    await world.passes()
    made = await world.api.get(SLICES, "a", NAMESPACE)
    assert (made["spec"]["availability"], made["metadata"]["annotations"]["iris.dev/retiring"]) == (
        "Cordoned",
        "ScaleDown",
    )
    version = {"resourceVersion": made["metadata"]["resourceVersion"]}
    held = {"metadata": version, "spec": {"holdUntil": at(-600)}}
    world.controller.observe(SLICES, await world.api.patch(SLICES, "a", held, namespace=NAMESPACE))
    await world.passes()
    made = await world.api.get(SLICES, "a", NAMESPACE)
    assert (made["spec"]["availability"], made["metadata"]["annotations"]) == ("Drained", {})


async def test_it_is_not_called_back_for_the_minimum_either(world: World) -> None:
    await world.start(minSlices=1)
    drained = retiring(idle("a")).meta(finalizers=[])
    notes = {**drained.body()["metadata"]["annotations"], "iris.dev/retiring-from": "Drained"}
    await world.own("a", drained.meta(annotations=notes))
    await world.passes()
    (name,) = await world.names()
    assert name != "a"


async def test_a_refusal_shows_in_the_group_until_it_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: Any, body: Any, *__: Any) -> dict[str, Any]:
        raise ForbiddenError(403, "Forbidden", f"{body['metadata'].get('name')} is forbidden: exceeded quota")

    await world.start(minSlices=1)
    with monkeypatch.context() as refusing:
        refusing.setattr(world.api, "create", refuse)
        await world.passes()
        before = world.wrote(("patch", "scalegroups/status"))
        await world.passes()
        assert world.wrote(("patch", "scalegroups/status")) == before, "words that change at each try"
    said = (await world.api.get(SCALE_GROUPS, "g", NAMESPACE))["status"]
    (condition,) = [one for one in said["conditions"] if one["type"] == "ActionsAccepted"]
    assert (condition["status"], condition["reason"]) == ("False", "Refused")
    assert condition["message"] == "the API refuses to create a slice: NAME is forbidden: exceeded quota"
    assert "decisions" not in said, "nothing was made"
    await world.passes()
    said = (await world.api.get(SCALE_GROUPS, "g", NAMESPACE))["status"]
    (condition,) = [one for one in said["conditions"] if one["type"] == "ActionsAccepted"]
    assert condition["status"] == "True"
    assert [one["action"] for one in said["decisions"]] == ["ScaleUp"]
