// SPDX-License-Identifier: Apache-2.0
// PyTorch's operators below roots: callbacks of at::RecordFunction, which write into `recording.h`, and the module for Python.
//
// A root adds one thread-local callback. PyTorch hands it on to the threads of autograd and of TorchScript's fork, and its handle
// says there which root an operator belongs to. The callbacks take neither the GIL nor a lock.
//
// The library is loaded by every Python from 3.10 on, whichever it was compiled with. So no format of arguments has a `#`: compiled
// with the headers of 3.13 or later, the older ones refuse it.
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/headeronly/version.h>

#include "recording.h"
#include "templates.h"

#ifndef NDEBUG
#error "PyTorch's classes have other members without NDEBUG"
#endif
#ifndef TORCHSPAN_SOURCE
#define TORCHSPAN_SOURCE ""
#endif

namespace {

using at::RecordFunction;
using at::RecordScope;
using torchspan::Event;
using torchspan::Recorder;
using torchspan::Root;
using torchspan::Thread;

// --- callbacks ------------------------------------------------------------------------------------------------------
struct Context final : at::ObserverContext, torchspan::Open {
  // Memory of ended operators is used again by their thread.
  static void* operator new(size_t size, Thread* thread) {
    if (thread->spare) return std::exchange(thread->spare, *static_cast<void**>(thread->spare));
    return ::operator new(size);
  }
  static void operator delete(void* memory) {
    if (Thread* thread = Recorder::here()) *static_cast<void**>(memory) = std::exchange(thread->spare, memory);
    else ::operator delete(memory);
  }
};

uint8_t scope_of(const RecordFunction& function) {
  switch (function.scope()) {
    case RecordScope::BACKWARD_FUNCTION: return torchspan::kBackward;
    case RecordScope::TORCHSCRIPT_FUNCTION: return torchspan::kTorchScript;
    case RecordScope::USER_SCOPE: return torchspan::kUser;
    default: return torchspan::kFunction;
  }
}

// Whether operators run with fake tensors here. A mode is looked up only where any mode may be active.
bool is_without_data() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python) &&
         c10::impl::TorchDispatchModeTLS::get_mode(c10::impl::TorchDispatchModeKey::FAKE).has_value();
}

void record_shapes(Thread* thread, const Context& context, const RecordFunction& function) {
  torchspan::Shapes* shapes = thread->shapes.reserve();
  if (!shapes) return;
  shapes->id = context.id, shapes->root = context.number, shapes->count = shapes->used = 0;
  for (const c10::IValue& value : function.inputs()) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const c10::TensorImpl* tensor = value.toTensor().unsafeGetTensorImpl();
    if (tensor->has_symbolic_sizes_strides() || shapes->count == std::size(shapes->tensors)) break;
    const c10::IntArrayRef sizes = tensor->sizes();
    if (shapes->used + sizes.size() > std::size(shapes->sizes)) break;
    shapes->tensors[shapes->count++] = {static_cast<uint8_t>(c10::typeMetaToScalarType(tensor->dtype())),
                                        static_cast<uint8_t>(sizes.size())};
    for (int64_t size : sizes) shapes->sizes[shapes->used++] = static_cast<int32_t>(size);
  }
  thread->shapes.commit();
}

std::unique_ptr<at::ObserverContext> start(const RecordFunction& function);
void end(const RecordFunction& function, at::ObserverContext* observed);

uint64_t handle_here() {
  for (const auto& entry : at::get_record_function_tls_().sorted_tls_callbacks_)
    if (entry.callback_.start() == &start) return entry.handle_;
  return 0;
}

std::unique_ptr<at::ObserverContext> start(const RecordFunction& function) {
  Thread* thread = Recorder::here();
  Root* root = thread ? Recorder::get().root_of(thread, handle_here()) : nullptr;
  if (!root) return nullptr;
  const bool begins_without_data = !thread->suppressed && is_without_data();
  if (thread->suppressed || begins_without_data) {
    root->suppressed.fetch_add(1, std::memory_order_relaxed);
    if (!begins_without_data) return nullptr;
    std::unique_ptr<Context> context(new (thread) Context);  // what the mode runs inside it has no data either, and no mode
    context->owner = thread, context->suppresses = true;
    ++thread->suppressed;
    return context;
  }
  if (thread->top - thread->below >= root->depth || thread->top >= torchspan::kStack) return nullptr;
  std::unique_ptr<Context> context(new (thread) Context);
  Recorder::get().start(thread, root, Recorder::get().name(thread, function.name(), function.overload_name()), *context);
  context->flags |= scope_of(function);
  if (root->has_shapes && function.needsInputs()) record_shapes(thread, *context, function);
  context->start = torchspan::Ticks::now(thread->has_counter);
  return context;
}

void end(const RecordFunction& function, at::ObserverContext* observed) {
  if (!observed) return;
  auto* context = static_cast<Context*>(observed);
  Thread* thread = Recorder::here();
  const uint64_t ended = torchspan::Ticks::now(context->owner->has_counter);
  if (context->suppresses) {
    if (thread == context->owner && thread->suppressed) --thread->suppressed;
    return;
  }
  Recorder::get().end(thread, *context, ended, function.seqNr(), static_cast<uint32_t>(function.threadId()),
                      static_cast<uint32_t>(function.forwardThreadId()));
}

at::RecordFunctionCallback callback(bool needs_inputs) {
  return at::RecordFunctionCallback(&start, &end)
      .needsInputs(needs_inputs)
      .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION, RecordScope::TORCHSCRIPT_FUNCTION, RecordScope::USER_SCOPE});
}

void add_callback(Root* root) {
  static const at::RecordFunctionCallback plain = callback(false), with_shapes = callback(true);  // the set of scopes allocates
  Recorder::get().publish(root, at::addThreadLocalCallback(root->has_shapes ? with_shapes : plain));
}

// Removes the callback that is registered on this thread, which is the innermost root's.
void remove_callback() {
  const uint64_t handle = handle_here();
  if (!handle) return;
  at::removeCallback(handle);
  Recorder::get().retract(handle);
}

// --- roots ----------------------------------------------------------------------------------------------------------
bool is_open(const Thread::Begun& begun) { return begun.root->number.load() == begun.number && begun.root->is_open.load(); }

// Leaves the innermost roots that have ended, perhaps on other threads. The callback is that of the root around them again.
void leave_ended(Thread* thread) {
  while (!thread->roots.empty() && !is_open(thread->roots.back())) {
    remove_callback();
    thread->below = thread->roots.back().below;
    thread->roots.pop_back();
    if (!thread->roots.empty() && is_open(thread->roots.back())) add_callback(thread->roots.back().root);
  }
}

uint32_t begin_root(uint32_t depth, uint64_t shortest_ns, bool has_shapes, uint32_t most) {
  Thread* thread = Recorder::here();
  if (!thread) return 0;
  leave_ended(thread);
  if (thread->roots.empty()) thread->suppressed = 0;  // of work that has ended on another thread
  Root* root = Recorder::get().begin(thread, depth, shortest_ns, has_shapes, most);
  if (!root) return 0;
  remove_callback();  // the operators of the root around it are those outside this one
  add_callback(root);
  return thread->roots.back().number;
}

void end_root(uint32_t number) {
  Root* root = Recorder::get().numbered(number);
  Thread* thread = Recorder::here();
  if (!root) return;
  root->is_open.store(false, std::memory_order_release);
  if (thread) leave_ended(thread);
}

void begin_child() {
  if (uint64_t handle = handle_here()) at::removeCallback(handle);
  Recorder::get().begin_child();
}

// --- the module -----------------------------------------------------------------------------------------------------
torchspan::Templates& templates() {  // used with the GIL
  static auto* templates = new torchspan::Templates;
  return *templates;
}

bool read_text(PyObject* bytes, std::string_view& text) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0) return false;
  text = {data, static_cast<size_t>(size)};
  return true;
}

bool read_events(PyObject* bytes, std::vector<Event>& events) {
  std::string_view text;
  if (!read_text(bytes, text)) return false;
  events.resize(text.size() / sizeof(Event));
  std::memcpy(static_cast<void*>(events.data()), text.data(), events.size() * sizeof(Event));
  return true;
}

PyObject* build(PyObject*, PyObject*) {
  return Py_BuildValue("{s:s,s:i,s:(iiiii),s:s}", "torch", TORCH_VERSION, "cxx11_abi", _GLIBCXX_USE_CXX11_ABI, "sizes",
                       static_cast<int>(sizeof(RecordFunction)), static_cast<int>(sizeof(at::RecordFunctionCallback)),
                       static_cast<int>(sizeof(at::StepCallbacks)), static_cast<int>(sizeof(at::RecordFunctionCallbacksEntry)),
                       static_cast<int>(RecordScope::NUM_SCOPES), "torchspan", TORCHSPAN_SOURCE);
}

PyObject* begin(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 3 || count > 4) return PyErr_SetString(PyExc_TypeError, "begin(depth, min_ns, shapes, spans=500)"), nullptr;
  const unsigned long depth = PyLong_AsUnsignedLong(arguments[0]);
  const unsigned long long shortest_ns = PyLong_AsUnsignedLongLong(arguments[1]);
  const unsigned long most = count == 4 ? PyLong_AsUnsignedLong(arguments[3]) : torchspan::kSpans;
  if (PyErr_Occurred()) return nullptr;
  return PyLong_FromUnsignedLong(
      begin_root(static_cast<uint32_t>(depth), shortest_ns, arguments[2] == Py_True, static_cast<uint32_t>(most)));
}

PyObject* end(PyObject*, PyObject* number) {
  end_root(static_cast<uint32_t>(PyLong_AsUnsignedLong(number)));
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

// The list with `item`, whose reference it takes; nullptr with an exception if one of them is missing.
PyObject* appended(PyObject* list, PyObject* item) {
  if (!list || !item || PyList_Append(list, item) < 0) Py_CLEAR(list);
  Py_XDECREF(item);
  return list;
}

PyObject* shapes_of(const std::vector<torchspan::Shapes>& shapes) {
  PyObject* list = PyList_New(0);
  for (const torchspan::Shapes& operators : shapes) {
    PyObject* tensors = PyList_New(0);
    const int32_t* size = operators.sizes;
    for (const auto* tensor = operators.tensors; tensor != operators.tensors + operators.count; ++tensor) {
      PyObject* sizes = PyList_New(0);
      for (const int32_t* end = size + tensor->dimensions; size != end; ++size) sizes = appended(sizes, PyLong_FromLong(*size));
      const std::string type(c10::getDtypeNames(static_cast<c10::ScalarType>(tensor->type)).first);
      tensors = appended(tensors, sizes ? Py_BuildValue("(sN)", type.c_str(), sizes) : nullptr);
    }
    list = appended(list, tensors);
  }
  return list;
}

template <class T>
PyObject* bytes_of(const std::vector<T>& items) {
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(items.data()), static_cast<Py_ssize_t>(items.size() * sizeof(T)));
}

PyObject* finish(PyObject*, PyObject* arguments) {
  unsigned long number = 0;
  unsigned long long span = 0;
  PyObject* bytes = nullptr;
  std::string_view trace_bytes;
  if (!PyArg_ParseTuple(arguments, "kOK", &number, &bytes, &span) || !read_text(bytes, trace_bytes)) return nullptr;
  std::array<char, 16> trace{};
  std::memcpy(trace.data(), trace_bytes.data(), std::min(trace_bytes.size(), trace.size()));
  const Root* root = Recorder::get().numbered(static_cast<uint32_t>(number));
  const bool has_shapes = root && root->has_shapes;
  torchspan::Finished finished;
  Py_BEGIN_ALLOW_THREADS
  finished = Recorder::get().finish(static_cast<uint32_t>(number), trace, span);
  Py_END_ALLOW_THREADS
  PyObject* shapes = has_shapes ? shapes_of(finished.shapes) : Py_NewRef(Py_None);
  PyObject* table = PyList_New(0);
  for (const auto& [name, row] : finished.table)
    table = appended(table, Py_BuildValue("(IKKKK)", static_cast<unsigned>(name), row.count, row.total, row.self, row.longest));
  if (!table || !shapes) return Py_XDECREF(table), Py_XDECREF(shapes), nullptr;
  return Py_BuildValue("(NNNNKKK)", bytes_of(finished.events), bytes_of(finished.links), shapes, table,
                       static_cast<unsigned long long>(finished.count),
                       static_cast<unsigned long long>(finished.count - finished.events.size()),
                       static_cast<unsigned long long>(finished.suppressed));
}

PyObject* names(PyObject*, PyObject* first) {
  const size_t from = PyLong_AsSize_t(first);
  if (PyErr_Occurred()) return nullptr;
  PyObject* list = PyList_New(0);
  for (const std::string& text : Recorder::get().names(from)) {
    const size_t split = std::min(text.find('\0'), text.size());
    const std::string overload = text.substr(std::min(split + 1, text.size()));
    list = appended(list, Py_BuildValue("(NN)", PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(split)),
                                        PyBytes_FromStringAndSize(overload.data(), static_cast<Py_ssize_t>(overload.size()))));
  }
  return list;
}

PyObject* counts(PyObject*, PyObject*) {
  Recorder::Counts counts{};
  Py_BEGIN_ALLOW_THREADS
  counts = Recorder::get().counts();
  Py_END_ALLOW_THREADS
  return Py_BuildValue("{s:K,s:K,s:K}", "ring", counts.ring, "late", counts.late, "names", counts.names);
}

PyObject* suppress(PyObject*, PyObject* on) {
  if (Thread* thread = Recorder::here()) {
    if (on == Py_True) ++thread->suppressed;
    else if (thread->suppressed) --thread->suppressed;
  }
  Py_RETURN_NONE;
}

PyObject* missing(PyObject*, PyObject* arguments) {
  PyObject* bytes = nullptr;
  int has_state = 0;
  std::vector<Event> events;
  if (!PyArg_ParseTuple(arguments, "Op", &bytes, &has_state) || !read_events(bytes, events)) return nullptr;
  std::unordered_set<uint32_t> keys;
  for (const Event& event : events) {
    const uint32_t key = torchspan::Templates::key(event, has_state != 0);
    if (!templates().has(key)) keys.insert(key);
  }
  PyObject* list = PyList_New(0);
  for (uint32_t key : keys) list = appended(list, PyLong_FromUnsignedLong(key));
  return list;
}

PyObject* learn(PyObject*, PyObject* arguments) {
  unsigned long key = 0;
  PyObject* bytes = nullptr;
  std::string_view text;
  if (!PyArg_ParseTuple(arguments, "kO", &key, &bytes) || !read_text(bytes, text)) return nullptr;
  templates().learn(static_cast<uint32_t>(key), text);
  Py_RETURN_NONE;
}

PyObject* fill(PyObject*, PyObject* arguments) {
  std::array<PyObject*, 4> bytes{};
  std::string_view links, trace, state;
  long long offset_ns = 0;
  std::vector<Event> events;
  if (!PyArg_ParseTuple(arguments, "OOOLO", &bytes[0], &bytes[1], &bytes[2], &offset_ns, &bytes[3]) || !read_events(bytes[0], events) ||
      !read_text(bytes[1], links) || !read_text(bytes[2], trace) || !read_text(bytes[3], state))
    return nullptr;
  const std::string_view text = templates().fill(events, links, trace, static_cast<uint64_t>(offset_ns), state);
  return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyMethodDef methods[] = {
    {"build", build, METH_NOARGS, "What the library was compiled with."},
    {"begin", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&begin)), METH_FASTCALL, "Begin a root on this thread; its number, or 0."},
    {"end", end, METH_O, "Record no more operators below a root."},
    {"finish", finish, METH_VARARGS, "What was recorded below a root that has ended."},
    {"names", names, METH_O, "Names of operators and their overloads, from a number on."},
    {"counts", counts, METH_NOARGS, "Operators that were lost, by reason."},
    {"suppress", suppress, METH_O, "Begin or end work on this thread whose operators are only counted."},
    {"missing", missing, METH_VARARGS, "Keys of templates that `fill` needs."},
    {"learn", learn, METH_VARARGS, "Remember a template."},
    {"fill", fill, METH_VARARGS, "Events as text."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_torchspan_native", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__torchspan_native() {
  Recorder::get();
  static const int registered = pthread_atfork([] { Recorder::get().before_fork(); }, [] { Recorder::get().after_fork(); }, begin_child);
  return registered == 0 ? PyModule_Create(&definition) : PyErr_NoMemory();
}
