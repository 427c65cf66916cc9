# SPDX-License-Identifier: Apache-2.0
"""A program that compiles, starts processes that compile, and compiles again; prints what it saw as JSON.

Its arguments: the start method, and `flushed` to export what the parent has recorded before it starts any.
"""

import json
import multiprocessing
import sys
import threading

from opentelemetry import metrics, trace

from support.bridge import compiles


def names():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("torchspan"))


def child(answers):
    at_start = names()
    compiles("Child", 2)
    answers.put(at_start)


def idle(answers):
    """What most workers are: nothing of torchspan's happens in them."""
    answers.put(names())


def main(method, *options):
    starts = multiprocessing.get_context(method)
    compiles("Parent", 3)
    if "flushed" in options:
        trace.get_tracer_provider().force_flush()
        metrics.get_meter_provider().force_flush()
    answers = starts.SimpleQueue()
    reported = {"parent": names(), "children": [], "exits": []}
    with trace.get_tracer("user").start_as_current_span("request"):
        processes = [starts.Process(target=target, args=(answers,)) for target in (child, idle)]
        for each in processes:
            each.start()
        reported["children"] = [answers.get() for _ in processes]
        for each in processes:
            each.join()
            reported["exits"].append(each.exitcode)
    compiles("Parent")
    print(json.dumps(reported))


if __name__ == "__main__":
    main(*sys.argv[1:])
