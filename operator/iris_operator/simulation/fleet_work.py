"""One pass over a namespace: placement, then the groups, as controller/handlers/placement.py does."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatchmethod

from iris_operator.api.names import ANNOTATION_RETIRING, ANNOTATION_RETIRING_SINCE, FINALIZER_TASK
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Availability, Slice
from iris_operator.manifests.group_slice import group_slice
from iris_operator.plan.actions import BindTask, CordonSlice, CreateSlice, DeleteSlice, GroupAction, UncordonSlice
from iris_operator.plan.groups.fleet import GroupPlan, plan_fleet
from iris_operator.plan.placement.placement import Denied, Unplaced, plan_placement
from iris_operator.plan.tasks.lifecycle import never_placed, plan_waiting
from iris_operator.plan.tasks.policy import POLICY_DENIED
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.simulation.process import Key, Operator
from iris_operator.simulation.routing import PLACE
from iris_operator.simulation.slice_actions import stop_task

_WAITING_WRITES_PER_PASS = 20

OnPlan = Callable[[GroupPlan], None]


class FleetWork:
    """`told` hears of each group's plan before it is carried out. `explain`: write on Tasks why they wait."""

    def __init__(self, gangs: dict[str, str], told: OnPlan, explain: bool = True) -> None:
        self._gangs, self._told, self._explain_tasks = gangs, told, explain
        self.waiting: tuple[Unplaced, ...] = ()

    def __call__(self, operator: Operator, name: str) -> None:
        """Bind what fits; when it is time, let the groups grow and shrink, and say why the rest waits."""
        now = operator.now
        early = operator.fleet_due - operator.agenda.seconds
        view = operator.memory.placement_view(name)
        placement = plan_placement(view, now, operator.ledger, explain=early <= 0)
        for binding in placement.bindings:
            _bind(binding, operator)
        for denied in placement.denied:
            _deny(denied, operator)
        if early > 0:
            operator.add(Key(PLACE, name), early)
            return
        operator.fleet_due = operator.agenda.seconds + operator.pace.fleet_seconds
        plan = plan_fleet(operator.memory.fleet_view(name, self._gangs), placement, now, operator.ledger)
        self.waiting = plan.waiting
        if plan.look_again_seconds is not None:
            operator.add(Key(PLACE, name), plan.look_again_seconds)
        for preempt in plan.preempts:
            told = [stop_task(operator, one) for one in preempt.stops]
            if not all(told):
                operator.fleet_due = operator.agenda.seconds
                operator.add(Key(PLACE, name), 0.1)
        for group in plan.groups:
            self._told(group)
            self._group(group, operator, name)
        if self._explain_tasks:
            self._explain(operator, name)

    def _group(self, plan: GroupPlan, operator: Operator, name: str) -> None:
        try:
            for action in plan.actions:
                self._act(action, plan.group, operator)
            operator.status(plan.group, plan.group.status, plan.status)
        except (ConflictError, NotFoundError):
            operator.add(Key(PLACE, name), 1.0)
        except ApiError:
            operator.add(Key(PLACE, name), 5.0)

    def _explain(self, operator: Operator, name: str) -> None:
        written = 0
        for one in self.waiting:
            plan = plan_waiting(one.task, one.reason, one.message, operator.now)
            if plan.recheck_seconds is not None:
                operator.add(Key(PLACE, name), plan.recheck_seconds)
            if plan.status is None:
                continue
            if written == _WAITING_WRITES_PER_PASS:
                operator.add(Key(PLACE, name), 1.0)
                return
            written += 1
            try:
                operator.status(one.task, one.task.status, plan.status)
            except (ConflictError, NotFoundError):
                continue

    @singledispatchmethod
    def _act(self, action: GroupAction, group: ScaleGroup, operator: Operator) -> None:
        raise TypeError(f"no way to do {action}")

    @_act.register
    def _(self, action: CreateSlice, group: ScaleGroup, operator: Operator) -> None:
        try:
            operator.create(Slice.parse(group_slice(group, action.name)))
        except ConflictError:
            return

    @_act.register
    def _(self, action: CordonSlice, group: ScaleGroup, operator: Operator) -> None:
        notes = {
            **action.slice.metadata.annotations,
            ANNOTATION_RETIRING: action.reason,
            ANNOTATION_RETIRING_SINCE: operator.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        spec = action.slice.spec.model_copy(update={"availability": Availability.CORDONED})
        operator.change(action.slice, metadata={"annotations": notes}, spec=spec)

    @_act.register
    def _(self, action: UncordonSlice, group: ScaleGroup, operator: Operator) -> None:
        gone = (ANNOTATION_RETIRING, ANNOTATION_RETIRING_SINCE)
        notes = {name: value for name, value in action.slice.metadata.annotations.items() if name not in gone}
        spec = action.slice.spec.model_copy(update={"availability": Availability.SCHEDULABLE})
        operator.change(action.slice, metadata={"annotations": notes}, spec=spec)

    @_act.register
    def _(self, action: DeleteSlice, group: ScaleGroup, operator: Operator) -> None:
        operator.delete(action.slice, version=action.slice.metadata.resource_version)


def _bind(action: BindTask, operator: Operator) -> None:
    task = action.task
    finalizers = task.metadata.finalizers
    if FINALIZER_TASK not in finalizers:
        finalizers = [*finalizers, FINALIZER_TASK]
    try:
        spec = task.spec.model_copy(update={"binding": action.binding})
        operator.change(task, metadata={"finalizers": finalizers}, spec=spec)
    except (ConflictError, NotFoundError):
        return


def _deny(denied: Denied, operator: Operator) -> None:
    plan = never_placed(denied.task, POLICY_DENIED, denied.message, operator.now)
    assert plan.status is not None
    try:
        operator.status(denied.task, denied.task.status, plan.status)
    except (ConflictError, NotFoundError):
        return
