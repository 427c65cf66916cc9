# SPDX-License-Identifier: Apache-2.0
"""torch.compile: guards, graph breaks, options, and what runs while Dynamo traces."""

import contextlib
import logging
import threading
import warnings

import torch
import torch_tensorrt  # noqa: F401 - the backend

X = torch.ones(2, 4)
ONE = {"min_block_size": 1}


def plant(place):
    """One compilation of each kind; the others fail before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (_guards, _declarations, _limit, _inductor, _workers, _threads, _options, _failures):
            with place.part(part.__name__):
                part(place)
    torch._dynamo.reset()


def _compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, **{"backend": "tensorrt", "options": ONE, **options})


def _guards(place):
    message, text = place("dynamo.graph_break.message"), place("dynamo.guard.string")
    scope = {place("dynamo.guard.global"): text}

    def breaks(x, prompt):
        if prompt == text and next(iter(scope)) in scope:
            x = torch.relu(x) * 2
        torch._dynamo.graph_break(msg=message)
        return torch.special.i1e(x) + len(prompt)

    compiled = _compiled(breaks)
    compiled(X, text)
    compiled(X, "other")
    compiled(X, "third")
    sized = _compiled(lambda x: x * 2, backend="eager", options=None)
    sized(X)
    sized(torch.ones(3, 4))
    with place.raises("dynamo.fullgraph.message"):
        full = place("dynamo.fullgraph.message")

        def whole(x):
            torch._dynamo.graph_break(msg=full)
            return torch.relu(x)

        _compiled(whole, fullgraph=True)(X)
    with place.raises("dynamo.unsupported.name"):
        name = place("dynamo.unsupported.name")
        _compiled(lambda x: getattr(x, name)(), fullgraph=True)(X)


def _limit(_place):
    with torch._dynamo.config.patch(recompile_limit=1):
        compiled = _compiled(lambda x, number: x + number, dynamic=False)
        compiled(X, 17)
        compiled(X, 18)


def _named(name, result):
    """A function of this name that returns `result`."""
    scope = {"__name__": __name__}
    exec(f"def {name}(x):\n    return {result}", scope)
    return scope[name]


def _inductor(place):
    """Graphs without a kernel that a compiler of C++ would compile. The caches do not accept the last two."""
    kept = torch.compiler.allow_in_graph(_named(place("dynamo.cache.function"), "x @ x.T"))
    with _unseen_debug_log("torch._functorch._aot_autograd.autograd_cache"):  # the parts of the key are reported then
        _compiled(lambda x: x @ x.T, backend="inductor", options=None)(X)
    _compiled(lambda x: kept(x) @ x, backend="inductor", options=None)(X)
    with torch._inductor.config.patch(post_grad_custom_pre_pass=lambda _graph: None):
        _compiled(lambda x: (x @ x.T) @ x, backend="inductor", options=None)(X)


@contextlib.contextmanager
def _unseen_debug_log(name):
    logger, handler = logging.getLogger(name), logging.NullHandler()
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        logger.removeHandler(handler)


def _workers(_place):
    """A backend that hands work to one of Inductor's threads."""
    from torch._inductor.async_compile import AsyncCompile

    def backend(module, _inputs):
        AsyncCompile.submit(lambda: None).result()
        return module.forward

    with torch._inductor.config.patch(compile_threads=2):
        _compiled(lambda x: x - 1, backend=backend, options=None)(X)


def _threads(_place):
    """One waits until another one has compiled."""
    waiting = threading.Thread(target=lambda: torch.compile(lambda x: x + 3, backend="eager")(X))

    def backend(module, _inputs):
        waiting.start()
        waiting.join(0.2)
        return module.forward

    _compiled(lambda x: x + 2, backend=backend, options=None)(X)
    waiting.join()


def _declarations(place):
    disabled = _named(place("dynamo.disabled.function"), "x + 1")
    apart = torch.compiler.disable(disabled, reason=place("dynamo.disabled.reason"))
    kept = torch.compiler.allow_in_graph(_named(place("dynamo.allowed.function"), "x + 1"))
    message = place("dynamo.skip_frame.message")

    def skips(x):
        torch._dynamo.skip_frame(msg=message)
        return torch.relu(x)

    with torch.compiler.set_stance("eager_then_compile"):
        compiled = _compiled(lambda x: torch.relu(kept(apart(x))), backend="eager", options=None)
        compiled(X)
        compiled(torch.ones(3, 4))
    _compiled(skips, backend="eager", options=None)(X)


def _options(place):
    with contextlib.suppress(Exception):
        _compiled(torch.relu, options={place("dynamo.option.name"): place("dynamo.option.value")})(X)
    with place.raises("dynamo.backend.name"):
        _compiled(torch.relu, backend=place("dynamo.backend.name"), options=None)(X)
    with place.raises("dynamo.mode"):
        _compiled(torch.relu, backend="inductor", mode=place("dynamo.mode"), options=None)(X)


def _failures(place):
    check, raised, hooked, function = (
        place(f"dynamo.{each}") for each in ("check.message", "forward.raises", "hook.raises", "torch_function.raises")
    )

    def checks(x):
        torch._check(x.shape[0] > 9, lambda: check)
        return torch.relu(x)

    class Raises(torch.nn.Module):
        def forward(self, x):
            raise ValueError(raised)

    class Hooked(torch.nn.ReLU):
        pass

    def hook(*_args):
        raise ValueError(hooked)

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise ValueError(function)

    with_hook = Hooked()
    with_hook.register_forward_pre_hook(hook)
    for name, call, given in (
        ("dynamo.check.message", checks, X),
        ("dynamo.forward.raises", Raises(), X),
        ("dynamo.hook.raises", with_hook, X),
        ("dynamo.torch_function.raises", torch.relu, X.as_subclass(Own)),
    ):
        with place.raises(name):
            _compiled(call)(given)
