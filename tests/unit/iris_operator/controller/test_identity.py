"""The authority is made once and kept; agents' requests are judged and signed; the gateway's papers follow."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.controller.handlers.authority import AuthorityReconciler, NoAuthority, load_authority
from iris_operator.controller.handlers.requests import RequestReconciler
from iris_operator.controller.memo import Controller
from iris_operator.controller.routing import AUTHORITY, REQUEST
from iris_operator.controller.workqueue import Key
from iris_operator.identity.certificates import Subject, issued_by, make_request, new_key, split, validity
from iris_operator.identity.names import API_SERVICE, CA_SECRET, GATEWAY_SECRET, agent_host
from iris_operator.identity.papers import read_gateway
from iris_operator.ports.kube import API_SERVICES, PODS, REQUESTS, SECRETS, SLICES
from tests.builders import NAMESPACE, NOW

HOME = "iris-system"


class World:
    """A controller on the fake API, with a clock that a test moves."""

    def __init__(self) -> None:
        self.api, self.now = FakeKube(), NOW
        self.controller = Controller(self.api, (NAMESPACE,), "1", home=HOME, now=lambda: self.now)

    async def keep(self) -> None:
        await AuthorityReconciler(self.controller).reconcile(Key(AUTHORITY, ""))

    async def bundle(self) -> str:
        return str((await self.api.get(API_SERVICES, API_SERVICE))["spec"]["caBundle"])

    async def worker(self) -> str:
        """A Slice and its worker Pod; the Pod's uid."""
        spec = {"instanceType": "cd-gp-i64-erapids"}
        owner = await self.api.create(SLICES, {"metadata": {"name": "s"}, "spec": spec}, NAMESPACE)
        reference = {"apiVersion": "iris.dev/v1alpha1", "kind": "Slice", "name": "s", "uid": owner["metadata"]["uid"]}
        labels = {"iris-managed": "true", "iris.dev/slice": "s", "iris.dev/rank": "0"}
        metadata = {"name": "s-worker-0", "labels": labels, "ownerReferences": [reference]}
        pod = await self.api.create(PODS, {"metadata": metadata, "spec": {}}, NAMESPACE)
        return str(pod["metadata"]["uid"])

    async def ask(self, uid: str, host: str = "", *, approved: bool = False, **spec: Any) -> dict[str, Any]:
        """The agent's request after the operator has dealt with it; `approved`: by somebody else, before."""
        name = host or agent_host(uid)
        body = {
            "request": base64.b64encode(make_request(new_key(), Subject(name, (name,)))).decode(),
            "signerName": "iris.dev/agent", "usages": ["digital signature", "server auth"],
            "username": f"system:serviceaccount:{NAMESPACE}:iris-agent",
            "extra": {f"authentication.kubernetes.io/pod-{key}": [value]
                      for key, value in (("name", "s-worker-0"), ("uid", uid))},
            **spec,
        }  # fmt: skip
        made = await self.api.create(REQUESTS, {"metadata": {"name": "c"}, "spec": body})
        if approved:
            status = {"conditions": [{"type": "Approved", "status": "True", "reason": "KubectlApprove"}]}
            made = await self.api.patch(REQUESTS, "c", {"status": status}, subresource="approval")
        self.controller.observe(REQUESTS, made)
        for _ in range(3):
            await RequestReconciler(self.controller).reconcile(Key(REQUEST, "/c"))
        return await self.api.get(REQUESTS, "c")


async def test_two_operators_make_one_authority() -> None:
    world = World()
    first, second = await asyncio.gather(load_authority(world.controller), load_authority(world.controller))
    assert first == second
    assert first == await load_authority(world.controller)


async def test_a_broken_authority_is_not_replaced_but_told() -> None:
    world = World()
    await world.api.create(SECRETS, {"metadata": {"name": CA_SECRET}, "data": {"tls.crt": "aGVsbG8="}}, HOME)
    with pytest.raises(NoAuthority, match="Delete the Secret"):
        await load_authority(world.controller)


async def test_the_gateway_gets_its_papers_and_the_api_server_whom_to_trust() -> None:
    world = World()
    await world.api.create(
        API_SERVICES, {"metadata": {"name": API_SERVICE}, "spec": {"service": {"namespace": HOME}, "caBundle": "x"}}
    )
    await world.keep()
    authority = await load_authority(world.controller)
    pair, bundle = read_gateway(await world.api.get(SECRETS, GATEWAY_SECRET, HOME))
    assert issued_by(pair.certificate, authority.current.certificate)
    assert base64.b64decode(await world.bundle()) == bundle == authority.bundle
    writes = len(world.api.writes)
    await world.keep()
    assert len(world.api.writes) == writes


async def test_another_installations_api_service_is_left_alone() -> None:
    world = World()
    spec = {"service": {"namespace": "other"}, "caBundle": "x"}
    await world.api.create(API_SERVICES, {"metadata": {"name": API_SERVICE}, "spec": spec})
    await world.keep()
    assert await world.bundle() == "x"


async def test_the_gateways_certificate_is_renewed_before_its_end() -> None:
    world = World()
    await world.keep()
    before, _ = read_gateway(await world.api.get(SECRETS, GATEWAY_SECRET, HOME))
    world.now += timedelta(days=19)
    await world.keep()
    assert read_gateway(await world.api.get(SECRETS, GATEWAY_SECRET, HOME))[0] == before
    world.now += timedelta(days=2)
    await world.keep()
    after, _ = read_gateway(await world.api.get(SECRETS, GATEWAY_SECRET, HOME))
    assert validity(after.certificate).end > validity(before.certificate).end


async def test_a_new_authority_is_announced_to_all_before_it_signs() -> None:
    world = World()
    await world.api.create(API_SERVICES, {"metadata": {"name": API_SERVICE}, "spec": {"service": {"namespace": HOME}}})
    await world.keep()
    old = await load_authority(world.controller)
    world.now += timedelta(days=2500)
    await world.keep()
    pair, bundle = read_gateway(await world.api.get(SECRETS, GATEWAY_SECRET, HOME))
    assert len(split(bundle)) == 2
    assert issued_by(pair.certificate, old.current.certificate)
    world.now += timedelta(days=3)
    await world.keep()
    new = await load_authority(world.controller)
    pair, bundle = read_gateway(await world.api.get(SECRETS, GATEWAY_SECRET, HOME))
    assert new.current != old.current
    assert issued_by(pair.certificate, new.current.certificate)
    assert len(split(bundle)) == 2


async def test_a_workers_request_is_approved_and_signed() -> None:
    world = World()
    uid = await world.worker()
    asked = await world.ask(uid)
    authority = await load_authority(world.controller)
    assert [one["type"] for one in asked["status"]["conditions"]] == ["Approved"]
    leaf, *trusted = split(base64.b64decode(asked["status"]["certificate"]))
    assert issued_by(leaf, authority.current.certificate)
    assert b"".join(trusted) == authority.bundle
    assert validity(leaf).end == NOW + timedelta(hours=24)


async def test_a_shorter_life_is_given_when_asked_for() -> None:
    world = World()
    asked = await world.ask(await world.worker(), expirationSeconds=600)
    assert validity(base64.b64decode(asked["status"]["certificate"])).end == NOW + timedelta(minutes=10)


async def test_a_request_for_the_gateways_name_is_denied_with_a_word() -> None:
    world = World()
    asked = await world.ask(await world.worker(), host="iris-gateway")
    (condition,) = asked["status"]["conditions"]
    assert condition["type"] == "Denied"
    assert "not for iris-gateway" in condition["message"]
    assert not asked["status"].get("certificate")


async def test_what_others_approve_of_our_signer_is_judged_all_the_same() -> None:
    world = World()
    asked = await world.ask(await world.worker(), host="iris-gateway", approved=True)
    assert [one["type"] for one in asked["status"]["conditions"]] == ["Approved", "Failed"]
    assert not asked["status"].get("certificate")


@pytest.mark.parametrize(
    "spec", [{"username": "system:serviceaccount:elsewhere:iris-agent"}, {"signerName": "iris.dev/other"}]
)
async def test_what_is_another_signers_or_another_installations_is_left_alone(spec: dict[str, str]) -> None:
    world = World()
    asked = await world.ask(await world.worker(), **spec)  # type: ignore[arg-type]
    assert not asked.get("status")
