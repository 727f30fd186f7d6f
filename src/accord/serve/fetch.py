"""Pictures behind http(s) addresses, where the door is told to fetch them.

In: (field, address) pairs. Out: their bytes by field, or BadInput. Invariants: nothing is fetched
unless the config allows it; only public addresses are connected to, which is judged at the socket, so
that neither odd spellings nor names that change their mind get around it; redirects are not followed.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence

import aiohttp
from aiohttp import AddrInfoType

from accord.serve.config import DoorConfig
from accord.terms.errors import BadInput

_FETCH_S_MAX = 10.0


async def fetch_pictures(
    urls: Sequence[tuple[str, str]], config: DoorConfig, grow: Callable[[int], None]
) -> Mapping[str, bytes]:
    """Fetches all addresses at once; BadInput for the first that may not or can't be had.

    `grow` is told of every byte that comes, and raises when they are too many.
    """
    for field, url in urls:
        _judge(field, url, config)
    if len(urls) > config.media_parts_max:
        raise BadInput(
            field=urls[config.media_parts_max][0],
            value=f"{len(urls)} addresses",
            problem=f"one request may hold {config.media_parts_max} audio and picture parts",
            fix="send fewer",
        )
    connector = aiohttp.TCPConnector(socket_factory=_public_socket)
    timeout = aiohttp.ClientTimeout(total=_FETCH_S_MAX)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        bodies = await asyncio.gather(*(_fetch(session, field, url, grow) for field, url in urls))
    return {field: body for (field, _), body in zip(urls, bodies, strict=True)}


def is_public(address: str) -> bool:
    """Whether the whole world may reach this IP address; private, local and reserved ones are not public."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and (ip.ipv4_mapped or ip.sixtofour or ip.teredo):
        return False  # an IPv4 address inside, which may be anything
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _public_socket(info: AddrInfoType) -> socket.socket:
    """A socket for an address that is about to be connected to; OSError if it isn't public."""
    family, kind, protocol, _, address = info
    if not is_public(str(address[0])):
        raise OSError(f"{address[0]} is not a public address")
    return socket.socket(family, kind, protocol)


def _judge(field: str, url: str, config: DoorConfig) -> None:
    if not config.allow_urls:
        raise BadInput(
            field=field,
            value=url,
            problem="this server fetches nothing",
            fix="send the picture itself as data:image/png;base64,...",
        )
    if url.partition("://")[0].lower() not in ("http", "https"):
        raise BadInput(field=field, value=url, problem="not an http(s) address", fix="send one, or a data URL")


async def _fetch(session: aiohttp.ClientSession, field: str, url: str, grow: Callable[[int], None]) -> bytes:
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status == 200:
                return await _read(response, grow)
            problem = f"the address answers with status {response.status}"
    except TimeoutError:
        problem = f"no answer within {_FETCH_S_MAX:g} s"
    except aiohttp.InvalidURL:
        problem = "not an http(s) address"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        problem = f"no public server answers there ({type(error).__name__})"
    raise BadInput(field=field, value=url, problem=problem, fix="check it, or send a data URL")


async def _read(response: aiohttp.ClientResponse, grow: Callable[[int], None]) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        grow(len(piece))
        body += piece
    return bytes(body)
