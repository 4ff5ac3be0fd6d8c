"""Whether a CertificateSigningRequest is one of an agent outside of Pods, and about its own machine only. Pure.

Its token is bound to no Pod, so all that is known is its ServiceAccount: a Slice names it (spec.external), and one of that
Slice's machines has to have registered under the uid that is asked for. Whoever has the token may speak for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from iris_operator.api.core import CertificateSigningRequest, Lease, Pod
from iris_operator.api.machine import machine_of
from iris_operator.api.names import LABEL_SLICE, worker_pod_name
from iris_operator.api.slice import Slice
from iris_operator.identity.certificates import BadPem, Request, read_request
from iris_operator.identity.judge import Claim, Deny, checked
from iris_operator.identity.names import AGENT_DOMAIN


def judge_machine(
    asked: CertificateSigningRequest, claim: Claim, owner: Slice | None, leases: Iterable[Lease], pods: Iterable[Pod]
) -> Request | Deny:
    """What to sign. `owner`: the Slice that the request's label names, in the claim's namespace; `leases`, `pods`: there."""
    who = f"ServiceAccount {claim.account}, whose token is bound to no Pod,"
    name = asked.metadata.labels.get(LABEL_SLICE, "")
    if owner is None or owner.spec.external is None or owner.metadata.name != name:
        return Deny(f"{who} asks for a machine of Slice {name or '(none)'}, which has no spec.external")
    if owner.spec.external.service_account_name != claim.account:
        return Deny(f"{who} is not the one that Slice {name} names in spec.external.serviceAccountName")
    try:
        uid = read_request(asked.spec.request).subject.common_name.removesuffix(f".{AGENT_DOMAIN}")
    except BadPem as error:
        return Deny(str(error))
    names = {worker_pod_name(name, rank) for rank in range(owner.spec.node_count)}
    lease = next((one for one in leases if one.metadata.name in names and one.spec.holder_identity == uid), None)
    machine = None if lease is None else machine_of(lease)
    if lease is None or machine is None or lease.metadata.labels.get(LABEL_SLICE) != name:
        return Deny(f"no machine of Slice {name} has registered as {uid}", not_yet=True)
    if any(pod.metadata.uid == uid for pod in pods):
        return Deny(f"{uid} is the uid of a Pod")
    return checked(asked, f"machine {machine.node_name}", uid, machine.address)
