"""A cluster, read from a small API server on the loopback address."""

import base64
import ssl
from pathlib import Path

import pytest

from accord.edges.cluster_api import read_cluster, server_at, server_of
from accord.edges.cluster_fleet import fleet_of
from accord.edges.cluster_types import quantity
from accord.edges.fleet_dump import dump_fleet
from accord.edges.fleet_file import fleet_from_text
from accord.place.board import Board
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.fleet import Fleet, Numa, Taken
from tests.edges import fake_cluster as fake

GIB = 1 << 30


def _fleet(objects: fake.Objects) -> Fleet:
    empty: fake.Objects = {fake.NODES: [], fake.PODS: [], fake.SLICES: [], fake.CLAIMS: [], fake.DEVICES: []}
    with fake.serve({**empty, **objects}) as url:
        fleet = fleet_of(read_cluster(server_at(url)))
    assert fleet_from_text(dump_fleet(fleet)) == fleet
    Board(fleet)
    return fleet


def test_resource_slices_name_devices_roots_and_nics():
    fleet = _fleet({
        fake.NODES: [fake.node("n1", labels={"network.topology.nvidia.com/leaf": "leaf-7",
                                             "network.topology.nvidia.com/spine": "spine-1",
                                             "topology.kubernetes.io/zone": "z"})],
        fake.SLICES: [fake.gpu_slice("n1"), fake.nic_slice("n1")],
        fake.PODS: [fake.pod("train", "n1")],
        fake.CLAIMS: [fake.claim("c", "train", "gpu-1")],
    })  # fmt: skip
    (node,) = fleet.nodes
    assert [kind.name for kind in fleet.kinds] == ["h100"]
    assert [(device.root, device.numa, device.uuid) for device in node.devices] == [
        ("pci0000:15", 0, "GPU-8f2c1d90-0"), ("pci0000:97", 1, "GPU-8f2c1d90-1"),
    ]  # fmt: skip
    (nic,) = node.nics
    assert (nic.name, nic.root, nic.numa, nic.rdma) == ("enp163s0", "pci0000:97", 1, True)
    assert (node.leaf, node.spine) == ("leaf-7", "spine-1")
    assert node.labels == (("topology.kubernetes.io/zone", "z"),)
    assert sum(numa.cpus for numa in node.numa) == 127
    assert sum(numa.memory_bytes for numa in node.numa) == 1056270300 << 10
    assert fleet.taken == (
        Taken(node="n1", owner="default/train", device=1, share=1.0, memory_bytes=80 * GIB, cpus=4,
              host_memory_bytes=16 * GIB, codecs=fleet.kinds[0].codecs),
    )  # fmt: skip
    assert any("enp163s0" in text for text in fleet.unseen)


def test_hami_says_what_is_shared():
    fleet = _fleet({
        fake.NODES: [
            fake.node("h1", annotations={"hami.io/node-nvidia-register": fake.HAMI_NEW}, nvidia_com__gpu="20"),
            fake.node("m1", annotations={"hami.io/node-mlu-register": fake.HAMI_OLD}),
        ],
        fake.PODS: [
            fake.pod("a", "h1", annotations={"hami.io/vgpu-devices-allocated": "GPU-0fc3eda5,NVIDIA,3000,30:;"}),
            fake.pod("b", "h1", annotations={"hami.io/vgpu-devices-allocated": "GPU-0fc3eda5,NVIDIA,4000,0:;"}),
            fake.pod("done", "h1", phase="Succeeded"),
        ],
    })  # fmt: skip
    assert [kind.name for kind in fleet.kinds] == ["h20", "mlu370-x8"]
    assert [len(node.devices) for node in fleet.nodes] == [2, 2]
    assert [(one.owner, one.device, one.share, one.memory_bytes) for one in fleet.taken] == [
        ("default/a", 1, 0.3, 3000 << 20), ("default/b", 1, 0.0, 4000 << 20),
    ]  # fmt: skip
    assert any("GPU-dead is unhealthy" in text for text in fleet.unseen)


def test_koordinator_says_roots_and_minors():
    allocated = (
        '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"11520Mi"}}]}'
    )
    fleet = _fleet({
        fake.NODES: [fake.node("k1")],
        fake.DEVICES: [fake.koordinator("k1")],
        fake.PODS: [fake.pod("p", "k1", annotations={"scheduling.koordinator.sh/device-allocated": allocated})],
    })  # fmt: skip
    (node,) = fleet.nodes
    assert [(device.kind, device.root, device.numa) for device in node.devices] == [
        ("h20", "pci0000:00", 0), ("h20", "pci0000:10", 1),
    ]  # fmt: skip
    assert [(nic.name, nic.root, nic.rdma) for nic in node.nics] == [("rdma-0", "pci0000:10", True)]
    assert [(one.device, one.share, one.memory_bytes) for one in fleet.taken] == [(1, 0.5, 11520 << 20)]


def test_plain_counts_are_the_last_resort():
    labels = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"}
    fleet = _fleet({
        fake.NODES: [fake.node(f"g{number}", labels=labels, nvidia_com__gpu="4") for number in range(3)]
        + [fake.node("npu", huawei_com__Ascend910="8"), fake.node("cpu")],
        fake.PODS: [fake.pod("x", "g0", nvidia_com__gpu="2"), fake.pod("y", "g0", nvidia_com__gpu="1")],
    })  # fmt: skip
    assert [kind.name for kind in fleet.kinds] == ["huawei.com-ascend910", "l40s"]
    assert [len(node.devices) for node in fleet.nodes] == [4, 4, 4, 8, 0]
    assert fleet.nodes[4].numa == (Numa(cpus=127, memory_bytes=1056270300 << 10),)
    assert [(one.owner, one.device) for one in fleet.taken] == [("default/x", 0), ("default/x", 1), ("default/y", 2)]
    assert any(text.startswith("g0: which devices") for text in fleet.unseen)
    assert any(text.startswith("g[0-2]: where its 4 l40s stand") for text in fleet.unseen)


def test_time_slicing_is_not_taken_for_devices():
    labels = {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"}
    fleet = _fleet({fake.NODES: [fake.node("t", labels=labels, nvidia_com__gpu="8")]})
    assert [device.kind for device in fleet.nodes[0].devices] == ["t4", "t4"]


def test_a_leaf_with_two_spines_has_none():
    labels = [{"network.topology.nvidia.com/leaf": "l", "network.topology.nvidia.com/spine": f"s{n}"} for n in (1, 2)]
    fleet = _fleet({fake.NODES: [fake.node(f"n{number}", labels=labels[number]) for number in range(2)]})
    assert {node.spine for node in fleet.nodes} == {None}


def test_hostile_texts_stay_out():
    annotation = '[{"id": "GPU-1\\n; rm -rf /", "devmem": 1, "type": "<b>&\\"; rm"}]'
    fleet = _fleet({fake.NODES: [fake.node("n", annotations={"hami.io/node-nvidia-register": annotation})]})
    assert fleet.nodes[0].devices[0].uuid is None
    assert fleet.kinds[0].name == "b-rm"


def test_lists_come_in_pages():
    nodes = [fake.node(f"n{number}") for number in range(25)]
    with fake.serve({fake.NODES: nodes}, page=10) as url:
        listing = read_cluster(server_at(url))
    assert len(listing.nodes) == 25


def test_what_is_not_served_or_forbidden_is_unseen():
    with fake.serve({fake.NODES: [fake.node("n")], fake.PODS: 403}) as url:
        fleet = fleet_of(read_cluster(server_at(url)))
    assert "pods: this account may not list them" in fleet.unseen
    assert "resourceslices: not served by this cluster" in fleet.unseen


@pytest.mark.parametrize("status", [401, 403, 500, 301])
def test_without_nodes_nothing_can_be_said(status):
    with fake.serve({fake.NODES: status}) as url, pytest.raises(BrokenEdge, match=f"HTTP {status}"):
        read_cluster(server_at(url))


def test_what_is_no_api_server_is_a_broken_edge():
    with pytest.raises(BrokenEdge, match="check the address"):
        read_cluster(server_at("http://127.0.0.1:9"))
    with pytest.raises(BadInput, match="not an address"):
        server_at("file:///etc/passwd")


def _config(folder, *, cluster: str, user: str = "{}") -> dict[str, str]:
    path = folder / "config"
    path.write_text(f"""
apiVersion: v1
kind: Config
current-context: one
contexts: [{{name: one, context: {{cluster: c, user: u, namespace: x}}}}]
clusters: [{{name: c, cluster: {cluster}}}]
users: [{{name: u, user: {user}}}]
""")
    return {"KUBECONFIG": str(path)}


def test_a_kubeconfig_leads_to_the_server(tmp_path):
    seen: list[str] = []
    with fake.serve({fake.NODES: [fake.node("n")]}, seen=seen) as url:
        server = server_of(context=None, environ=_config(tmp_path, cluster=f"{{server: '{url}'}}"))
        assert [node.metadata.name for node in read_cluster(server).nodes] == ["n"]
    assert set(seen) == {""}


def test_a_token_goes_over_tls_alone(tmp_path):
    (tmp_path / "token").write_text("secret\n")
    user = "{tokenFile: token}"
    server = server_of(context="one", environ=_config(tmp_path, cluster="{server: 'https://x:6443'}", user=user))
    assert server.token == "secret"
    assert server.tls is not None
    with pytest.raises(BadInput, match="a token without TLS"):
        server_of(context=None, environ=_config(tmp_path, cluster="{server: 'http://x:80'}", user=user))


def test_certificates_are_checked_on_both_sides(tmp_path):
    pem = Path(__file__).parent / "loopback.pem"
    both = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    both.load_cert_chain(pem)
    both.load_verify_locations(pem)
    both.verify_mode = ssl.CERT_REQUIRED
    key, certificate = pem.read_text().partition("-----BEGIN CERTIFICATE-----")[::2]
    (tmp_path / "key.pem").write_text(key)
    certificate = f"-----BEGIN CERTIFICATE-----{certificate}"
    data = base64.b64encode(certificate.encode()).decode()
    seen: list[str] = []
    with fake.serve({fake.NODES: [fake.node("n")]}, seen=seen, tls=both) as url:
        cluster = f"{{server: '{url}', certificate-authority-data: {data}}}"
        user = f"{{client-certificate-data: {data}, client-key: key.pem, token: t0ken}}"
        server = server_of(context=None, environ=_config(tmp_path, cluster=cluster, user=user))
        assert [node.metadata.name for node in read_cluster(server).nodes] == ["n"]
        assert set(seen) == {"Bearer t0ken"}
        stranger = server_of(context=None, environ=_config(tmp_path, cluster=f"{{server: '{url}'}}"))
        with pytest.raises(BrokenEdge, match="CERTIFICATE_VERIFY_FAILED"):
            read_cluster(stranger)


@pytest.mark.parametrize(
    ("cluster", "user", "text"),
    [
        ("{server: 'https://x', insecure-skip-tls-verify: true}", "{}", "certificates wouldn't be checked"),
        ("{server: 'https://x'}", "{exec: {command: aws}}", "kubectl proxy"),
        ("{server: 'https://x', certificate-authority: none.pem}", "{}", "none.pem"),
        ("{server: 'https://x', certificate-authority-data: '%%%'}", "{}", "certificates"),
        ("{server: 'ftp://x'}", "{}", "not an address"),
        ("{}", "{}", "not an address"),
    ],
)
def test_bad_kubeconfigs_are_refused(tmp_path, cluster, user, text):
    with pytest.raises(BadInput, match=text):
        server_of(context=None, environ=_config(tmp_path, cluster=cluster, user=user))


def test_other_contexts_and_files_are_refused(tmp_path):
    environ = _config(tmp_path, cluster="{server: 'https://x'}")
    with pytest.raises(BadInput, match="it has: one"):
        server_of(context="two", environ=environ)
    with pytest.raises(BadInput, match="kubectl proxy"):
        server_of(context=None, environ={"KUBECONFIG": str(tmp_path / "gone")})
    (tmp_path / "config").write_text("[")
    with pytest.raises(BadInput, match="not a kubeconfig"):
        server_of(context=None, environ=environ)
    bad = base64.b64encode(b"no certificate").decode()
    environ = _config(tmp_path, cluster="{server: 'https://x'}", user=f"{{client-certificate-data: {bad}}}")
    with pytest.raises(BadInput):
        server_of(context=None, environ=environ)


@pytest.mark.parametrize(
    ("text", "number"),
    [("96", 96), ("127500m", 127.5), ("2Ti", 2 << 40), ("81559Mi", 81559 << 20), ("1e3", 1000), ("10G", 10**10),
     ("1.5Gi", 1.5 * GIB), ("", 0), ("x", 0), ("-1", 0)],
)  # fmt: skip
def test_quantities(text, number):
    assert quantity(text) == number
