# SPDX-License-Identifier: Apache-2.0
"""Files for Perfetto as data: what is on each track, read with the messages of Perfetto's own package."""

from dataclasses import dataclass, field

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TrackEvent

KINDS = {
    TrackEvent.TYPE_SLICE_BEGIN: "begin",
    TrackEvent.TYPE_SLICE_END: "end",
    TrackEvent.TYPE_INSTANT: "instant",
    TrackEvent.TYPE_COUNTER: "counter",
}
TABLES = ("event_categories", "event_names", "debug_annotation_names", "debug_annotation_string_values")


@dataclass
class Event:
    """time_ns: on the clock of the file. value: of a counter."""

    kind: str
    time_ns: int
    name: str = ""
    categories: list = field(default_factory=list)
    facts: dict = field(default_factory=dict)
    flows: list = field(default_factory=list)
    value: int = 0


@dataclass
class Track:
    """above: the name of its group; None for a group."""

    name: str
    above: str | None
    descriptor: TrackDescriptor
    events: list = field(default_factory=list)


class PerfettoFile:
    """tracks: in the order of the file. base_ns: the date at which the clock of the file is 0."""

    def __init__(self, content):
        self._texts = {table: {} for table in TABLES}
        self._tracks, self.base_ns = {}, None
        for packet in Trace.FromString(content).packet:
            if packet.HasField("clock_snapshot"):
                self.base_ns = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}[1]
            if packet.HasField("track_descriptor"):
                self._add(packet.track_descriptor)
            for table, texts in self._texts.items():
                for entry in getattr(packet.interned_data, table):
                    assert entry.iid not in texts
                    texts[entry.iid] = entry.str.decode() if table.endswith("values") else entry.name
            if packet.HasField("track_event"):
                self._tracks[packet.track_event.track_uuid].events.append(self._event(packet))

    @property
    def tracks(self):
        return list(self._tracks.values())

    @property
    def events(self):
        return [event for track in self.tracks for event in track.events]

    def track(self, name):
        (found,) = (track for track in self.tracks if track.name == name)
        return found

    def begin(self, name):
        """The event with which a span of this name begins."""
        (found,) = (event for event in self.events if event.kind == "begin" and event.name == name)
        return found

    def _add(self, descriptor):
        assert descriptor.uuid not in self._tracks
        above = self._tracks[descriptor.parent_uuid].name if descriptor.HasField("parent_uuid") else None
        name = descriptor.process.process_name or descriptor.name
        self._tracks[descriptor.uuid] = Track(name, above, descriptor)

    def _event(self, packet):
        event = packet.track_event
        return Event(
            KINDS[event.type],
            packet.timestamp,
            self._texts["event_names"][event.name_iid] if event.HasField("name_iid") else "",
            [self._texts["event_categories"][iid] for iid in event.category_iids],
            self._facts(event.debug_annotations),
            list(event.flow_ids),
            event.counter_value,
        )

    def _facts(self, annotations):
        return {
            self._texts["debug_annotation_names"][annotation.name_iid]: self._value(annotation)
            for annotation in annotations
        }

    def _value(self, annotation):
        kind = annotation.WhichOneof("value")
        if kind == "string_value_iid":
            return self._texts["debug_annotation_string_values"][annotation.string_value_iid]
        if kind is not None:
            return getattr(annotation, kind)
        if annotation.dict_entries:
            return self._facts(annotation.dict_entries)
        return [self._value(member) for member in annotation.array_values]
