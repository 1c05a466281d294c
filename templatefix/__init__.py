"""templatefix finds chat templates that break a server's KV cache, mends them and proves the mend."""

__version__ = "0.1.0"
