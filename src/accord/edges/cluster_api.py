"""Reads a Kubernetes API server.

In: a kubeconfig, or the address of `kubectl proxy`. Out: a `Listing`. Invariant: it only reads (GET), never follows a
redirect, checks certificates, and sends a token over TLS alone; what the cluster doesn't serve or forbids is unseen.
"""

import base64
import http.client
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import yaml

from accord.edges.cluster_types import (
    Claim,
    KoordinatorDevice,
    KubeNode,
    Listing,
    Meta,
    Pod,
    ResourceSlice,
)  # fmt: skip
from accord.terms.errors import BadInput, BrokenEdge

T = TypeVar("T")
_PAGE = 500
_BYTES_MAX = 256 << 20
_PAGES_MAX = 2000
_TIMEOUT_S = 30
_PROXY = "run `kubectl proxy` and give its address with --server"


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: Mapping[str, str | bool] = {}
    user: Mapping[str, object] = {}
    context: Mapping[str, str] = {}


class _Config(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str = ""
    clusters: tuple[_Named, ...] = ()
    users: tuple[_Named, ...] = ()
    contexts: tuple[_Named, ...] = ()


class _Page(msgspec.Struct, frozen=True):
    metadata: Meta
    items: tuple[msgspec.Raw, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where the API server is, and how to speak to it."""

    url: str
    tls: ssl.SSLContext | None = None
    token: str | None = None


def server_at(url: str) -> Server:
    """A server that asks for no credentials, such as `kubectl proxy`."""
    _parts(url)
    return Server(url=url, tls=ssl.create_default_context() if url.startswith("https:") else None)


def server_of(*, context: str | None, environ: Mapping[str, str]) -> Server:
    """The server of a context in the kubeconfig ($KUBECONFIG, or ~/.kube/config)."""
    given = environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(given) if given else Path.home() / ".kube" / "config"
    try:
        config = msgspec.convert(yaml.safe_load(path.read_text()), type=_Config)
    except OSError as error:
        fix = f"set KUBECONFIG, or {_PROXY}"
        raise BadInput(field="kubeconfig", value=str(path), problem=str(error.strerror), fix=fix) from error
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise BadInput(field="kubeconfig", value=str(path), problem="not a kubeconfig", fix=_PROXY) from error
    wanted = context or config.current_context
    chosen = _named(config.contexts, wanted, what="context", path=path).context
    cluster = _named(config.clusters, chosen.get("cluster", ""), what="cluster", path=path).cluster
    user = _named(config.users, chosen.get("user", ""), what="user", path=path).user
    return _server(cluster, user, folder=path.parent)


def read_cluster(server: Server) -> Listing:
    """Everything that a fleet needs. BrokenEdge if not even nodes can be listed."""
    unseen: list[str] = []
    nodes = _list(server, "/api/v1/nodes", KubeNode, unseen=None)
    return Listing(
        nodes=nodes,
        pods=_list(server, "/api/v1/pods", Pod, unseen=unseen),
        slices=_list(server, "/apis/resource.k8s.io/v1/resourceslices", ResourceSlice, unseen=unseen),
        claims=_list(server, "/apis/resource.k8s.io/v1/resourceclaims", Claim, unseen=unseen),
        koordinator=_list(server, "/apis/scheduling.koordinator.sh/v1alpha1/devices", KoordinatorDevice, unseen=unseen),
        unseen=tuple(unseen),
    )


def _named(found: tuple[_Named, ...], name: str, *, what: str, path: Path) -> _Named:
    for one in found:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in found) or "none"
    raise BadInput(field=f"kubeconfig {what}", value=name, problem=f"not in {path}", fix=f"it has: {known}")


def _server(cluster: Mapping[str, str | bool], user: Mapping[str, object], *, folder: Path) -> Server:
    url = str(cluster.get("server", ""))
    _parts(url)
    if cluster.get("insecure-skip-tls-verify"):
        fix = f"give certificate-authority, or {_PROXY}"
        raise BadInput(field="kubeconfig", value=url, problem="certificates wouldn't be checked", fix=fix)
    if "exec" in user or "auth-provider" in user:
        raise BadInput(field="kubeconfig", value=url, problem="asks a program for credentials", fix=_PROXY)
    token = user.get("token")
    if token is None and "tokenFile" in user:
        token = _read(folder / str(user["tokenFile"]), field="tokenFile").strip()
    if not url.startswith("https:"):
        if token is not None:
            raise BadInput(field="kubeconfig", value=url, problem="a token without TLS", fix="write https://")
        return Server(url=url)
    return Server(url=url, tls=_tls(cluster, user, folder), token=None if token is None else str(token))


def _tls(cluster: Mapping[str, str | bool], user: Mapping[str, object], folder: Path) -> ssl.SSLContext:
    data = cluster.get("certificate-authority-data")
    file = cluster.get("certificate-authority")
    try:
        authority = _pem(data) if data else _read(folder / str(file), field="certificate-authority") if file else None
        tls = ssl.create_default_context(cadata=authority)
        if "client-certificate-data" in user or "client-certificate" in user:
            _load_client(tls, user, folder)
    except (ssl.SSLError, ValueError) as error:
        fix = "check certificate-authority, client-certificate and client-key"
        raise BadInput(field="kubeconfig", value="certificates", problem=str(error), fix=fix) from error
    return tls


def _load_client(tls: ssl.SSLContext, user: Mapping[str, object], folder: Path) -> None:
    """The ssl module reads client keys from files alone; ours is gone again at once."""
    pems = []
    for name in ("client-certificate", "client-key"):
        data = user.get(f"{name}-data")
        pems.append(_pem(data) if data else _read(folder / str(user.get(name, "")), field=name))
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write("\n".join(pems))
        file.flush()
        tls.load_cert_chain(file.name)


def _pem(data: object) -> str:
    return base64.b64decode(str(data), validate=True).decode("ascii")


def _read(path: Path, *, field: str) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise BadInput(field=field, value=str(path), problem=str(error.strerror), fix="check the path") from error


def _parts(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        fix = "write https://host:6443, or http://127.0.0.1:8001 for kubectl proxy"
        raise BadInput(field="server", value=url, problem="not an address", fix=fix)
    return parts.hostname, parts.path.rstrip("/"), port


def _list(server: Server, path: str, kind: type[T], *, unseen: list[str] | None) -> tuple[T, ...]:
    """All items, page by page. With `unseen`, what isn't served or is forbidden is noted there."""
    found: list[T] = []
    more = ""
    for _ in range(_PAGES_MAX):
        query = f"{path}?limit={_PAGE}" + (f"&continue={quote(more, safe='')}" if more else "")
        status, body = _get(server, query)
        what = path.rpartition("/")[2]
        if unseen is not None and status in (403, 404):
            unseen.append(
                f"{what}: {'this account may not list them' if status == 403 else 'not served by this cluster'}"
            )
            return tuple(found)
        if status != 200:
            raise BrokenEdge(f"{server.url}{path}: HTTP {status}; check the account, or {_PROXY}")
        try:
            page = msgspec.json.decode(body, type=_Page)
            found += [msgspec.json.decode(item, type=kind) for item in page.items]
        except msgspec.DecodeError as error:
            raise BrokenEdge(f"{server.url}{path}: {error}; is this a Kubernetes API server?") from error
        more = page.metadata.more
        if not more:
            return tuple(found)
    raise BrokenEdge(f"{server.url}{path}: more than {_PAGES_MAX} pages; something is wrong with this server")


def _get(server: Server, path: str) -> tuple[int, bytes]:
    host, prefix, port = _parts(server.url)
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {server.token}"} if server.token else {})
    link: http.client.HTTPConnection
    if server.tls is not None:
        link = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=server.tls)
    else:
        link = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        link.request("GET", prefix + path, headers=headers)
        answer = link.getresponse()
        body = answer.read(_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise BrokenEdge(f"{server.url}: {error}; check the address and the network") from error
    finally:
        link.close()
    if len(body) > _BYTES_MAX:
        raise BrokenEdge(f"{server.url}{path}: an answer of more than {_BYTES_MAX >> 20} MiB")
    return answer.status, body
