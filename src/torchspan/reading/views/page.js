"use strict";
// The part of a page that needs JavaScript: a timeline and a tree of one trace, search, and the details of a span.
// Everything that a file says reaches the page through textContent and attributes of SVG; there is no innerHTML.
(() => {
const ROW = 24;  // pixels of a row of the tree
const LANE = 18;  // pixels of a row of the timeline
const OVERSCAN = 8;  // rows drawn above and below the visible ones
const LABEL = 44;  // pixels from which on a bar has its name
const LETTER = 6.6;  // pixels of a letter
const MOST_LISTED = 50;
const ERROR = 1, UNFINISHED = 2, STAND_IN = 4;
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

// --- words -----------------------------------------------------------------------------------------------------------
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

// As torchspan.reading.answers.units.duration: `850 ns`, `12.3 ms`, `2 m 05 s`, `27 h 03 m`, `20 d`.
function duration(ns) {
  const two = (number) => String(number).padStart(2, "0");
  if (ns >= 36e13) {
    const days = ns / 864e11;
    return days < 9999999 ? `${even(days)} d` : `${days.toExponential(0).replace(/e\+(\d)$/, "e+0$1")} d`;
  }
  if (ns >= 35995e8) { const minutes = even(ns / 60e9); return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} m`; }
  if (ns >= 9995e7) { const seconds = even(ns / 1e9); return `${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`; }
  const [factor, unit] = UNITS.find(([factor]) => ns >= factor * 0.9995) || UNITS[3];
  const number = ns / factor;
  const digits = factor === 1 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return `${fixed(number, digits)} ${unit}`;
}

// As Python's format: the even digit where the number lies exactly between two, which is a multiple of an eighth.
function fixed(number, digits) {
  if (!digits) return String(even(number));
  const scaled = number * 10 ** digits;
  return (Number.isInteger(number * 8) ? even(scaled) / 10 ** digits : number).toFixed(digits);
}

// The nearest integer, the even one of two: as Python rounds.
function even(number) {
  const below = Math.floor(number);
  return number - below === 0.5 ? below + below % 2 : Math.round(number);
}

function plural(count, noun) { return `${count} ${noun}${count === 1 ? "" : "s"}`; }

// --- elements --------------------------------------------------------------------------------------------------------
function element(name, attributes = {}, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  created.append(...children);
  return created;
}

function drawn(name, attributes = {}) {
  const created = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  return created;
}

// --- the file --------------------------------------------------------------------------------------------------------
let file, spans;
let byId;  // "trace id.span id" -> index of the span

async function read() {
  const text = atob(JSON.parse($("data").textContent).gzip);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < bytes.length; index++) bytes[index] = text.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  file = JSON.parse(await new Response(stream).text());
  spans = file.spans;
  spans.own = spans.duration.map((ns, index) => ns - spans.inside[index]);
  byId = new Map();
  let first = 0;
  for (const trace of file.traces) {
    trace.first = first;
    trace.path = [];  // the spans on it, with the time of each
    first += trace.count;
    for (let index = trace.first; index < first; index++) {
      if (spans.path[index] !== null) trace.path.push([index - trace.first, spans.own[index] - spans.path[index]]);
      const key = keyOf(trace, index);
      if (!byId.has(key)) byId.set(key, index);
    }
  }
}

function keyOf(trace, index) { return `${trace.id}.${spans.id[index]}`; }
function traceOf(index) { return file.traces.find((trace) => index < trace.first + trace.count); }
function nameOf(index) { return file.strings[spans.name[index]]; }
function subjectOf(index) { return file.strings[spans.subject[index]]; }
function endOf(index) { return spans.start[index] + spans.duration[index]; }
function parentOf(index) { return spans.parent[index] < 0 ? -1 : trace.first + spans.parent[index]; }
function timeOf(index) { return spans.flags[index] & STAND_IN ? "stand-in" : `${spans.flags[index] & UNFINISHED ? "≥ " : ""}${duration(spans.duration[index])}`; }

// --- the shown trace -------------------------------------------------------------------------------------------------
let trace;
let depth, after;  // of each span of the trace: how deep it stands, and the index after the last one below it
let opened;  // spans whose children are in the tree
let rows = [];  // the spans in the tree, in its order
let position;  // of a span in `rows`
let selected = -1;
let lines = [];  // of the timeline: {label} or {spans}
let lineOf;  // of each span, its line of the timeline
let onPath = new Set();
let total = 1, from = 0, to = 1;  // of the timeline: the trace's length, and the moments at its edges

function show(shown) {
  trace = shown;
  const { first, count } = trace;
  depth = new Int32Array(count);
  after = new Int32Array(count);
  for (let index = 0; index < count; index++) {
    const parent = spans.parent[first + index];
    depth[index] = parent < 0 ? 0 : depth[parent] + 1;
  }
  total = 1;
  for (let index = count - 1; index >= 0; index--) {
    after[index] = Math.max(after[index], index + 1);
    const parent = spans.parent[first + index];
    if (parent >= 0) after[parent] = Math.max(after[parent], after[index]);
    total = Math.max(total, endOf(first + index));
  }
  opened = new Set();
  for (let index = 0; index < count; index++) {
    if (after[index] > index + 1 && (count <= 300 || depth[index] < 1 || spans.duration[first + index] >= total / 100)) opened.add(first + index);
  }
  onPath = new Set(trace.path.map(([index]) => first + index));
  [from, to, selected] = [0, total, -1];
  layLines();
  listRows();
  listPath();
  $("traces").value = String(file.traces.indexOf(trace));
  $("tree").scrollTop = $("timeline").scrollTop = 0;
  hideDetails();
  search();
}

function layLines() {
  const { first, count } = trace;
  const level = new Int32Array(count);  // inside its lane
  const lanes = new Map();
  for (let index = 0; index < count; index++) {
    const span = first + index, parent = spans.parent[span];
    const isInside = parent >= 0 && spans.thread[span] === spans.thread[first + parent] && spans.lane[span] === spans.lane[first + parent];
    level[index] = isInside ? level[parent] + 1 : 0;
    const key = spans.thread[span] * 1e6 + spans.lane[span];
    if (!lanes.has(key)) lanes.set(key, []);
    const levels = lanes.get(key);
    while (levels.length <= level[index]) levels.push([]);
    levels[level[index]].push(span);
  }
  lines = [];
  lineOf = new Int32Array(count);
  let shownThread = -1;
  for (const key of [...lanes.keys()].sort((left, right) => left - right)) {
    const thread = Math.floor(key / 1e6);
    if (thread !== shownThread) lines.push({ label: trace.threads[thread].join(" · "), spans: [] });
    shownThread = thread;
    for (const members of lanes.get(key)) {
      members.sort((left, right) => spans.start[left] - spans.start[right]);
      for (const span of members) lineOf[span - first] = lines.length;
      lines.push({ label: "", spans: members });
    }
  }
}

// --- the timeline ----------------------------------------------------------------------------------------------------
const bars = new Map();  // a path for the bars of each class
const labels = [];  // elements of text, used again

function pathOf(name) {
  if (!bars.has(name)) {
    bars.set(name, drawn("path", { class: name }));
    $("bars").append(bars.get(name));
  }
  return bars.get(name);
}

function classOf(span) {
  const flags = spans.flags[span];
  if (flags & ERROR) return "bar error";
  if (flags & STAND_IN) return "bar stand_in";
  const library = nameOf(span).split(".", 1)[0];
  return `bar ${["torch", "torch_tensorrt", "tensorrt"].includes(library) ? library : "other"}`;
}

// The first of the spans, which do not overlap, that ends after a moment.
function firstAfter(members, moment) {
  let low = 0, high = members.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (endOf(members[middle]) < moment) low = middle + 1; else high = middle;
  }
  return low;
}

function draw() {
  const box = $("timeline"), svg = $("chart");
  const width = Math.max(box.clientWidth, 100), height = Math.max(lines.length * LANE, 1);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  const scale = width / (to - from);
  const shapes = new Map();
  let used = 0;
  const label = (text, x, y, name) => {
    if (used === labels.length) labels.push($("labels").appendChild(drawn("text")));
    const shown = labels[used++];
    if (shown.textContent !== text) shown.textContent = text;
    shown.setAttribute("x", x);
    shown.setAttribute("y", y);
    shown.setAttribute("class", name);
  };
  const add = (name, shape) => { if (!shapes.has(name)) shapes.set(name, []); shapes.get(name).push(shape); };
  const top = Math.floor(box.scrollTop / LANE), bottom = Math.ceil((box.scrollTop + box.clientHeight) / LANE);
  for (let line = top; line < Math.min(bottom, lines.length); line++) {
    const members = lines[line].spans, y = line * LANE;
    if (lines[line].label) label(lines[line].label, 4, y + 13, "thread");
    let reached = -1;
    for (let index = firstAfter(members, from); index < members.length && spans.start[members[index]] <= to; index++) {
      const span = members[index];
      const left = Math.max((spans.start[span] - from) * scale, -1);
      const right = Math.min((endOf(span) - from) * scale, width + 1);
      const isMarked = matches.has(span) || span === selected;
      if (right < reached && !isMarked) continue;  // within the pixel that was drawn last
      const shape = `M${left.toFixed(1)},${y + 2}h${Math.max(right - left, 1).toFixed(1)}v${LANE - 4}H${left.toFixed(1)}z`;
      add(classOf(span), shape);
      if (onPath.has(span)) add("path", `M${left.toFixed(1)},${y + LANE - 2}H${Math.max(right, left + 1).toFixed(1)}`);
      if (matches.has(span)) add("match", shape);
      if (span === selected) add("selected", shape);
      if (right - left >= LABEL) label(shortened(nameOf(span), right - left - 6), Math.max(left, 0) + 3, y + 13, "name");
      reached = Math.floor(right) + 1;
    }
  }
  for (const name of shapes.keys()) pathOf(name);
  for (const [name, path] of bars) path.setAttribute("d", (shapes.get(name) || []).join(""));
  for (let index = used; index < labels.length; index++) if (labels[index].textContent) labels[index].textContent = "";
  drawAxis(width, scale);
}

function shortened(text, pixels) {
  const most = Math.floor(pixels / LETTER);
  return text.length <= most ? text : most > 1 ? `${text.slice(0, most - 1)}…` : "";
}

function drawAxis(width, scale) {
  const axis = $("axis");
  axis.setAttribute("width", width);
  const wanted = 110 / scale, power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= wanted) * power;
  const ticks = [];
  for (let moment = Math.ceil(from / step) * step; moment <= to && ticks.length < 100; moment += step) {
    const x = ((moment - from) * scale).toFixed(1);
    ticks.push(drawn("path", { d: `M${x},14v6` }));
    const text = drawn("text", { x: Math.min(Number(x), width - 50), y: 11 });
    text.textContent = moment ? duration(moment) : "0";
    ticks.push(text);
  }
  axis.replaceChildren(...ticks);
}

function zoom(factor, at = (from + to) / 2) {
  const length = Math.min(Math.max((to - from) * factor, 10), total);
  const share = (at - from) / (to - from);
  look(at - share * length, length);
}

function pan(share) { look(from + share * (to - from), to - from); }

// Show `length` nanoseconds from `begin` on, as far as they are in the trace.
function look(begin, length) {
  from = Math.min(Math.max(begin, 0), total - length);
  to = from + length;
  draw();
}

function momentAt(event) {
  const box = $("chart").getBoundingClientRect();
  return from + (event.clientX - box.left) / box.width * (to - from);
}

function spanAt(event) {
  const line = lines[Math.floor((event.clientY - $("chart").getBoundingClientRect().top) / LANE)];
  if (!line) return -1;
  const moment = momentAt(event), pixel = (to - from) / $("chart").getBoundingClientRect().width;
  const span = line.spans[firstAfter(line.spans, moment - pixel)];
  return span !== undefined && spans.start[span] <= moment + pixel ? span : -1;
}

function listenToTimeline() {
  const box = $("timeline");
  let dragged = null, moved = false;
  box.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) return;  // that is the browser's zoom
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(Math.sign(event.deltaX || event.deltaY) / 10);
    else zoom(event.deltaY > 0 ? 1.25 : 0.8, momentAt(event));
  }, { passive: false });
  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target === box) return;  // the bar for scrolling is the box's own
    [dragged, moved] = [{ x: event.clientX, y: event.clientY, from, top: box.scrollTop }, false];
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    if (dragged === null) {
      const span = spanAt(event);
      $("pointed").textContent = span < 0 ? "" : titleOf(span);
      return;
    }
    moved = moved || Math.abs(event.clientX - dragged.x) + Math.abs(event.clientY - dragged.y) > 3;
    if (!moved) return;
    box.scrollTop = dragged.top - (event.clientY - dragged.y);
    look(dragged.from - (event.clientX - dragged.x) / box.clientWidth * (to - from), to - from);
  });
  box.addEventListener("pointerup", (event) => {
    const span = dragged === null || moved ? -1 : spanAt(event);
    dragged = null;
    if (span >= 0) select(span, { opens: true });
  });
  box.addEventListener("pointercancel", () => { dragged = null; });
  box.addEventListener("scroll", draw);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      pan(event.key === "ArrowLeft" ? -0.1 : 0.1);
      event.preventDefault();
    }
  });
  for (const [id, action] of Object.entries({
    "zoom-in": () => zoom(0.5), "zoom-out": () => zoom(2), "zoom-all": () => look(0, total),
    "pan-left": () => pan(-0.25), "pan-right": () => pan(0.25),
  })) $(id).addEventListener("click", action);
  new ResizeObserver(() => { draw(); drawRows(); }).observe(box);
}

function titleOf(span) {
  const subject = subjectOf(span);
  return `${nameOf(span)}${subject ? ` · ${subject}` : ""} · ${timeOf(span)}`;
}

// --- the tree --------------------------------------------------------------------------------------------------------
function listRows() {
  rows = [];
  position = new Map();
  const { first, count } = trace;
  for (let index = 0; index < count;) {
    position.set(first + index, rows.length);
    rows.push(first + index);
    index = opened.has(first + index) ? index + 1 : after[index];
  }
  $("tree-table").setAttribute("aria-rowcount", rows.length + 1);
  drawRows();
}

function drawRows() {
  const box = $("tree");
  const hadFocus = $("tree-rows").contains(document.activeElement);
  const top = Math.max(Math.floor(box.scrollTop / ROW) - OVERSCAN, 0);
  const bottom = Math.min(Math.ceil((box.scrollTop + box.clientHeight) / ROW) + OVERSCAN, rows.length);
  $("above").setAttribute("height", top * ROW);
  $("below").setAttribute("height", (rows.length - bottom) * ROW);
  $("tree-rows").replaceChildren(...rows.slice(top, bottom).map((span, index) => rowOf(span, top + index)));
  if (hadFocus) focusRow();
}

function rowOf(span, index) {
  const own = span - trace.first;
  const hasChildren = after[own] > own + 1;
  const row = element("tr", {
    role: "row", "aria-level": depth[own] + 1, "aria-rowindex": index + 2, "aria-selected": span === selected,
    tabindex: span === selected || (selected < 0 && index === 0) ? 0 : -1, "data-index": span,
  });
  if (hasChildren) row.setAttribute("aria-expanded", opened.has(span));
  if (spans.flags[span] & ERROR) row.classList.add("error");
  if (matches.has(span)) row.classList.add("match");
  const indent = drawn("svg", { width: Math.min(depth[own], 16) * 14 + 2, height: 1, "aria-hidden": true });
  const toggle = element("span", { class: "toggle", "aria-hidden": true }, hasChildren ? (opened.has(span) ? "▾" : "▸") : "\u00a0");
  const subject = subjectOf(span);
  const name = element("td", { role: "gridcell" }, indent, toggle, nameOf(span));
  if (subject) name.append(element("span", { class: "dim" }, ` · ${subject}`));
  row.append(name, element("td", { role: "gridcell" }, timeOf(span)), element("td", { role: "gridcell" }, duration(spans.own[span])));
  const bar = drawn("svg", { width: 90, height: 12, "aria-hidden": true });
  const left = spans.start[span] / total * 88;
  bar.append(drawn("rect", { class: classOf(span), x: left.toFixed(1), y: 1, width: Math.max(spans.duration[span] / total * 88, 1).toFixed(1), height: 10 }));
  row.append(element("td", { role: "gridcell" }, bar));
  return row;
}

function focusRow() {
  const row = $("tree-rows").querySelector('[tabindex="0"]');
  if (row) row.focus({ preventScroll: true });
}

// Make a span the selected one: in the tree, in the timeline, and with `opens` in the details.
function select(span, { opens = false, focuses = false } = {}) {
  selected = span;
  let isHidden = false;
  for (let above = parentOf(span); above >= 0; above = parentOf(above)) {
    isHidden = isHidden || !opened.has(above);
    opened.add(above);
  }
  if (isHidden) listRows();
  const box = $("tree"), top = position.get(span) * ROW, room = box.clientHeight - 2 * ROW;
  if (top < box.scrollTop || top > box.scrollTop + room) box.scrollTop = Math.max(top - room / 2, 0);
  drawRows();
  if (focuses) focusRow();
  const chart = $("timeline"), line = lineOf[span - trace.first] * LANE;
  if (line < chart.scrollTop || line > chart.scrollTop + chart.clientHeight - LANE) chart.scrollTop = line - chart.clientHeight / 2;
  if (endOf(span) < from || spans.start[span] > to) look(spans.start[span] - (to - from) / 2, to - from); else draw();
  if (opens || !$("details").hidden) showDetails(span);
}

function toggle(span, opens) {
  const own = span - trace.first;
  if (after[own] === own + 1 || opened.has(span) === opens) return false;
  if (opens) opened.add(span); else opened.delete(span);
  listRows();
  return true;
}

function listenToTree() {
  const box = $("tree");
  box.addEventListener("scroll", drawRows);
  box.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-index]");
    if (row === null) return;
    const span = Number(row.dataset.index);
    if (event.target.classList.contains("toggle")) toggle(span, !opened.has(span));
    select(span, { opens: !event.target.classList.contains("toggle"), focuses: true });
  });
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const current = selected < 0 ? rows[0] : selected, at = position.get(current);
    const page = Math.max(Math.floor(box.clientHeight / ROW) - 2, 1);
    const move = {
      ArrowDown: () => rows[at + (selected < 0 ? 0 : 1)], ArrowUp: () => rows[at - 1], Home: () => rows[0], End: () => rows[rows.length - 1],
      PageDown: () => rows[Math.min(at + page, rows.length - 1)], PageUp: () => rows[Math.max(at - page, 0)],
      ArrowRight: () => toggle(current, true) ? current : after[current - trace.first] > current - trace.first + 1 ? current + 1 : current,
      ArrowLeft: () => toggle(current, false) ? current : parentOf(current) >= 0 ? parentOf(current) : current,
    }[event.key];
    if (move !== undefined) {
      const next = move();
      if (next !== undefined) select(next, { focuses: true });
    } else if (event.key === "Enter") {
      select(current, { opens: true, focuses: true });
      history.replaceState(null, "", addressOf(current));
    } else return;
    event.preventDefault();
  });
  $("open-all").addEventListener("click", () => {
    for (let index = 0; index < trace.count; index++) if (after[index] > index + 1) opened.add(trace.first + index);
    listRows();
  });
  $("close-all").addEventListener("click", () => { opened.clear(); listRows(); });
}

// --- details ---------------------------------------------------------------------------------------------------------
function addressOf(span) { return `#span=${keyOf(traceOf(span), span)}`; }

function showDetails(span) {
  const facts = [["duration", timeOf(span)], ["own time", duration(spans.own[span])], ["start", `+ ${duration(spans.start[span])}`]];
  if (file.device[span]) facts.splice(1, 0, ["on the device", file.device[span]]);
  const parts = [element("h3", {}, titleOf(span)), table(["", ""], facts), ...operatorsOf(span), ...layersOf(span), attributesOf("Attributes", spans.attributes[span])];
  for (const [name, moment, attributes] of spans.events[span]) {
    const when = moment === null ? "" : ` · + ${duration(Math.max(moment, 0))}`;
    const title = `Event ${file.strings[name]}${when}`;
    parts.push(attributesOf(title, attributes) || element("h4", {}, title));
  }
  for (const [traceId, spanId, attributes] of spans.links[span]) parts.push(linkOf(traceId, spanId), ...(attributes.length ? [attributesOf("Attributes of the link", attributes)] : []));
  parts.push(attributesOf("Process", file.resources[spans.resource[span]]));
  parts.push(element("p", {}, element("a", { href: addressOf(span) }, "Address of this span")));
  $("details-body").replaceChildren(...parts.filter(Boolean));
  $("details").hidden = false;
}

function operatorsOf(span) {
  const rows = (file.operators[span] || []).map(([name, count, ...times]) => [file.strings[name], count, ...times.map((s) => duration(s * 1e9))]);
  return rows.length ? [element("h4", {}, "Operators"), table(["operator", "times", "time", "own", "longest"], rows)] : [];
}

function layersOf(span) {
  const rows = (file.layers[span] || []).map(([name, s, share]) => [file.strings[name], duration(s * 1e9), `${Math.round(share * 100)} %`]);
  return rows.length ? [element("h4", {}, "Layers, in runs that waited for the device"), table(["layer", "median", "share"], rows)] : [];
}

function linkOf(traceId, spanId) {
  const target = byId.get(`${traceId}.${spanId}`);
  if (target === undefined) return element("p", {}, `Link to span ${spanId} of trace ${traceId}, which is not in this file`);
  return element("p", {}, "Link to ", element("a", { href: addressOf(target) }, titleOf(target)));
}

function attributesOf(title, list) {
  if (!list.length) return null;
  const facts = [];
  for (let index = 0; index < list.length; index += 2) {
    const key = element("span", {}, file.strings[list[index]]);
    const brief = file.briefs[list[index]];
    if (brief) key.append(element("small", {}, brief));
    facts.push([key, wordsOf(list[index + 1])]);
  }
  return element("section", {}, element("h4", {}, title), table(["key", "value"], facts));
}

function wordsOf(value) {
  if (Array.isArray(value)) return value.map(wordsOf).join(", ");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

function table(columns, facts) {
  const body = facts.map(([key, ...values]) => element("tr", {}, element("th", { scope: "row" }, key), ...values.map((value) => element("td", {}, value))));
  const head = columns.length > 2 ? [element("thead", {}, element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name))))] : [];
  return element("table", {}, ...head, element("tbody", {}, ...body));
}

function hideDetails() { $("details").hidden = true; }

// --- critical path ---------------------------------------------------------------------------------------------------
function listPath() {
  const whole = trace.path.reduce((sum, [, ns]) => sum + ns, 0) || 1;
  const longest = trace.path.filter(([, ns]) => ns > 0).sort(([, left], [, right]) => right - left).slice(0, MOST_LISTED);
  longest.sort(([left], [right]) => spans.start[trace.first + left] - spans.start[trace.first + right]);
  $("path").replaceChildren(...longest.map(([index, ns]) => element(
    "tr", {},
    element("th", { scope: "row" }, element("a", { href: addressOf(trace.first + index) }, titleOf(trace.first + index))),
    element("td", {}, duration(ns)), element("td", {}, `${Math.round(ns / whole * 100)} %`),
  )));
}

// --- search ----------------------------------------------------------------------------------------------------------
let matches = new Set();
let texts = null;  // of each span, everything that is searched, in small letters

function textOf(span) {
  const pairs = (list) => list.map((part, index) => index % 2 ? `${wordsOf(part)}\n` : `${file.strings[part]}=`).join("");
  const events = spans.events[span].map(([name, , list]) => `${file.strings[name]}\n${pairs(list)}`).join("");
  return `${nameOf(span)}\n${subjectOf(span)}\n${pairs(spans.attributes[span])}${events}`.toLowerCase();
}

function search() {
  const wanted = $("search").value.trim().toLowerCase();
  matches = new Set();
  if (wanted) {
    texts = texts || spans.name.map((_, span) => textOf(span));
    texts.forEach((text, span) => { if (text.includes(wanted)) matches.add(span); });
  }
  const here = [...matches].filter((span) => span >= trace.first && span < trace.first + trace.count).length;
  const others = file.traces.length > 1 ? `, ${matches.size} in the file` : "";
  $("count").textContent = wanted ? `${here} of ${plural(trace.count, "span")}${others}` : plural(trace.count, "span");
  draw();
  drawRows();
}

// Go to the next match in the file, or with `step` -1 to the one before.
function nextMatch(step) {
  const ordered = [...matches];
  if (!ordered.length) return;
  const current = selected < 0 ? (step > 0 ? trace.first - 1 : trace.first) : selected;
  const next = step > 0 ? ordered.find((span) => span > current) : ordered.findLast((span) => span < current);
  open(next === undefined ? ordered.at(step > 0 ? 0 : -1) : next);
}

// --- everything ------------------------------------------------------------------------------------------------------
// Select a span of any trace of the file, and show its details.
function open(span) {
  const itsTrace = traceOf(span);
  if (itsTrace !== trace) show(itsTrace);
  select(span, { opens: true });
}

function openAddress() {
  const key = location.hash.startsWith("#span=") ? location.hash.slice(6) : "";
  if (!byId.has(key)) return false;
  open(byId.get(key));
  $("explore").scrollIntoView();
  return true;
}

function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") {
      if (document.activeElement === $("search")) { $("search").value = ""; search(); }
      hideDetails();
      if (selected >= 0) focusRow();
      return;
    }
    if (event.target.closest("input, select, textarea")) return;
    const action = { "/": () => $("search").focus(), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => look(0, total) }[event.key];
    if (action === undefined) return;
    action();
    event.preventDefault();
  });
  $("search").addEventListener("input", search);
  $("search").addEventListener("keydown", (event) => { if (event.key === "Enter") nextMatch(event.shiftKey ? -1 : 1); });
  $("close").addEventListener("click", hideDetails);
  $("traces").addEventListener("change", () => show(file.traces[Number($("traces").value)]));
  addEventListener("hashchange", openAddress);
  document.addEventListener("click", (event) => {  // also where the address is that of the page already
    const link = event.target.closest('a[href^="#span="]');
    if (link === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState(null, "", link.getAttribute("href"));
    openAddress();
  });
}

async function start() {
  $("explore").hidden = false;
  if (typeof DecompressionStream === "undefined") {
    $("explore").replaceChildren(element("p", {}, "This browser cannot unpack the spans: it has no DecompressionStream."));
    return;
  }
  await read();
  if (!file.traces.length) { $("explore").hidden = true; return; }
  $("traces").append(...file.traces.map((one, index) => element("option", { value: index }, `${one.title} · ${plural(one.count, "span")}`)));
  $("choice").hidden = file.traces.length < 2;
  show(file.traces[0]);
  listenToTimeline();
  listenToTree();
  listenToKeys();
  openAddress();
  document.documentElement.dataset.ready = "";
}

start();
})();
