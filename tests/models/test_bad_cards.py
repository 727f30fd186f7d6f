"""Bad cards: whatever a card holds, the answer is an architecture or BadInput with field, value and fix, and soon."""

import copy
import functools
import json
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.cli.model_json import summary_json
from accord.cli.model_words import summary_lines
from accord.cli.root import run
from accord.edges import model_catalog
from accord.edges.model_card import find_card, parse_card
from accord.estimate.summary import Example, summary
from accord.models.families.table import FAMILIES
from accord.models.read import read_card
from accord.terms.errors import BadInput
from tests.models.cards import public_card, public_cards

_SECONDS_MAX = 2.0  # of CPU, and generous: a reading takes hundredths of a second


@functools.cache
def _cards() -> tuple[tuple[str, dict[str, Any]], ...]:
    """One card of each set of keys, from the public cards and our catalog."""
    found: dict[tuple[str, ...], tuple[str, dict[str, Any]]] = {}
    for name in public_cards():
        card = _small(public_card(name))
        found.setdefault((str(card.get("model_type")), *sorted(card)), (name, card))
    for name in model_catalog.names():
        found[name,] = (name, dict(model_catalog.entry(name).card))
    return tuple(found.values())


def _small(value: Any) -> Any:
    """Settings of 3 MB make a fuzz test slow and no sharper: of very long mappings, some names are kept."""
    if not isinstance(value, dict):
        return value
    return {key: _small(value[key]) for key in list(value)[:: 1 + len(value) // 200]}


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all keys, and of the first items of lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, below in items:
        yield (*path, key)
        yield from _places(below, (*path, key))


_ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [0, -1, 1, 2, 3, 7, 10**6, 10**12, 10**40, -(10**12), 0.5, 1e300, math.inf, -math.inf, math.nan, True, False]
    ),
    st.sampled_from([None, "", "4096", "nonsense", "llama", "full_attention", [], {}, [[]], [{}], {"a": {"b": []}}]),
    st.integers(-10, 300),
    st.lists(st.sampled_from([0, 1, -1, "x", None, 2.5, "full_attention"]), max_size=70),
)


@st.composite
def _mutated(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    name, card = draw(st.sampled_from(_cards()))
    card = copy.deepcopy(card)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(card))
        if not places:
            break
        *above, last = draw(st.sampled_from(places))
        holder: Any = card
        for step in above:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "replace", "replace", "delete", "rename", "repeat"])):
            case "replace":
                holder[last] = copy.deepcopy(draw(_ODD))
            case "delete":
                del holder[last]
            case "rename" if isinstance(holder, dict):
                holder[f"{last}_"] = holder.pop(last)
            case _ if isinstance(holder[last], list):
                holder[last] = holder[last] * draw(st.integers(0, 3))
            case _:
                holder[last] = [holder[last]]
    return name, card


def _judge(card: dict[str, Any], name: str, like: str | None = None) -> None:
    began = time.process_time()
    try:
        found = summary(read_card(card, name=name, like=like), Example(ranks=2))
        assert list(summary_lines(found, source="", words="", width=100))
        json.dumps(summary_json(found, source=""), allow_nan=False)
    except BadInput as error:
        assert error.field
        assert error.problem
        assert error.fix
        assert len(str(error)) < 2000
    assert time.process_time() - began < _SECONDS_MAX


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(_mutated())
def test_a_mutated_card_is_read_or_refused(mutated):
    name, card = mutated
    _judge(card, name)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(_mutated(), st.sampled_from([family.name for family in FAMILIES]))
def test_a_card_read_as_another_family_is_read_or_refused(mutated, like):
    name, card = mutated
    _judge(card, name, like)


_LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_hidden_layers": 10**12}, "num_hidden_layers: 1000000000000: out of range"),
        ({"hidden_size": -4096}, "hidden_size: -4096: out of range"),
        ({"num_attention_heads": "32"}, "num_attention_heads: '32': not a whole number"),
        ({"num_key_value_heads": 7}, "not a multiple of num_key_value_heads = 7"),
        ({"hidden_act": "sillu"}, "hidden_act: 'sillu': unknown; did you mean silu?"),
        ({"hidden_size": None}, "hidden_size: 'absent': required; add `hidden_size`"),
        ({"hidden_size": {"a": 1}}, "hidden_size: {'a': 1}: not a whole number"),
        ({"intermediate_size": 1.5}, "intermediate_size: 1.5: not a whole number"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings: 'yes': not true or false"),
        ({"model_type": "lama"}, "the nearest family is dense"),
        ({"model_type": 7}, "model_type: 7: not a text"),
        ({"quantization_config": {"quant_method": "magic"}}, "quantization_config.quant_method: 'magic': unknown"),
        (
            {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["re:(a+)+$"]}},
            "'re:(a+)+$': not a simple pattern",
        ),
        ({"quantization_config": [1]}, "quantization_config: [1]: not a mapping"),
    ],
)
def test_the_error_names_field_value_and_fix(change, said):
    with pytest.raises(BadInput) as error:
        read_card(_LLAMA | change, name="bad")
    assert said in str(error.value)
    assert error.value.fix


_SIZES = {key: value for key, value in _LLAMA.items() if key != "model_type"}


@pytest.mark.parametrize(
    ("card", "like"),
    [
        ({"model_type": "llama9", **_SIZES}, "--like llama"),
        ({"model_type": "own", "architectures": ["Qwen3MoeForCausalLM"], **_SIZES}, "--like qwen3_moe"),
        ({"model_type": "own", "kv_lora_rank": 512, **_SIZES}, "--like mla"),
        ({"model_type": "own", "num_local_experts": 8, **_SIZES}, "--like moe"),
        ({"model_type": "own", **_SIZES}, "--like dense"),
        ({"model_type": "own", "vision_config": {}, "text_config": _SIZES}, "--like llava"),
        ({"model_type": "gemma5", "vision_config": {}, "text_config": _SIZES}, "--like gemma4"),
        ({"_class_name": "OwnPipeline", "transformer": {}, "vae": {}}, "--like diffusion"),
        (_SIZES, "the card names no architecture"),
        ({"model_type": "own"}, "`accord model --list` names the families"),
    ],
)
def test_an_unknown_architecture_names_the_nearest(card, like):
    with pytest.raises(BadInput) as error:
        read_card(card, name="own")
    assert like in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"hidden_size": 4096,\n "num', "config.json, line 2 column 2: '\"num': not JSON: Unterminated string"),
        ('{"hidden_size": 4096,', "the file is cut off there"),
        ("", "config.json': empty"),
        ('{"\\u001b[31m": 1}', "not a key of any card"),
        ("[1, 2]", "not a mapping"),
        ('{"a": 1, "b": 2, "a": 3}', "a: 3: the key comes twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": ' + "[" * 500 + "]" * 500 + "}", "nested too deeply"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "thousands of digits"),
        ('{"a": "\\ud800"}', "half a character"),
        ("{'a': 1}", "config.json, line 1 column 2: \"'a': 1}\": not JSON"),
    ],
)
def test_text_that_is_no_card_is_refused_with_its_place(text, said):
    with pytest.raises(BadInput) as error:
        parse_card(text, where="config.json")
    assert said in str(error.value)


@pytest.mark.parametrize("data", [b'{"model_type": "llama"', b"\xff\xfe{}", b'{"hidden_size": "x"}', b"[]"])
def test_the_command_ends_with_status_2_and_no_traceback(tmp_path, data, capsys):
    path = tmp_path / "config.json"
    path.write_bytes(data)
    for more in ((), ("--json",)):
        with pytest.raises(SystemExit) as end:
            run(["model", str(path), *more])
        out, err = capsys.readouterr()
        assert end.value.code == 2
        assert "Traceback" not in out + err
        assert out.startswith('{"error"') if more else err.startswith("  ")


@pytest.mark.parametrize(
    ("name", "held", "said"),
    [
        ("hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}}, "the quantization settings of a model"),
        ("model.safetensors.index.json", {"weight_map": {}}, "an index of weight files"),
        ("adapter_config.json", {"peft_type": "LORA"}, "the settings of an adapter"),
    ],
)
def test_other_files_of_a_model_are_named_for_what_they_are(tmp_path, name, held, said):
    (tmp_path / name).write_text(json.dumps(held))
    with pytest.raises(BadInput) as error:
        find_card(str(tmp_path / name))
    assert said in str(error.value)
    assert "config.json" in error.value.fix


def test_a_large_file_is_refused_unread(tmp_path):
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(BadInput, match="larger than 16 MiB"):
        find_card(str(path))
