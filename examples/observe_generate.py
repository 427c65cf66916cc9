# SPDX-License-Identifier: Apache-2.0
"""Observes what `generate()` calls a small Llama with, exports the model for these sizes, and compiles it."""

import torch
import torch_tensorrt
import transformers

from torchspan.inputs import InputObserver

torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=128,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=2,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
    attn_implementation="eager",
)
model = transformers.LlamaForCausalLM(config).eval().cuda()


def prompts(rows, tokens):
    return torch.randint(2, 128, (rows, tokens), device="cuda")


observer = InputObserver()
with observer(model):
    for rows, tokens in ((2, 5), (3, 6), (3, 6)):
        model.generate(prompts(rows, tokens), max_new_tokens=4, do_sample=False, use_cache=False)

# generate() passes these two as constants, and requests the last token's logits alone. The program returns all logits.
observer.remove_inputs(["logits_to_keep", "return_dict"])
profile = observer.infer_profile()
print(f"{profile.calls} calls, {profile.calls_at_opt} of them with the opt shapes")
for tensor in profile:
    print(tensor.name, tensor.min_shape, tensor.opt_shape, tensor.max_shape)

with torch.no_grad():
    exported = observer.export(model, profile)
    print(f"{len(exported.findings)} findings")
    compiled = torch_tensorrt.dynamo.compile(exported.program, **exported.to_torch_tensorrt(), min_block_size=1)
    for rows, tokens in ((2, 5), (3, 9)):
        ids = prompts(rows, tokens)
        positions = torch.arange(tokens, device="cuda").expand(rows, tokens)
        arguments = {"input_ids": ids, "position_ids": positions, "use_cache": False}
        difference = (compiled(**arguments).logits - model(**arguments).logits).abs().max()
        print(f"{rows} x {tokens} tokens: differs by less than 0.001: {bool(difference < 1e-3)}")
