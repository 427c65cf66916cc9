// SPDX-License-Identifier: Apache-2.0
// Runs `recording.h` without PyTorch, for sanitizers. Prints what was made, and what became of it.
//
//   recording_program threads <producers> <operators of each>     producers below one root, each a thread that ends
//   recording_program forks <children>                            forks while other threads record
//   recording_program names <different names>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "recording.h"

using torchspan::Recorder;
using torchspan::Root;
using torchspan::Thread;

namespace {

constexpr uint64_t kHandle = 7;

// `count` operators below the root of `kHandle`: pairs, one inside the other.
uint64_t record(uint64_t count, const std::string& name) {
  Thread* thread = Recorder::here();
  uint64_t recorded = 0;
  for (uint64_t number = 0; number < count; ++number) {
    Root* root = Recorder::get().root_of(thread, kHandle);
    if (!root) return recorded;
    torchspan::Open outer, inner;
    for (torchspan::Open* open : {&outer, &inner}) {
      Recorder::get().start(thread, root, Recorder::get().name(thread, name.c_str(), ""), *open);
      open->start = torchspan::Ticks::now(thread->has_counter);
    }
    for (torchspan::Open* open : {&inner, &outer})
      Recorder::get().end(thread, *open, torchspan::Ticks::now(thread->has_counter), static_cast<int64_t>(number), static_cast<uint32_t>(thread->number), 0);
    recorded += 2;
  }
  return recorded;
}

struct Begun { Root* root; uint32_t number; };

Begun begin() {
  Thread* thread = Recorder::here();
  Root* root = Recorder::get().begin(thread, 255, 0, false);
  Recorder::get().publish(root, kHandle);
  return {root, thread->roots.back().number};
}

torchspan::Finished finish(const Begun& begun) {
  Thread* thread = Recorder::here();
  begun.root->is_open.store(false);
  Recorder::get().retract(kHandle);
  thread->below = thread->roots.back().below;
  thread->roots.pop_back();
  return Recorder::get().finish(begun.number, {}, 1);
}

int threads(uint64_t producers, uint64_t each) {
  const Begun begun = begin();
  std::vector<std::thread> running;
  std::atomic<uint64_t> made{0};
  for (uint64_t number = 0; number < producers; ++number)
    running.emplace_back([&made, each, number] { made += record(each, "operator " + std::to_string(number)); });
  for (std::thread& thread : running) thread.join();
  // Operators that start here and end on another thread, which ends afterwards.
  torchspan::Open open;
  Thread* thread = Recorder::here();
  Recorder::get().start(thread, Recorder::get().root_of(thread, kHandle), 0, open);
  open.start = torchspan::Ticks::now(thread->has_counter);
  std::thread([&open] { Recorder::get().end(Recorder::here(), open, torchspan::Ticks::now(torchspan::Ticks::is_counter()), -1, 0, 0); }).join();
  const torchspan::Finished finished = finish(begun);
  uint64_t in_table = 0, orphans = 0;
  for (const auto& [name, row] : finished.table) in_table += row.count;
  std::unordered_set<uint64_t> ids{1};
  for (const torchspan::Event& event : finished.events) ids.insert(event.id);
  for (const torchspan::Event& event : finished.events) orphans += !ids.count(event.parent);
  std::printf("made %llu arrived %llu table %llu dropped %llu spans %zu ids %zu orphans %llu\n",
              static_cast<unsigned long long>(made + 1), static_cast<unsigned long long>(finished.count),
              static_cast<unsigned long long>(in_table), static_cast<unsigned long long>(Recorder::get().counts().ring),
              finished.events.size(), ids.size() - 1, static_cast<unsigned long long>(orphans));
  return 0;
}

int forks(int children) {
  pthread_atfork([] { Recorder::get().before_fork(); }, [] { Recorder::get().after_fork(); },
                 [] { Recorder::get().begin_child(); });
  const Begun begun = begin();
  std::atomic<bool> is_done{false};
  std::vector<std::thread> running;
  for (int number = 0; number < 3; ++number)
    running.emplace_back([&is_done] { while (!is_done) record(100, "beside"); });
  int failed = 0;
  for (int number = 0; number < children; ++number) {
    const pid_t child = fork();
    if (child == 0) {
      const Begun own = begin();
      const uint64_t made = record(1000, "in the child");
      std::_Exit(finish(own).count == made && made == 2000 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    failed += status != 0;
  }
  is_done = true;
  for (std::thread& thread : running) thread.join();
  const torchspan::Finished finished = finish(begun);
  std::printf("children %d failed %d parent recorded %d\n", children, failed, finished.count > 0);
  return 0;
}

int names(uint64_t count) {
  // `finish` empties the ring. A root is finished before the ring can be full, however late the reading thread is.
  constexpr uint64_t kPairs = torchspan::kRingEvents / 4;
  uint64_t recorded = 0;
  for (uint64_t first = 0; first < count; first += kPairs) {
    const Begun begun = begin();
    for (uint64_t number = first; number < std::min(count, first + kPairs); ++number) record(1, std::to_string(number));
    recorded += finish(begun).count;
  }
  const Begun begun = begin();
  record(1, std::string(1 << 20, 'x'));
  record(1, "\xff\xfe");
  recorded += finish(begun).count;
  std::printf("recorded %llu dropped %llu names %zu nameless %llu\n", static_cast<unsigned long long>(recorded),
              static_cast<unsigned long long>(Recorder::get().counts().ring), Recorder::get().names(0).size(),
              static_cast<unsigned long long>(Recorder::get().counts().names));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  if (mode == "threads" && count == 4) return threads(std::strtoull(arguments[2], nullptr, 10), std::strtoull(arguments[3], nullptr, 10));
  if (mode == "forks" && count == 3) return forks(std::atoi(arguments[2]));
  if (mode == "names" && count == 3) return names(std::strtoull(arguments[2], nullptr, 10));
  return 2;
}
