"""A small API server on the loopback address, with what public documents show of real clusters.

In: lists of objects by path. Out: a server that pages. The shapes are those of: Kubernetes' API reference; NVIDIA's DRA
driver and dranet (ResourceSlices of an H100 node); HAMi's docs/develop/protocol.md (annotations); Koordinator's user
manual (Device, device-allocated).
"""

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
Objects = Mapping[str, list[dict[str, object]] | int]


def node(name: str, *, labels=None, annotations=None, **amounts) -> dict[str, object]:
    """A node; amounts such as cpu="128" and memory="1Ti" are allocatable."""
    more = {key.replace("__", "/").replace("_", "."): value for key, value in amounts.items()}
    return {
        "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}, "uid": "u"},
        "status": {"allocatable": {"cpu": "127500m", "memory": "1056270300Ki", **more}, "capacity": {}},
    }


def pod(name: str, on: str, *, annotations=None, phase="Running", **limits) -> dict[str, object]:
    """A pod with one container."""
    more = {key.replace("__", "/").replace("_", "."): value for key, value in limits.items()}
    resources = {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": more}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {"nodeName": on, "containers": [{"name": "c", "image": "i", "resources": resources}]},
        "status": {"phase": phase},
    }


def gpu_slice(on: str) -> dict[str, object]:
    """Two GPUs, as gpu.nvidia.com publishes them."""
    return {
        "metadata": {"name": f"{on}-gpu"},
        "spec": {
            "driver": "gpu.nvidia.com", "nodeName": on, "pool": {"name": on, "generation": 3, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{number}",
                    "attributes": {
                        "type": {"string": "gpu"}, "uuid": {"string": f"GPU-8f2c1d90-{number}"},
                        "productName": {"string": "NVIDIA H100 80GB HBM3"}, "architecture": {"string": "Hopper"},
                        "cudaComputeCapability": {"version": "9.0.0"},
                        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{'1597'[2 * number : 2 * number + 2]}"},
                        "resource.kubernetes.io/numaNode": {"int": number},
                    },
                    "capacity": {"memory": {"value": "81559Mi"}},
                }
                for number in range(2)
            ],
        },
    }  # fmt: skip


def nic_slice(on: str) -> dict[str, object]:
    """One NIC, as dra.net publishes it."""
    attributes = {
        "dra.net/ifName": {"string": "enp163s0"}, "dra.net/rdma": {"bool": True}, "dra.net/numaNode": {"int": 1},
        "dra.net/mtu": {"int": 9000}, "resource.kubernetes.io/pcieRoot": {"string": "pci0000:97"},
    }  # fmt: skip
    device = {"name": "pci-0000-a3-00-0", "attributes": attributes}
    return {"metadata": {"name": f"{on}-nic"}, "spec": {"driver": "dra.net", "nodeName": on, "devices": [device]}}


def claim(name: str, user: str, device: str) -> dict[str, object]:
    """A ResourceClaim that a pod holds."""
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n", "device": device}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": user, "uid": "u"}],
    }
    return {"metadata": {"name": name, "namespace": "default"}, "status": status}


HAMI_NEW = json.dumps([
    {"id": "GPU-00552014", "count": 10, "devmem": 97871, "devcore": 100, "type": "NVIDIA-NVIDIA H20", "numa": 0,
     "mode": "hami-core", "health": True},
    {"id": "GPU-0fc3eda5", "index": 1, "count": 10, "devmem": 97871, "devcore": 100, "type": "NVIDIA-NVIDIA H20",
     "numa": 1, "mode": "hami-core", "health": True},
    {"id": "GPU-dead", "index": 2, "count": 10, "devmem": 97871, "devcore": 100, "type": "NVIDIA-NVIDIA H20",
     "health": False},
])  # fmt: skip
HAMI_OLD = "MLU-45013011,10,49152,0,MLU-MLU370-X8,0,true:MLU-54043011,10,49152,0,MLU-MLU370-X8,0,true:"


def koordinator(on: str) -> dict[str, object]:
    """A Device with two GPUs and an RDMA NIC."""
    gpus = [
        {"id": f"GPU-k{number}", "minor": number, "type": "gpu", "health": True,
         "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "97871Mi",
                       "koordinator.sh/gpu-memory-ratio": "100"},
         "topology": {"socketID": 0, "nodeID": number, "pcieID": f"pci0000:{number}0", "busID": f"0000:0{number}:00.0"}}
        for number in range(2)
    ]  # fmt: skip
    topology = {"socketID": 0, "nodeID": 1, "pcieID": "pci0000:10", "busID": "0000:11:00.0"}
    nic = {"id": "0000:11:00.0", "minor": 0, "type": "rdma", "health": True, "topology": topology}
    labels = {"node.koordinator.sh/gpu-model": "NVIDIA-H20"}
    return {"metadata": {"name": on, "labels": labels}, "spec": {"devices": [*gpus, nic]}}


@contextmanager
def serve(
    objects: Objects, *, page: int = 500, seen: list[str] | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serves these lists (or a status in place of a list); gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seen is not None:
                seen.append(self.headers.get("Authorization", ""))
            parts = urlsplit(self.path)
            held = objects.get(parts.path, 404)
            start = int(parse_qs(parts.query).get("continue", ["0"])[0])
            if isinstance(held, int):
                self.send_response(held)
                body = b'{"kind": "Status"}'
                if held in (301, 302):
                    self.send_header("Location", "http://127.0.0.1:9/")
            else:
                more = {"continue": str(start + page)} if start + page < len(held) else {}
                body = json.dumps({"kind": "List", "metadata": more, "items": held[start : start + page]}).encode()
                self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
