"""Devices behind the port, one file for each library; `child` runs any of them in a process of its own.

In: `Call`s. Out: `Outcome`s. A library is imported when its device is opened, and not before.
"""

from collections.abc import Callable, Mapping

from accord.terms.errors import BadInput
from accord.verify.ports import Device


def open_here(name: str) -> Device:
    """A device in this process: `numpy`, `onnxruntime`, `jax`, `openvino`, `torch`, or `torch:` and its own name.

    BadInput for other names; BrokenEdge if the library isn't installed.
    """
    check_name(name)
    library, _, rest = name.partition(":")
    return _MAKERS[library](rest)


def check_name(name: str) -> None:
    """BadInput for a library that isn't known here; whether it is installed is found out when it is opened."""
    if name.partition(":")[0] not in _MAKERS:
        known = ", ".join(_MAKERS)
        raise BadInput(
            field="DEVICE", value=name, problem="no such device", fix=f"name one of {known}, such as torch:cpu"
        )


def _numpy(_: str) -> Device:
    from accord.verify.devices.with_numpy import NumpyDevice

    return NumpyDevice()


def _torch(rest: str) -> Device:
    from accord.verify.devices.with_torch import TorchDevice

    return TorchDevice(rest or "cpu")


def _onnxruntime(rest: str) -> Device:
    from accord.verify.devices.with_onnxruntime import OnnxRuntimeDevice

    return OnnxRuntimeDevice(rest)


def _jax(rest: str) -> Device:
    from accord.verify.devices.with_jax import JaxDevice

    return JaxDevice(rest)


def _openvino(rest: str) -> Device:
    from accord.verify.devices.with_openvino import OpenVinoDevice

    return OpenVinoDevice(rest)


_MAKERS: Mapping[str, Callable[[str], Device]] = {
    "torch": _torch,
    "numpy": _numpy,
    "onnxruntime": _onnxruntime,
    "jax": _jax,
    "openvino": _openvino,
}
