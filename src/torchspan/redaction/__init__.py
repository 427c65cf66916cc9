# SPDX-License-Identifier: Apache-2.0
"""Messages of libraries that are known as a whole, and the names that are the libraries' own.

Nothing asks for a message yet: text leaves by `_base/templates.py`. `message_table` and `messages` replace it when each place that
reads a message hands it over with the code that raised it.
"""
