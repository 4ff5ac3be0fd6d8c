"""Why the members of a Task of several replicas found no slice that has room for all of them."""

from __future__ import annotations

from iris_operator.plan.placement.shapes import Shape
from iris_operator.plan.placement.slot_index import SlotIndex, scope_of
from iris_operator.plan.placement.squad_placement import fits, rooms
from iris_operator.plan.placement.why_unplaced import Explainer, Why
from iris_operator.plan.text import count

_SHOWN = 4


def why_squad(explainer: Explainer, index: SlotIndex, shape: Shape, members: int, *, alone: bool) -> Why:
    """Of so many members of the shape. `alone`: never two of them on one node."""
    reason, facts, advice = explainer.why(shape)
    needs, _, rest = facts.partition("; ")
    needs = f"needs {count(members, 'member')} on one slice, each of which {needs}"
    if reason not in ("InsufficientResources", "PortTaken"):
        return reason, f"{needs}; {rest}", advice
    most = _largest(index, shape, alone=alone)
    name = max(most, key=lambda name: (most[name], name))
    if most[name] < members:
        holds = f"the largest slice, {name}, takes {most[name]} of {members}"
        return "TooLarge", f"{needs}; {holds}", ": ask for fewer, or add a larger slice"
    free = {name: sum(one.members for one in nodes) for name, nodes in rooms(index, shape, alone=alone).items()}
    best = sorted(most, key=lambda name: (-free.get(name, 0), name))
    said = ", ".join(f"{name} for {free.get(name, 0)}" for name in best[:_SHOWN])
    more = f" and {count(len(best) - _SHOWN, 'more slice')} for no more" if len(best) > _SHOWN else ""
    facts = f"{needs}; of {members} there is room on slice {said}{more}"
    return (reason, f"{facts}; {rest}", advice) if reason == "PortTaken" else (reason, facts, "")


def _largest(index: SlotIndex, shape: Shape, *, alone: bool) -> dict[str, int]:
    """Slice -> how many members it would take if it were empty."""
    found: dict[str, int] = {}
    for slot, _ in index.free(scope_of(shape)):
        most = min(fits(slot.capacity, shape), 1 if alone else slot.max_tasks)
        found[slot.slice_name] = found.get(slot.slice_name, 0) + most
    return found
