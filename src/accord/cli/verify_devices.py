"""Devices by the names that a person gives, each in a process of its own; and who may bear witness against them.

In: names such as `cpu`, `torch:cpu+compile`, `python@/opt/venv/bin/python:jax`. Out: `ChildDevice`s. Invariant: a
witness shares no library family with the device, and at least two of them must be there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from accord.terms.errors import BadInput, BrokenEdge
from accord.verify.devices import check_name
from accord.verify.devices.child import ChildDevice
from accord.verify.ports import Device

_PYTHON = "python@"
_SHORT = {"cpu": "torch:cpu", "cuda": "torch:cuda", "torch": "torch:cpu"}
# Who is asked for witness, by module: those that are installed.
_WITNESSES = (("torch:cpu", "torch"), ("numpy", "numpy"), ("onnxruntime", "onnxruntime"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A device's port name, and the Python that has its library (None: this one)."""

    port: str
    python: str | None = None


def parse_device(name: str) -> Named:
    """The device that a person means. BadInput for a Python that isn't there, or an unknown library."""
    if not name.startswith(_PYTHON):
        return _checked(name, None)
    path, _, port = name.removeprefix(_PYTHON).partition(":")
    if not port:
        fix = "write python@PATH:DEVICE, such as python@/opt/venv/bin/python:jax"
        raise BadInput(field="DEVICE", value=name, problem="names no device after the Python", fix=fix)
    if not Path(path).is_file():
        raise BadInput(field="DEVICE", value=path, problem="no such Python", fix="check the path")
    return _checked(port, path)


def _checked(port: str, python: str | None) -> Named:
    whole = _SHORT.get(port, port)
    check_name(whole)
    return Named(port=whole, python=python)


def opened(named: Named, *, call_s: float) -> ChildDevice:
    """The device in a child process, started. BrokenEdge with what to install."""
    device = ChildDevice(named.port, python=named.python, call_s=call_s)
    try:
        device.describe()
    except BaseException:
        device.close()
        raise
    return device


def witnesses_for(device: Device, *, call_s: float) -> list[ChildDevice]:
    """Installed devices that share no family with this one. BrokenEdge if there are fewer than two."""
    own = set(device.describe().families)
    found: list[ChildDevice] = []
    for port, module in _WITNESSES:
        if find_spec(module) is None:
            continue
        witness = opened(Named(port=port), call_s=call_s)
        if own & set(witness.describe().families):
            witness.close()
        else:
            found.append(witness)
    if len(found) < 2:
        close_all(found)
        raise BrokenEdge(
            "two libraries that don't share the device's kernels must be there: pip install 'accord-ai[verify]'"
        )
    return found


def close_all(devices: Sequence[Device]) -> None:
    """Ends them all."""
    for device in devices:
        device.close()
