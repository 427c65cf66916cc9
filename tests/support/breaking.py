# SPDX-License-Identifier: Apache-2.0
"""Functions whose graphs break, fail or are refused. The tests name lines of this file: what is added comes last."""

import copy
import json
import os
import sys
import time

import torch


def reads_a_clock(x):
    return x * time.perf_counter()


def counts_references(x):
    y = x + 1
    sys.getrefcount(y)
    return y * 2


def copies_deeply(x):
    y = copy.deepcopy(x)
    return y * 2


def encodes(x):
    return x * len(json.dumps({"a": 1}))


def sets_a_variable(x):
    os.environ["SET_WHILE_COMPILED"] = "1"
    return x * 2


def makes_a_generator(x):
    generator = torch.Generator()
    return x + torch.randn(3, generator=generator)


def makes_a_parameter(x):
    return torch.nn.Parameter(x.detach() * 2) + x


def sorts_by_tensors(x):
    return sorted([x, x + 1], key=torch.sum)[0]


LSTM = torch.nn.LSTM(3, 3)


def runs_an_lstm(x):
    return LSTM(x * 2)[0]


def prints_deeper(x):
    return _prints(x) * 2


def _prints(x):
    print("ulterior secret of the program")
    return x + 1


def misfits_deeper(x):
    y = x + 1
    return y @ torch.ones(5, 5)


def chunks(x):
    yield x + 1
    yield x + 2


class Rope(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cos", torch.ones(16, 4))

    def forward(self, q):
        q = q * self.cos[: q.shape[1]]
        return q + q.new_ones(2, 16, 4)


def refuses(graph, _inputs):
    raise NotImplementedError("no kernels for " + str(len(graph.graph.nodes)))


def refuses_in_a_library(_graph, _inputs):
    return json.loads("no ulterior secret")
