"""What NVIDIA's management library knows of this machine's GPUs.

In: the package `nvidia-ml-py` and the driver, where they are. Out: `Card`s, and what was not seen. Invariant: neither a
missing package nor a missing or broken driver is an error.
"""

from types import ModuleType

from accord.edges.probe_sysfs import Card


def nvml_cards() -> tuple[tuple[Card, ...], tuple[str, ...]]:
    """The GPUs that the driver names, and what is unseen."""
    try:
        import pynvml
    except ImportError:
        return (), ("NVML: the package nvidia-ml-py isn't installed (pip install 'accord-ai[nvidia]')",)
    return read_nvml(pynvml)


def read_nvml(nvml: ModuleType) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    """The same, of this module."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return (), (f"NVML: {error}",)
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
        addresses = [_address(nvml.nvmlDeviceGetPciInfo(handle).busId) for handle in handles]
        cards = tuple(
            Card(
                address=address,
                name=_text(nvml.nvmlDeviceGetName(handle)),
                uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                peers=tuple(
                    other
                    for other, peer in zip(addresses, handles, strict=True)
                    if other != address and _linked(nvml, handle, peer)
                ),
            )
            for address, handle in zip(addresses, handles, strict=True)
        )
    except nvml.NVMLError as error:
        return (), (f"NVML: {error}",)
    finally:
        nvml.nvmlShutdown()
    return cards, ()


def _linked(nvml: ModuleType, one: object, other: object) -> bool:
    """Whether two GPUs reach each other over NVLink, through switches or not."""
    try:
        status = nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    except nvml.NVMLError:
        return False
    return bool(status == nvml.NVML_P2P_STATUS_OK)


def _address(bus_id: str | bytes) -> str:
    """NVML writes eight digits of domain, in capitals; the kernel writes four."""
    domain, _, rest = _text(bus_id).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
