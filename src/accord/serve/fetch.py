"""Pictures behind http(s) addresses, where the door is told to fetch them.

In: (field, address) pairs. Out: their bytes by field, or BadInput. Invariants: nothing is fetched
unless the config allows it; only public addresses are ever connected to, judged after resolution and
at the connection itself, and redirects are not followed.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from accord.serve.config import DoorConfig
from accord.terms.errors import BadInput

_FETCH_S_MAX = 10.0


async def fetch_pictures(urls: Sequence[tuple[str, str]], config: DoorConfig) -> Mapping[str, bytes]:
    """Fetches all addresses at once; BadInput for the first that may not or can't be had."""
    for field, url in urls:
        _judge(field, url, config)
    if len(urls) > config.media_parts_max:
        raise BadInput(
            field=urls[config.media_parts_max][0],
            value=f"{len(urls)} addresses",
            problem=f"one request may hold {config.media_parts_max} audio and picture parts",
            fix="send fewer",
        )
    connector = aiohttp.TCPConnector(resolver=PublicResolver())
    timeout = aiohttp.ClientTimeout(total=_FETCH_S_MAX)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        bodies = await asyncio.gather(*(_fetch(session, field, url, config) for field, url in urls))
    return {field: body for (field, _), body in zip(urls, bodies, strict=True)}


def is_public(address: str) -> bool:
    """Whether the whole world may reach this IP address; private, local and reserved ones are not public."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and (ip.ipv4_mapped or ip.sixtofour or ip.teredo):
        return False
    return ip.is_global and not ip.is_multicast


class PublicResolver(AbstractResolver):
    """Resolves names, and leaves out every address that isn't public; so a name can't lead inside later."""

    def __init__(self) -> None:
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The public addresses of `host`; OSError if there is none."""
        found = [item for item in await self._inner.resolve(host, port, family) if is_public(item["host"])]
        if not found:
            raise OSError(f"{host} has no public address")
        return found

    async def close(self) -> None:
        """Nothing is held."""
        await self._inner.close()


def _judge(field: str, url: str, config: DoorConfig) -> None:
    if not config.allow_urls:
        raise BadInput(
            field=field,
            value=url,
            problem="this server fetches nothing",
            fix="send the picture itself as data:image/png;base64,...",
        )
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadInput(field=field, value=url, problem=str(error), fix="send an http(s) address") from None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.password:
        raise BadInput(field=field, value=url, problem="not a plain http(s) address", fix="send one, or a data URL")
    try:
        public = is_public(host)
    except ValueError:
        return  # a name: judged when it is resolved
    if not public:
        raise BadInput(field=field, value=url, problem="not a public address", fix="send a public one, or a data URL")


async def _fetch(session: aiohttp.ClientSession, field: str, url: str, config: DoorConfig) -> bytes:
    problem = ""
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status == 200:
                return await _read(response, field, url, config)
            problem = f"the address answers with status {response.status}"
    except TimeoutError:
        problem = f"no answer within {_FETCH_S_MAX:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        problem = f"it can't be fetched: {type(error).__name__}"
    raise BadInput(field=field, value=url, problem=problem, fix="check it, or send a data URL")


async def _read(response: aiohttp.ClientResponse, field: str, url: str, config: DoorConfig) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(1 << 16):
        body += piece
        if len(body) > config.body_bytes_max:
            raise BadInput(
                field=field, value=url, problem=f"larger than {config.body_bytes_max} bytes", fix="send a smaller one"
            )
    return bytes(body)
