"""Token bytes in, text deltas out, with stop strings taken away.

In: the bytes of each token. Out: text that is safe to show.
Invariant: what was given out is valid UTF-8 and never part of a stop string.
"""

import codecs


class TextStream:
    """One answer under way."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self._stop = tuple(text for text in stop if text)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped = False

    def push(self, piece: bytes) -> str:
        """What may be shown after this token; sets `stopped` once a stop string is complete."""
        return self._release(self._decoder.decode(piece))

    def finish(self) -> str:
        """The rest; a broken character at the end becomes U+FFFD."""
        text = self._release(self._decoder.decode(b"", True))
        rest, self._held = self._held, ""
        return text + rest

    def _release(self, text: str) -> str:
        if self.stopped:
            return ""
        self._held += text
        found = [at for at in (self._held.find(stop) for stop in self._stop) if at >= 0]
        if found:
            self.stopped = True
            shown, self._held = self._held[: min(found)], ""
            return shown
        keep = max((_overlap(self._held, stop) for stop in self._stop), default=0)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[-size:]):
            return size
    return 0
