# SPDX-License-Identifier: Apache-2.0
"""A program of its own: compiles a model of which one operator takes its converter as long as it is reported to.

Arguments: seconds in the converter, and `fork` to have it fork there. Says on stdout where it is.
"""

import os
import sys
import time
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    import torch_tensorrt
from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter
from torch_tensorrt.dynamo.conversion.impl.unary import exp

SECONDS, FORKS = float(sys.argv[1]), "fork" in sys.argv


class Slow(torch.nn.Module):
    def forward(self, x):
        return torch.special.i1e(torch.relu(x)) + 1


@dynamo_tensorrt_converter(torch.ops.aten.special_i1e.default)
def convert_slowly(ctx, target, args, kwargs, name):
    child = os.fork() if FORKS else None
    time.sleep(SECONDS)
    if child == 0:
        os._exit(0)
    if child is not None:
        os.waitpid(child, 0)
    return exp(ctx, target, None, name, args[0])


print("compiling", flush=True)
torch_tensorrt.compile(Slow().eval(), ir="dynamo", inputs=[torch.ones(2, 4)], min_block_size=1)
print("compiled", flush=True)
