// SPDX-License-Identifier: Apache-2.0
// What runs below roots: a ring of events for each thread, the table of names, and what is kept of each root.
// Knows neither PyTorch nor Python, so that sanitizers can run it alone.
//
// A thread writes an event into its own ring when an operator ends: no lock and no allocation once its buffers are there. One
// thread of the library, woken after each quarter of a ring, moves events into their roots. `finish` moves the rest.
#pragma once

#include <cxxabi.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <semaphore>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace torchspan {

constexpr size_t kRingEvents = size_t{1} << 14;   // 1 MiB for each thread that has recorded something
constexpr size_t kRingShapes = size_t{1} << 12;   // 1 MiB, for threads that record shapes
constexpr size_t kNames = 4096;                   // different names in a process; id 0 stands for all others
constexpr size_t kNameBytes = 256;                // of a name, and of an overload; the rest is cut off
constexpr size_t kStack = 256;                    // open operators of a thread
constexpr size_t kRoots = 1024;                   // open roots of a process
constexpr uint32_t kSpans = 500;                  // operators of a root that are kept by default: the longest ones
constexpr size_t kTable = 40;                     // names in the table of a root
constexpr size_t kForward = size_t{1} << 16;      // forward operators that backward functions can be linked to
constexpr uint32_t kNumberBits = 10;              // of a root's number: its place; the others count its uses
static_assert(kRoots == size_t{1} << kNumberBits);

enum Flag : uint8_t { kRaised = 1, kElsewhere = 2, kLinked = 4, kHasState = 8, kScope = 0x30 };
enum Scope : uint8_t { kFunction = 0x00, kBackward = 0x10, kTorchScript = 0x20, kUser = 0x30 };

// An operator that has ended. The ring holds it as it was recorded; `finish` returns it with other values.
struct Event {
  uint64_t start, end;  // of `Ticks`. Returned: CLOCK_MONOTONIC, in nanoseconds
  uint64_t id, parent;  // number of the thread << 40 | number of the operator; 0: the root. Returned: span ids
  union { int64_t sequence; uint64_t link; };          // autograd's sequence number, or -1. Returned: the linked span's id, or 0
  union { uint32_t threads[2]; uint64_t thread; };     // PyTorch's numbers of its thread and its forward thread. Returned: pthread_self()
  uint64_t self;        // duration without the operators inside it on its thread
  uint16_t name;
  uint8_t flags, depth;
  union { uint32_t root; uint32_t link_trace; };       // number of the root. Returned: index of the linked span's trace id
};
static_assert(sizeof(Event) == 64);

struct Shapes {
  struct Tensor { uint8_t type, dimensions; };
  uint64_t id;
  uint32_t root;
  uint8_t count, used;             // tensors, and the sizes in `sizes`
  Tensor tensors[16];              // the first ones
  int32_t sizes[52];               // of all of them; a tensor that does not fit ends the list
};
static_assert(sizeof(Shapes) == 256);

inline uint64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

// The clock of operators. The processor's counter takes a third of the time of `now_ns`, where the kernel itself trusts it.
class Ticks {
 public:
  static bool is_counter() {
    static const bool is_counter = [] {
      char name[4] = {};
      FILE* file = std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
      const bool is_read = file && std::fread(name, 1, 4, file) == 4;
      if (file) std::fclose(file);
      return is_read && std::memcmp(name, "tsc\n", 4) == 0;
    }();
    return is_counter;
  }
  static uint64_t now(bool is_counter) {
#if defined(__x86_64__)
    if (is_counter) return __builtin_ia32_rdtsc();
#endif
    return now_ns();
  }
  // Measures the counter's rate. What `ns` returns is exact for times around the last call.
  void measure(bool is_counter) {
    const uint64_t ticks = now(is_counter), ns = now_ns();
    if (ns - anchor_ns_ > 10'000'000'000u && anchor_ns_) anchor_ticks_ = ticks_, anchor_ns_ = ns_;
    if (!anchor_ns_) anchor_ticks_ = ticks, anchor_ns_ = ns;
    ticks_ = ticks, ns_ = ns;
    if (ticks_ > anchor_ticks_) ns_per_tick_ = static_cast<double>(ns_ - anchor_ns_) / static_cast<double>(ticks_ - anchor_ticks_);
  }
  uint64_t duration(uint64_t ticks) const { return static_cast<uint64_t>(static_cast<double>(ticks) * ns_per_tick_); }
  uint64_t ns(uint64_t ticks) const { return ticks < ticks_ ? ns_ - duration(ticks_ - ticks) : ns_ + duration(ticks - ticks_); }

 private:
  uint64_t anchor_ticks_ = 0, anchor_ns_ = 0, ticks_ = 0, ns_ = 0;
  double ns_per_tick_ = 1;
};

// One producer, one consumer. A full ring drops what is added, and counts it.
template <class T, size_t Size>
class Ring {
 public:
  T* reserve() {
    if (!items_) items_.reset(new T[Size]);
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - seen_tail_ >= Size) {
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head - seen_tail_ >= Size) {
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return nullptr;
      }
    }
    return &items_[head & (Size - 1)];
  }
  // Publishes what was reserved. Returns whether a quarter of the ring has been written since this was last true.
  bool commit() {
    const uint64_t head = head_.load(std::memory_order_relaxed) + 1;
    head_.store(head, std::memory_order_release);
    return (head & (Size / 4 - 1)) == 0;
  }
  template <class Read>
  void drain(Read read) {
    const uint64_t head = head_.load(std::memory_order_acquire);
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (; tail != head; ++tail) read(items_[tail & (Size - 1)]);
    tail_.store(tail, std::memory_order_release);
  }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<T[]> items_;  // made by the producer before its first commit
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t seen_tail_ = 0;
  std::atomic<uint64_t> dropped_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
};

// The names of a process, by number. Names are never removed.
class Names {
 public:
  Names() { texts_.emplace_back(1, '\0'), by_text_.emplace(texts_.front(), 0); }
  // The number of a name and its overload, separated by a NUL; 0 if the table is full.
  uint16_t number(std::string_view text, const char** kept) {
    std::lock_guard<std::mutex> lock(mutex);
    auto row = by_text_.find(text);
    if (row == by_text_.end()) {
      if (texts_.size() >= kNames) return *kept = nullptr, uint16_t{0};
      texts_.emplace_back(text);
      row = by_text_.emplace(texts_.back(), static_cast<uint16_t>(texts_.size() - 1)).first;
    }
    return *kept = row->first.data(), row->second;
  }
  std::vector<std::string> from(size_t first) {
    std::lock_guard<std::mutex> lock(mutex);
    return {texts_.begin() + static_cast<ptrdiff_t>(std::min(first, texts_.size())), texts_.end()};
  }
  std::mutex mutex;

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, uint16_t> by_text_;
};

struct Row { uint64_t count = 0, total = 0, self = 0, longest = 0; };  // durations as those of events

// A root. Its place is used again after `finish`, under another number.
struct Root {
  std::atomic<uint32_t> number{0};          // 0: no root is open here
  std::atomic<bool> is_open{false};         // false: operators that start are not recorded
  std::atomic<uint64_t> suppressed{0};
  uint64_t handle = 0, shortest_ns = 0;     // of PyTorch's callback; the least duration of a span
  uint64_t begin_ns = 0;
  uint64_t thread = 0;                      // number of the thread on which it was begun
  uint32_t depth = 0, most = kSpans, uses = 0;
  bool has_shapes = false;
  // The rest belongs to whoever has the recorder's lock.
  uint64_t count = 0;
  std::unordered_map<uint16_t, Row> table;
  std::vector<Event> kept;                  // a heap, the shortest first
  std::unordered_map<uint64_t, Shapes> shapes;
  std::vector<uint64_t> forward;            // keys of the operators that backward functions can be linked to
};

struct Finished {
  std::vector<Event> events;                                     // the longest first
  std::vector<std::array<char, 16>> links;                       // trace ids
  std::vector<std::pair<uint16_t, Row>> table;                   // the longest first, by `self`
  std::vector<Shapes> shapes;                                    // one for each event, if the root has shapes
  uint64_t count = 0, suppressed = 0;
};

struct Thread;

// An operator that is open. PyTorch's context of the callback is one.
struct Open {
  uint64_t start = 0, id = 0, parent = 0;
  Root* root = nullptr;
  Thread* owner = nullptr;
  uint32_t number = 0;
  uint16_t name = 0, place = 0;             // in the stack of its thread
  uint8_t flags = 0, depth = 0;
  bool suppresses = false;                  // it is not recorded, and neither is what runs inside it
  unsigned exceptions = 0;                  // that were being thrown when it started
};

struct Thread {
  struct Entry { uint64_t id, inside; };    // 0: it has ended before one inside it. Duration of the operators inside it
  struct Begun { Root* root; uint32_t number, below; };
  struct Slot { const char *name, *overload, *kept, *kept_overload; uint16_t number; };

  uint64_t number = 0, ident = 0, operators = 0;
  const unsigned* exceptions = nullptr;     // number of those that are being thrown
  bool has_counter = Ticks::is_counter();
  uint32_t top = 0, below = 0, suppressed = 0;  // of the stack; where the operators of the innermost root begin in it
  Entry stack[kStack] = {};
  std::vector<Begun> roots;                 // begun on this thread, innermost last
  Slot slots[512] = {};
  struct Name { uint16_t number; const char* kept; };
  std::map<std::string, Name, std::less<>> names;  // with those that the table has no room for
  Root* seen_root = nullptr;
  uint64_t seen_handle = 0;
  uint32_t seen_number = 0;
  void* spare = nullptr;                    // memory for contexts, linked through its first word
  Ring<Event, kRingEvents> events;
  Ring<Shapes, kRingShapes> shapes;
  std::atomic<bool> has_ended{false}, has_moved{false};
  uint64_t opened = 0;                      // by this thread, as `closed`
  std::atomic<uint64_t> closed{0}, closed_elsewhere{0};
  std::mutex moved_mutex;
  std::vector<uint64_t> moved;              // operators of this thread that have ended on another one

  uint64_t parent() const {
    for (uint32_t place = std::min<uint32_t>(top, kStack); place > below; --place)
      if (stack[place - 1].id) return stack[place - 1].id;
    return 0;
  }
  void leave(uint64_t id) {
    for (uint32_t place = top; place-- > 0;)
      if (stack[place].id == id) { stack[place].id = 0; break; }
    while (top > below && !stack[top - 1].id) --top;
  }
  void leave_moved() {
    std::lock_guard<std::mutex> lock(moved_mutex);
    for (uint64_t id : moved) leave(id);
    moved.clear();
    has_moved.store(false, std::memory_order_relaxed);
  }
};

inline uint64_t mixed(uint64_t value) {  // splitmix64's finalizer: different values have different results
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

inline bool is_longer(const Event& one, const Event& other) {  // an operator is never shorter than one inside it, and starts first
  const uint64_t a = one.end - one.start, b = other.end - other.start;
  return a != b ? a > b : one.id < other.id;
}

#if defined(__linux__)  // a call for each access otherwise; a library that is loaded late may have a few bytes of this kind
#define TORCHSPAN_NEAR __attribute__((tls_model("initial-exec")))
#else
#define TORCHSPAN_NEAR
#endif
inline constinit thread_local TORCHSPAN_NEAR Thread* current_thread = nullptr;
inline constinit thread_local bool has_left = false;

struct Reaper {
  bool is_used = false;
  ~Reaper() {
    has_left = true;
    if (Thread* thread = std::exchange(current_thread, nullptr)) thread->has_ended.store(true, std::memory_order_release);
  }
};
inline thread_local Reaper reaper;

// Everything that is recorded in this process. There is one, and it is never destroyed: operators may end while the process exits.
class Recorder {
 public:
  static Recorder& get() {
    static constinit Recorder* recorder = nullptr;  // without the lock of an initialization: the first caller is alone
    if (!recorder) recorder = new Recorder;
    return *recorder;
  }

  // --- threads ---------------------------------------------------------------------------------------------------
  // The calling thread's buffers; nullptr while the thread ends.
  static Thread* here() { return current_thread ? current_thread : get().join(); }

  // --- roots -----------------------------------------------------------------------------------------------------
  // A new root, which operators of `handle` belong to after `publish`; nullptr if too many are open.
  Root* begin(Thread* thread, uint32_t depth, uint64_t shortest_ns, bool has_shapes, uint32_t most = kSpans) {
    run_drainer();
    Root* root = nullptr;
    {
      std::lock_guard<std::mutex> lock(roots_mutex_);
      if (free_.empty()) return nullptr;
      root = free_.back();
      free_.pop_back();
    }
    root->depth = std::min<uint32_t>(depth, kStack - 1), root->most = most;
    root->shortest_ns = shortest_ns, root->begin_ns = now_ns(), root->has_shapes = has_shapes, root->thread = thread->number;
    root->suppressed.store(0, std::memory_order_relaxed);
    const uint32_t place = static_cast<uint32_t>(root - roots_.get());
    const uint32_t number = (++root->uses << kNumberBits) | place;
    root->number.store(number ? number : 1u << kNumberBits | place, std::memory_order_release);
    root->is_open.store(true, std::memory_order_release);
    if (thread->has_moved.load(std::memory_order_relaxed)) thread->leave_moved();
    thread->roots.push_back({root, root->number.load(std::memory_order_relaxed), thread->below});
    thread->below = thread->top;
    return root;
  }
  void publish(Root* root, uint64_t handle) {
    root->handle = handle;
    for (size_t probe = 0; probe < kProbes; ++probe) {
      Slot& slot = slots_[(handle + probe) % kSlots];
      uint64_t none = 0;
      if (slot.handle.load(std::memory_order_relaxed) == 0 && slot.handle.compare_exchange_strong(none, ~uint64_t{0})) {
        slot.root.store(root, std::memory_order_relaxed);
        slot.handle.store(handle, std::memory_order_release);
        return;
      }
    }
  }
  void retract(uint64_t handle) {
    for (size_t probe = 0; handle && probe < kProbes; ++probe) {
      Slot& slot = slots_[(handle + probe) % kSlots];
      if (slot.handle.load(std::memory_order_relaxed) == handle) slot.handle.store(0, std::memory_order_release);
    }
  }
  // The open root that operators of `handle` belong to, which may have been begun on another thread.
  Root* root_of(Thread* thread, uint64_t handle) {
    Root* root = thread->seen_root;
    if (handle != thread->seen_handle || !root || root->number.load(std::memory_order_relaxed) != thread->seen_number) {
      root = nullptr;
      for (size_t probe = 0; probe < kProbes && !root; ++probe) {
        Slot& slot = slots_[(handle + probe) % kSlots];
        if (slot.handle.load(std::memory_order_acquire) == handle) root = slot.root.load(std::memory_order_relaxed);
      }
      thread->seen_root = root, thread->seen_handle = handle;
      thread->seen_number = root ? root->number.load(std::memory_order_acquire) : 0;
    }
    return root && root->is_open.load(std::memory_order_relaxed) ? root : nullptr;
  }
  // The open root with this number, or nullptr.
  Root* numbered(uint32_t number) {
    Root* root = &roots_[number & (kRoots - 1)];
    return number && root->number.load(std::memory_order_acquire) == number ? root : nullptr;
  }
  // Ends a root that `end` has closed: what was recorded of it, with span ids. Does nothing for a number that is not open.
  Finished finish(uint32_t number, const std::array<char, 16>& trace, uint64_t span) {
    Finished finished;
    std::lock_guard<std::mutex> lock(mutex_);
    drain();
    Root* root = numbered(number);
    if (!root) return finished;
    finished.count = root->count;
    finished.suppressed = root->suppressed.load(std::memory_order_relaxed);
    finished.table.assign(root->table.begin(), root->table.end());
    for (auto& [name, row] : finished.table)
      row.total = ticks_.duration(row.total), row.self = ticks_.duration(row.self), row.longest = ticks_.duration(row.longest);
    std::sort(finished.table.begin(), finished.table.end(),
              [](const auto& one, const auto& other) { return one.second.self > other.second.self; });
    if (finished.table.size() > kTable) finished.table.resize(kTable);
    finished.events = std::move(root->kept);
    std::sort(finished.events.begin(), finished.events.end(), is_longer);
    link(*root, finished, trace);
    std::unordered_set<uint64_t> ids;
    for (const Event& event : finished.events) ids.insert(event.id);
    std::lock_guard<std::mutex> threads_lock(threads_mutex_);
    for (Event& event : finished.events) {
      if (root->has_shapes) {
        auto shapes = root->shapes.find(event.id);
        finished.shapes.push_back(shapes == root->shapes.end() ? Shapes{} : shapes->second);
      }
      auto ident = idents_.find(event.id >> 40);
      event.thread = ident == idents_.end() ? 0 : ident->second;
      event.parent = ids.count(event.parent) ? span_id(event.parent) : span;
      event.id = span_id(event.id);
      event.start = std::max(ticks_.ns(event.start), root->begin_ns), event.end = std::max(ticks_.ns(event.end), event.start);
      event.self = ticks_.duration(event.self);
    }
    retract(root->handle);
    reset(*root);
    std::lock_guard<std::mutex> roots_lock(roots_mutex_);
    free_.push_back(root);
    return finished;
  }

  // --- operators -------------------------------------------------------------------------------------------------
  // Starts an operator, as the innermost one of its thread. `open` gets everything but its start.
  void start(Thread* thread, Root* root, uint16_t name, Open& open) {
    if (thread->has_moved.load(std::memory_order_relaxed)) thread->leave_moved();
    const bool is_elsewhere = root->thread != thread->number;
    open.root = root, open.owner = thread, open.number = thread->seen_number, open.name = name;
    open.id = thread->number << 40 | ++thread->operators;
    open.parent = thread->parent();
    open.depth = static_cast<uint8_t>(thread->top - thread->below);
    open.place = static_cast<uint16_t>(thread->top);
    open.flags = is_elsewhere ? kElsewhere : 0;
    open.exceptions = *thread->exceptions;
    thread->stack[thread->top++] = {open.id, 0};
    ++thread->opened;
  }
  // Ends an operator on `thread`, which may be another one than that on which it started, or nullptr while a thread ends.
  void end(Thread* thread, const Open& open, uint64_t end, int64_t sequence, uint32_t own, uint32_t forward) {
    const uint64_t duration = end > open.start ? end - open.start : 0;
    uint64_t inside = 0;
    if (thread == open.owner) {
      if (open.place < kStack && thread->stack[open.place].id == open.id) inside = thread->stack[open.place].inside;
      thread->leave(open.id);
      for (uint32_t place = open.place; place > 0; --place)
        if (place <= thread->top && thread->stack[place - 1].id == open.parent && open.parent) {
          thread->stack[place - 1].inside += duration;
          break;
        }
      thread->closed.store(thread->closed.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    } else {
      std::lock_guard<std::mutex> lock(open.owner->moved_mutex);
      open.owner->moved.push_back(open.id);
      open.owner->has_moved.store(true, std::memory_order_relaxed);
    }
    Event* event = thread ? thread->events.reserve() : nullptr;
    if (event) {
      event->start = open.start, event->end = open.start + duration, event->id = open.id, event->parent = open.parent;
      event->sequence = sequence, event->threads[0] = own, event->threads[1] = forward;
      event->self = duration > inside ? duration - inside : 0;
      event->name = open.name, event->depth = open.depth;
      event->flags = static_cast<uint8_t>(open.flags | (*thread->exceptions > open.exceptions ? kRaised : 0));
      event->root = open.number;
      if (thread->events.commit()) wake();
    } else if (!thread) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
    if (thread != open.owner) open.owner->closed_elsewhere.fetch_add(1, std::memory_order_release);  // the last use of it
  }
  uint16_t name(Thread* thread, const char* name, const char* overload) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(name);
    Thread::Slot& slot = thread->slots[((address ^ (address >> 12)) * 0x9E3779B97F4A7C15u) >> 55];
    // Pointers of ranges and of removed schemas are used again, so the text is compared.
    if (slot.name == name && slot.overload == overload && std::strcmp(name, slot.kept) == 0 &&
        (*overload == *slot.kept_overload && (!*overload || std::strcmp(overload, slot.kept_overload) == 0)))
      return slot.number;
    return slow_name(thread, name, overload, slot);
  }
  std::vector<std::string> names(size_t first) { return names_.from(first); }

  // --- losses ----------------------------------------------------------------------------------------------------
  struct Counts { uint64_t ring, late, names; };
  Counts counts() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::lock_guard<std::mutex> threads_lock(threads_mutex_);
    uint64_t ring = dropped_.load(std::memory_order_relaxed);
    for (const Thread* thread : threads_) ring += thread->events.dropped();
    return {ring, late_, nameless_.load(std::memory_order_relaxed)};
  }

  // --- forks -----------------------------------------------------------------------------------------------------
  // A child begins with no roots and no events, in a state that no other thread was changing.
  void before_fork() { mutex_.lock(), threads_mutex_.lock(), roots_mutex_.lock(), names_.mutex.lock(); }
  void after_fork() { names_.mutex.unlock(), roots_mutex_.unlock(), threads_mutex_.unlock(), mutex_.unlock(); }
  void begin_child() {
    threads_.clear();  // the buffers of threads that the child does not have are not freed: operators may be open in them
    if (current_thread) {
      current_thread->events.drain([](const Event&) {});
      current_thread->shapes.drain([](const Shapes&) {});
      current_thread->roots.clear();
      current_thread->below = current_thread->suppressed = 0;
      new (&current_thread->moved_mutex) std::mutex;
      threads_.push_back(current_thread);
    }
    for (size_t place = 0; place < kSlots; ++place) slots_[place].handle.store(0, std::memory_order_relaxed);
    free_.clear();
    for (size_t place = kRoots; place-- > 0;) {
      reset(roots_[place]);
      free_.push_back(&roots_[place]);
    }
    forward_.clear();
    late_ = 0;
    dropped_.store(0, std::memory_order_relaxed);
    key_ = random();
    has_drainer_.store(false, std::memory_order_relaxed);
    is_woken_.store(false, std::memory_order_relaxed);
    new (&woken_) std::counting_semaphore<>(0);
    after_fork();
  }

 private:
  struct Slot { std::atomic<uint64_t> handle{0}; std::atomic<Root*> root{nullptr}; };
  struct Forward { uint64_t id; uint32_t root; bool is_span; std::array<char, 16> trace; };
  static constexpr size_t kSlots = 4 * kRoots, kProbes = 32, kIdents = size_t{1} << 16;

  Recorder() : roots_(new Root[kRoots]), slots_(new Slot[kSlots]), key_(random()) {
    ticks_.measure(Ticks::is_counter());
    for (size_t place = kRoots; place-- > 0;) free_.push_back(&roots_[place]);
  }
  static uint64_t random() {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }
  Thread* join() {
    if (has_left) return nullptr;
    reaper.is_used = true;  // its first use registers its destructor
    auto* thread = new Thread;
    thread->ident = static_cast<uint64_t>(pthread_self());
    // Two words for each thread, by the C++ ABI: the exceptions that are caught, and the number of those that are being thrown.
    thread->exceptions = reinterpret_cast<const unsigned*>(reinterpret_cast<void**>(abi::__cxa_get_globals()) + 1);
    thread->roots.reserve(16);
    std::lock_guard<std::mutex> lock(threads_mutex_);
    thread->number = ++thread_count_;
    threads_.push_back(thread);
    if (idents_.size() >= kIdents) idents_.clear();
    idents_[thread->number] = thread->ident;
    return current_thread = thread;
  }
  uint16_t slow_name(Thread* thread, const char* name, const char* overload, Thread::Slot& slot) {
    char text[2 * kNameBytes];
    const size_t length = strnlen(name, kNameBytes - 1), overload_length = strnlen(overload, kNameBytes - 1);
    std::memcpy(text, name, length);
    text[length] = '\0';
    std::memcpy(text + length + 1, overload, overload_length);
    const std::string_view key(text, length + 1 + overload_length);
    auto row = thread->names.find(key);
    const bool is_new = row == thread->names.end();
    Thread::Name interned = is_new ? Thread::Name{} : row->second;
    if (is_new) {
      interned.number = names_.number(key, &interned.kept);
      if (thread->names.size() < 2 * kNames) thread->names.emplace(key, interned);
    }
    if (!interned.kept) nameless_.fetch_add(1, std::memory_order_relaxed);
    else if (length < kNameBytes - 1 && overload_length < kNameBytes - 1)
      slot = {name, overload, interned.kept, interned.kept + length + 1, interned.number};
    return interned.number;
  }

  // --- what is read ----------------------------------------------------------------------------------------------
  void wake() {
    if (!is_woken_.exchange(true, std::memory_order_relaxed)) woken_.release();
  }
  void run_drainer() {
    if (has_drainer_.load(std::memory_order_relaxed) || has_drainer_.exchange(true)) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
    try {
      std::thread([this] {
        for (;;) {
          woken_.acquire();
          is_woken_.store(false, std::memory_order_relaxed);
          std::lock_guard<std::mutex> lock(mutex_);
          drain();
        }
      }).detach();
    } catch (const std::system_error&) {  // no more threads: `finish` reads the rings, and what does not fit is counted
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  void drain() {
    ticks_.measure(Ticks::is_counter());
    std::lock_guard<std::mutex> lock(threads_mutex_);
    size_t kept = 0;
    for (Thread* thread : threads_) {
      // In this order: what such a thread has written is there.
      const bool has_ended = thread->has_ended.load(std::memory_order_acquire);
      thread->shapes.drain([this](const Shapes& shapes) {
        Root* root = numbered(shapes.root);
        if (root && root->shapes.size() < kForward) root->shapes.emplace(shapes.id, shapes);
      });
      thread->events.drain([this](const Event& event) { absorb(event); });
      if (has_ended && thread->opened == thread->closed.load(std::memory_order_acquire) +
                                             thread->closed_elsewhere.load(std::memory_order_acquire)) {
        dropped_.fetch_add(thread->events.dropped(), std::memory_order_relaxed);
        for (void* spare = thread->spare; spare;) ::operator delete(std::exchange(spare, *static_cast<void**>(spare)));
        delete thread;
      } else {
        threads_[kept++] = thread;
      }
    }
    threads_.resize(kept);
  }
  void absorb(const Event& event) {
    Root* root = numbered(event.root);
    if (!root) return void(++late_);
    const uint64_t duration = event.end - event.start;
    ++root->count;
    Row& row = root->table[event.name];
    ++row.count, row.total += duration, row.self += event.self, row.longest = std::max(row.longest, duration);
    if (event.sequence >= 0 && (event.flags & kScope) == kFunction) remember(*root, event);
    auto shortest_first = [](const Event& one, const Event& other) { return is_longer(one, other); };
    std::vector<Event>& kept = root->kept;
    if (ticks_.duration(duration) >= root->shortest_ns && (kept.size() < root->most || is_longer(event, kept.front()))) {
      if (kept.size() >= root->most) {
        std::pop_heap(kept.begin(), kept.end(), shortest_first);
        root->shapes.erase(kept.back().id);
        kept.pop_back();
      }
      kept.push_back(event);
      std::push_heap(kept.begin(), kept.end(), shortest_first);
    } else if (root->has_shapes) {
      root->shapes.erase(event.id);
    }
  }
  static uint64_t forward_key(uint32_t thread, int64_t sequence) {
    return static_cast<uint64_t>(thread) << 44 ^ static_cast<uint64_t>(sequence);
  }
  // Of several operators with one sequence number, the last one that started made the node of the graph.
  void remember(Root& root, const Event& event) {
    const uint64_t key = forward_key(event.threads[0], event.sequence);
    auto row = forward_.find(key);
    const bool is_again = row != forward_.end() && row->second.root == event.root;
    if ((is_again && row->second.id > event.id) || (row == forward_.end() && forward_.size() >= kForward)) return;
    forward_[key] = {event.id, event.root, false, {}};
    if (!is_again) root.forward.push_back(key);
  }
  // Links backward functions to the forward operators that have spans.
  void link(Root& root, Finished& finished, const std::array<char, 16>& trace) {
    std::unordered_set<uint64_t> ids;
    for (const Event& event : finished.events) ids.insert(event.id);
    for (uint64_t key : root.forward) {
      auto row = forward_.find(key);
      if (row == forward_.end() || row->second.root != root.number.load(std::memory_order_relaxed)) continue;
      if (ids.count(row->second.id)) row->second.is_span = true, row->second.trace = trace, row->second.root = 0;
      else forward_.erase(row);
    }
    for (Event& event : finished.events) {
      auto row = (event.flags & kScope) == kBackward && event.sequence >= 0
                     ? forward_.find(forward_key(event.threads[1], event.sequence)) : forward_.end();
      event.link = 0, event.link_trace = 0;
      if (row == forward_.end() || !row->second.is_span) continue;
      auto place = std::find(finished.links.begin(), finished.links.end(), row->second.trace);
      event.link = span_id(row->second.id);
      event.link_trace = static_cast<uint32_t>(place - finished.links.begin());
      event.flags |= kLinked;
      if (place == finished.links.end()) finished.links.push_back(row->second.trace);
    }
    if (forward_.size() >= kForward) forward_.clear();  // of a program that runs no backward functions
  }
  uint64_t span_id(uint64_t id) const {
    const uint64_t mixed_id = mixed(id ^ key_);
    return mixed_id ? mixed_id : 1;
  }
  void reset(Root& root) {
    root.number.store(0, std::memory_order_release);
    root.is_open.store(false, std::memory_order_relaxed);
    root.count = 0;
    root.table.clear(), root.kept.clear(), root.shapes.clear(), root.forward.clear();
  }

  std::mutex mutex_;          // the rings' other ends, and what is kept of roots; taken before the others
  std::mutex threads_mutex_, roots_mutex_;
  std::vector<Thread*> threads_;
  std::unordered_map<uint64_t, uint64_t> idents_;  // number of a thread -> pthread_self() of it, also after its end
  uint64_t thread_count_ = 0, late_ = 0;
  Ticks ticks_;
  std::unique_ptr<Root[]> roots_;
  std::vector<Root*> free_;
  std::unique_ptr<Slot[]> slots_;
  std::unordered_map<uint64_t, Forward> forward_;
  Names names_;
  uint64_t key_;              // makes span ids of this process different from those of others
  std::atomic<uint64_t> dropped_{0}, nameless_{0};
  std::atomic<bool> has_drainer_{false}, is_woken_{false};
  std::counting_semaphore<> woken_{0};
};

}  // namespace torchspan
