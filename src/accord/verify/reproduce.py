"""A failing case -> a script that shows the fault to whoever has the device, and nothing else of ours.

In: a case, the device, what was seen. Out: the text of a Python script. Invariant: it ends with status 1 while the
fault is there and with 0 once it is gone; its operands are the very bits that failed.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from accord.terms.quirk import Point
from accord.verify.operators.row import Case
from accord.verify.ports import USUAL_MODE, Call, Description
from accord.verify.tensor import Dtype, Floats, Tensor

_PACKED_MAX = 200_000  # beyond this a script is no longer something to put into a report
_WIDTH = 100

# How PyTorch is called: {0} is the first operand, {name} an option.
_TORCH: Mapping[str, str] = {
    "mm": "torch.mm({0}, {1})",
    "mm out": "torch.mm({0}, {1}, out=torch.empty_like({0} @ {1}))",
    "addmm": "torch.addmm({0}, {1}, {2})",
    "bmm": "torch.bmm({0}, {1})",
    "baddbmm": "torch.baddbmm({0}, {1}, {2})",
    "matmul": "torch.matmul({0}, {1})",
    "linear": "torch.nn.functional.linear({all})",
    "softmax": "torch.softmax({0}, -1)",
    "log_softmax": "torch.log_softmax({0}, -1)",
    "relu": "torch.relu({0})",
    "sigmoid": "torch.sigmoid({0})",
    "tanh": "torch.tanh({0})",
    "silu": "torch.nn.functional.silu({0})",
    "gelu": "torch.nn.functional.gelu({0})",
    "exp": "torch.exp({0})",
    "add": "torch.add({0}, {1})",
    "mul": "torch.mul({0}, {1})",
}
_TORCH_DTYPES: Mapping[Dtype, str] = {
    Dtype.BOOL: "bool",
    Dtype.U8: "uint8",
    Dtype.I8: "int8",
    Dtype.I16: "int16",
    Dtype.I32: "int32",
    Dtype.I64: "int64",
    Dtype.F8E4M3: "float8_e4m3fn",
    Dtype.F8E5M2: "float8_e5m2",
    Dtype.F16: "float16",
    Dtype.BF16: "bfloat16",
    Dtype.F32: "float32",
    Dtype.F64: "float64",
}
_SCRIPT = '''# {title}
# Ends with status 1 while the fault is there, and with 0 once it is gone.
import base64
import zlib

import torch


def unpacked(text, dtype):
    return torch.frombuffer(bytearray(zlib.decompress(base64.b64decode("".join(text.split())))), dtype=dtype)


def operand(text, dtype, shape, strides, offset):
    return torch.as_strided(unpacked(text, dtype).to("{device}"), shape, strides, offset)


{operands}
wanted = unpacked("""
{wanted}
""", torch.float64).reshape({shape})
allowed = unpacked("""
{allowed}
""", torch.float64).reshape({shape})
got = {call}
got = got.cpu().double()
wrong = wanted.isfinite() & ~((got - wanted).abs() <= allowed)
print(f"{{int(wrong.sum())}} of {{wrong.numel()}} numbers are wrong", *wrong.nonzero()[:5].tolist())
raise SystemExit(int(wrong.any()))
'''
_AGAIN = """# {title}
# Ends with status 1 while the fault is there, and with 0 once it is gone. Needs Accord.
from accord.verify.again import again

raise SystemExit(
    again(
        device={device!r},
        python={python!r},
        operator={operator!r},
        facts={facts!r},
        traits={traits!r},
    )
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a script tells: the device's port, the point, what was seen in words, and what errors are allowed.

    `python`: the interpreter that has the device's library, if it isn't the one that runs Accord.
    """

    device: Description
    port: str
    point: Point
    words: str
    python: str | None = None
    allowed: Floats | None = None


def script(shown: Shown, case: Case | None) -> str:
    """For PyTorch a script with the very bits, if they are few enough; else one that asks Accord to make them again."""
    library, _, device = shown.port.partition(":")
    if library == "torch" and case is not None and shown.allowed is not None:
        call = _torch_call(case.call)
        text = None if call is None else _torch_script(shown, case, device or "cpu", call=call, allowed=shown.allowed)
        if text is not None:
            return text
    return _AGAIN.format(
        title=_title(shown),
        device=shown.port,
        python=shown.python,
        operator=shown.point.operator,
        facts={fact.name: fact.value for fact in shown.point.facts},
        traits={trait.name: trait.word for trait in shown.point.traits},
    )


def _title(shown: Shown) -> str:
    versions = ", ".join(f"{version.library} {version.version}" for version in shown.device.versions)
    told = f"{shown.point.operator} on {shown.device.name} ({versions}): {shown.words}"
    return " ".join(told.split())


def _torch_call(call: Call) -> str | None:
    """None where more than one eager call is meant, or the operator has no short form."""
    form = _TORCH.get(call.operator if call.overload == "default" else f"{call.operator} {call.overload}")
    if form is None or call.mode not in (USUAL_MODE, "eager") or call.options:
        return None
    names = [f"x{number}" for number in range(len(call.operands))]
    return form.format(*names, all=", ".join(names))


def _torch_script(shown: Shown, case: Case, device: str, *, call: str, allowed: Floats) -> str | None:
    operands = "\n".join(_operand(number, tensor) for number, tensor in enumerate(case.call.operands))
    wanted, slack = _packed(case.wanted[0]), _packed(np.broadcast_to(allowed, case.wanted[0].shape))
    if len(operands) + len(wanted) + len(slack) > _PACKED_MAX:
        return None
    return _SCRIPT.format(
        title=_title(shown),
        device=device,
        operands=operands,
        wanted=wanted,
        allowed=slack,
        shape=tuple(case.wanted[0].shape),
        call=call,
    )


def _operand(number: int, tensor: Tensor) -> str:
    dtype = _TORCH_DTYPES[tensor.dtype]
    place = f"torch.{dtype}, {tensor.shape}, {tensor.strides}, {tensor.offset}"
    return f'x{number} = operand("""\n{_packed(tensor.store)}\n""", {place})'


def _packed(values: np.ndarray) -> str:
    text = base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 9)).decode()
    return "\n".join(text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH))
