# SPDX-License-Identifier: Apache-2.0
"""Models of the tests: real ones with random weights, small enough to build in a second or two."""

import warnings

import torch


def bert():
    """BERT with two layers, from transformers' own configuration. Takes ids of shape (batch, 16)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the library warns of while it is imported is its own
        from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    return BertModel(config).eval()


class ConvNet(torch.nn.Module):
    """Convolution, normalization, pooling, linear: everything has a converter. Takes (2, 3, 16, 16)."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8 * 64, 10)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.linear(x.flatten(1))


class Fallback(torch.nn.Module):
    """One operator in the middle has no converter. Takes (2, 3, 16, 16)."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        x = torch.special.i1e(torch.relu(self.conv(x)))
        return self.linear(x.mean((2, 3)))


class Block(torch.nn.Module):
    """A residual block, as in ResNet."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3, padding=1)
        self.relu = torch.nn.ReLU()

    def forward(self, x):
        return self.relu(self.conv(x) + x)


class Stages(torch.nn.Module):
    """Two stages of blocks, and between them an operator that has no converter. Takes (2, 3, 16, 16)."""

    def __init__(self):
        super().__init__()
        self.layer1 = torch.nn.Sequential(Block(), Block())
        self.layer2 = torch.nn.Sequential(Block(), Block())
        self.head = torch.nn.Linear(3, 4)

    def forward(self, x):
        x = self.layer2(torch.special.i1e(self.layer1(x)))
        return self.head(x.mean((2, 3)))


class Mlp(torch.nn.Module):
    """Two linear layers. Takes (batch, 16)."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Counter(torch.nn.Module):
    """Changes a buffer of its own. Takes (batch, 16)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return torch.relu(x) * self.calls


def image():
    return torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16)


def seeded(model_class):
    """The model with the same weights every time."""
    torch.manual_seed(0)
    return model_class().eval()


def raises(error):
    """A function that raises it, for a converter to run."""

    def body():
        raise error

    return body
