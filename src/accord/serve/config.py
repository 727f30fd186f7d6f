"""How the door behaves: where it listens, whom it lets in, and how much it takes.

In: nothing. Out: `DoorConfig`. Invariant: every wait and every buffer of the door has its bound here.
"""

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorConfig:
    """One door. `model` is the only model name that it answers to.

    `api_key` guards all but `/healthz` and the page's own files. `hosts` are further names that may stand
    in the Host header of a door on loopback, and further origins that a browser may post from.
    `allow_urls` lets pictures be fetched from public http(s) addresses. `languages` are those that the
    recognizer hears.

    `body_bytes_max` bounds one body and `bodies_bytes_max` all bodies held at once; `reply_bytes_max`
    bounds an answer that is collected before it is sent. `body_s_max` bounds the reading of one body,
    `stall_s_max` how long a client may leave an answer untaken, `close_s_max` how long open requests
    may go on while the door closes.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8077
    api_key: str | None = None
    hosts: tuple[str, ...] = ()
    allow_urls: bool = False
    languages: tuple[str, ...] = ("en",)

    deadline_s: float = 120.0
    body_s_max: float = 30.0
    stall_s_max: float = 60.0
    keepalive_s: float = 75.0
    close_s_max: float = 5.0

    body_bytes_max: int = 32 << 20
    bodies_bytes_max: int = 256 << 20
    reply_bytes_max: int = 64 << 20
    prompt_bytes_max: int = 1 << 20
    write_buffer_bytes: int = 16 << 10
    send_buffer_bytes: int = 128 << 10

    messages_max: int = 1024
    media_parts_max: int = 16
    tokens_default: int = 256
    tokens_max: int = 8192
    say_chars_max: int = 4096
    audio_s_max: float = 300.0
    pixels_max: int = 40_000_000
    connections_max: int = 1024
    status_streams_max: int = 32

    def on_loopback(self) -> bool:
        """Whether only this machine can reach the door."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False
