# SPDX-License-Identifier: Apache-2.0
"""A program without a provider whose forked child compiles. Prints the threads that the child has started, as JSON."""

import json
import multiprocessing
import threading

import torchspan
from support.bridge import compiles

started = []
start = threading.Thread.start


def noting(self):
    started.append(self.name)
    start(self)


class Child(multiprocessing.get_context("fork").Process):
    """Says what it has started when all is over: what is wrapped around `_bootstrap` has run by then."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def run(self):
        compiles("Child")

    def _bootstrap(self, *args, **kwargs):
        threading.Thread.start = noting
        try:
            return super()._bootstrap(*args, **kwargs)
        finally:
            self.answers.send(started)


if __name__ == "__main__":
    torchspan.instrument()
    torchspans, theirs = multiprocessing.Pipe(duplex=False)
    child = Child(theirs)
    child.start()
    child.join()
    print(json.dumps(torchspans.recv()))
