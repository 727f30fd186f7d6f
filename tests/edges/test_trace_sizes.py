"""Traces in few figures: counted by hand, and against what is known of public ones."""

import gzip
import json

import pytest

from accord.edges.trace_sizes import read_trace_sizes
from accord.terms.errors import BadInput
from accord.terms.intent import Spread

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def written(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_csv_is_counted(tmp_path):
    # Three requests in the first minute, one in the third: the busiest has 3 in 60 s.
    rows = ["00:00.0000000,10,1", "00:20.5,20,2", "00:59.9,30,3", "02:30.0,40,400"]
    path = written(tmp_path, HEAD + "".join(f"2023-11-16 18:{row}\n" for row in rows))
    found = read_trace_sizes(path, field="workload.trace")
    assert (found.requests, found.span_s, found.rate_rps) == (4, 150.0, 0.05)
    assert found.mean_rps == pytest.approx(4 / 150)
    assert found.input_tokens == Spread(p50=20, p99=40)
    assert found.output_tokens == Spread(p50=2, p99=400)


def test_json_lines_are_counted_gzipped_or_not(tmp_path):
    lines = "".join(
        json.dumps({"timestamp": 1000 * n, "input_length": 100 + n, "output_length": 0, "hash_ids": [n]}) + "\n"
        for n in range(101)
    )
    plain = read_trace_sizes(written(tmp_path, lines), field="t")
    packed = tmp_path / "trace.gz"
    packed.write_bytes(gzip.compress(lines.encode()))
    assert plain == read_trace_sizes(packed, field="t")
    assert (plain.requests, plain.span_s, plain.rate_rps) == (101, 100.0, 1.0)
    assert plain.input_tokens == Spread(p50=150, p99=199)
    assert plain.output_tokens == Spread(p50=1, p99=1)  # an answer has a token at least


def test_a_trace_shorter_than_a_minute_has_its_mean(tmp_path):
    path = written(tmp_path, HEAD + "0,5,5\n1.5,5,5\n2,5,5\n")
    assert read_trace_sizes(path, field="t").rate_rps == 1.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a trace that is known here"),
        ("a,b\n1,2\n", "with TIMESTAMP, ContextTokens"),
        (HEAD, "no requests"),
        (HEAD + "0,1,1\nyesterday,1,1\n", "line 3: not a request"),
        (HEAD + "0,1\n", "line 2: not a request"),
        (HEAD + "0,-1,1\n", "0 or more"),
        (HEAD + "nan,1,1\n", "0 or more"),
        ('{"timestamp": 1}\n', "line 1: not a request: 'input_length'"),
        ('{"timestamp": 1,\n', "line 1: not a request"),
        ("x" * (2 << 20), "too long"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_named(tmp_path, text, says):
    with pytest.raises(BadInput) as caught:
        read_trace_sizes(written(tmp_path, text), field="workload.trace")
    assert says in str(caught.value).replace("'" + str(tmp_path), "").replace("':", ":")


def test_files_that_are_none(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"x" * 5000)[:-12])
    for name, says in (("none", "no such file"), ("bytes", "can't be read"), ("cut.gz", "can't be read")):
        with pytest.raises(BadInput, match=says):
            read_trace_sizes(tmp_path / name, field="workload.trace")
