# SPDX-License-Identifier: Apache-2.0
"""`program.py PEER ORDER FOLDER`: the work, after setting up what ORDER names (`torchspan`, `peer`), in that order.

It prints the outcomes of the work. FOLDER gets `spans.jsonl`, and `asked.json`: what the other tool is asked for.
"""

import contextlib
import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import peers  # noqa: E402 - after the path


def instrument():
    """torchspan, as a program enables it."""
    import torchspan

    torchspan.instrument()


def set_provider(folder):
    """A provider of OpenTelemetry's SDK that keeps spans in the folder."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from spans_kept import Spans

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(Spans(folder / "spans.jsonl")))
    trace.set_tracer_provider(provider)


class Run:
    """The program: set up when it is made, and its work."""

    def __init__(self, name, order, folder):
        self._peer, self._folder = peers.PEERS[name], Path(folder)
        steps = order.split(",") if order else []
        self._has_peer = "peer" in steps
        if steps and not (self._has_peer and self._peer.sets_provider):
            set_provider(self._folder)
        for step in steps:
            if step == "torchspan":
                instrument()
            else:
                self._peer.set_up(self._folder)
        import torchspan.testing

        torchspan.testing.without_gpu()

    def work(self):
        """Do the work, and write what the tool is asked for. Returns the outcomes."""
        from work import work

        with self._peer.around(self._folder) if self._has_peer else contextlib.nullcontext():
            outcomes = work()
        if self._has_peer:
            asked = json.dumps(self._peer.finish(self._folder), sort_keys=True)
            (self._folder / "asked.json").write_text(asked, encoding="utf-8")
        return outcomes


if __name__ == "__main__":
    print(json.dumps(Run(*sys.argv[1:]).work()))
