"""What a part needs -> what is asked of HAMi, in a vendor's own units, and what comes of the rounding.

In: `Need`, the vendor's `Names`. Out: `Asked`. Invariant: never less than the need; each amount that is more is told
in `notes`.
"""

import math
from dataclasses import dataclass

from accord.render.dress import Pairs
from accord.render.hami_names import Names, VnpuTemplate
from accord.terms import units
from accord.terms.fleet import DeviceKind
from accord.terms.gang import Need, Part

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Resources and annotations of a container, and what differs from what was asked, in sentences."""

    limits: Pairs
    annotations: Pairs = ()
    notes: tuple[str, ...] = ()
    template: VnpuTemplate | None = None


def ask(part: Part, kind: DeviceKind, names: Names) -> Asked:
    """What HAMi is asked for one replica of `part`; nothing if it needs no device."""
    need = part.need
    if need.cards:
        return _whole(part, kind, names)
    if not need.share:
        return Asked(limits=())
    if names.templates:
        return _template(part, kind, names)
    return _shared(part, kind, names)


def _whole(part: Part, kind: DeviceKind, names: Names) -> Asked:
    cards = part.need.cards
    name = names.whole or names.count
    assert name is not None
    if names.pairs and cards % 2:
        note = f"{part.name}: asked {_devices(cards)}, {kind.name} is given out in pairs, so {cards + 1} are taken"
        return Asked(limits=((name, str(cards + 1)),), notes=(note,))
    return Asked(limits=((name, str(cards)),))


def _template(part: Part, kind: DeviceKind, names: Names) -> Asked:
    """HAMi picks the smallest template by memory alone, so a larger core share is asked for by memory."""
    need, count = part.need, names.count
    assert count is not None
    memory = memory_of(need, kind)
    cores = need.share * names.ai_cores
    fitting = (one for one in names.templates if one.memory_mib * _MIB >= memory and one.ai_cores + 1e-9 >= cores)
    template = min(fitting, key=lambda one: one.memory_mib, default=None)
    asked = f"{_bytes(memory)} and {units.format_share(need.share, digits=4)} of the cores"
    limits: Pairs = ((count, "1"), (names.memory, str(template.memory_mib))) if template else ((count, "1"),)
    if template is None:
        note = f"{part.name}: asked {asked}, no template of {kind.name} holds that, so a whole device is taken"
    else:
        given = f"{_bytes(template.memory_mib * _MIB)} and {template.ai_cores} of {names.ai_cores} cores"
        exact = template.memory_mib * _MIB == memory and math.isclose(template.ai_cores, cores)
        note = "" if exact else f"{part.name}: asked {asked}, template {template.name} gives {given}"
    pair = f"{part.name}: asked one device, HAMi gives {kind.name} out in pairs, so 2 are taken" if names.pairs else ""
    return Asked(limits=limits, notes=tuple(one for one in (note, pair) if one), template=template)


def _shared(part: Part, kind: DeviceKind, names: Names) -> Asked:
    memory, note = _memory(part, kind, names)
    if memory is None and names.memory_units:
        whole = names.whole or names.count
        assert whole is not None
        return Asked(limits=((whole, "1"),), notes=note)
    core, core_note = _core(part, kind, names)
    count: Pairs = ((names.count, "1"),) if names.count else ()
    notes = note + core_note
    if names.count is None:
        notes += (f"{part.name}: HAMi takes the smallest DRS profile of {kind.name} that holds this",)
    return Asked(limits=count + (memory or ()) + core, annotations=names.share_annotations, notes=notes)


def _memory(part: Part, kind: DeviceKind, names: Names) -> tuple[Pairs | None, tuple[str, ...]]:
    """The memory's amount in the vendor's units; None where only a whole device, or all of its memory, will do."""
    need = part.need
    wanted = memory_of(need, kind)
    if not need.memory_bytes and names.percentage:
        return ((names.percentage, str(percent(need.share, 100))),), ()
    if names.core is None and names.memory_whole_mib:
        # The cores go with the memory, so the larger of both counts.
        wanted = max(wanted, math.ceil(need.share * names.memory_whole_mib) * _MIB)
    if not wanted:
        return None, (f"{part.name}: no memory is stated, so HAMi takes all of the device's",)
    amount = max(names.memory_least, math.ceil(wanted / names.unit_bytes))
    if names.memory_units:
        fitting = [one for one in names.memory_units if one >= amount]
        if not fitting:
            asked = f"{_bytes(wanted)} and {units.format_share(need.share, digits=4)} of the cores"
            return None, (f"{part.name}: asked {asked}, no part of {kind.name} holds that, so a whole device is taken",)
        amount = fitting[0]
    given = amount * names.unit_bytes
    asked_bytes = memory_of(need, kind)
    if given == asked_bytes:
        return ((names.memory, str(amount)),), ()
    how = f"{names.memory} counts {_bytes(names.unit_bytes)}" if not names.memory_units else "HAMi's steps"
    note = f"{part.name}: asked {_bytes(asked_bytes)} of device memory, {how}, so {_bytes(given)} are taken"
    return ((names.memory, str(amount)),), (note,)


def _core(part: Part, kind: DeviceKind, names: Names) -> tuple[Pairs, tuple[str, ...]]:
    if names.core is None:
        note = f"{part.name}: the cores of {kind.name} go with its memory"
        return (), (note,) if names.memory_whole_mib else ()
    share = part.need.share
    amount = percent(share, names.core_parts)
    if math.isclose(amount, share * names.core_parts):
        return ((names.core, str(amount)),), ()
    asked, given = units.format_share(share, digits=4), f"{amount} of {names.core_parts}"
    return ((names.core, str(amount)),), (f"{part.name}: asked {asked} of the cores, {names.core} gives {given}",)


def memory_of(need: Need, kind: DeviceKind) -> int:
    """The memory that a share needs: as stated, else its part of the device's; 0 where neither is known."""
    if need.memory_bytes or kind.memory_bytes is None:
        return need.memory_bytes
    return math.ceil(need.share * kind.memory_bytes.value)


def percent(share: float, parts: int = 100) -> int:
    """A share in whole parts of a device, rounded up."""
    return max(1, math.ceil(round(share * parts, 6)))


def mib(size_bytes: int) -> int:
    """Bytes in MiB, rounded up."""
    return math.ceil(size_bytes / _MIB)


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def _bytes(size_bytes: int) -> str:
    return units.format_size_bytes(size_bytes, digits=4)
