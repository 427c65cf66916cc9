# SPDX-License-Identifier: Apache-2.0
"""Programs whose functions are compiled again, for the remedies of that. What a program computes is in `results`.

A remedy that stands before each call is put before the lines that end in `# call`.
"""

from support.advice import Program

SIZES = "import torch\ntorch.manual_seed(0)\nresults = []\n"
MODULE = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.factor = torch.nn.Linear(4, 3), 2.5

    def forward(self, rows):
        result = self.layer(rows) * self.factor
        return result * 2 if self.training else result

net = Net()
compiled = torch.compile(net, backend="aot_eager")
"""


def sizes(title, source, would=None, **more):
    return Program("mark_dynamic", title, SIZES + source, would, **more)


def limit(title, source, would=None):
    start = (
        "import torch\nresults = []\npass  # thread\n" if "# thread" not in source else "import torch\nresults = []\n"
    )
    return Program("recompile_limit", title, start + source, would)


PROGRAMS = [
    sizes(
        "one input, the last batch is smaller",
        """
@torch.compile(backend="eager")
def score(rows):
    return torch.softmax(rows, -1)

for size in (8, 8, 5):
    rows = torch.randn(size, 3)
    results.append(score(rows))  # call
""",
    ),
    sizes(
        "two inputs whose sizes change together",
        """
@torch.compile(backend="eager")
def masked(x, mask):
    return x * mask

for size in (8, 5, 6):
    x, mask = torch.randn(size, 3), torch.ones(size, 3)
    results.append(masked(x, mask))  # call
""",
    ),
    sizes(
        "training with targets",
        """
layer = torch.nn.Linear(16, 4)

@torch.compile(backend="aot_eager")
def loss(rows, targets):
    return torch.nn.functional.mse_loss(layer(rows), targets)

for size in (8, 8, 5):
    rows, targets = torch.randn(size, 16), torch.randn(size, 4)
    loss(rows, targets).backward()  # call
results.append(layer.weight.grad)
""",
    ),
    sizes(
        "two axes of one input, and a method of a module",
        """
class Net(torch.nn.Module):
    def forward(self, image):
        return torch.nn.functional.avg_pool2d(image, 2)

net = torch.compile(Net(), backend="eager")
for height, width in ((8, 12), (10, 14), (16, 18)):
    image = torch.randn(2, 3, height, width)
    results.append(net(image))  # call
""",
    ),
    sizes(
        "as many rows as columns of a weight at first",
        """
layer = torch.nn.Linear(4, 3)

@torch.compile(backend="aot_eager")
def score(rows):
    return layer(rows)

for size in (4, 7, 9):
    rows = torch.randn(size, 4)
    with torch.no_grad():
        results.append(score(rows))  # call
""",
    ),
    sizes(
        "trained and evaluated by turns, with a smaller last batch",
        MODULE
        + """
for size in (8, 5):
    rows = torch.randn(size, 4)
    results.append(compiled(rows))  # call
    with torch.no_grad():
        results.append(compiled(rows))  # call
""",
    ),
    sizes(
        "an axis that becomes 1 later: one compilation of three is left out",
        """
@torch.compile(backend="eager")
def total(rows):
    return rows.sum(-1) + 1

for size in (8, 5, 1):
    rows = torch.randn(size, 3)
    results.append(total(rows))  # call
""",
    ),
    sizes(
        "a loop in Python over the axis",
        """
@torch.compile(backend="eager")
def total(rows):
    result = 0
    for index in range(rows.shape[0]):
        result = result + rows[index] * index
    return result

for size in (8, 5, 6):
    rows = torch.randn(size, 3)
    results.append(total(rows))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 0) before each call",
    ),
    sizes(
        "one row at last",
        """
@torch.compile(backend="eager")
def score(rows):
    return torch.softmax(rows, -1)

for size in (8, 1):
    rows = torch.randn(size, 3)
    results.append(score(rows))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 0) before each call",
    ),
    sizes(
        "one row at first",
        """
@torch.compile(backend="eager")
def score(rows):
    return torch.softmax(rows, -1)

for size in (1, 8, 5):
    rows = torch.randn(size, 3)
    results.append(score(rows))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 0) before each call",
    ),
    sizes(
        "an `if` on the size, with a branch for each",
        """
@torch.compile(backend="eager")
def halved(rows):
    if rows.shape[0] > 6:
        return rows[::2] * 2
    return rows.sum(0)

for size in (8, 5):
    rows = torch.randn(size, 3)
    results.append(halved(rows))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 0) before each call",
    ),
    sizes(
        "the module is in evaluation mode from the smaller batch on",
        MODULE
        + """
for size, training in ((8, True), (5, False)):
    rows = torch.randn(size, 4)
    net.train(training)
    results.append(compiled(rows))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 0) before each call",
    ),
    sizes(
        "an attribute changes with the size",
        MODULE
        + """
for size, factor in ((8, 2.5), (5, 3.5)):
    rows = torch.randn(size, 4)
    net.factor = factor
    results.append(compiled(rows))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 0) before each call",
    ),
    sizes(
        "another input has another data type with the smaller batch",
        """
@torch.compile(backend="eager")
def shifted(rows, shift):
    return rows + shift

for size, kind in ((8, torch.float32), (5, torch.float64)):
    rows, shift = torch.randn(size, 3), torch.ones(3, dtype=kind)
    results.append(shifted(rows, shift))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 0) before each call",
    ),
    sizes(
        "a parameter has the other size as well",
        """
@torch.compile(backend="eager")
def weighted(rows, weight):
    return rows @ weight

for size in (8, 5, 6):
    rows, weight = torch.randn(3, size), torch.nn.Parameter(torch.randn(size, 2))
    results.append(weighted(rows, weight))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 1); torch._dynamo.maybe_mark_dynamic(weight, 0) before each call",
    ),
    sizes(
        "a parameter alone",
        """
@torch.compile(backend="eager")
def doubled(weight):
    return weight * 2

for size in (8, 5, 6):
    weight = torch.nn.Parameter(torch.ones(size))
    results.append(doubled(weight))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(weight, 0) before each call",
    ),
    sizes(
        "`dynamic=False`, as the program wants it",
        """
@torch.compile(backend="eager", dynamic=False)
def score(rows):
    return torch.softmax(rows, -1)

for size in (8, 5):
    rows = torch.randn(size, 3)
    results.append(score(rows))  # call
""",
        "",
    ),
    sizes(
        "a function that another one calls, which runs eagerly",
        """
def doubled(inner):
    return inner * 2

@torch.compile(backend="eager")
def twice(rows):
    for _ in range(2):
        torch._dynamo.graph_break()
        rows = doubled(rows)
    return rows

for size in (8, 5):
    rows = torch.randn(size, 3)
    results.append(twice(rows))  # call
""",
        "",
    ),
    sizes(
        "what is left of a function after a graph break, with a size that it computed",
        """
@torch.compile(backend="eager")
def part(rows, keep):
    kept = rows[:keep]
    torch._dynamo.graph_break()
    return kept * 2

for size in (8, 5):
    rows = torch.randn(9, 3)
    results.append(part(rows, size))  # call
""",
        "",
    ),
    sizes(
        "attention with another block mask for each length",
        """
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

attend = torch.compile(flex_attention, backend="eager")
for step, length in enumerate((128, 128, 256)):
    def mask(batch, head, query, key, limit=torch.tensor(step + 3)):
        return (query >= key) & (query - key < limit)

    block_mask = create_block_mask(mask, None, None, length, length, device="cpu")
    query = torch.randn(1, 1, length, 16)
    with torch.no_grad():
        results.append(attend(query, query, query, block_mask=block_mask))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(query, 2) before each call",
        slow=True,
    ),
    sizes(
        "another backend for the smaller batch",
        """
def doubled(rows):
    return rows * 2

for size, backend in ((8, "eager"), (5, "aot_eager")):
    rows = torch.randn(size, 3)
    results.append(torch.compile(doubled, backend=backend)(rows))  # call
""",
        "torch._dynamo.maybe_mark_dynamic(rows, 0) before each call",
    ),
    limit(
        "a name in the arguments, another one in each call",
        """
@torch.compile(backend="eager")
def tagged(rows, name):
    return {name: rows + 1}

for number in range(9):
    results.append(tagged(torch.ones(2), f"user {number}"))
""",
    ),
    limit(
        "a thread that serves, while the main thread has raised its own limit",
        """
import threading

@torch.compile(backend="eager")
def tagged(rows, name):
    return {name: rows + 1}

def serve():
    pass  # thread
    for number in range(9):
        results.append(tagged(torch.ones(2), f"user {number}"))

torch._dynamo.config.recompile_limit = 64
thread = threading.Thread(target=serve)
thread.start()
thread.join()
""",
    ),
    limit(
        "layers that share the code of a method and differ in a text",
        """
class Scale(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, rows):
        return rows * float(self.factor)

@torch.compile(backend="eager")
def scaled(layer, rows):
    return layer(rows)

layers = [Scale(str(number)) for number in range(9)]
for layer in layers:
    results.append(scaled(layer, torch.ones(2)))
""",
    ),
    limit(
        "a limit that the program has chosen",
        """
@torch.compile(backend="eager")
def tagged(rows, name):
    return {name: rows + 1}

torch._dynamo.config.recompile_limit = 4
for number in range(9):
    results.append(tagged(torch.ones(2), f"user {number}"))
""",
        "",
    ),
    limit(
        "a limit of this function alone",
        """
@torch.compile(backend="eager", recompile_limit=4)
def tagged(rows, name):
    return {name: rows + 1}

for number in range(9):
    results.append(tagged(torch.ones(2), f"user {number}"))
""",
        "raise torch._dynamo.config.recompile_limit in the thread that compiles",
    ),
    limit(
        "a stance that runs eagerly what would be compiled again",
        """
@torch.compile(backend="eager")
def tagged(rows, name):
    return {name: rows + 1}

tagged(torch.ones(2), "first")
with torch.compiler.set_stance("eager_on_recompile"):
    for number in range(9):
        results.append(tagged(torch.ones(2), f"user {number}"))
""",
        "raise torch._dynamo.config.recompile_limit in the thread that compiles",
    ),
]
