"""The denoisers that are known: a written-out table, by diffusers' class names.

In: a pipeline's nested `transformer` mapping. Out: `Denoiser`. BadInput for a class that isn't there.
"""

from collections.abc import Callable, Mapping

from accord.models.card import Card
from accord.models.families.diffusion.cosmos3 import cosmos3
from accord.models.families.diffusion.image_denoisers import flux, qwen_image, sd3, z_image
from accord.models.families.diffusion.video_denoisers import cosmos, wan
from accord.models.parts.diffusion import Denoiser
from accord.terms.work import Per


def denoiser(card: Card, *, per_position: bool = False) -> Denoiser:
    """The denoiser of one `transformer` mapping. `per_position`: each position has its own time step."""
    kind = card.choice("_class_name", tuple(DENOISERS))
    card.skip("_diffusers_version")
    if not per_position:
        return DENOISERS[kind](card)
    if kind != "WanTransformer3DModel":
        card.wrong("_class_name", problem="has one time step for all positions", fix="leave out expand_timesteps")
    return wan(card, per=Per.UNIT)


DENOISERS: Mapping[str, Callable[[Card], Denoiser]] = {
    "QwenImageTransformer2DModel": qwen_image,
    "FluxTransformer2DModel": flux,
    "SD3Transformer2DModel": sd3,
    "ZImageTransformer2DModel": z_image,
    "WanTransformer3DModel": wan,
    "CosmosTransformer3DModel": cosmos,
    "Cosmos3OmniTransformer": cosmos3,
}
