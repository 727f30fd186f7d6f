"""Speeds and machines for the planner's tests.

In: nothing. Out: figures of a machine with two cores, round so that expected plans can be worked out by hand.
"""

from accord.models import embedded
from accord.terms.estimate import Estimate, Source
from accord.terms.machine import Machine
from accord.terms.speed import Cost, Model, Quantity, StageSpeed

GIB = 1 << 30
LAPTOP = Machine(cores=2, memory_bytes=16 * GIB, cpu_model="a laptop")
MODEL: Model = embedded.model()


def speed(stage: str, threads: int, *costs: tuple[Quantity, float, float]) -> StageSpeed:
    """A measured speed from (quantity, seconds alone, seconds in full batches)."""
    return StageSpeed(
        stage=stage,
        threads=threads,
        costs=tuple(Cost(quantity=quantity, alone_s=alone, shared_s=shared) for quantity, alone, shared in costs),
        work=Estimate(value=costs[0][1] * 1e3, unit="ms", source=Source.MEASURED, uncertainty=0.1),
    )


SPEEDS = (
    speed("recognizer", 1, (Quantity.AUDIO_IN_S, 0.020, 0.020)),
    speed("recognizer", 2, (Quantity.AUDIO_IN_S, 0.015, 0.015)),
    speed("vision", 1, (Quantity.PICTURE, 1.0, 1.0)),
    speed("vision", 2, (Quantity.PICTURE, 0.6, 0.6)),
    speed("language", 1, (Quantity.PROMPT_TOKEN, 0.0025, 0.0025), (Quantity.OUTPUT_TOKEN, 0.020, 0.006)),
    speed("language", 2, (Quantity.PROMPT_TOKEN, 0.0016, 0.0016), (Quantity.OUTPUT_TOKEN, 0.014, 0.003)),
    speed("acoustic", 1, (Quantity.AUDIO_OUT_S, 0.040, 0.040)),
    speed("vocoder", 1, (Quantity.AUDIO_OUT_S, 0.010, 0.010)),
)
