# SPDX-License-Identifier: Apache-2.0
"""Which probes fire: recorded in the wrappers themselves, and for rows that only watch, below them."""

from torchspan import adapters
from torchspan._base.patching import Patches
from torchspan.adapters import export, tensorrt, torch_tensorrt
from torchspan.probes import Watch


class Fired:
    """The targets of the probes that were called, while the bridge is enabled under it."""

    def __init__(self, monkeypatch):
        self.targets = set()
        self._monkeypatch = monkeypatch

    def record(self):
        """From now on, every wrapper that is made says when it is called.

        Not those that leave the calls of another library to its rows: they look at who calls, which would be us.
        """
        for adapter in (torch_tensorrt, export, tensorrt):
            self._monkeypatch.setattr(adapter, "apply_probes", self._recording_probes(adapter.apply_probes))

    def _recording_probes(self, apply_probes):
        def apply_recording(engine, patches, probes, wrap):
            apply_probes(engine, patches, probes, self._recording(wrap))

        return apply_recording

    def _recording(self, maker):
        def make(probe, original):
            wrapper = maker(probe, original)
            if getattr(probe.action, "excluded_callers", ()):
                return wrapper

            def recorded(*args, **kwargs):
                self.targets.add(probe.target)
                return wrapper(*args, **kwargs)

            recorded.__wrapped__ = wrapper
            return recorded

        return make

    def watch(self):
        """Record the rows whose action is WATCH; returns the undo."""
        patches, functions = Patches("torch_tensorrt"), []
        for each in adapters.resolve_probes():
            if not isinstance(each.probe.action, Watch) or each.status != "resolved":
                continue
            if not callable(each.original):  # the official observer
                each.original.add(lambda _context, target=each.probe.target: self.targets.add(target))
                continue
            make = self._recording(lambda _probe, original: original)
            if len(each.probe.target.path) > 1:
                patches.replace_attribute(each.holder, each.name, lambda original, p=each.probe, m=make: m(p, original))
            else:
                functions.append((each.original, make(each.probe, each.original)))
        patches.replace_functions(functions)
        return patches.undo
