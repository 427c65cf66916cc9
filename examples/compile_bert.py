# SPDX-License-Identifier: Apache-2.0
"""Compiles a small BERT with random weights and runs it."""

import torch
import torch_tensorrt
import transformers

torch.manual_seed(0)
config = transformers.BertConfig(
    vocab_size=1000,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    attn_implementation="eager",
)
model = transformers.BertModel(config).eval().cuda()
ids = torch.arange(16, device="cuda").unsqueeze(0)
mask = torch.ones_like(ids)

with torch.no_grad():
    program = torch_tensorrt.dynamo.trace(model, arg_inputs=(ids, mask))
    compiled = torch_tensorrt.dynamo.compile(program, arg_inputs=(ids, mask), min_block_size=1)
    hidden = compiled(ids, mask)["last_hidden_state"]

print(f"BERT returns {tuple(hidden.shape)}")
