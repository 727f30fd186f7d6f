"""CEL as DRA's selectors use it, and what drivers publish of devices.

In: an expression and a device. Out: whether it selects the device. Invariant: nothing here comes from the renders.
"""

from typing import Any

import celpy
from celpy.adapter import json_to_cel

# What drivers publish: product names as nvidia-smi and amd-smi print them (NVIDIA's own forms), memory as NVML reports.
PRODUCTS = {
    "a100-40g": ("NVIDIA A100-SXM4-40GB", "40Gi"),
    "a100-80g": ("NVIDIA A100-SXM4-80GB", "80Gi"),
    "a30": ("NVIDIA A30", "24Gi"),
    "b200": ("NVIDIA B200", "183359Mi"),
    "h100": ("NVIDIA H100 80GB HBM3", "81559Mi"),
    "h20": ("NVIDIA H20", "97871Mi"),
    "h200": ("NVIDIA H200", "143771Mi"),
    "l4": ("NVIDIA L4", "23034Mi"),
    "l40s": ("NVIDIA L40S", "46068Mi"),
    "rtx-4090": ("NVIDIA GeForce RTX 4090", "24564Mi"),
    "t4": ("Tesla T4", "15360Mi"),
    "v100-32g": ("Tesla V100-SXM2-32GB", "32768Mi"),
    "ascend-910b1": ("Ascend910B1", None),
    "ascend-910b2": ("Ascend910B2", None),
    "ascend-910b3": ("Ascend910B3", None),
    "ascend-910b4": ("Ascend910B4", None),
    "ascend-910b4-1": ("Ascend910B4-1", None),
    "mi300x": ("AMD Instinct MI300X", "196592Mi"),
    "mi325x": ("AMD Instinct MI325X", "262128Mi"),
    "mi355x": ("AMD Instinct MI355X", "294896Mi"),
}
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class Quantity(celpy.celtypes.IntType):
    """A quantity as Kubernetes' CEL library has it."""


def quantity(text):
    text = str(text)
    return Quantity(int(text[:-2]) * _UNITS[text[-2:]] if text[-2:] in _UNITS else int(text))


def compare(one, other):
    return celpy.celtypes.IntType((one > other) - (one < other))


def selects(expression, device):
    environment = celpy.Environment()
    functions: Any = {"quantity": quantity, "compareTo": compare}
    program = environment.program(environment.compile(expression), functions=functions)
    return bool(
        program.evaluate({"device": json_to_cel(device) if "capacity" not in device else with_capacity(device)})
    )


def with_capacity(device):
    found: Any = json_to_cel({key: value for key, value in device.items() if key != "capacity"})
    capacity = {
        celpy.celtypes.StringType(domain): celpy.celtypes.MapType(
            {celpy.celtypes.StringType(name): quantity(value) for name, value in values.items()}
        )
        for domain, values in device.get("capacity", {}).items()
    }
    found[celpy.celtypes.StringType("capacity")] = celpy.celtypes.MapType(capacity)
    return found


def published(driver, kind, **attributes):
    product, memory = PRODUCTS[kind]
    values = {"productName": product, **attributes}
    device = {"driver": driver, "attributes": {driver: values}}
    return {**device, "capacity": {driver: {"memory": memory}}} if memory else device
