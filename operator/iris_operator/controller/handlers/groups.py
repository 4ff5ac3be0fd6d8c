"""Reconcile one ScaleGroup."""

from __future__ import annotations

import logging
import secrets

from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.manifests.group_slice import group_slice
from iris_operator.plan.scaling import plan_group
from iris_operator.ports.kube import SCALE_GROUPS, SLICES

log = logging.getLogger(__name__)

_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def name_token() -> str:
    """Five characters that don't read as words, as Kubernetes' generated names."""
    return "".join(secrets.choice(_NAME_ALPHABET) for _ in range(5))


class GroupReconciler:
    """Keeps a group's slices."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)

    async def reconcile(self, key: Key) -> None:
        """Make and delete slices, then one status patch."""
        cache = self._controller.cache
        group = cache.groups.get(key.name)
        if group is None:
            return
        namespace = group.metadata.namespace
        own = [
            one
            for one in cache.slices.values()
            if any(owner.uid == group.metadata.uid for owner in one.metadata.owner_references)
        ]
        plan = plan_group(group, own, name_token, self._controller.now())
        for replaced in plan.delete:
            log.info("group %s: deleting failed slice %s", group.key, replaced.metadata.name)
            await self._writer.delete(SLICES, replaced)
        for new in plan.create:
            log.info("group %s: making slice %s", group.key, new.name)
            await self._writer.create(SLICES, group_slice(group, new.name), namespace)
        await self._writer.status(SCALE_GROUPS, group, group.status, plan.status)
        for note in plan.notes:
            await self._writer.event(SCALE_GROUPS, group, note)
