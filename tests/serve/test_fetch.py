"""Pictures behind addresses: only where allowed, only from public servers, within bounds."""

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from accord.serve.bodies import BodyPool
from accord.serve.config import DoorConfig
from accord.serve.fetch import fetch_pictures, is_public
from accord.terms.errors import AccordError, BadInput
from tests.serve.conftest import MODEL, chat_body
from tests.serve.media_samples import picture

SEEN = web.AppKey("seen", list)
CONFIG = DoorConfig(model=MODEL, allow_urls=True)


@pytest.fixture
def taking():
    """Counts bytes, up to 10,000."""
    with BodyPool(bytes_max=100_000, body_bytes_max=10_000).lease() as lease:
        yield lease.grow


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700:4700::1111", True),
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("ff02::1", False),
        ("::ffff:8.8.8.8", False),
        ("::127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2001::1", False),
    ],
)
def test_what_is_public(address, public):
    assert is_public(address) is public


@pytest.fixture
async def pictures():
    """A server on loopback that counts who comes."""
    seen = []

    async def answer(request):
        seen.append(request.path)
        match request.path:
            case "/a.png":
                return web.Response(body=picture(), content_type="image/png")
            case "/moved":
                raise web.HTTPFound("/a.png")
            case "/large":
                return web.Response(body=bytes(50_000))
            case _:
                raise web.HTTPNotFound

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    app[SEEN] = seen
    async with TestServer(app, host="127.0.0.1") as server:
        yield server


SPELLINGS = [
    "127.0.0.1",
    "localhost",
    "2130706433",
    "127.1",
    "0x7f.1",
    "0177.0.0.1",
    "[::ffff:127.0.0.1]",
    "１２７.0.0.1",
]


@pytest.mark.parametrize("host", [*SPELLINGS, "localhost。", "ⓛocalhost", "0.0.0.0", "[::]"])
async def test_no_spelling_of_loopback_is_connected_to(pictures, host, taking):
    with pytest.raises(BadInput, match=r"^f: "):
        await fetch_pictures([("f", f"http://{host}:{pictures.port}/a.png")], CONFIG, taking)
    assert pictures.app[SEEN] == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://h/",
        "ftp://h/a",
        "//h/a",
        "h/a.png",
        "http://",
        "http://u:p@h/",
        "http://[",
        "",
        "a b",
    ],
)
async def test_only_plain_http(url, taking):
    with pytest.raises(BadInput, match=r"^f: "):
        await fetch_pictures([("f", url)], CONFIG, taking)


async def test_nothing_is_fetched_unless_allowed(pictures, taking):
    with pytest.raises(BadInput, match="fetches nothing"):
        await fetch_pictures([("f", str(pictures.make_url("/a.png")))], DoorConfig(model=MODEL), taking)
    assert pictures.app[SEEN] == []


async def test_fetching_within_bounds(pictures, monkeypatch, taking):
    monkeypatch.setattr("accord.serve.fetch.is_public", lambda _address: True)
    url = str(pictures.make_url("/"))
    assert await fetch_pictures([("f", url + "a.png"), ("g", url + "a.png")], CONFIG, taking) == {
        "f": picture(),
        "g": picture(),
    }
    for path, says in (("moved", "302"), ("nothing", "404"), ("large", "body is larger")):
        with pytest.raises(AccordError, match=says):
            await fetch_pictures([("f", url + path)], CONFIG, taking)
    assert pictures.app[SEEN] == ["/a.png", "/a.png", "/moved", "/nothing", "/large"]
    with pytest.raises(BadInput, match="16 audio and picture parts"):
        await fetch_pictures([("f", url)] * 17, CONFIG, taking)


async def test_a_fetched_picture_becomes_a_part(open_door, http, service, pictures, monkeypatch):
    monkeypatch.setattr("accord.serve.fetch.is_public", lambda _address: True)
    bound = await open_door(allow_urls=True)

    def asking(path):
        content = [{"type": "image_url", "image_url": {"url": str(pictures.make_url(path))}}]
        return chat_body(messages=[{"role": "user", "content": content}])

    async with http.post(bound.url + "/v1/chat/completions", json=asking("/a.png")) as answer:
        assert answer.status == 200, await answer.text()
    assert service.requests[0].parts[1].data == picture()
    async with http.post(bound.url + "/v1/chat/completions", json=asking("/moved")) as answer:
        assert answer.status == 400
        assert json.loads(await answer.text())["error"]["param"] == "messages[0].content[0].image_url.url"
