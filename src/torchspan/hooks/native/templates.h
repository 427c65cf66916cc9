// SPDX-License-Identifier: Apache-2.0
// Spans as text: a template for each name and each combination of flags, in which ids and times are filled in.
#pragma once

#include <charconv>

#include "recording.h"

namespace torchspan {

// What stands for a value in a template: the byte with this number. Text of JSON contains none of them.
enum Place : char {
  kTrace = 1, kSpan, kParent, kStart, kEnd, kThread, kLinkTrace, kLinkSpan, kState
};

class Templates {
 public:
  static uint32_t key(const Event& event, bool has_state) {
    return static_cast<uint32_t>(event.name) << 8 | event.flags | (has_state ? kHasState : 0);
  }
  bool has(uint32_t key) const { return by_key_.count(key) != 0; }
  void learn(uint32_t key, std::string_view text) {
    std::vector<Piece> pieces;
    size_t begin = 0;
    for (size_t place = 0; place < text.size(); ++place)
      if (text[place] >= kTrace && text[place] <= kState) {
        pieces.push_back({std::string(text.substr(begin, place - begin)), text[place]});
        begin = place + 1;
      }
    pieces.push_back({std::string(text.substr(begin)), 0});
    longest_ = std::max(longest_, text.size() + kLongest * pieces.size() + 1);
    by_key_[key] = std::move(pieces);
  }
  // The spans, separated by commas, until the next call. An event without a template is left out.
  std::string_view fill(const std::vector<Event>& events, std::string_view links, std::string_view trace, uint64_t offset_ns,
                        std::string_view state) {
    buffer_.resize(std::max(buffer_.size(), events.size() * (longest_ + state.size())));
    char trace_text[32], thread_text[20];
    const std::string_view own_trace(trace_text, hex(trace_text, trace));
    std::string_view last_thread;  // most operators run on the thread of the one before
    uint64_t thread = 0;
    char* text = buffer_.data();
    for (const Event& event : events) {
      auto pieces = by_key_.find(key(event, !state.empty()));
      if (pieces == by_key_.end()) continue;
      if (last_thread.empty() || event.thread != thread)
        thread = event.thread, last_thread = {thread_text, decimal(thread_text, thread)};
      if (text != buffer_.data()) *text++ = ',';
      for (const Piece& piece : pieces->second) {
        text = copied(text, piece.text);
        switch (piece.place) {
          case kTrace: text = copied(text, own_trace); break;
          case kSpan: text = hex(text, event.id); break;
          case kParent: text = hex(text, event.parent); break;
          case kStart: text = decimal(text, event.start + offset_ns); break;
          case kEnd: text = decimal(text, event.end + offset_ns); break;
          case kThread: text = copied(text, last_thread); break;
          case kLinkTrace: text = hex(text, links.substr(std::min<size_t>(16 * size_t{event.link_trace}, links.size()), 16)); break;
          case kLinkSpan: text = hex(text, event.link); break;
          case kState: text = copied(text, state); break;
        }
      }
    }
    return {buffer_.data(), text};
  }

 private:
  struct Piece { std::string text; char place; };  // the text in front of a value; 0: no value follows
  static constexpr size_t kLongest = 32;           // bytes of a value other than the state

  static char* copied(char* text, std::string_view from) {
    std::memcpy(text, from.data(), from.size());
    return text + from.size();
  }
  static char* hex(char* text, std::string_view bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    for (size_t place = 0; place < std::min<size_t>(bytes.size(), 16); ++place) {
      *text++ = digits[static_cast<unsigned char>(bytes[place]) >> 4];
      *text++ = digits[static_cast<unsigned char>(bytes[place]) & 15];
    }
    return text;
  }
  static char* hex(char* text, uint64_t number) {
    number = __builtin_bswap64(number);
    return hex(text, std::string_view(reinterpret_cast<const char*>(&number), 8));
  }
  static char* decimal(char* text, uint64_t number) { return std::to_chars(text, text + 20, number).ptr; }

  std::unordered_map<uint32_t, std::vector<Piece>> by_key_;
  size_t longest_ = 0;  // bytes of a span without its state
  std::vector<char> buffer_;
};

}  // namespace torchspan
