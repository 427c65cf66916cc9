# SPDX-License-Identifier: Apache-2.0
"""Inductor's compile workers, started below one compilation and kept for the next. Prints what a job sees there as JSON."""

import json
import os
import threading

from opentelemetry import trace


def look():
    """In a worker: its process, threads of torchspan's, the current span, and a context for its own children."""
    return {
        "pid": os.getpid(),
        "threads": [each.name for each in threading.enumerate() if each.name.startswith("torchspan")],
        "span": trace.get_current_span().get_span_context().span_id,
        "variables": [name for name in ("TRACEPARENT", "TRACESTATE", "BAGGAGE") if name in os.environ],
    }


def main():
    import torch
    from compiling import look  # by the name under which a worker finds it
    from torch._inductor.compile_worker.subproc_pool import SubprocPool

    tracer = trace.get_tracer("user")
    with tracer.start_as_current_span("first compilation"):
        pool = SubprocPool(1)
        reported = [pool.submit(look).result()]

    def backend(module, _inputs):
        reported.append(pool.submit(look).result())
        return module.forward

    with tracer.start_as_current_span("second compilation"):
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1))
    pool.shutdown()
    print(json.dumps(reported))


if __name__ == "__main__":
    main()
