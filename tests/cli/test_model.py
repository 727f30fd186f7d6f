"""`accord model`, as a user meets it: the drawing, the tables, the JSON, the ways to end."""

import json
import subprocess
import sys

import pytest

from accord.cli.drawing import Arrow, Box, draw
from accord.cli.model_words import summary_lines
from accord.cli.root import run
from accord.cli.table import count, flops, plural, ratio, table_lines
from accord.edges import model_catalog
from accord.estimate.summary import Example, summary
from accord.models.read import read_card


def model(capsys, *given):
    """Exit status, stdout and stderr of one command."""
    with pytest.raises(SystemExit) as end:
        run(["model", *given])
    out, err = capsys.readouterr()
    return end.value.code, out, err


def test_a_graph_is_drawn_so_that_each_edge_can_be_followed():
    boxes = [Box(name="ears", lines=("hears",)), Box(name="eyes", lines=("sees",)), Box(name="mind", lines=("thinks",))]
    arrows = [
        Arrow(source=None, target="ears", words="sound"),
        Arrow(source=None, target="eyes", words="light"),
        Arrow(source="ears", target="mind", words="a"),
        Arrow(source="eyes", target="mind", words="b"),
        Arrow(source="mind", target=None, words="words"),
        Arrow(source="ears", target="eyes", words="c"),
    ]
    assert (
        "\n".join(draw(boxes, arrows))
        == """\
               ┌─ ears ───┐
door ─ sound ─▶│ hears    ├─ a ──┐
               │          ├─ c ┐ │
               └──────────┘    │ │
               ┌─ eyes ───┐    │ │
door ─ light ─▶│ sees     │◀───┘ │
               │          ├─ b ──┤
               └──────────┘      │
               ┌─ mind ───┐      │
door ◀─ words ─│ thinks   │◀─────┘
               └──────────┘"""
    )


def test_a_wide_table_goes_on_below_itself():
    rows = [("name", "one", "two"), ("a", "1", "22"), ("bb", "10", "2")]
    assert list(table_lines(rows, width=100)) == ["    name  one  two", "    a       1   22", "    bb     10    2"]
    assert list(table_lines(rows, width=14)) == [
        "    name  one", "    a       1", "    bb     10", "    name  two", "    a      22", "    bb      2",
    ]  # fmt: skip


def test_figures_have_three_digits():
    assert [count(item) for item in (0, 999, 30_532_122_624, 1.57e12)] == ["0", "999", "30.5B", "1.57T"]
    assert [flops(item) for item in (5.86e12, 999.9e9, 1e18)] == ["5.86T", "1T", "1E"]
    assert [ratio(item) for item in (1.1234, 418.4, 2061.0)] == ["1.12", "418", "2,061"]
    assert [plural(1, "patch"), plural(1024, "patch")] == ["1 patch", "1,024 patches"]


def test_the_words_say_what_the_json_says(capsys):
    status, words, _ = model(capsys, "qwen3-omni-30b-a3b", "--tokens", "2000", "--tp", "2", "--memory", "20GiB")
    assert status == 0
    status, text, _ = model(
        capsys, "qwen3-omni-30b-a3b", "--tokens", "2000", "--tp", "2", "--memory", "20GiB", "--json"
    )
    assert status == 0
    said = json.loads(text)
    assert f"{said['parameters']:,} parameters" in words
    assert [stage["stage"] for stage in said["stages"]] == ["audio", "vision", "thinker", "talker", "code2wav"]
    for stage in said["stages"]:
        assert f"┌─ {stage['stage']} " in words
        assert sum(item["count"] * item["weights_bytes_each"] for item in stage["portions"]) == stage["weights_bytes"]
        assert sum(item["weights_bytes"] for item in stage["tensors"]) == stage["weights_bytes"]
        tensors = {item["tensor"] for item in stage["tensors"]}
        operators = {item["operator"] for item in stage["operators"]}
        assert all(set(item.get("weights", ())) <= tensors for item in stage["operators"])
        for step in stage["steps"]:
            assert {item["operator"] for item in step["operators"]} <= operators
            assert sum(item["flops"] for item in step["operators"]) == pytest.approx(step["flops"])
    thinker = said["stages"][2]
    assert thinker["cache"][0]["layers"] == list(range(48))
    assert thinker["request_bytes"] == {"bf16": 2000 * 96 * 1024, "fp8": 2000 * 48 * 1024}
    assert thinker["rank"]["request_bf16_bytes"] == 1000 * 96 * 1024
    assert thinker["pages"][0]["requests"] >= thinker["pages"][0]["plain_requests"]
    assert max(map(len, words.splitlines())) <= 110


def test_a_narrow_terminal_gets_what_fits(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, words, _ = model(capsys, "gemma-4-26b-a4b")
    drawing = words.partition("Stages")[0]
    assert "┌─ decoder" in drawing
    assert max(map(len, drawing.splitlines()[4:])) <= 80
    monkeypatch.setenv("COLUMNS", "50")
    _, words, _ = model(capsys, "gemma-4-26b-a4b")
    assert "door ─▶ decoder: tokens, 4B a token" in words


def test_no_line_is_wider_than_the_terminal():
    for name in model_catalog.names():
        figures = summary(read_card(model_catalog.entry(name).card, name=name), Example(ranks=2, memory_bytes=64 << 30))
        for width in (80, 100, 160):
            for line in summary_lines(figures, source="", words="", width=width):
                assert len(line) <= width, f"{name}: {line}"


def test_a_full_disk_is_said():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "accord", "model", "qwen3-8b"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 3
    assert b"standard output: No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_catalog_is_listed(capsys):
    status, words, _ = model(capsys, "--list")
    assert status == 0
    assert "qwen3-omni-30b-a3b" in words
    status, text, _ = model(capsys, "--list", "--json")
    said = json.loads(text)
    assert {"deepseek-v3", "llama-3.1-8b"} <= {item["model"] for item in said["models"]}
    assert all(item["source"] for item in said["models"])
    assert "dense" in {item["family"] for item in said["families"]}


def test_the_embedded_model_shows_what_its_replicas_hold(capsys):
    status, words, _ = model(capsys, "embedded-omni")
    assert status == 0
    assert "240MiB, 96MiB a request" in words
    status, text, _ = model(capsys, "embedded-omni", "--json")
    assert json.loads(text)["stages"][2]["resident_bytes"] == 240 << 20


def test_an_unknown_architecture_names_the_nearest_family_and_is_read_on_demand(capsys, tmp_path):
    card = tmp_path / "config.json"
    card.write_text(
        json.dumps(
            {"model_type": "newllama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 100, "new_rank": 3}
        )
    )  # fmt: skip
    status, _, said = model(capsys, str(card))
    assert status == 2
    assert "add --like llama" in said
    status, words, _ = model(capsys, str(card), "--like", "dense")
    assert status == 0
    assert "as --like says; the card's own is 'newllama'" in words
    assert "nobody reads these, and they could matter: new_rank" in words
    status, _, said = model(capsys, str(card), "--like", "mla")
    assert status == 2
    assert "num_key_value_heads: 2" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "give a CARD, or --list"),
        (("nothing-like-it",), "not in the catalog"),
        (("no/such/config.json",), "no such file"),
        (("qwen3-8b", "--memory", "40"), "--memory"),
        (("qwen3-8b", "--tokens", "0"), "--tokens"),
        (("qwen3-8b", "--like", "dens"), "did you mean dense"),
    ],
)
def test_wrong_arguments_end_with_status_2(capsys, given, said):
    status, out, err = model(capsys, *given)
    assert status == 2
    assert said in err
    assert not out


def test_nothing_heavy_is_imported():
    probe = (
        "import sys; from accord.cli.root import run\n"
        "try: run(['model', 'qwen3-omni-30b-a3b'])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "diffusers", "numpy", "aiohttp", "msgspec", "rich", "yaml", "asyncio"}
    assert not heavy & set(done.stderr.split())
