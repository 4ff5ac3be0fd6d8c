"""The API server, as far as Iris can tell: versions, preconditions, finalizers, owners, watches; objects as models."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, cast

from iris_operator.api.base import Model, Resource
from iris_operator.api.core import Pod
from iris_operator.api.nodepool import NodePool
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.simulation.agenda import Agenda

R = TypeVar("R", bound=Resource)
Watch = Callable[[Resource | None, Resource | None], None]
"""Told of each change as (before, after); None before: new, None after: gone."""
Guard = Callable[[str, Resource], None]
"""Asked before each `create` and `delete`; refuses by raising an ApiError."""

POD_GRACE_SECONDS = 60


class Store:
    """Objects by model and `namespace/name`. Calls raise ports.errors.ApiError, as the API does."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._objects: defaultdict[type[Resource], dict[str, Resource]] = defaultdict(dict)
        self._dependants: defaultdict[str, dict[str, Resource]] = defaultdict(dict)
        self._watches: list[Watch] = []
        self._guards: list[Guard] = []
        self._versions = itertools.count(1)
        self._uids: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()

    def watch(self, told: Watch) -> None:
        """Be told of every change, at once."""
        self._watches.append(told)

    def guard(self, asked: Guard) -> None:
        """Be asked before each create and delete."""
        self._guards.append(asked)

    def all(self, model: type[R]) -> dict[str, R]:
        """The objects of a model by key; not to be changed."""
        return cast("dict[str, R]", self._objects[model])

    def get(self, model: type[R], key: str) -> R | None:
        """One object."""
        return cast("R | None", self._objects[model].get(key))

    def create(self, wanted: R) -> R:
        """Make it: uid, version, generation and time are the server's. ConflictError when it exists."""
        model = type(wanted)
        if wanted.key in self._objects[model]:
            raise ConflictError(409, "AlreadyExists", f"{model.PLURAL} {wanted.key} exists already")
        self._ask("create", wanted)
        self._uids[model.KIND] += 1
        meta = wanted.metadata.model_copy(
            update={
                "uid": f"{model.KIND.lower()}-{self._uids[model.KIND]}",
                "resource_version": str(next(self._versions)),
                "generation": 1,
                "creation_timestamp": self._agenda.now.replace(microsecond=0),
            }
        )
        made = wanted.model_copy(update={"metadata": meta})
        self._put(None, made)
        return made

    def update(
        self,
        seen: R,
        *,
        metadata: Mapping[str, Any] | None = None,
        spec: Model | None = None,
        status: Model | None = None,
        anyhow: bool = False,
    ) -> R:
        """Replace parts; a status is kept as the wire keeps it (whole seconds).

        ConflictError when `seen` is not the newest version, unless `anyhow`; NotFoundError when that very object is gone.
        """
        found = self._very(seen)
        if not anyhow and found.metadata.resource_version != seen.metadata.resource_version:
            raise ConflictError(409, "Conflict", f"{type(seen).PLURAL} {seen.key} changed meanwhile")
        parts: dict[str, Any] = {}
        more: dict[str, Any] = {"resource_version": str(next(self._versions)), **(metadata or {})}
        if spec is not None:
            parts["spec"] = spec
            more["generation"] = found.metadata.generation + 1
        if status is not None:
            parts["status"] = type(status).model_validate(status.stated())
        parts["metadata"] = found.metadata.model_copy(update=more)
        after = found.model_copy(update=parts)
        if after.deleting and not _lingers(after):
            self._remove(after)
        else:
            self._put(found, after)
        return after

    def delete(self, seen: R, *, version: str = "", grace_seconds: int | None = None) -> None:
        """Ask for the deletion of that very object (only of that version, when given). NotFoundError when it is gone."""
        found = self._very(seen)
        if version and found.metadata.resource_version != version:
            raise ConflictError(409, "Conflict", f"{type(seen).PLURAL} {seen.key} changed meanwhile")
        self._ask("delete", found)
        self.writes[f"delete {type(seen).PLURAL}"] += 1
        if not _lingers(found) or (isinstance(found, Pod) and grace_seconds == 0 and not found.metadata.finalizers):
            self._remove(found)
        elif not found.deleting:
            grace = POD_GRACE_SECONDS if isinstance(found, Pod) and grace_seconds is None else grace_seconds or 0
            more = {
                "deletion_timestamp": (self._agenda.now + timedelta(seconds=grace)).replace(microsecond=0),
                "deletion_grace_period_seconds": grace,
                "resource_version": str(next(self._versions)),
            }
            self._put(found, found.model_copy(update={"metadata": found.metadata.model_copy(update=more)}))

    def remove(self, seen: Resource) -> None:
        """It is gone (those who hold it let go): a node that left, a Pod that its kubelet ended."""
        if self._objects[type(seen)].get(seen.key) is not None:
            self._remove(self._very(seen))

    def _ask(self, verb: str, target: Resource) -> None:
        for guard in self._guards:
            guard(verb, target)

    def _very(self, seen: R) -> R:
        found = self._objects[type(seen)].get(seen.key)
        if found is None or found.metadata.uid != seen.metadata.uid:
            raise NotFoundError(404, "NotFound", f"{type(seen).PLURAL} {seen.key} is gone")
        return cast("R", found)

    def _put(self, before: Resource | None, after: Resource) -> None:
        self.writes[f"{'create' if before is None else 'update'} {type(after).PLURAL}"] += 1
        self._objects[type(after)][after.key] = after
        for owner in after.metadata.owner_references:
            self._dependants[owner.uid][after.metadata.uid] = after
        self._tell(before, after)

    def _remove(self, found: Resource) -> None:
        self._objects[type(found)].pop(found.key, None)
        for owner in found.metadata.owner_references:
            self._dependants[owner.uid].pop(found.metadata.uid, None)
        self._tell(found, None)
        if found.metadata.uid in self._dependants:
            self._agenda.after(1.0, lambda: self._collect(found.metadata.uid))

    def _collect(self, uid: str) -> None:
        """The garbage collector: what an object owned goes after it."""
        for left in list(self._dependants.pop(uid, {}).values()):
            try:
                self.delete(left)
            except NotFoundError:
                continue
            except ApiError:
                self._dependants[uid][left.metadata.uid] = left
                self._agenda.after(10.0, lambda: self._collect(uid))

    def _tell(self, before: Resource | None, after: Resource | None) -> None:
        for told in self._watches:
            told(before, after)


def _lingers(found: Resource) -> bool:
    """Whether somebody must let go before it is gone: a finalizer's owner, a Pod's kubelet, a NodePool's vendor."""
    held = isinstance(found, NodePool) or (isinstance(found, Pod) and bool(found.spec.node_name))
    return held or bool(found.metadata.finalizers)
