# SPDX-License-Identifier: Apache-2.0
"""What may leave the process: the types of text, and the messages of libraries that are known as a whole.

Two cases let text of a message through. The message matches a row of the table in `known_messages/` from its first character to its
last, or it equals a string constant of the library's code that raised it. Everything else of a message stays in the process; its
class and its place name it. `kinds_of_text` and its neighbors have the types of all other text.
"""

UNKNOWN = "?"
"""Replaces what may not leave: a text that its kind does not accept, and what stands in a hole and is not of its type."""
