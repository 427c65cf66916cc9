# SPDX-License-Identifier: Apache-2.0
"""What the answer about caches knows."""

from torchspan import semconv as s
from torchspan.answers import _cache_answer


def test_every_reason_of_the_cache_is_put_into_words():
    reasons = {value for name, value in vars(s.CacheReason).items() if name.isupper()}
    assert set(_cache_answer.WHY) == reasons
