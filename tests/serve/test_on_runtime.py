"""The door on the real runtime, with fake engines: what a client does reaches the first stage."""

from dataclasses import replace
from typing import Any

import openai
import pytest

from accord.run.runtime import Runtime
from accord.serve.config import DoorConfig
from accord.serve.server import serve
from accord.terms.graph import DOOR, Edge, Payload
from accord.terms.status import Activity
from tests.fake_plans import chain_plan
from tests.serve.conftest import chat_body, until
from tests.serve.test_back_pressure import raw_post

MODEL = "fake-chat"


def plan(tokens: int):
    """door -> first -> second -> third -> door, under the names of the door's edges."""
    words = {"mode": "chunks", "tokens": str(tokens), "chunk_bytes": "4096", "out": "text"}
    chain = chain_plan(options={"first": words}, window_bytes=64 << 10)
    names = {"in": ("prompt", Payload.PROMPT), "out": ("text", Payload.TEXT)}

    def renamed(edge: Edge) -> Edge:
        name, payload = names.get(edge.name, (edge.name, edge.payload))
        return replace(edge, name=name, payload=payload, required=edge.source == DOOR)

    graph = replace(chain.graph, model=MODEL, edges=tuple(map(renamed, chain.graph.edges)))
    return replace(chain, name=MODEL, graph=graph)


@pytest.fixture
async def running(request):
    async with (
        Runtime(plan(request.param), assets={}) as runtime,
        serve(runtime, DoorConfig(model=MODEL, port=0, close_s_max=1.0, send_buffer_bytes=16 << 10)) as bound,
    ):
        yield runtime, bound


def held_bytes(runtime) -> int:
    """Arena bytes under lease, in all replicas."""
    return sum(replica.arena_used_bytes for replica in runtime.status().replicas)


@pytest.mark.parametrize("running", [8], indirect=True)
async def test_answers(running):
    _, bound = running
    async with openai.AsyncOpenAI(base_url=f"{bound.url}/v1", api_key="none", max_retries=0, timeout=30) as client:
        body: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
        whole = await client.chat.completions.create(**body)
        stream = await client.chat.completions.create(**body, stream=True)
        streamed = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert len(whole.choices[0].message.content) == len(streamed) == 8 * 4096


@pytest.mark.parametrize("running", [100_000], indirect=True)
async def test_a_stalled_client_blocks_the_first_stage_and_leaving_frees_it(running):
    runtime, bound = running

    def first() -> Activity:
        return next(replica.activity for replica in runtime.status().replicas if replica.stage == "first")

    sock = await raw_post(bound, "/v1/chat/completions", chat_body(model=MODEL, stream=True))
    await until(lambda: first() is Activity.BLOCKED, 30)
    # 400 MB want to come; three links of 64 KiB and a chunk or two are all that is held.
    assert held_bytes(runtime) < 1 << 20
    sock.close()
    await until(lambda: runtime.status().totals.cancelled == 1, 30)
    await until(lambda: first() is Activity.IDLE and held_bytes(runtime) == 0, 30)
