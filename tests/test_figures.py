"""The file format of benchmark figures, which other programs read."""

import json
from pathlib import Path

import pytest

import _figures
from _figures import Figure


def test_a_written_file_has_exactly_the_agreed_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_figures, "OUT", tmp_path / "out")
    figures = [
        Figure(name="16 MiB ratio", value=1.05, unit="x", better="lower", bar=1.15, peer="relay", peer_value=2.5),
        Figure(name="absent", value=3.0, unit="ms", better="lower", peer="not here"),
    ]
    path = _figures.write("link", figures)
    assert path == tmp_path / "out" / "link.json"
    assert json.loads(path.read_text()) == [
        {"name": "16 MiB ratio", "value": 1.05, "unit": "x", "peer": "relay", "peer_value": 2.5, "bar": 1.15,
         "better": "lower"},
        {"name": "absent", "value": 3.0, "unit": "ms", "peer": "not here", "peer_value": None, "bar": None,
         "better": "lower"},
    ]  # fmt: skip
    assert _figures.read(path) == figures


@pytest.mark.parametrize(
    ("better", "value", "met"),
    [("lower", 1.0, True), ("lower", 1.1, False), ("higher", 1.0, True), ("higher", 0.9, False)],
)
def test_a_bar_is_reached_from_its_side(better: str, value: float, met: bool) -> None:
    assert Figure(name="f", value=value, unit="x", better=better, bar=1.0).met is met  # type: ignore[arg-type]


def test_what_was_not_measured_is_no_figure() -> None:
    with pytest.raises(ValueError, match="is not a measurement"):
        Figure(name="f", value=float("nan"), unit="x", better="lower")
    with pytest.raises(ValueError, match="needs the peer's name"):
        Figure(name="f", value=1.0, unit="x", better="lower", peer_value=2.0)
