# SPDX-License-Identifier: Apache-2.0
"""What may leave the process: the types of text, and the messages of libraries that are known as a whole.

Two cases let text of a message through. The message, or its first line, matches a row of the table in `known_messages/` from the first
character to the last; or its words are those of a text in the library's code that raised it. Everything else of a message stays in the
process; its class and its place name it. `kinds_of_text` and its neighbors have the types of all other text.
"""

UNKNOWN = "?"
"""Replaces what may not leave: a text that its kind does not accept, and what stands in a hole and is not of its type."""
