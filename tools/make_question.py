"""Makes the demo's spoken question, src/accord/assets/question.flac, with hibari-tts.

In: nothing but the text below. Out: the file. Invariant: the same package version gives the same samples.
Run it as `.venv/bin/python tools/make_question.py`.
"""

from pathlib import Path

QUESTION = "What is the capital of France, and why is it famous?"
TARGET = Path(__file__).parent.parent / "src" / "accord" / "assets" / "question.flac"


def main() -> None:
    """Speaks the question and writes it as 16-bit FLAC."""
    import soundfile
    from hibari import Hibari

    voice = Hibari()
    soundfile.write(TARGET, voice(QUESTION, seed=0), voice.sample_rate, subtype="PCM_16")
    print(f"{TARGET}: {soundfile.info(TARGET).duration:.2f} s, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
