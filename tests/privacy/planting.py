# SPDX-License-Identifier: Apache-2.0
"""How the canary program plants: it asks for the canary of a place by the place's name, and says what it did."""

import contextlib
import json
import secrets
import traceback
from pathlib import Path

from opentelemetry import context, trace

from privacy import places
from torchspan.observers import observable


class Planting:
    """The places that a program has planted, and what went otherwise than it meant to.

    folder: where the program leaves what the test reads.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.planted, self.quoted, self.problems = {}, [], []

    def __call__(self, name):
        """The canary of a place, which counts as planted from now on."""
        self.planted[name] = True
        return places.canary(name).text

    @contextlib.contextmanager
    def trace(self):
        """A trace of its own: a trace has fifty spans of observed functions, and two thousand in all."""
        parent = trace.SpanContext(
            secrets.randbits(128), secrets.randbits(64), is_remote=True, trace_flags=trace.TraceFlags(1)
        )
        token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
        try:
            yield
        finally:
            context.detach(token)

    def call(self, function, *args, **kwargs):
        """Call it as an observed function, in a trace of its own; each has ten spans a second."""
        with self.trace():
            return observable(function)(*args, **kwargs)

    @contextlib.contextmanager
    def raises(self, *names):
        """The block raises, because of what is planted in these places; that it does is checked, and which text it quotes."""
        try:
            with self.trace():
                yield
        except (Exception, SystemExit) as error:
            said = "".join(traceback.format_exception(error)).lower()
            self.quoted += [name for name in names if places.canary(name).surname in said]
        else:
            self.problems.append(f"nothing was raised for {', '.join(names)}")

    @contextlib.contextmanager
    def part(self, name):
        """A part of the program; where it fails, the others continue, and the test reports it."""
        try:
            yield
        except BaseException:
            self.problems.append(f"{name}: {traceback.format_exc()}")

    def finish(self, **more):
        """Leave for the test what was planted."""
        found = {"planted": list(self.planted), "quoted": self.quoted, "problems": self.problems, **more}
        (self.folder / "planted.json").write_text(json.dumps(found), encoding="utf-8")
