"""Health, status, metrics, the page's files, keys and names of hosts."""

import json

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from accord.models.embedded import graph
from accord.terms.errors import Overloaded
from accord.terms.graph import StageGraph
from accord.terms.status import ServiceStatus
from tests.serve.conftest import MODEL, chat_body
from tests.serve.fake_service import Script, sound, text
from tests.serve.media_samples import tone


async def samples(http, bound):
    """(name, labels) -> value, as Prometheus' own parser reads it."""
    async with http.get(bound.url + "/metrics") as answer:
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        families = list(text_string_to_metric_families(await answer.text()))
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


async def test_health(open_door, http, service):
    bound = await open_door()
    async with http.get(bound.url + "/healthz") as answer:
        assert (answer.status, await answer.json()) == (200, {"status": "ready", "waiting_for": []})
    service.ready = False
    async with http.get(bound.url + "/healthz") as answer:
        assert answer.status == 503
        assert await answer.json() == {"status": "loading", "waiting_for": ["language/0: starting"]}


async def test_status_is_the_whole_snapshot(open_door, http, service):
    bound = await open_door()
    async with http.get(bound.url + "/status") as answer:
        read = msgspec.json.decode(await answer.read(), type=ServiceStatus)
    assert read == service.status()
    assert isinstance(read.graph, StageGraph)
    assert read.graph == graph()


async def test_status_stream(open_door, http):
    bound = await open_door(status_streams_max=1)
    async with http.get(bound.url + "/status/stream?interval=0.1") as answer:
        assert answer.content_type == "text/event-stream"
        seen = 0
        async for line in answer.content:
            if line.startswith(b"data: "):
                assert msgspec.json.decode(line[6:], type=ServiceStatus).name == "fake"
                seen += 1
            if seen == 3:
                break
        async with http.get(bound.url + "/status/stream") as other:
            assert other.status == 429
    for wrong in ("0", "-1", "nan", "inf", "1e9", "x", ""):
        async with http.get(bound.url + "/status/stream", params={"interval": wrong}) as answer:
            assert answer.status == 400
            assert (await answer.json())["error"]["param"] == "interval"


async def test_metrics(open_door, http, service):
    bound = await open_door()
    service.script = Script(steps=(*text("a"), *sound(tone(0.1))))
    spoken = chat_body(modalities=["text", "audio"], audio={"format": "pcm16"}, stream=True)
    for body, status in ((chat_body(), 200), (spoken, 200), (chat_body(n=2), 400), (chat_body(model="x"), 404)):
        async with http.post(bound.url + "/v1/chat/completions", json=body) as answer:
            await answer.read()
            assert answer.status == status
    service.script = Script(refusal=Overloaded("full", retry_after_s=1))
    async with http.post(bound.url + "/v1/chat/completions", json=chat_body()) as answer:
        assert answer.status == 429
    for path in ("/nowhere", "/elsewhere", "/v1/models/a", "/v1/models/b"):
        async with http.get(bound.url + path) as answer:
            assert answer.status == 404
    found = await samples(http, bound)

    def count(endpoint: str, outcome: str) -> float:
        return found["accord_http_requests_total", ("endpoint", endpoint), ("outcome", outcome)]

    chat = "/v1/chat/completions"
    assert [count(chat, outcome) for outcome in ("ok", "bad_input", "refused", "overloaded")] == [2, 1, 1, 1]
    assert count("other", "refused") == 2
    assert count("/v1/models/{id}", "refused") == 2
    endpoint = ("endpoint", chat)
    assert found["accord_time_to_first_text_seconds_count", endpoint] == 2
    # The fake gives sound to both; only the second had asked for it.
    assert found["accord_time_to_first_audio_seconds_count", endpoint] == 2
    assert found["accord_request_latency_seconds_count", endpoint] == 2
    replica = (("replica", "0"), ("stage", "language"))
    spent = {
        dict(key[1:])["activity"]: value
        for key, value in found.items()
        if key[0] == "accord_replica_time_seconds_total" and ("stage", "language") in key
    }
    assert spent == {"busy": 1.5, "starved": 2.0, "blocked": 0.25, "transferring": 0.125, "idle": 6.125}
    assert found["accord_arena_used_bytes", *replica] == 4096
    assert found["accord_replica_restarts_total", ("replica", "0"), ("stage", "vocoder")] == 1
    assert found["accord_requests_total", ("end", "done")] == 2
    assert found["accord_requests_total", ("end", "refused")] == 1
    assert found["accord_objective_bound", ("metric", "ttft"), ("percentile", "50")] == 0.3
    assert ("accord_objective_measured", ("metric", "ttft"), ("percentile", "50")) not in found
    async with http.get(bound.url + "/metrics", headers={"Accept": "application/openmetrics-text"}) as answer:
        assert answer.content_type == "application/openmetrics-text"
        assert (await answer.text()).endswith("# EOF\n")


async def test_two_doors_in_one_process_count_apart(open_door, http):
    one, other = await open_door(), await open_door()
    async with http.post(one.url + "/v1/chat/completions", json=chat_body()) as answer:
        assert answer.status == 200
    key = ("accord_http_requests_total", ("endpoint", "/v1/chat/completions"), ("outcome", "ok"))
    assert key in await samples(http, one)
    assert key not in await samples(http, other)


async def test_the_page(open_door, http):
    bound = await open_door()
    async with http.get(bound.url + "/") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "Access-Control-Allow-Origin" not in answer.headers
        page = await answer.text()
    assert "<script" in page
    for name, kind in (("app.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
        async with http.get(f"{bound.url}/console/{name}") as answer:
            assert (answer.status, answer.content_type) == (200, kind)
    for name in ("nothing.js", "..%2fapp.py", "%2e%2e%2fguard.py", "app.py", ".hidden", "app.js%00", "console"):
        async with http.get(f"{bound.url}/console/{name}") as answer:
            assert answer.status == 404
            assert "error" in await answer.json()


@pytest.mark.parametrize("key", ["secret", "sésame ✓"])
async def test_the_key_guards_all_but_the_page_and_health(open_door, http, key):
    bound = await open_door(api_key=key)
    guarded = ("/v1/models", f"/v1/models/{MODEL}", "/status", "/status/stream", "/metrics", "/nowhere")
    for path in guarded:
        for given in (None, "", "Bearer", "Bearer wrong", f"Basic {key}", f"Bearer {key}x", key):
            headers = {} if given is None else {"Authorization": given}
            async with http.get(bound.url + path, headers=headers) as answer:
                assert answer.status == 401, (path, given)
                assert (await answer.json())["error"]["type"] == "authentication_error"
    async with http.post(bound.url + "/v1/chat/completions", json=chat_body()) as answer:
        assert answer.status == 401
    for path in ("/", "/console/app.js", "/healthz"):
        async with http.get(bound.url + path) as answer:
            assert answer.status == 200
    headers = {"Authorization": f"Bearer {key}"}
    async with http.post(bound.url + "/v1/chat/completions", json=chat_body(), headers=headers) as answer:
        assert answer.status == 200
    async with http.get(bound.url + "/metrics", headers=headers) as answer:
        assert answer.status == 200


async def test_foreign_hosts_and_pages(open_door, http):
    bound = await open_door(hosts=("accord.example",))
    ours = f"{bound.host}:{bound.port}"
    for host, status in (
        ("evil.example", 403),
        (f"evil.example:{bound.port}", 403),
        ("localhost", 200),
        (f"LOCALHOST:{bound.port}", 200),
        ("[::1]:80", 200),
        ("accord.example", 200),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ):
        async with http.get(bound.url + "/v1/models", headers={"Host": host}) as answer:
            assert answer.status == status, host
    for origin, status in (
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        (f"http://{ours}", 200),
        ("https://accord.example", 200),
    ):
        headers = {"Origin": origin, "Host": ours}
        async with http.post(bound.url + "/v1/chat/completions", json=chat_body(), headers=headers) as answer:
            assert answer.status == status, origin
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_bug_behind_the_door_is_a_plain_500(open_door, http, service, caplog):
    def broken(_request):
        raise KeyError("a bug")

    service.script = broken
    bound = await open_door()
    async with http.post(bound.url + "/v1/chat/completions", json=chat_body()) as answer:
        assert answer.status == 500
        error = json.loads(await answer.text())["error"]
    assert error["code"] == "internal_error"
    assert "a bug" not in error["message"]
    assert "KeyError" in caplog.text
