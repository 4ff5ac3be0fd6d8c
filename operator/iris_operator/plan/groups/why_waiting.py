"""The whole reason why each unplaced Task waits: what placement found, and what the groups do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iris_operator.api.quantity import to_quantity
from iris_operator.plan.groups.boots import recent_boots
from iris_operator.plan.groups.crew import Crew
from iris_operator.plan.groups.demand import Share, Where, fit
from iris_operator.plan.groups.members import Member
from iris_operator.plan.groups.status import at_max, held_back
from iris_operator.plan.placement.placement import Unplaced
from iris_operator.plan.placement.shapes import Shape
from iris_operator.plan.slices.boot_text import usual_boot
from iris_operator.plan.text import count, names_text

_SHOWN_GROUPS = 4


class Words:
    """What is said of one pass' groups, worked out when it is first needed."""

    def __init__(self, crews: Sequence[Crew]) -> None:
        self._crews = {crew.name: crew for crew in crews if crew.active}
        self._boots: dict[str, str] = {}

    def tell(self, found: Sequence[Unplaced], shares: Sequence[Share]) -> Iterator[Unplaced]:
        """`found`: Tasks of one shape, oldest first; `shares`: what so many of them in turn are promised."""
        at = 0
        for share in shares:
            part = found[at : at + share.tasks]
            at += share.tasks
            if not part:
                continue
            told = self._say(part[0], share)
            if told is None:
                yield from part
                continue
            reason, message = told
            for one in part:
                yield Unplaced(one.task, reason, message, one.shape, one.facts, one.members)
        yield from found[at:]

    def named_group(self, one: Unplaced, shape: Shape) -> Unplaced:
        """A Task that names a group which isn't there."""
        message = f"{_needs(one)}; there is no ScaleGroup {shape.scale_group_name} here: make it"
        return Unplaced(one.task, "GroupNotFound", message, shape, one.facts)

    def named_slice(self, one: Unplaced, shape: Shape, member: Member | None) -> Unplaced:
        """A Task that names a slice waits for that very one."""
        name = shape.slice_name
        if member is None:
            message = f"{_needs(one)}; there is no Slice {name} here (any more): make it, or make the Task anew"
            return Unplaced(one.task, "SliceNotFound", message, shape, one.facts)
        if not member.in_flight:
            return one
        phase = member.slice.status.phase or "Pending"
        message = f"{_needs(one)}; slice {name} is {phase}: {self._boot(member.slice.spec.scale_group_name)}"
        return Unplaced(one.task, "WaitingForBoot", message, shape, one.facts)

    def _say(self, one: Unplaced, share: Share) -> tuple[str, str] | None:
        """Reason and message; None: placement has said it all."""
        if share.where is Where.NOWHERE:
            return self._nowhere(one)
        crew = self._crews.get(share.group)
        if share.where is Where.KEPT:
            names = names_text(sorted({unit.name for unit in share.units}), 3)
            return "WaitingForSlice", f"{one.facts}; group {share.group} keeps slice {names} for it"
        if share.where is Where.LATER and crew is not None:
            delay = crew.autoscaler.scale_up_delay_seconds
            words = f"group {share.group} makes slices for it after it has waited {delay} s (scaleUpDelaySeconds)"
            return "ScaleUpDelay", f"{one.facts}; {words}"
        if share.where is Where.UNMET and one.shape is not None:
            return self._unmet(one, one.shape)
        number = len(share.units)
        if not share.group:
            names = names_text(sorted({unit.name for unit in share.units}), 3)
            return "WaitingForBoot", f"{one.facts}; {names} {'is' if number == 1 else 'are'} booting: {usual_boot(())}"
        words = f"group {share.group} is booting {count(number, 'slice')} for it: {self._boot(share.group)}"
        return "WaitingForBoot", f"{one.facts}; {words}"

    def _unmet(self, one: Unplaced, shape: Shape) -> tuple[str, str]:
        able = [crew for crew in self._mine(shape) if _takes(crew, shape) >= one.members]
        # What nothing else holds back has its last slices made in this very pass.
        stopped = [(crew, held_back(crew) or at_max(crew)) for crew in able]
        words = [f"group {crew.name} is {why}" for crew, why in stopped[:_SHOWN_GROUPS]]
        words += (
            [f"{count(len(stopped) - _SHOWN_GROUPS, 'more group')} likewise"] if len(stopped) > _SHOWN_GROUPS else []
        )
        if len(self._mine(shape)) > len(able):
            words.append("would fit no other group")
        full = all(why == at_max(crew) for crew, why in stopped)
        return "AtMaxSlices" if full else "GroupBlocked", f"{one.facts}; {'; '.join(words)}"

    def _nowhere(self, one: Unplaced) -> tuple[str, str] | None:
        groups = self._mine(one.shape) if one.shape is not None else []
        if not groups or one.shape is None:
            return None
        names = names_text(sorted(crew.name for crew in groups), 3)
        most = max(_takes(crew, one.shape) for crew in groups)
        short = f"slices take at most {most} of {one.members}" if most else _short(one.shape, groups)
        if one.reason in ("InsufficientResources", "PortTaken"):
            return one.reason, f"{one.facts}; fits a new slice of no group ({names}: {short})"
        return "TooLarge", f"{one.facts}; fits no group ({names}: {short}): ask for less, or add a larger group"

    def _mine(self, shape: Shape) -> list[Crew]:
        """Groups that the Task may use."""
        found = (crew for crew in self._crews.values() if crew.cluster == shape.cluster)
        mine = [crew for crew in found if shape.scale_group_name in ("", crew.name)]
        return sorted(mine, key=lambda crew: (-crew.group.spec.priority, crew.name))

    def _boot(self, group: str) -> str:
        if group not in self._boots:
            crew = self._crews.get(group)
            boots = recent_boots(crew.group.status.recent_boots, crew.members) if crew else []
            self._boots[group] = usual_boot([one.seconds for one in boots])
        return self._boots[group]


def _needs(one: Unplaced) -> str:
    return one.facts.split("; ", 1)[0]


def _takes(crew: Crew, shape: Shape) -> int:
    """How many of the shape one slice of the group takes."""
    return fit(crew.capacity, shape) * crew.group.spec.template.spec.node_count


def _short(shape: Shape, groups: Sequence[Crew]) -> str:
    """What the groups' nodes have too little of: `nodes have at most 8 nvidia.com/gpu`."""
    most: Mapping[str, int] = {name: max(crew.capacity.of(name) for crew in groups) for name in shape.wanted}
    for name in sorted(shape.wanted):
        if most[name] < shape.wanted[name]:
            return f"nodes have at most {to_quantity(name, most[name])} {name}"
    return "no single node has all of that"
