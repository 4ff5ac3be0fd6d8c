"""Whose request is signed outside of Pods: a registered machine's own, by the ServiceAccount that its Slice names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iris_operator.api.core import CertificateSigningRequest, Lease, Pod
from iris_operator.api.names import ANNOTATION_MACHINE, LABEL_MACHINE, LABEL_SLICE
from iris_operator.api.slice import Slice
from iris_operator.identity.certificates import Request, Subject
from iris_operator.identity.judge import Claim, Deny, claim_of
from iris_operator.identity.machines import judge_machine
from tests.builders import NAMESPACE, lease, slice_, worker
from tests.unit.iris_operator.identity.test_judge import asked

UID = "5e2d7f4a-1111-5111-8111-111111111111"
HOST = f"{UID}.agent.iris.dev"
OURS = Subject(HOST, (HOST,), ("192.0.2.7",))
USER = f"system:serviceaccount:{NAMESPACE}:machines"


def owner(**external: Any) -> Slice:
    return slice_(external={"serviceAccountName": "machines", **external}).build()


def registered(**changes: Any) -> Lease:
    labels = {LABEL_SLICE: "s", LABEL_MACHINE: "true", **changes.pop("labels", {})}
    said = {ANNOTATION_MACHINE: json.dumps({"nodeName": "m0", "address": "192.0.2.7"})}
    return lease(rank=changes.pop("rank", 0)).spec(holderIdentity=UID).meta(labels=labels, annotations=said).build()


def request(subject: Subject = OURS, label: str = "s", user: str = USER, **spec: Any) -> CertificateSigningRequest:
    found = asked(subject, username=user, extra={}, **spec)
    return found.model_copy(update={"metadata": found.metadata.model_copy(update={"labels": {LABEL_SLICE: label}})})


def verdict(
    found: CertificateSigningRequest, who: Slice | None = None, there: Lease | None = None, pods: tuple[Pod, ...] = ()
) -> Request | Deny:
    claim = claim_of(found)
    assert claim == Claim(NAMESPACE, claim.account if isinstance(claim, Claim) else "", "", "")
    assert isinstance(claim, Claim)
    return judge_machine(found, claim, who or owner(), [there or registered()], pods)


def test_a_machines_own_request_is_signed_as_asked() -> None:
    found = verdict(request())
    assert isinstance(found, Request)
    assert found.subject == OURS


OTHER = "11111111-1111-5111-8111-111111111111.agent.iris.dev"
CASES: dict[str, tuple[Request | Deny, str]] = {
    "no machines' slice": (verdict(request(), slice_().build()), "no spec.external"),
    "another slice": (verdict(request(label="other")), "Slice other, which has no"),
    "no slice": (verdict(request(label="")), "(none)"),
    "another account": (verdict(request(user=f"system:serviceaccount:{NAMESPACE}:iris-agent")), "iris-agent"),
    "one that has not registered": (verdict(request(Subject(OTHER, (OTHER,)))), "no machine of Slice s has registered"),
    "a worker Pod's Lease": (verdict(request(), there=registered(labels={LABEL_MACHINE: ""})), "has registered"),
    "a Lease of another slice": (verdict(request(), there=registered(labels={LABEL_SLICE: "x"})), "has registered"),
    "a rank that there is not": (verdict(request(), there=registered(rank=5)), "has registered"),
    "a Pod's uid": (verdict(request(), pods=(worker().meta(uid=UID).build(),)), "uid of a Pod"),
    "another address": (verdict(request(Subject(HOST, (HOST,), ("192.0.2.8",)))), "192.0.2.7, not on 192.0.2.8"),
    "another name too": (verdict(request(Subject(HOST, (HOST, "iris-gateway.iris.svc")))), "iris-gateway.iris.svc"),
    "to be a client": (verdict(request(usages=["client auth"])), "client auth"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_else_is_asked_is_denied_with_a_word(name: str) -> None:
    found, words = CASES[name]
    assert isinstance(found, Deny)
    assert words in found.message
    assert found.not_yet == ("registered" in found.message)
