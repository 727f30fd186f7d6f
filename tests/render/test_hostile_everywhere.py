"""Hostile texts in every field of a plan, for every target: what is read back are the words that went in, no more."""

import ast
import dataclasses
import functools
import json
import re
import shlex
import subprocess

import pytest
import yaml

from accord.render.rendered import Options
from accord.render.targets import TARGETS
from accord.terms.errors import BadInput
from accord.terms.gang import Scope, Seat, Together
from tests.render import small
from tests.render.test_hostile_names import expanded

HOSTILE = (
    "; rm -rf /",
    "$(reboot)",
    "`reboot`",
    "${HOME}",
    "!!python/object/apply:os.system [reboot]",
    "---",
    "--- # x\nkind: Pod",
    "{{ .Values.x }}",
    "{% raw %}",
    "x" * 300,
    "\u202egnp.exe\u202c",
    "名前",
    "a\nb: c",
    "a\r\nb",
    "a\tb",
    "a'b\"c",
    "*anchor",
    "&a",
    "- x",
    "yes",
    "1e3",
    "0x10",
    "null",
    "~",
    "\x1b[31m",
    "\x7f",
    "\u2028x",
    "\ufeffx",
    "🙂",
    "../../etc/passwd",
    "# remark",
    "a,b",
    "%s %(x)s",
    "EOF",
)
IDS = range(len(HOSTILE))
SCRIPTS = ("vllm", "sglang", "vllm-omni")


def hostile_plan(text, engine):
    """A plan with the text in all places that hold free text, and a fleet that has it for a node."""
    node = dataclasses.replace(small.fleet().nodes[0], name=text)
    node = dataclasses.replace(node, leaf=text, spine=text, labels=(("accelerator", text),))
    fleet = dataclasses.replace(small.fleet(), nodes=(node,))
    part = small.part(f"a{text}", cards=2, nic_bytes_per_s=1e9)
    seat = Seat(part=part.name, replica=0, node=text, devices=(0, 1), nic=0)
    options = (("served-model-name", text), ("chat-template", f"/t/{text}"))
    plan = small.plan(part, name=text, model=f"m{text}", seats=(seat,), engine=engine, options=options)
    relation = Together(parts=(part.name,), scope=Scope.LEAF)
    return dataclasses.replace(plan, gang=dataclasses.replace(plan.gang, name=text, relations=(relation,))), fleet


@functools.cache
def rendered(target, text, *, pinned):
    engine = target if target in SCRIPTS else "sglang"
    plan, fleet = hostile_plan(text, engine)
    return TARGETS[target].load()(plan, fleet, Options(pinned=pinned)), engine


def words_of(text, engine):
    if engine == "vllm-omni":
        return {f"m{text}"}  # options are keys of its document
    return {f"m{text}", f"--served-model-name={text}", f"--chat-template=/t/{text}"}


@pytest.mark.parametrize(("text", "pinned"), [(text, bool(at % 2)) for at, text in enumerate(HOSTILE)], ids=IDS)
@pytest.mark.parametrize("target", [name for name, row in TARGETS.items() if row.manifests])
def test_manifests(target, text, pinned):
    made, engine = rendered(target, text, pinned=pinned)
    plain, _ = rendered(target, "x", pinned=pinned)
    (file,) = made.files
    assert file.name == f"{target}.yaml"
    assert re.fullmatch(r"[\n -~]*", file.text), "one reader's sign is another's end of a line"
    found = read(file.text)
    assert sorts(found) == sorts(read(plain.files[0].text))
    (owner,) = [one for one in found if one["kind"] == "Deployment"]
    command = owner["spec"]["template"]["spec"]["containers"][0]["command"]
    assert words_of(text, engine) <= set(map(expanded, command))
    assert len(command) == len(command_of(plain))


@functools.cache
def read(text):
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def sorts(found):
    # Nodes with names that no node can have are in no HyperNode.
    return [one["kind"] for one in found if one["kind"] != "HyperNode"]


def command_of(made):
    (owner,) = [one for one in read(made.files[0].text) if one["kind"] == "Deployment"]
    return owner["spec"]["template"]["spec"]["containers"][0]["command"]


@pytest.mark.parametrize(("text", "pinned"), [(text, bool(at % 2)) for at, text in enumerate(HOSTILE)], ids=IDS)
@pytest.mark.parametrize("target", SCRIPTS)
def test_scripts(target, text, pinned, tmp_path):
    made, engine = rendered(target, text, pinned=pinned)
    for file in made.files:
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,100}", file.name)
        if not file.name.endswith(".sh"):
            continue
        path = tmp_path / file.name
        path.write_text(file.text)
        subprocess.run(["bash", "-n", path], check=True, capture_output=True)
        body = file.text[file.text.index("\nexec ") + 1 :]
        assert words_of(text, engine) <= set(shlex.split(body))
        # What the script really starts: `exec` finds a program of ours that prints its words.
        shim = tmp_path / "bin"
        shim.mkdir(exist_ok=True)
        for name in ("vllm", "python3", "numactl"):
            (shim / name).write_text('#!/bin/bash\nprintf "%s\\0" "$@"\n')
            (shim / name).chmod(0o755)
        done = subprocess.run(
            ["bash", str(path)],
            env={"PATH": f"{shim}:/usr/bin:/bin", "HOST_IP": "::1"},
            capture_output=True,
            check=True,
        )
        assert words_of(text, engine) <= set(done.stdout.decode().split("\0"))
    for file in made.files:
        if file.name.endswith(".yaml"):
            read(file.text)


@pytest.mark.parametrize("text", HOSTILE, ids=IDS)
def test_ray(text):
    made, engine = rendered("ray", text, pinned=True)
    files = {file.name: file.text for file in made.files}
    plan = json.loads(files["plan.json"])
    (process,) = plan["processes"]
    assert words_of(text, engine) <= set(process["words"])
    assert (
        files["start.py"] == {file.name: file.text for file in rendered("ray", "x", pinned=True)[0].files}["start.py"]
    )
    ast.parse(files["start.py"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["a b", "x=y", "--x", "a;b", "", "\n", "ｘ"])
def test_what_is_no_name_of_an_option_is_bad_input(target, name):
    engine = target if target in SCRIPTS else "vllm"
    with pytest.raises(BadInput, match="not the name of an option"):
        TARGETS[target].load()(small.plan(engine=engine, options=((name, "1"),)), small.fleet(), Options())
