# SPDX-License-Identifier: Apache-2.0
"""Which probes fire: recorded in the wrappers themselves."""

from torchspan.hooks.adapters import export, tensorrt, torch_tensorrt


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
