# SPDX-License-Identifier: Apache-2.0
"""The model that the benchmarks of compilations compile."""

import logging
import warnings


def compiler():
    """A function that compiles a BERT of two layers once; without a GPU the stand-in for one is enabled first."""
    import torch

    import torchspan.testing

    if not torch.cuda.is_available():
        torchspan.testing.without_gpu()
    # The libraries recommend packages to install and comment on BERT's constants, in each compilation.
    logging.getLogger("torch_tensorrt").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    import torch_tensorrt
    import transformers

    logging.getLogger("py.warnings").setLevel(logging.ERROR)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        attn_implementation="eager",
    )  # fmt: skip
    model = transformers.BertModel(config).eval().cuda()
    inputs = (torch.arange(16, device="cuda").unsqueeze(0), torch.ones(1, 16, dtype=torch.int64, device="cuda"))

    def compile_once():
        with torch.no_grad():
            program = torch_tensorrt.dynamo.trace(model, arg_inputs=inputs)
            torch_tensorrt.dynamo.compile(program, arg_inputs=inputs, min_block_size=1)

    return compile_once
