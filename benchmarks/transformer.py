# SPDX-License-Identifier: Apache-2.0
"""The model that the benchmark of torch.compile compiles."""


def compiler():
    """A function that compiles a transformer of six blocks once, forward and backward, by AOTAutograd."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    block = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(block, 6, enable_nested_tensor=False)
    inputs = torch.rand(2, 8, 32)

    def compile_once():
        torch._dynamo.reset()
        torch.compile(model, backend="aot_eager")(inputs).sum().backward()

    return compile_once
