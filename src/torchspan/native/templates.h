// SPDX-License-Identifier: Apache-2.0
// Spans as text: a template for each name and each combination of flags, in which ids and times are filled in.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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
    by_key_[key] = std::move(pieces);
  }
  // The spans, separated by commas. An event without a template is left out.
  std::string fill(const std::vector<Event>& events, std::string_view links, std::string_view trace, uint64_t offset_ns,
                   std::string_view state) const {
    std::string text;
    text.reserve(events.size() * 640);
    for (const Event& event : events) {
      auto pieces = by_key_.find(key(event, !state.empty()));
      if (pieces == by_key_.end()) continue;
      if (!text.empty()) text.push_back(',');
      for (const Piece& piece : pieces->second) {
        text += piece.text;
        switch (piece.place) {
          case kTrace: hex(text, trace); break;
          case kSpan: hex(text, event.id); break;
          case kParent: hex(text, event.parent); break;
          case kStart: decimal(text, event.start + offset_ns); break;
          case kEnd: decimal(text, event.end + offset_ns); break;
          case kThread: decimal(text, event.thread); break;
          case kLinkTrace: hex(text, links.substr(std::min<size_t>(16 * size_t{event.link_trace}, links.size()), 16)); break;
          case kLinkSpan: hex(text, event.link); break;
          case kState: text += state; break;
          default: break;
        }
      }
    }
    return text;
  }

 private:
  struct Piece { std::string text; char place; };  // the text in front of a value; 0: no value follows

  static void hex(std::string& text, std::string_view bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    char written[32];
    const size_t count = std::min<size_t>(bytes.size(), 16);
    for (size_t place = 0; place < count; ++place) {
      written[2 * place] = digits[static_cast<unsigned char>(bytes[place]) >> 4];
      written[2 * place + 1] = digits[static_cast<unsigned char>(bytes[place]) & 15];
    }
    text.append(written, 2 * count);
  }
  static void hex(std::string& text, uint64_t number) {
    char bytes[8];
    for (int place = 0; place < 8; ++place) bytes[place] = static_cast<char>(number >> (56 - 8 * place));
    hex(text, std::string_view(bytes, 8));
  }
  static void decimal(std::string& text, uint64_t number) {
    char written[20];
    text.append(written, std::to_chars(written, written + sizeof written, number).ptr);
  }

  std::unordered_map<uint32_t, std::vector<Piece>> by_key_;
};

}  // namespace torchspan
