"""Quirks as a file: what is written is read, and what is wrong is named.

In: quirks, edited files. Out: failures that name the field. Invariant: the published schema and our reader agree on
every file here; jsonschema is the judge of the one, our reader of the other.
"""

import copy
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from accord.edges.quirk_file import dump_quirks, load_quirks, quirks_from_text, save_quirks, schema_text
from accord.terms.errors import BadInput
from accord.terms.quirk import Evidence, Fact, FaultKind, Point, Quirk, Trait, Version, Way, Workaround
from accord.terms.quirk_text import parse_region

AMX = Quirk(
    name="torch-cpu-mm-poison-leaks",
    device="torch:cpu",
    operator="mm",
    fault=FaultKind.LEAK,
    region=parse_region("dtype is bf16 and M > 16 and K % 32 != 0 and M*N*K > 4096"),
    evidence=Evidence(
        points=812,
        failing=301,
        fresh=233,
        missed=0,
        over_cover=0.0125,
        worst="row 7 is NaN",
        probes=("poison", "integer"),
        witnesses=("numpy", "onnxruntime"),
    ),
    reproducer="import torch\n\na = torch.ones(17, 33)\nraise SystemExit(bool(a.isnan().any()))\n",
    found="2026-11-30",
    smallest=Point(
        operator="mm",
        facts=(Fact(name="M", value=17), Fact(name="N", value=8), Fact(name="K", value=33)),
        traits=(Trait(name="dtype", word="bf16"), Trait(name="layout", word="no")),
    ),
    versions=(
        Version(library="torch", version="2.13.0+cpu", fixed_in="2.14.0"),
        Version(library="onednn", version="3.12"),
    ),
    workarounds=(
        Workaround(way=Way.PAD, detail="K to 32", region=parse_region("M*N*K > 100000"), cost_ratio=2.47, verified=120),
        Workaround(way=Way.UPCAST, detail="f32", region=parse_region("always"), cost_ratio=0.28, verified=120),
        Workaround(way=Way.CPU, detail="", region=parse_region("always"), cost_ratio=12.5, verified=120),
    ),
    remarks=("oneDNN issue 5717",),
)
BARE = Quirk(
    name="card-topk",
    device="card",
    operator="topk",
    fault=FaultKind.CRASH,
    region=parse_region("(N > 65536 and k > 32) or N == 1"),
    evidence=Evidence(
        points=1, failing=1, fresh=0, missed=0, over_cover=0.0, worst="signal 11", probes=(), witnesses=()
    ),
    reproducer="raise SystemExit(1)\n",
    found="2026-11-30",
)


def test_quirks_survive_their_file(tmp_path: Path) -> None:
    path = tmp_path / "quirks.yaml"
    save_quirks([AMX, BARE], path)
    assert load_quirks(path) == (AMX, BARE)


def test_the_file_is_for_people() -> None:
    told = dump_quirks([AMX])
    assert "region: dtype is bf16 and M > 16 and K % 32 != 0 and M*N*K > 4096\n" in told
    assert "reproducer: |\n" in told
    assert "\n    a = torch.ones(17, 33)\n" in told
    assert "way: pad" in told


def _documents() -> dict[str, object]:
    """A right document, and one edit of it each that isn't; `-` deletes."""
    return {
        "quirks[0].fault": "wrong",
        "quirks[0].region": "M >",
        "quirks[0].found": "yesterday",
        "quirks[0].regoin": "always",
        "quirks[0].evidence.over_cover": 1.5,
        "quirks[0].evidence.points": -1,
        "quirks[0].evidence.points ": 3,
        "quirks[0].evidence.probes": "poison",
        "quirks[0].smallest.M": -17,
        "quirks[0].workarounds[0].way": "hope",
        "quirks[0].workarounds[0].cost_ratio": "cheap",
        "quirks[0].versions[0].library": "",
        "quirks[0].name": "two\nlines",
        "quirks[0].reproducer": "",
        "quirks": {"a": 1},
        "accord": 2,
    }


def _edited(field: str, value: object) -> dict[str, object]:
    document = copy.deepcopy(yaml.safe_load(dump_quirks([AMX])))
    below, steps = document, field.replace("[", ".").replace("]", "").split(".")
    for step in steps[:-1]:
        below = below[int(step) if step.isdigit() else step]
    below[steps[-1]] = value
    return document


def test_the_schema_takes_what_we_write() -> None:
    schema = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(dump_quirks([AMX, BARE])), schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("field", _documents())
def test_what_is_wrong_is_named(field: str) -> None:
    document = _edited(field, _documents()[field])
    with pytest.raises(BadInput) as caught:
        quirks_from_text(yaml.safe_dump(document))
    assert caught.value.field.startswith(field.strip().rpartition(".")[0] or field)


# The schema can't read regions.
@pytest.mark.parametrize("field", [field for field in _documents() if field != "quirks[0].region"])
def test_the_schema_refuses_the_same(field: str) -> None:
    document = _edited(field, _documents()[field])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(schema_text()), jsonschema.Draft202012Validator)


def test_a_name_that_comes_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="twice"):
        quirks_from_text(dump_quirks([AMX, AMX]))


@pytest.mark.parametrize("field", ["name", "device", "operator", "fault", "region", "found", "evidence", "reproducer"])
def test_what_must_be_there_is_asked_for(field: str) -> None:
    document = yaml.safe_load(dump_quirks([AMX]))
    del document["quirks"][0][field]
    with pytest.raises(BadInput) as caught:
        quirks_from_text(yaml.safe_dump(document))
    assert caught.value.field == f"quirks[0].{field}"
