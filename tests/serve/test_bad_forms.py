"""Every bad form gets a status and a text that names the field, the value and the fix."""

import pytest

from tests.serve.conftest import MODEL
from tests.serve.fake_service import Script, heard
from tests.serve.media_samples import long_flac, wav
from tests.serve.test_bad_input import TRANSCRIBE, form, refused

FORM = {"Content-Type": "multipart/form-data; boundary=B"}
FORMS = [
    (form(model=MODEL), "file", "no audio"),
    (form(file=("a.wav", wav())), "model", "required"),
    (form(file=("a.wav", b""), model=MODEL), "file", "no audio"),
    (form(file=("a.wav", b"junk" * 50), model=MODEL), "file", "WAV, FLAC, OGG or MP3"),
    (form(file=("a.flac", long_flac(10)), model=MODEL), "file", "split"),
    (form(file=("a.wav", wav()), model=MODEL, language="fr"), "language", "en"),
    (form(file=("a.wav", wav()), model=MODEL, temperature="hot"), "temperature", "hot"),
    (form(file=("a.wav", wav()), model=MODEL, temperature="NaN"), "temperature", "NaN"),
    (form(file=("a.wav", wav()), model=MODEL, temperature="-1"), "temperature", "-1"),
    (form(file=("a.wav", wav()), model=MODEL, response_format="srt"), "response_format", "json, text"),
    (form(file=("a.wav", wav()), model=MODEL, response_format="text", stream="true"), "response_format", "stream"),
    (form(file=("a.wav", wav()), model=MODEL, modle="x"), "modle", "did you mean 'model'"),
    (form(file=("a.wav", wav()), model=MODEL, langage=("b", b"\xff")), "langage", "UTF-8"),
    (form(file=("a.wav", wav()), model=MODEL, prompt="x" * 100_000), "prompt", "too much"),
    (b"no boundary at all", "body", "form"),
    (b"--B\r\n\r\nnameless\r\n--B--\r\n", "body", "name"),
    (b"--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n--B--\r\n", "body", "name"),
    (b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\nnever ends', "body", "form"),
    (b"--B\r\nContent-Type: multipart/mixed; boundary=C\r\n\r\n--C\r\n\r\nx\r\n--C--\r\n--B--\r\n", "body", "name"),
    (b"", "body", "form"),
]


@pytest.mark.parametrize(("body", "param", "says"), FORMS, ids=lambda value: repr(value[-40:]))
async def test_bad_forms(open_door, http, service, *, body, param, says):
    bound = await open_door()
    error = await refused(http, bound.url + TRANSCRIBE, body, headers=FORM)
    assert (error["param"] or "body") == param
    assert says in error["message"]
    assert service.requests == []


async def test_form_bounds_and_kinds(open_door, http, service):
    bound = await open_door(body_bytes_max=5000)
    service.script = Script(steps=heard("x"))
    await refused(http, bound.url + TRANSCRIBE, form(file=("a.wav", wav(1.0)), model=MODEL), status=413, headers=FORM)
    await refused(http, bound.url + TRANSCRIBE, b"{}", status=415)
    await refused(http, bound.url + TRANSCRIBE, b"", headers={"Content-Type": "multipart/form-data"})
    short = form(file=("a.wav", wav(0.1)), model="whisper-1")
    error = await refused(http, bound.url + TRANSCRIBE, short, status=404, headers=FORM)
    assert MODEL in error["message"]
