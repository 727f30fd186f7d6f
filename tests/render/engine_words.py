"""Judges from outside: the argument parsers of vLLM, SGLang, vLLM-Omni and two routers, from flags/*.json.

In: the words of a process. Out: what the parser makes of them. Invariant: an option that the package hasn't, or a value
that it wouldn't take, ends in `AssertionError`.
"""

import argparse
import functools
import json
from pathlib import Path

FLAGS = Path(__file__).parent / "flags"
_TYPES = {"int": int, "float": float, "text": str}


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise AssertionError(message)


@functools.cache
def told(engine):
    """The file of an engine."""
    return json.loads((FLAGS / f"{engine}.json").read_text())


@functools.cache
def parser(engine):
    """A parser with the engine's options."""
    made = _Parser(allow_abbrev=False, add_help=False)
    if engine.startswith("vllm") and "router" not in engine:
        made.add_argument("model_tag")
    for name, (kind, *more) in told(engine)["options"].items():
        known = more[0] if more else {}
        if kind == "flag":
            made.add_argument(name, action="store_true")
        elif "router" in engine and name in ("--prefill", "--decode"):
            made.add_argument(name, action="append", nargs="+")
        else:
            made.add_argument(name, type=_TYPES[kind], **known)
    return made


def parsed(words):
    """What the engine that `words` start makes of them, as a dict of the options that they give."""
    words = list(words)
    while words[0].startswith(("numactl", "--cpunodebind", "--membind")):
        words = words[1:]
    if words[:2] == ["vllm", "serve"]:
        engine, rest = "vllm-omni" if "--omni" in words else "vllm", words[2:]
    else:
        assert words[:2] == ["python3", "-m"], words
        engine = {
            "sglang.launch_server": "sglang",
            "sglang_router.launch_router": "sglang-router",
            "vllm_router.launch_router": "vllm-router",
        }[words[2]]
        rest = words[3:]
    return vars(parser(engine).parse_args(rest))
