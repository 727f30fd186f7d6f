"""The stage graph of a model: what must be computed, not where or how.

In: nothing. Out: `StageGraph`, a directed acyclic graph whose source and sink is the door (the
client's side of the service). Invariant: every edge joins two known stages, or a stage and the door.
"""

from dataclasses import dataclass
from enum import StrEnum

DOOR = "door"


class Capability(StrEnum):
    """What a stage needs from its engine and device."""

    ENCODE = "encode"  # reads features, pictures or a prompt whole, once a request
    AR = "ar"  # writes token after token, and keeps a cache
    DENOISE = "denoise"  # refines a latent step by step
    VOCODE = "vocode"  # makes a signal of what stands for it: sound of codes or spectra, pixels of latents
    ACT = "act"  # drives a robot
    PREPROCESS = "preprocess"  # decodes and resizes what a client sends
    SANDBOX = "sandbox"  # runs code that isn't trusted
    STATE = "state"  # keeps sessions


class Batching(StrEnum):
    """How a stage may put several requests into one step of its engine."""

    PLAIN = "plain"
    CONTINUOUS = "continuous"
    STEP = "step"
    CHUNKED = "chunked"


class Payload(StrEnum):
    """What one chunk on an edge carries."""

    PROMPT = "prompt"  # a chat as JSON, with slots for what other stages read from audio and pictures
    TEXT = "text"  # UTF-8, a delta
    AUDIO = "audio"  # one encoded file (WAV, FLAC, OGG, MP3)
    IMAGE = "image"  # one encoded file (PNG, JPEG, WebP)
    SPECTRUM = "spectrum"  # float32 tensors of an acoustic model, one clause
    PCM = "pcm"  # signed 16-bit little-endian mono samples
    FEATURES = "features"  # mel frames, patches of pixels: what an encoder reads
    TOKENS = "tokens"  # token ids
    HIDDEN = "hidden"  # hidden states, or embeddings that take their place
    CODES = "codes"  # frames of a neural codec
    LATENT = "latent"  # what a denoiser refines and a VAE decodes
    PIXELS = "pixels"  # pictures or video frames, decoded
    ACTIONS = "actions"  # chunks of a robot's actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: a unit of work with a contract.

    `weights_bytes` is resident once a replica; `request_bytes` is resident for each active request
    (for AR stages that is one sequence at its full context).
    """

    name: str
    capabilities: tuple[Capability, ...]
    batching: Batching
    weights_bytes: int = 0
    request_bytes: int = 0
    sticky: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One directed edge. `window_bytes` is the credit of one stream: how much may be under way.

    A single chunk larger than the window may travel alone. A stage takes part in a request only if
    all its `required` in-edges do.
    """

    name: str
    source: str
    target: str
    payload: Payload
    window_bytes: int = 1 << 18
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGraph:
    """A model as stages and edges. Edge order is the numbering used on the wire."""

    model: str
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError(f"graph {self.model}: stage names repeat: {names}")
        known = {*names, DOOR}
        for edge in self.edges:
            if edge.source not in known or edge.target not in known or edge.source == edge.target:
                raise ValueError(f"graph {self.model}: edge {edge.name} joins {edge.source} and {edge.target}")

    def stage(self, name: str) -> Stage:
        """The stage of this name; KeyError if the graph has none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)
