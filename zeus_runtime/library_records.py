"""Mask secrets in the log records of the libraries that send requests for Zeus.

They log the address of each request, and the key of an MCP server or a gateway may be part of it.
"""

from __future__ import annotations

from traceback import format_exception
from typing import TYPE_CHECKING, Final

from zeus_runtime.cutting import mask_known

if TYPE_CHECKING:
    from logging import LogRecord

# A filter of a logger does not see the records of the loggers below it, so each is named.
_LOGGERS: Final = (
    *("httpx", "httpx2", "openai._base_client", "urllib3.connectionpool", "urllib3.util.retry"),
    *("httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks"),
    *("httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks"),
)


def mask_library_records() -> None:
    """From now on, mask what this process knows (``mask_before_cutting``) in these records, whoever handles them."""
    import logging

    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_mask)


def _mask(record: LogRecord) -> bool:
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - an argument may raise anything
        # It would end the call that logs; a handler's report would show the arguments.
        text = record.msg = f"{record.name}: a record that does not fit its format"
        record.args = None
    shown = mask_known(text)
    # Other records keep their arguments, which a program's handler may read.
    if shown != text:
        record.msg, record.args = shown, None
    if record.exc_info and record.exc_info[1] is not None:
        written = "".join(format_exception(record.exc_info[1])).rstrip("\n")
        # A formatter takes this in place of the error, whose message may have the address too.
        if (told := mask_known(written)) != written:
            record.exc_text, record.exc_info = told, None
    return True
