"""Judge one CertificateSigningRequest of an agent, and sign it."""

from __future__ import annotations

import base64
import logging
from datetime import timedelta

from iris_operator.api.cluster import Worker
from iris_operator.api.core import CertificateSigningRequest, Pod
from iris_operator.api.names import LABEL_SLICE
from iris_operator.api.slice import Slice
from iris_operator.controller.handlers.authority import load_authority
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.identity.authority import AGENT_LIFE
from iris_operator.identity.certificates import Request, sign
from iris_operator.identity.judge import Claim, Deny, claim_of, judge
from iris_operator.identity.machines import judge_machine
from iris_operator.identity.names import SIGNER
from iris_operator.plan.settings import NoCluster
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import PODS, REQUESTS, SLICES

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 1.0
_SETTLE = timedelta(seconds=30)


class RequestReconciler:
    """Approves and signs, or denies with a word. What others have approved of our signer is judged all the same."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)

    async def reconcile(self, key: Key) -> None:
        """At most two patches: the verdict, then the certificate."""
        asked = self._controller.cache.requests.get(key.name)
        if asked is None or asked.spec.signer_name != SIGNER or not self._controller.home:
            return
        if asked.status.certificate or asked.verdict in ("Denied", "Failed"):
            return
        claim = claim_of(asked)
        if isinstance(claim, Claim) and claim.namespace not in self._controller.namespaces:
            return  # another installation's
        found = claim if isinstance(claim, Deny) else await self._judge(asked, claim)
        if isinstance(found, Deny) and found.not_yet and self._is_new(asked):
            self._controller.queue.add_after(key, _LOOK_AGAIN_SECONDS)
            return
        if isinstance(found, Deny):
            log.warning("certificate request %s is denied: %s", asked.metadata.name, found.message)
            # What was approved can't be denied any more; it only never gets a certificate.
            await self._say(asked, "Failed" if asked.verdict else "Denied", "NotAnAgent", found.message)
            return
        if not asked.verdict:
            await self._say(asked, "Approved", "Worker", f"its worker asks for {found.subject.common_name}")
            return  # the answer has queued us again
        await self._sign(asked, found)

    def _is_new(self, asked: CertificateSigningRequest) -> bool:
        made = asked.metadata.creation_timestamp
        return made is not None and self._controller.now() - made < _SETTLE

    async def _judge(self, asked: CertificateSigningRequest, claim: Claim) -> Request | Deny:
        """By the API itself: a cache that lags must neither refuse a new Pod nor trust an old one."""
        if not claim.pod_uid:
            return await self._judge_machine(asked, claim)
        pod = await self._pod(claim)
        owner = None if pod is None else await self._owner(pod)
        cluster = self._controller.cache.cluster_of(claim.namespace, owner.spec.cluster_name if owner else "")
        worker = Worker() if isinstance(cluster, NoCluster) else cluster.spec.worker
        return judge(asked, claim, pod, owner, worker.service_account_name)

    async def _judge_machine(self, asked: CertificateSigningRequest, claim: Claim) -> Request | Deny:
        name, here = asked.metadata.labels.get(LABEL_SLICE, ""), claim.namespace
        owner = await self._slice(name, here)
        # What lags here only waits: see Deny.not_yet.
        cache = self._controller.cache
        leases = [one for one in cache.leases.values() if one.metadata.namespace == here]
        return judge_machine(asked, claim, owner, leases, cache.pods.values())

    async def _pod(self, claim: Claim) -> Pod | None:
        try:
            return Pod.parse(await self._controller.api.get(PODS, claim.pod_name, claim.namespace))
        except NotFoundError:
            return None

    async def _owner(self, pod: Pod) -> Slice | None:
        return await self._slice(pod.metadata.labels.get(LABEL_SLICE, ""), pod.metadata.namespace)

    async def _slice(self, name: str, namespace: str) -> Slice | None:
        if not name:
            return None
        try:
            return Slice.parse(await self._controller.api.get(SLICES, name, namespace))
        except NotFoundError:
            return None

    async def _sign(self, asked: CertificateSigningRequest, request: Request) -> None:
        authority = await load_authority(self._controller)
        life = AGENT_LIFE
        if asked.spec.expiration_seconds is not None:
            life = min(life, timedelta(seconds=asked.spec.expiration_seconds))
        certificate = sign(authority.current, request, self._controller.now(), life, server=True)
        # With whom to trust after it: that is how an agent learns whose certificate the gateway shows.
        chain = base64.b64encode(certificate + authority.bundle).decode()
        await self._writer.status_of(REQUESTS, asked, {"certificate": chain})

    async def _say(self, asked: CertificateSigningRequest, verdict: str, reason: str, message: str) -> None:
        said = [one.wire() for one in asked.status.conditions]
        new = {"type": verdict, "status": "True", "reason": reason, "message": message}
        body = {"conditions": [*said, new]}
        await self._writer.status_of(REQUESTS, asked, body, "status" if verdict == "Failed" else "approval")
