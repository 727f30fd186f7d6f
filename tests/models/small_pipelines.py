"""Shrunk pipelines: cards with the ratios of real ones, small enough to run on the CPU."""

from accord.models.card import Json

_T5: dict[str, Json] = {
    "model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 48, "d_ff": 80, "d_kv": 12, "num_heads": 4,
    "num_layers": 3, "feed_forward_proj": "gated-gelu", "vocab_size": 96,
}  # fmt: skip
_CLIP: dict[str, Json] = {
    "model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 48, "intermediate_size": 96,
    "num_attention_heads": 4, "num_hidden_layers": 3, "projection_dim": 40, "vocab_size": 96, "bos_token_id": 0,
    "eos_token_id": 1, "pad_token_id": 1,
}  # fmt: skip
_QWEN: dict[str, Json] = {
    "model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "tie_word_embeddings": False,
    "text_config": {"model_type": "qwen2_5_vl_text", "hidden_size": 64, "intermediate_size": 96,
                    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96,
                    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}},
    "vision_config": {"depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "out_hidden_size": 64,
                      "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112,
                      "fullatt_block_indexes": [1]},
}  # fmt: skip
_KL: dict[str, Json] = {
    "_class_name": "AutoencoderKL", "block_out_channels": [8, 16, 16], "layers_per_block": 2, "latent_channels": 4,
    "down_block_types": ["DownEncoderBlock2D"] * 3, "up_block_types": ["UpDecoderBlock2D"] * 3, "norm_num_groups": 4,
}  # fmt: skip
WAN_VAE: dict[str, Json] = {"_class_name": "AutoencoderKLWan", "base_dim": 8, "z_dim": 4, "num_res_blocks": 1}
SMALL: dict[str, dict[str, Json]] = {
    "qwen-image": {
        "_class_name": "QwenImagePipeline",
        "height": 64, "width": 96,
        "text_encoder": _QWEN,
        "transformer": {"_class_name": "QwenImageTransformer2DModel", "in_channels": 16, "out_channels": 4,
                        "num_layers": 2, "attention_head_dim": 16, "num_attention_heads": 3,
                        "joint_attention_dim": 64, "axes_dims_rope": [8, 4, 4]},
        "vae": {**WAN_VAE, "_class_name": "AutoencoderKLQwenImage"},
    },
    "flux": {
        "_class_name": "FluxPipeline",
        "height": 32, "width": 48,
        "text_encoder": _CLIP,
        "text_encoder_2": _T5,
        "transformer": {"_class_name": "FluxTransformer2DModel", "in_channels": 16, "num_layers": 2,
                        "num_single_layers": 3, "attention_head_dim": 16, "num_attention_heads": 3,
                        "joint_attention_dim": 48, "pooled_projection_dim": 48, "guidance_embeds": True,
                        "axes_dims_rope": [8, 4, 4]},
        "vae": _KL,
    },
    "sd3": {
        "_class_name": "StableDiffusion3Pipeline",
        "height": 32, "width": 48,
        "text_encoder": {**_CLIP, "architectures": ["CLIPTextModelWithProjection"]},
        "text_encoder_2": {**_T5, "feed_forward_proj": "relu"},
        "transformer": {"_class_name": "SD3Transformer2DModel", "in_channels": 4, "out_channels": 4, "num_layers": 3,
                        "attention_head_dim": 12, "num_attention_heads": 4, "joint_attention_dim": 48,
                        "caption_projection_dim": 48, "pooled_projection_dim": 40, "pos_embed_max_size": 16,
                        "sample_size": 16, "dual_attention_layers": [0, 1], "qk_norm": "rms_norm"},
        "vae": {**_KL, "use_quant_conv": False, "use_post_quant_conv": False},
    },
    "wan": {
        "_class_name": "WanPipeline",
        "height": 64, "width": 96, "num_frames": 9,
        "text_encoder": {**_T5, "model_type": "umt5", "architectures": ["UMT5EncoderModel"]},
        "transformer": {"_class_name": "WanTransformer3DModel", "in_channels": 4, "out_channels": 4, "num_layers": 2,
                        "num_attention_heads": 3, "attention_head_dim": 24, "ffn_dim": 100, "text_dim": 48,
                        "freq_dim": 32},
        "vae": WAN_VAE,
    },
    "wan 2.2 small": {
        "_class_name": "WanPipeline",
        "height": 64, "width": 96, "num_frames": 9, "expand_timesteps": True,
        "transformer": {"_class_name": "WanTransformer3DModel", "in_channels": 4, "out_channels": 4, "num_layers": 2,
                        "num_attention_heads": 3, "attention_head_dim": 24, "ffn_dim": 100, "text_dim": 48,
                        "freq_dim": 32},
        "vae": {**WAN_VAE, "base_dim": 4, "decoder_base_dim": 8, "is_residual": True, "patch_size": 2,
                "in_channels": 12, "out_channels": 12},
    },
    "cosmos": {
        "_class_name": "CosmosTextToWorldPipeline",
        "height": 64, "width": 96, "num_frames": 17,
        "transformer": {"_class_name": "CosmosTransformer3DModel", "in_channels": 4, "out_channels": 4,
                        "num_layers": 2, "num_attention_heads": 3, "attention_head_dim": 24, "text_embed_dim": 48,
                        "adaln_lora_dim": 8, "max_size": [8, 32, 32], "concat_padding_mask": False},
        "vae": {"_class_name": "AutoencoderKLCosmos", "latent_channels": 4,
                "encoder_block_out_channels": [16, 32, 32, 32], "decode_block_out_channels": [32, 32, 32, 32],
                "num_layers": 1, "patch_type": "rearrange"},
    },
    "z-image": {
        "_class_name": "ZImagePipeline",
        "height": 64, "width": 64, "guidance_scale": 0.0,
        "text_encoder": {"model_type": "qwen3", "architectures": ["Qwen3Model"], "hidden_size": 48,
                         "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 96, "tie_word_embeddings": True},
        "transformer": {"_class_name": "ZImageTransformer2DModel", "in_channels": 4, "dim": 48, "n_layers": 3,
                        "n_refiner_layers": 2, "n_heads": 3, "n_kv_heads": 3, "cap_feat_dim": 48,
                        "axes_dims": [4, 6, 6], "axes_lens": [64, 64, 64]},
        "vae": {**_KL, "use_quant_conv": False, "use_post_quant_conv": False},
    },
    "cosmos 3": {
        "_class_name": "Cosmos3OmniPipeline",
        "height": 40, "width": 96, "num_frames": 9,
        "transformer": {"_class_name": "Cosmos3OmniTransformer", "head_dim": 16, "hidden_size": 48,
                        "intermediate_size": 80, "latent_channel": 4, "latent_patch_size": 2, "patch_latent_dim": 16,
                        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 96,
                        "rope_axes_dim": [4, 2, 2], "action_gen": True, "action_dim": 6, "num_embodiment_domains": 5,
                        "sound_gen": True, "sound_dim": 7},
        "vae": WAN_VAE,
    },
}  # fmt: skip
