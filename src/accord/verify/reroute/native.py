"""The rule of a reroute as compiled C++, where a compiler exists: calls outside all regions then cost next to nothing.

In: hooks, a folder. Out: a shared library, loaded and in force, until it is removed. Invariant: the C++ only looks;
a call inside a region is handed to the hook in Python, which looks again and goes round.
"""

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accord.terms.errors import BadInput, BrokenEdge
from accord.verify.reroute.hooks import Hook, native_test
from accord.verify.reroute.rule import Argument

COMPILE_S_MAX = 300
SPACE = "accord_reroute"  # the namespace under which the hooks in Python are found from C++

_HEAD = """\
#include <torch/library.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <memory>
#include <optional>
using Stack = torch::jit::Stack;
static std::unique_ptr<torch::Library> library;
"""
_HOOK = """
static std::optional<c10::SafeKernelFunction> native_{i};
static std::optional<c10::OperatorHandle> round_{i};
static void hook_{i}(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {{
  {{
{arguments}    if ({test}) {{
      round_{i}->callBoxedForDispatchKey(c10::DispatchKey::{key}, *stack);
      return;
    }}
  }}
  native_{i}->callBoxed(op, keys, stack);
}}
"""
_FOUND = """\
  {{
    auto& dispatcher = c10::Dispatcher::singleton();
    auto op = dispatcher.findSchemaOrThrow("aten::{base}", "{overload}");
    native_{i}.emplace(op.getComputedKernelForDispatchKey(c10::DispatchKey::{key}));
    round_{i}.emplace(dispatcher.findSchemaOrThrow("{space}::{alias}", ""));
  }}
"""
_ENDS = """
extern "C" int accord_in_force() {{ return library != nullptr; }}
extern "C" void accord_install() {{
{found}  library = std::make_unique<torch::Library>(
      torch::Library::IMPL, "aten", c10::DispatchKey::{key}, __FILE__, __LINE__);
{put}}}
extern "C" void accord_remove() {{
  library.reset();
{dropped}}}
"""


class Compiled:
    """Compiled rules in force. `remove` may be called twice."""

    def __init__(self, loaded: ctypes.CDLL, aliases: Any) -> None:
        self._loaded: ctypes.CDLL | None = loaded
        self._aliases = aliases

    def remove(self) -> None:
        """Takes the rules out of the dispatcher; the library's code stays in memory, as PyTorch asks of its users."""
        if self._loaded is not None:
            self._loaded.accord_remove()
            self._aliases._destroy()
            self._loaded = None


def install(hooks: Sequence[Hook], key: str, folder: Path) -> Compiled:
    """Compiles (once for each text and version of PyTorch) and puts the rules in force.

    BadInput without a compiler; BrokenEdge if it fails or the same rules are in force already.
    """
    built = _built(source(hooks, key), folder)
    loaded = ctypes.CDLL(str(built))
    if loaded.accord_in_force():
        raise BrokenEdge(f"{built.name}: these quirks are applied already; remove the first reroute before another")
    aliases = _aliases(hooks, key)
    loaded.accord_install()
    return Compiled(loaded, aliases)


def source(hooks: Sequence[Hook], key: str) -> str:
    """The C++ of these hooks."""
    parts, found, put, dropped = [_HEAD], "", "", ""
    for i, hook in enumerate(hooks):
        base, _, overload = hook.overload.name.partition(".")
        arguments, test = native_test(hook)
        parts.append(_HOOK.format(i=i, key=key, test=test, arguments="".join(map(_read, arguments))))
        found += _FOUND.format(i=i, key=key, base=base, overload=overload, space=SPACE, alias=_alias(hook))
        put += f'  library->impl("{hook.overload.name}", torch::CppFunction::makeFromBoxedFunction<&hook_{i}>());\n'
        dropped += f"  native_{i}.reset();\n  round_{i}.reset();\n"
    return "".join(parts) + _ENDS.format(found=found, put=put, dropped=dropped, key=key)


def _read(argument: Argument) -> str:
    at = f"torch::jit::peek(*stack, {argument.position}, {argument.count})"
    if argument.tensor:
        return f"    const at::Tensor& {argument.name} = {at}.toTensor();\n"
    return f"    const int64_t {argument.name} = {at}.toInt();\n"


def _alias(hook: Hook) -> str:
    """A name that no other reroute takes, unless it does the same."""
    digest = hashlib.sha256(hook.text.encode()).hexdigest()[:8]
    return f"{hook.overload.name.replace('.', '_dot_')}_{digest}"


def _aliases(hooks: Sequence[Hook], key: str) -> Any:
    """The hooks in Python as operators of a namespace of their own."""
    import torch

    library: Any = torch.library.Library(SPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    for hook in hooks:
        declared = hook.overload.schema.removeprefix(f"aten::{hook.overload.name}")
        library.define(f"{_alias(hook)}{declared}")
        library.impl(_alias(hook), hook.function, key)
    return library


def _built(text: str, folder: Path) -> Path:
    import torch
    from torch.utils.cpp_extension import include_paths, library_paths

    name = hashlib.sha256(f"{torch.__version__}\n{text}".encode()).hexdigest()[:16]
    built = folder / f"reroute-{name}.so"
    if built.exists():
        return built
    compiler = next((path for path in map(shutil.which, ("c++", "g++", "clang++")) if path), None)
    if compiler is None:
        raise BadInput(
            field="compiled",
            value=str(folder),
            problem="no C++ compiler is on the path",
            fix="install g++ or clang++, or leave `compiled` out: the rule then runs in Python",
        )
    folder.mkdir(parents=True, exist_ok=True)
    code, fresh = folder / f"reroute-{name}.cpp", folder / f"reroute-{name}.new"
    code.write_text(text)
    flags = [
        "-O2",
        "-std=c++20",
        "-shared",
        "-fPIC",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
    ]
    includes = [f"-isystem{path}" for path in include_paths()]
    libraries = [f"-L{path}" for path in library_paths()] + ["-ltorch_cpu", "-lc10"]
    _compile([compiler, *flags, *includes, str(code), "-o", str(fresh), *libraries])
    fresh.rename(built)  # whole or not at all, if two processes compile at once
    return built


def _compile(command: list[str]) -> None:
    try:
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=COMPILE_S_MAX)
    except subprocess.TimeoutExpired as error:
        raise BrokenEdge(f"{command[0]}: the rule wasn't compiled within {COMPILE_S_MAX} s") from error
    if ended.returncode != 0:
        raise BrokenEdge(f"{command[0]}: the rule doesn't compile here: {ended.stderr.strip()[-500:]}")
