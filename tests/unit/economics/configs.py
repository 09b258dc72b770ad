"""Configurations of published models (fields that count), and their numbers of parameters."""

from __future__ import annotations

from typing import Any


def _llama(hidden: int, layers: int, heads: int, kv: int, inner: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "tie_word_embeddings": False,
    }


_MISTRAL = _llama(4096, 32, 32, 8, 14336, 32000) | {"model_type": "mistral", "sliding_window": 4096}

CONFIGS: dict[str, dict[str, Any]] = {
    "Llama-2-7B": _llama(4096, 32, 32, 32, 11008, 32000),
    "Llama-3-8B": _llama(4096, 32, 32, 8, 14336, 128256),
    "Llama-3-70B": _llama(8192, 80, 64, 8, 28672, 128256),
    "Llama-3.1-405B": _llama(16384, 126, 128, 8, 53248, 128256),
    "Mistral-7B": _MISTRAL,
    "Mixtral-8x7B": _MISTRAL
    | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
    "GPT-2": {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
    },
    "GPT-NeoX-20B": _llama(6144, 44, 64, 64, 24576, 50432) | {"model_type": "gpt_neox"},
    "OPT-125M": {
        "model_type": "opt",
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "ffn_dim": 3072,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
    },
    "Qwen2-7B": _llama(3584, 28, 28, 4, 18944, 152064) | {"model_type": "qwen2"},
    "Qwen3-8B": _llama(4096, 36, 32, 8, 12288, 151936) | {"model_type": "qwen3", "head_dim": 128},
    "Qwen3-30B-A3B": _llama(2048, 48, 32, 4, 6144, 151936)
    | {
        "model_type": "qwen3_moe",
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
    },
    "Gemma-7B": _llama(3072, 28, 16, 16, 24576, 256000)
    | {"model_type": "gemma", "head_dim": 256, "tie_word_embeddings": True},
    "Gemma-2-9B": _llama(3584, 42, 16, 8, 14336, 256000)
    | {"model_type": "gemma2", "head_dim": 256, "tie_word_embeddings": True},
    "Phi-3-mini": _llama(3072, 32, 32, 32, 8192, 32064) | {"model_type": "phi3"},
    "DeepSeek-V3": _llama(7168, 61, 128, 128, 18432, 129280)
    | {
        "model_type": "deepseek_v3",
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3,
    },
}

# Exact numbers of the published weights. DeepSeek-V3 without the module that predicts several tokens.
PUBLISHED = {
    "Llama-2-7B": 6_738_415_616,
    "Llama-3-8B": 8_030_261_248,
    "Llama-3-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Mistral-7B": 7_241_732_096,
    "Mixtral-8x7B": 46_702_792_704,
    "GPT-2": 124_439_808,
    "GPT-NeoX-20B": 20_554_567_680,
    "OPT-125M": 125_239_296,
    "Qwen2-7B": 7_615_616_512,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Gemma-7B": 8_537_680_896,
    "Gemma-2-9B": 9_241_705_984,
    "Phi-3-mini": 3_821_079_552,
    "DeepSeek-V3": 671_026_419_200,
}
