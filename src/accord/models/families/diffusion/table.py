"""Models that denoise pictures and clips, and world models: their rows of the table of families.

In: nothing. Out: `FAMILIES`. Invariant: a family's code is imported when its row is loaded.
"""

from accord.models.families.family import Build, Family


def _diffusion() -> Build:
    from accord.models.families.diffusion.pipelines import build

    return build


def _cosmos_ar() -> Build:
    from accord.models.families.diffusion.cosmos_ar import build

    return build


FAMILIES: tuple[Family, ...] = (
    Family(
        name="diffusion",
        words="text encoders, a denoiser run step by step, a VAE: pictures, clips and worlds",
        model_types=(
            "QwenImagePipeline",
            "FluxPipeline",
            "StableDiffusion3Pipeline",
            "ZImagePipeline",
            "WanPipeline",
            "CosmosTextToWorldPipeline",
            "CosmosVideoToWorldPipeline",
            "Cosmos2TextToImagePipeline",
            "Cosmos2VideoToWorldPipeline",
            "Cosmos3OmniPipeline",
        ),
        load=_diffusion,
    ),
    Family(
        name="cosmos-ar",
        words="Cosmos's autoregressive world models: a decoder over a video's tokens",
        model_types=("cosmos_ar",),
        load=_cosmos_ar,
    ),
)
