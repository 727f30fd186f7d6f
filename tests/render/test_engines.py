"""Engine command lines, judged by the engines' own parsers; the scripts, by bash; Ray's data, by Ray's rules."""

import dataclasses
import itertools
import json
import re
import shlex
import subprocess

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.edges.fleet_plan_file import load_fleet_plan
from accord.edges.plan_fleet import fleet_of
from accord.render.engines.table import launch
from accord.render.launch import Where
from accord.render.rendered import Options
from accord.render.shell import command, exports
from accord.render.targets import TARGETS
from accord.terms.errors import BadInput
from accord.terms.fleet import Vendor
from accord.terms.fleet_plan import Parallel, Role
from accord.terms.gang import Apart, Scope, Seat, Together
from accord.terms.tensors import Dtype, Quantization
from tests.render import small
from tests.render.drive import MIXED, PLANS
from tests.render.engine_words import parsed, told

VENDORS = (None, Vendor.NVIDIA, Vendor.AMD, Vendor.ASCEND, Vendor.METAX)


def words_of(plan, *, engine=None, vendor=Vendor.NVIDIA, pool=0, **where):
    pool = plan.pools[pool]
    return launch(plan, dataclasses.replace(pool, engine=engine or pool.engine), vendor, Where(**where))


def made(target, path, *, pinned):
    plan = load_fleet_plan(path)
    return TARGETS[target].load()(plan, fleet_of(plan, MIXED), Options(pinned=pinned))


def exec_words(text):
    """The words that a script gives to exec; variables of ours stand for themselves."""
    line = text[text.index("\nexec ") + 6 :].replace("\\\n", " ")
    return shlex.split(line)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("role", Role)
def test_the_real_parser_takes_every_word(engine, vendor, role):
    bounds = {"batch_max": 100, "chunk_tokens": 8192, "context_tokens_max": 32768}
    parallel = Parallel(tensor=2, data=4, expert=8)
    for cache, weights, leader in itertools.product([None, *Dtype], [None, *Quantization], [True, False]):
        formats = {"cache_dtype": cache, "quantization": weights}
        plan = small.plan(engine=engine, role=role, parallel=parallel, **formats, **bounds)
        started = words_of(plan, vendor=vendor, leader=leader, nic="mlx5_0", devices="0,1", memory_share=0.3)
        found = parsed(started.words)
        if engine == "vllm":
            assert (found["tensor_parallel_size"], found["data_parallel_size"]) == (2, 4)
            assert found["enable_expert_parallel"]
            # vLLM counts for each of the four data-parallel ranks.
            assert (found["max_num_seqs"], found["max_num_batched_tokens"], found["max_model_len"]) == (25, 2048, 32768)
        else:
            assert (found["tp_size"], found["attn_dp_size"], found["ep_size"]) == (8, 4, 8)
            assert (found["max_running_requests"], found["chunked_prefill_size"]) == (100, 8192)


def test_the_judge_sees_what_no_engine_has():
    for words in (("vllm", "serve", "m", "--tp-sise", "2"), ("vllm", "serve", "m", "--max-num-seqs", "many")):
        with pytest.raises(AssertionError):
            parsed(words)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("target", ["vllm", "sglang", "vllm-omni"])
@pytest.mark.parametrize("pinned", [False, True])
def test_scripts_of_the_examples_are_bash_and_their_words_are_the_engines(path, target, pinned, tmp_path):
    try:
        rendered = made(target, path, pinned=pinned)
    except BadInput as error:
        assert "no pool of the plan" in str(error)
        return
    scripts = [file for file in rendered.files if file.name.endswith(".sh")]
    assert scripts
    for file in scripts:
        parsed([re.sub(r'"?\$\{\w+\}"?', "10.0.0.1", word) for word in exec_words(file.text)])
        (tmp_path / file.name).write_text(file.text)
        checked = subprocess.run(["bash", "-n", tmp_path / file.name], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
    (order,) = [file.text for file in rendered.files if file.name == "order.txt"]
    assert [file.name in order for file in scripts] == [True] * len(scripts)


def test_prefill_hands_over_to_decode_on_ascend_as_its_plugin_wants():
    parts = (small.part("p", cards=2), small.part("d", cards=4))
    plan = small.plan(*parts, kind="ascend-910b3")
    roles = (Role.PREFILL, Role.DECODE)
    sizes = (Parallel(tensor=2), Parallel(tensor=1, data=4))
    pools = tuple(dataclasses.replace(p, role=r, parallel=s) for p, r, s in zip(plan.pools, roles, sizes, strict=True))
    plan = dataclasses.replace(plan, pools=pools)
    config = json.loads(parsed(words_of(plan, vendor=Vendor.ASCEND, pool=1).words)["kv_transfer_config"])
    assert (config["kv_connector"], config["kv_role"]) == ("MooncakeConnectorV1", "kv_consumer")
    assert config["kv_connector_extra_config"] == {
        "prefill": {"dp_size": 1, "tp_size": 2},
        "decode": {"dp_size": 4, "tp_size": 1},
    }
    nvidia = json.loads(parsed(words_of(plan, pool=0).words)["kv_transfer_config"])
    assert nvidia == {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}


def test_what_an_engine_cannot_express_is_lost():
    plan = small.plan(
        parallel=Parallel(tensor=8, expert=4), cache_dtype=Dtype.F32, quantization=Quantization.INT4_GROUP
    )
    assert [one.what for one in words_of(plan).lost] == [
        "a: experts over 4 ranks", "a: a cache in f32", "a: weights in int4-group",
    ]  # fmt: skip
    assert [one.what for one in words_of(plan, engine="sglang").lost] == [
        "a: a cache in f32", "a: weights in int4-group",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (small.plan(model="--trust-remote-code"), "fleet_plan.model"),
        (small.plan(options=(("max-model-len 1; rm -rf", "1"),)), "fleet_plan.pools.a.options"),
        (small.plan(small.part(replicas=2), nodes=2, parallel=Parallel(tensor=3)), "fleet_plan.pools.a.parallel"),
        (small.plan(engine="vlm"), "fleet_plan.pools.a.engine"),
    ],
)
def test_what_cannot_start_names_its_field(plan, field):
    with pytest.raises(BadInput) as caught:
        words_of(plan)
    assert caught.value.field == field


def test_pinned_seats_bind_devices_ports_and_domains():
    seat = Seat(part="a", replica=0, node="n0", devices=(4, 5), cpus_milli=(0, 8000), nic=2, nic_bytes_per_s=1)
    plan = small.plan(small.part(cards=2, nic_bytes_per_s=1.0), seats=(seat,))
    rendered = TARGETS["vllm"].load()(plan, small.fleet(), Options(pinned=True))
    (script, _) = [file.text for file in rendered.files]
    assert exec_words(script)[:5] == ["numactl", "--cpunodebind=1", "--membind=1", "vllm", "serve"]
    assert "export CUDA_VISIBLE_DEVICES=4,5\n" in script
    assert "export NCCL_IB_HCA==mlx5_2\n" in script


def test_replicas_on_one_host_share_no_port():
    seats = tuple(Seat(part="a", replica=n, node="n0", devices=(n,)) for n in range(8))
    for target, key in (("vllm", "port"), ("sglang", "port")):
        plan = small.plan(small.part(replicas=8), seats=seats)
        rendered = TARGETS[target].load()(plan, small.fleet(), Options(pinned=True))
        ports = [parsed(exec_words(file.text))[key] for file in rendered.files if file.name.endswith(".sh")]
        assert len(set(ports)) == 8


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["; rm -rf /", "$(id)", "`id`", "${HOME}", "a'b\"c\\", "\n--x", "!!python/object", "x" * 300, "名前\u202e"]
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_words_come_back_from_the_shell_as_they_were_meant(texts):
    words = ("printf", "%s\\0", *texts)
    script = "#!/usr/bin/env bash\nset -euo pipefail\n" + exports([("HOSTILE", texts[0])]) + command(words)
    assert tuple(shlex.split(command(words).replace(" \\\n  ", " "))[1:]) == words or "\\\n" in "".join(texts)
    shown = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    assert shown.decode().split("\0")[:-1] == texts


@given(TEXTS.filter(lambda text: text.strip() and not text.startswith("-")), TEXTS)
def test_hostile_names_stay_names_in_every_file(model, name):
    plan = small.plan(engine="vllm-omni", model=model, name=name or "n", seats=())
    for target in ("vllm-omni", "ray"):
        for file in TARGETS[target].load()(plan, small.fleet(), Options()).files:
            if file.name == "deploy.yaml":
                assert set(yaml.safe_load(file.text)) == {"async_chunk", "connectors", "stages"}
            if file.name == "plan.json":
                (process,) = json.loads(file.text)["processes"]
                assert process["words"][:3] == ["vllm", "serve", model]
            if file.name.endswith(".sh"):
                assert model in exec_words(file.text)


def test_the_deploy_document_has_vllm_omnis_fields():
    (path,) = [path for path in PLANS if "omni" in path.stem]
    (text,) = [file.text for file in made("vllm-omni", path, pinned=False).files if file.name == "deploy.yaml"]
    document, known = yaml.safe_load(text), told("vllm-omni")
    assert set(document) <= set(known["deploy"])
    assert {one["name"] for one in document["connectors"].values()} <= set(known["connectors"])
    for stage in document["stages"]:
        assert set(stage) <= set(known["stage"])
        named = {*stage.get("input_connectors", {}).values(), *stage.get("output_connectors", {}).values()}
        assert named <= set(document["connectors"])
    # The pipeline of Qwen3-Omni is thinker, talker, code2wav; encoders are inside the thinker.
    assert [stage["stage_id"] for stage in document["stages"]] == [0, 1, 2]


def ray_data(plan, *, pinned=False):
    rendered = TARGETS["ray"].load()(plan, small.fleet(*{pool.kind for pool in plan.pools}), Options(pinned=pinned))
    return json.loads(rendered.files[0].text), rendered


def test_ray_gets_one_group_with_the_vendors_resources():
    parts = (small.part("a", cards=2, cpus=8.0), small.part("b", cards=4, cpus=4.0), small.part("c", cards=1))
    plan = small.plan(*parts, kind={"a": "h20", "b": "ascend-910b3", "c": "mlu590"})
    data, rendered = ray_data(plan)
    amounts = [{k: v for k, v in bundle.items() if k != "CPU"} for bundle in data["bundles"]]
    assert amounts == [{"GPU": 2}, {"NPU": 4}, {"accord/mlu590": 1}]
    assert len(data["labels"]) == len(data["bundles"])
    assert "c: 1 whole device" in [one.what for one in rendered.lost]


@pytest.mark.parametrize(
    ("relation", "strategy"),
    [
        (Apart(parts=("a",), scope=Scope.HOST), "STRICT_SPREAD"),
        (Apart(parts=("a",), scope=Scope.HOST, required=False), "SPREAD"),
        (Together(parts=("a",), scope=Scope.HOST), "STRICT_PACK"),
        (Together(parts=("a",), scope=Scope.LEAF), "PACK"),
    ],
)
def test_ray_spreads_and_packs(relation, strategy):
    data, rendered = ray_data(small.plan(small.part(replicas=2), relations=(relation,)))
    assert data["strategy"] == strategy
    assert not rendered.lost
    leaf = relation.scope is Scope.LEAF
    assert data["topology"] == ({"ray.io/node-id": "PACK", "accord/leaf": "STRICT_PACK"} if leaf else None)


def test_the_program_for_ray_is_the_same_for_every_plan_and_compiles():
    texts = {ray_data(small.plan(model=model))[1].files[1].text for model in ("a", "'; import os")}
    (text,) = texts
    compile(text, "start.py", "exec")
