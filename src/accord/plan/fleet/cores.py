"""CPU cores beside devices: one a device for the engine's process, and what it takes to read inputs for it.

In: an `Architecture`, a `Demand`, an intent, a stage. Out: core seconds a request. Invariant: cores are asked for where
the stage that reads the input stands, so that no device waits for its pictures.
"""

from accord.plan.fleet.demand import AUDIO_FRAMES_PER_S, IMAGE, Demand
from accord.terms.architecture import Architecture, Unit
from accord.terms.graph import DOOR
from accord.terms.intent import Intent

# Measured on one core of an AMD EPYC with Pillow 13 and NumPy 2.4: a JPEG of a million pixels decoded, resized
# (bicubic) and normalized takes 37 ms; log-mel features of a second of sound (16 kHz) take 0.44 ms.
PIXEL_CORE_S = 37e-9
AUDIO_CORE_S = 0.44e-3
BUSY_MAX = 0.7  # of cores: above it, pictures queue
PROCESS_CORES = 1.0  # for each device: the engine's own process
_COLOUR_BYTES = 6  # of a pixel in a patch: three colours of two bytes
_PICTURE_PIXELS = 1e6  # where the intent doesn't say


def input_core_s(architecture: Architecture, demand: Demand, intent: Intent, stage: str) -> float:
    """Core seconds that one request of a stage takes before the stage can read it."""
    total = 0.0
    for edge, flow in zip(architecture.graph.edges, architecture.flows, strict=True):
        if edge.source != DOOR or edge.target != stage:
            continue
        if flow.unit is Unit.PATCH:
            total += _pixels(demand, intent, stage, flow.unit_bytes) * PIXEL_CORE_S
        elif flow.unit is Unit.FRAME and stage != demand.writer:
            total += demand.of(stage).units.mean / AUDIO_FRAMES_PER_S * AUDIO_CORE_S
    return total


def _pixels(demand: Demand, intent: Intent, stage: str, patch_bytes: int) -> float:
    if stage != demand.writer:
        return demand.of(stage).units.mean * patch_bytes / _COLOUR_BYTES
    # A model without a vision tower reads patches among its tokens.
    size, share = intent.workload.input_image, dict(intent.workload.inputs).get(IMAGE, 0.0)
    return share * (_PICTURE_PIXELS if size is None else size.width * size.height)
