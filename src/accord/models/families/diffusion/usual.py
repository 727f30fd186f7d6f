"""What a request asks of each pipeline where it doesn't say.

In: nothing. Out: `USUAL`, by the pipeline's class name. The figures are the defaults of the `__call__` of each class
in diffusers 0.40; prompts are as long as the pipeline pads them to.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_NEGATIVE = "two passes a step with a negative prompt (classifier-free guidance)"
_SCALE = "two passes a step with guidance on, as is usual (classifier-free guidance)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """`prompt` is what the denoiser sees, `encoded` what one encoder reads at most.

    `pooled` names encoders of which one vector is used; `guided` says in words when a step takes two passes.
    """

    height: int = 1024
    width: int = 1024
    frames: int = 1
    steps: int = 50
    prompt: int = 512
    encoded: int = 512
    pooled: tuple[str, ...] = ()
    guided: str | None = None


USUAL: Mapping[str, Usual] = {
    # Qwen-Image doesn't pad prompts; 128 tokens are a long paragraph.
    "QwenImagePipeline": Usual(prompt=128, encoded=128, guided=_NEGATIVE),
    "FluxPipeline": Usual(steps=28, pooled=("text_encoder",)),
    # 77 tokens of CLIP's and 256 of T5's, one after another.
    "StableDiffusion3Pipeline": Usual(steps=28, prompt=333, encoded=256, guided=_SCALE),
    "ZImagePipeline": Usual(prompt=128, encoded=128, guided=_SCALE),
    "WanPipeline": Usual(height=480, width=832, frames=81, guided=_SCALE),
    "CosmosTextToWorldPipeline": Usual(height=704, width=1280, frames=121, steps=36, guided=_SCALE),
    "CosmosVideoToWorldPipeline": Usual(height=704, width=1280, frames=121, steps=36, guided=_SCALE),
    "Cosmos2TextToImagePipeline": Usual(height=768, width=1360, steps=35, guided=_SCALE),
    # Prompts are written out at length before they get here; what is usual is a guess.
    "Cosmos3OmniPipeline": Usual(height=720, width=1280, frames=189, steps=35, prompt=1024, guided=_SCALE),
    "Cosmos2VideoToWorldPipeline": Usual(height=704, width=1280, frames=93, steps=35, guided=_SCALE),
}
