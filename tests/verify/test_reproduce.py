"""A reproducer runs by itself and tells a fault from health.

In: cases of products, right and tampered with. Out: failures. Invariant: the script runs in a process that has PyTorch
and nothing of ours on its path.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from accord.terms.quirk import Fact, Point, Trait, Version
from accord.verify.operators import products
from accord.verify.operators.row import Case, Fill
from accord.verify.ports import Description
from accord.verify.reproduce import Shown, script

DEVICE = Description(name="torch:cpu", families=("torch",), versions=(Version(library="torch", version="2.13.0"),))


def _point(operator: str, dtype: str, layout: str = "strided", **sides: int) -> Point:
    facts = tuple(Fact(name=name, value=value) for name, value in sides.items())
    words = {"dtype": dtype, "layout": layout, "bias": "yes"}
    return Point(operator=operator, facts=facts, traits=tuple(Trait(name=k, word=v) for k, v in words.items()))


def _case(point: Point, fill: Fill) -> Case:
    row = next(row for row in products.rows() if row.name == point.operator)
    case = row.build(point, np.random.default_rng(7), fill)
    assert case is not None
    return case


def _script(point: Point, case: Case, *, port: str = "torch:cpu") -> str:
    shown = Shown(device=DEVICE, port=port, point=point, words="2 of 3\nare wrong", allowed=np.zeros(()))
    return script(shown, case)


_DRIVER = """
import runpy, sys
for path in sys.argv[1:]:
    try:
        runpy.run_path(path)
    except SystemExit as end:
        print("status", end.code)
"""


def _statuses(texts: list[str], folder: Path) -> list[int]:
    """How each script ends, all of them in one process, so that PyTorch is imported once."""
    paths = [folder / f"reproduce{number}.py" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    command = [sys.executable, "-I", "-c", _DRIVER, *map(str, paths)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100, cwd=folder)
    return [int(line.split()[1]) for line in ended.stdout.splitlines() if line.startswith("status ")]


def test_a_right_device_passes_and_a_wrong_answer_does_not(tmp_path: Path) -> None:
    texts, expected = [], []
    for operator in ("mm", "linear"):
        point = _point(operator, "bf16", M=5, N=4, K=33)
        case = _case(point, Fill.INTEGERS)
        wrong = case.wanted[0].copy()
        wrong[3, 1] += 1
        texts += [_script(point, case), _script(point, replace(case, wanted=(wrong,)))]
        expected += [0, 1]
    point = _point("mm", "bf16", M=9, N=4, K=33)
    poison = _case(point, Fill.POISON)
    assert not np.isfinite(poison.wanted[0]).all()  # what must be NaN is no fault
    texts.append(script(Shown(device=DEVICE, port="torch:cpu", point=point, words="", allowed=np.ones(())), poison))
    assert _statuses(texts, tmp_path) == [*expected, 0]


def test_the_head_says_what_was_seen_on_one_line() -> None:
    point = _point("mm", "f32", M=2, N=2, K=2)
    first, *_ = _script(point, _case(point, Fill.INTEGERS)).splitlines()
    assert first == "# mm on torch:cpu (torch 2.13.0): 2 of 3 are wrong"


def test_operands_that_are_too_many_are_made_again_by_accord() -> None:
    point = _point("mm", "f32", M=400, N=400, K=400)
    text = _script(point, _case(point, Fill.NORMAL))
    assert "from accord.verify.again import again" in text
    assert len(text) < 1000
    compile(text, "reproduce.py", "exec")


def test_other_libraries_are_asked_through_accord() -> None:
    point = _point("mm", "f32", M=2, N=2, K=2)
    text = _script(point, _case(point, Fill.INTEGERS), port="onnxruntime")
    assert "device='onnxruntime'" in text
    assert "'K': 2" in text
