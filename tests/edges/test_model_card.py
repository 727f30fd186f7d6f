"""Finding a card: files, folders, settings beside a card, diffusers folders, names of the catalog."""

import json

import pytest

from accord.edges.model_card import find_card
from accord.terms.errors import BadInput, BrokenEdge

LLAMA = {"model_type": "llama", "hidden_size": 64}


def put(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, held in files.items():
        (folder / f"{name}.json").write_text(json.dumps(held))
    return folder


def test_a_file_and_its_folder_are_the_same_card(tmp_path):
    folder = put(tmp_path / "My-Model", config=LLAMA)
    assert find_card(str(folder)) == find_card(str(folder / "config.json"))
    assert find_card(str(folder)).name == "My-Model"


def test_a_file_of_any_name_lends_the_card_its_own(tmp_path):
    put(tmp_path, **{"Qwen--Qwen3_config": LLAMA, "other": LLAMA})
    assert find_card(str(tmp_path / "Qwen--Qwen3_config.json")).name == "Qwen--Qwen3"
    assert find_card(str(tmp_path / "other.json")).name == "other"


@pytest.mark.parametrize("prefix", ["", "A--B_"])
def test_quantization_settings_beside_a_card_belong_to_it(tmp_path, prefix):
    settings = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    put(tmp_path, **{f"{prefix}config": LLAMA, f"{prefix}hf_quant_config": settings})
    path = str(tmp_path / f"{prefix}config.json")
    assert find_card(path).values["quantization_config"] == settings
    put(tmp_path, **{f"{prefix}config": LLAMA | {"quantization_config": {"quant_method": "fp8"}}})
    assert find_card(path).values["quantization_config"] == {"quant_method": "fp8"}


def test_a_diffusers_folder_becomes_one_mapping(tmp_path):
    index = {
        "_class_name": "FluxPipeline",
        "transformer": ["diffusers", "FluxTransformer2DModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    }
    put(tmp_path, model_index=index)
    put(tmp_path / "transformer", config={"num_layers": 19})
    put(tmp_path / "scheduler", scheduler_config={"shift": 3.0})
    found = find_card(str(tmp_path))
    assert found.values == index | {"transformer": {"num_layers": 19}, "scheduler": {"shift": 3.0}}
    assert find_card(str(tmp_path / "model_index.json")) == found


def test_a_component_outside_the_folder_is_not_read(tmp_path):
    put(tmp_path / "a", model_index={"_class_name": "FluxPipeline", "../b": ["x", "y"]})
    put(tmp_path / "b", config={"secret": 1})
    with pytest.raises(BadInput, match="not a folder's name"):
        find_card(str(tmp_path / "a"))


def test_a_folder_without_a_card_says_what_it_lacks(tmp_path):
    with pytest.raises(BadInput, match=r"config\.json or model_index\.json"):
        find_card(str(tmp_path))


def test_a_file_that_cannot_be_read_is_a_broken_edge(tmp_path):
    path = put(tmp_path, config=LLAMA) / "config.json"
    path.unlink()
    path.symlink_to("/proc/self/mem")
    with pytest.raises((BrokenEdge, BadInput)):
        find_card(str(path))


def test_a_byte_order_mark_is_taken_off(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert find_card(str(path)).values == LLAMA


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b"])
def test_names_that_no_file_has_are_refused(name):
    with pytest.raises(BadInput):
        find_card(name)
